# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is asked of a table, as the native part takes it. Times are ns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class Chosen(TypedDict):
    """Rows and columns of a table; None: all."""

    columns: Sequence[str] | None
    start: int | None
    end: int | None
    end_start: int | None
    end_end: int | None
    cpus: Sequence[int] | None
    tids: Sequence[int] | None
    events: Sequence[str] | None
    """Globs."""
    names: Sequence[str] | None
    """Names of events as they are."""
    filter: str | None
    limit: int | None
    partition: str | None
    any_order: bool
