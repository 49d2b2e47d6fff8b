# SPDX-License-Identifier: MIT OR Apache-2.0
"""How far a scan is: a line on a terminal, or a function of the caller."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Progress = bool | Callable[[int, float | None], None] | None
"""False: none. True: a line on standard error. None: that line, if standard error is a terminal and it takes longer
than a second. A function: called with the rows so far, and the share of the trace's time that they cover (None where
that is not known)."""

_LINE_S = 0.2
_LATE_S = 1.0


class Teller:
    """Takes what a stream tells: rows so far, and the last time, ns."""

    def __init__(self, progress: Progress, title: str, stretch: Callable[[], tuple[int, int] | None]) -> None:
        self._call = progress if callable(progress) else None
        self._title = title
        self._stretch = stretch
        self._ends: tuple[int, int] | None = None
        self._begin = time.monotonic()
        self._shown = self._begin if progress is None else self._begin - _LATE_S
        self._wait = _LATE_S if progress is None else 0.0
        self._share: float | None = None
        self._has_line = False

    @classmethod
    def of(cls, progress: Progress, title: str, stretch: Callable[[], tuple[int, int] | None]) -> Teller | None:
        """None where nobody wants to know."""
        if progress is False or (progress is None and not sys.stderr.isatty()):
            return None
        return cls(progress, title, stretch)

    def __call__(self, rows: int, last: int | None) -> None:
        now = time.monotonic()
        is_line_due = now - self._begin >= self._wait and now - self._shown >= _LINE_S
        if last is not None and (self._call or is_line_due):
            if self._ends is None:
                self._ends = self._stretch() or (0, 0)
            first, end = self._ends
            self._share = min(max((last - first) / (end - first), 0.0), 1.0) if end > first else None
        if self._call:
            self._call(rows, self._share)
        elif is_line_due:
            self._shown = now
            share = "" if self._share is None else f", {self._share:.0%}"
            print(f"\r\x1b[K{self._title}: {rows:,} rows{share}", end="", file=sys.stderr, flush=True)
            self._has_line = True

    def end(self) -> None:
        """Removes the line."""
        if self._has_line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._has_line = False
