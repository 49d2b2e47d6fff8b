# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records what a test does, with the command kymo, and judges it. Nothing here knows pytest."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from .. import command
from .._native import KymoError
from ..times import Duration, duration_ns, show_ns
from ..trace import Trace, Who

KERNEL = "sched,irq,timer"
"""What wake-ups and their causes need."""

_numbers = itertools.count(1)
# The names of threads are cut to this by the kernel.
_COMM = 15


class LatencyExceeded(AssertionError):
    """A latency was longer than it may be. The text is the explanation of the worst one."""


class RecordsLost(AssertionError):
    """Records are missing, or may be: what is not in the trace may have been the longest."""


class NothingRecorded(AssertionError):
    """No sample of what was asked about: an assertion about it says nothing."""


class Recording:
    """A trace that was recorded, and the summary of its session."""

    def __init__(self, path: str, summary: dict[str, Any], status: int, output: str = "") -> None:
        self.path = path
        self.summary = summary
        self.status = status
        """Exit status of kymo: 3 where records may be missing that nobody could count."""
        self.output = output
        """What the recorded command printed, where there was one."""

    @cached_property
    def trace(self) -> Trace:
        """The trace, opened."""
        return Trace(self.path)

    def losses(self) -> list[str]:
        """What is missing, or may be, a line each."""
        summary = self.summary
        kernel = summary.get("kernel") or {}
        lines = [f"{count:,} records of programs: {name}" for name, count in summary["lost"].items() if count]
        lines += [f"{count:,} records of the kernel: {name}" for name, count in kernel.get("lost", {}).items() if count]
        lines += [f"not known: {_line(one)}" for one in summary.get("unknown", [])]
        if summary.get("unknown_count", 0) and not summary.get("unknown"):
            lines.append(f"not known: of {summary['unknown_count']} programs")
        lines += [f"damage: {_line(one)}" for one in (*summary.get("damage", []), *kernel.get("damage", []))]
        lines += [str(summary[key]) for key in ("write_error", "trace_error") if summary.get(key)]
        if not lines and (self.status == 3 or not summary.get("complete", False)):
            lines.append("not known: the session did not account for all records")
        return lines

    def assert_nothing_lost(self) -> None:
        """Fails with RecordsLost unless every record is accounted for."""
        __tracebackhide__ = True
        lines = self.losses()
        if lines:
            raise RecordsLost("\n".join(["records are missing, or may be:", *lines, f"trace: {self.path}"]))

    def assert_latency(
        self,
        what: str,
        *,
        below: Duration,
        thread: Who | None = None,
        process: int | str | None = None,
        samples: int = 1,
        lost_ok: bool = False,
    ) -> None:
        """Fails unless all latencies of a kind (as `kymo latency --what`) are at most `below`.

        ``thread`` and ``process``: whose, by number or name. ``samples``: so many there must be, else NothingRecorded.
        Unless ``lost_ok``, nothing may be lost.
        """
        __tracebackhide__ = True
        limit = duration_ns(below)
        if not lost_ok:
            self.assert_nothing_lost()
        series = self._series(what, thread, process)
        count = sum(int(one["count"]) for one in series)
        if count < samples:
            raise NothingRecorded(
                f"{count} {what} latencies{_of(thread, process)} are in the trace, {samples} are needed; the trace has "
                f"those of: {', '.join(self._present(what)) or 'nobody'}\ntrace: {self.path}"
            )
        worst = max(series, key=lambda one: int(one["max"] or 0))
        if int(worst["max"] or 0) > limit:
            raise LatencyExceeded(self._story(what, worst, limit, count))

    def assert_wakeups(
        self,
        *,
        below: Duration,
        thread: Who | None = None,
        process: int | str | None = None,
        samples: int = 1,
        lost_ok: bool = False,
    ) -> None:
        """Fails unless each wake-up of the thread took at most `below`, from its wake-up until it ran."""
        __tracebackhide__ = True
        self.assert_latency(
            "wakeup", below=below, thread=thread, process=process, samples=samples, lost_ok=lost_ok
        )

    @cached_property
    def _latencies(self) -> dict[str, list[dict[str, Any]]]:
        return {}

    def _all(self, what: str) -> list[dict[str, Any]]:
        if what not in self._latencies:
            found = self.trace.latency(what, by=["process", "thread"], limit=1)
            self._latencies[what] = found.of(what)
        return self._latencies[what]

    def _series(self, what: str, thread: Who | None, process: int | str | None) -> list[dict[str, Any]]:
        if isinstance(thread, threading.Thread):
            thread = thread.native_id
        return [
            one
            for one in self._all(what)
            if _is(thread, one["tid"], one["thread_name"]) and _is(process, one["process"], one["process_name"])
        ]

    def _present(self, what: str) -> list[str]:
        names = [f"{one['thread_name']}[{one['tid']}]" for one in self._all(what) if one["count"]]
        return names if len(names) <= 12 else [*names[:12], f"{len(names) - 12} more"]

    def _story(self, what: str, worst: dict[str, Any], limit: int, count: int) -> str:
        who = f"{worst['thread_name']}[{worst['tid']}]"
        lines = [f"{what} of {who}: {show_ns(worst['max'])}, more than {show_ns(limit)} ({count:,} samples)"]
        if worst["doubtful"]:
            lines.append(f"{worst['doubtful']} of its {worst['count']} samples are doubtful")
        try:
            lines += ["", self.trace.explain(what, thread=worst["tid"], whole_system=True).text, ""]
        except KymoError as error:
            lines.append(f"no explanation: {error}")
        lines.append(f"trace: {self.path}")
        return "\n".join(lines)


@contextmanager
def record(
    path: str | os.PathLike[str] | None = None,
    *,
    kernel: str | None = KERNEL,
    user: str | Sequence[str] | None = None,
    options: Sequence[str] = (),
) -> Iterator[Recording]:
    """Records while its body runs: the whole system for kernel events, this process and its children for user events.

    ``kernel``: as `kymo record -k`; None: no kernel events. ``user``: as `kymo record -u`; None: all events of
    programs. ``options``: further words of `kymo session start`. ``path``: directory of the trace; by default a new one below the
    directory for temporary files, which is not removed. What is yielded can be asked when the body has ended.
    """
    directory = _directory(path)
    name = f"pytest-{os.getpid()}-{next(_numbers)}"
    words = ["session", "start", name, "-o", directory, "-p", str(os.getpid()), "-q", *_events(kernel, user), *options]
    command.output(words, "recording", good=(0,))
    recording = Recording(directory, {}, 0)
    try:
        yield recording
    finally:
        recording.summary, recording.status = _stop(name)


def run(
    words: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str] | None = None,
    *,
    kernel: str | None = KERNEL,
    user: str | Sequence[str] | None = None,
    options: Sequence[str] = (),
    timeout: float | None = None,
    check: bool = True,
) -> Recording:
    """Records a command until it ends. ``check``: its exit status must be 0. The rest is as in :func:`record`."""
    directory = _directory(path)
    program = [command.find("recording"), "record", "--json", "-q", "-o", directory]
    line = [*program, *_events(kernel, user), *options, "--", *(os.fspath(word) for word in words)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    text, found = _summary(done.stdout)
    if found is None:
        raise KymoError(done.stderr.strip() or f"kymo record ended with status {done.returncode}")
    status = int(found.get("exit_status") or 0)
    if check and status:
        raise KymoError(f"{os.fspath(words[0])} ended with status {status}\n{done.stderr.strip()}")
    return Recording(directory, found, done.returncode if not status else 0, text)


def _stop(name: str) -> tuple[dict[str, Any], int]:
    line = [command.find("recording"), "session", "stop", name, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    _, found = _summary(done.stdout)
    if found is None:
        raise KymoError(done.stderr.strip() or f"kymo session stop ended with status {done.returncode}")
    return found, done.returncode


def _summary(printed: str) -> tuple[str, dict[str, Any] | None]:
    """What was printed in front of the summary, and the summary: the last object that begins a line."""
    at = len(printed)
    while (at := printed.rfind("{", 0, at)) >= 0:
        if at == 0 or printed[at - 1] == "\n":
            try:
                found = json.loads(printed[at:])
            except json.JSONDecodeError:
                continue
            if isinstance(found, dict) and found.get("tool") == "kymo":
                return printed[:at], found
    return printed, None


def _events(kernel: str | None, user: str | Sequence[str] | None) -> list[str]:
    words = [] if kernel is None else ["-k", kernel]
    for pattern in command.listed(user):
        words += ["-u", pattern]
    return words


def _directory(path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        return os.path.abspath(os.fspath(path))
    # kymo makes the trace's own directory.
    return os.path.join(tempfile.mkdtemp(prefix="kymo-"), "trace")


def remove(recording: Recording) -> None:
    """Removes the trace, with the log beside it."""
    shutil.rmtree(recording.path, ignore_errors=True)
    if os.path.exists(recording.path + ".log"):
        os.unlink(recording.path + ".log")


def _is(wanted: int | str | None, number: int | None, name: str | None) -> bool:
    if wanted is None:
        return True
    return number == wanted if isinstance(wanted, int) else (name or "") == wanted[:_COMM]


def _of(thread: Who | None, process: int | str | None) -> str:
    parts = [f"thread {thread}"] if thread is not None else []
    parts += [f"process {process}"] if process is not None else []
    return f" of {', '.join(parts)}" if parts else ""


def _line(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
