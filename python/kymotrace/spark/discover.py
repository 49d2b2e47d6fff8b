# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which traces are below a directory, and what is below it that is none. Opens no trace."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass

from .._native import find_traces


@dataclass(frozen=True)
class Found:
    """A directory that is a trace, or that looks as if it should be one."""

    path: str
    error: str | None = None
    """Why it is no trace."""


def traces(path: str) -> list[Found]:
    """All traces of a path, which may have * ? [ in it."""
    roots = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
    found: dict[str, Found] = {}
    for root in map(os.path.abspath, roots):
        if not os.path.exists(root):
            found[root] = Found(root, "there is no such directory")
            continue
        good = [os.fspath(trace) for trace in find_traces(root)]
        for trace in good:
            found[trace] = Found(trace)
        for other in _others(root, frozenset(good)):
            found[other] = Found(other, "it has files, but no metadata: not a trace, or half a copy of one")
    return list(found.values())


def _others(root: str, good: frozenset[str]) -> Iterator[str]:
    """Directories below that hold files, and neither are nor have a trace."""
    for directory, below, files in os.walk(root):
        if directory in good:
            below.clear()
            continue
        below[:] = sorted(name for name in below if not name.startswith((".", "_")))
        # What Spark and others leave beside their data is no trace.
        own = [name for name in files if not name.startswith((".", "_"))]
        # What was named is looked at itself where it has no trace below: a pattern may name half a copy.
        if own and not below and (directory != root or not good):
            yield directory
