# SPDX-License-Identifier: MIT OR Apache-2.0
"""Spark's filters as a choice of kymo's reader. It may give too much, never too little: Spark filters again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

_LEAST, _MOST = -(2**63), 2**63 - 1
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATORS = {GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<=", EqualTo: "=="}
# What all tables of records have in front of the fields of their event.
HEADS = ("trace", "time", "cpu", "pid", "tid", "proc", "host")


@dataclass
class Pushed:
    """What a reader can choose by itself."""

    start: int | None = None
    end: int | None = None
    end_start: int | None = None
    end_end: int | None = None
    cpus: list[int] | None = None
    tids: list[int] | None = None
    events: list[str] | None = None
    traces: list[str] | None = None
    trace_begins: str = ""
    conditions: list[str] = field(default_factory=list)
    """In kymo's filter language."""

    def has_trace(self, path: str) -> bool:
        """Whether rows of this trace are asked for."""
        return (self.traces is None or path in self.traces) and path.startswith(self.trace_begins)


def push(filters: Iterable[Filter], table: str, is_event: bool) -> Pushed:
    """All that a reader can make use of."""
    pushed = Pushed()
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if len(attribute) == 1:
            (column,) = attribute
            _push(pushed, one, column, table, is_event)
    return pushed


def _push(pushed: Pushed, one: Filter, column: str, table: str, is_event: bool) -> None:
    if column == "time":
        pushed.start, pushed.end = _range(one, pushed.start, pushed.end)
    elif column == "end_time":
        pushed.end_start, pushed.end_end = _range(one, pushed.end_start, pushed.end_end)
    elif column == "cpu":
        pushed.cpus = _both(pushed.cpus, _values(one, int, 0, 2**32 - 1))
    elif column == "tid":
        pushed.tids = _both(pushed.tids, _values(one, int, 0, 2**32 - 1))
    elif column == "trace":
        pushed.traces = _both(pushed.traces, _values(one, str))
        if isinstance(one, StringStartsWith) and len(one.value) > len(pushed.trace_begins):
            pushed.trace_begins = one.value
    elif column == "event" and table == "records":
        pushed.events = _both(pushed.events, _values(one, str))
    elif is_event and column not in HEADS and _NAME.fullmatch(column):
        _push_condition(pushed, one, column)


def _push_condition(pushed: Pushed, one: Filter, column: str) -> None:
    operator = _OPERATORS.get(type(one))
    value = getattr(one, "value", None)
    if operator and isinstance(value, int) and not isinstance(value, bool) and _LEAST <= value <= _MOST:
        pushed.conditions.append(f"{column} {operator} {value}")


def _range(one: Filter, start: int | None, end: int | None) -> tuple[int | None, int | None]:
    """[start, end), narrowed."""
    value = getattr(one, "value", None)
    if not isinstance(value, int) or isinstance(value, bool):
        return start, end
    low, high = None, None
    if isinstance(one, (GreaterThan, GreaterThanOrEqual)):
        low = value + isinstance(one, GreaterThan)
    elif isinstance(one, (LessThan, LessThanOrEqual)):
        high = value + isinstance(one, LessThanOrEqual)
    elif isinstance(one, (EqualTo, EqualNullSafe)):
        low, high = value, value + 1
    if low is not None and low <= _MOST:
        start = low if start is None else max(start, low)
    if high is not None and high <= _MOST:
        end = high if end is None else min(end, high)
    return start, end


def _values(one: Filter, of: type, least: int = 0, most: int = 0) -> list[Any] | None:
    """The values of which a column must have one; None where the filter does not say so."""
    if isinstance(one, In):
        values = list(one.value)
    elif isinstance(one, (EqualTo, EqualNullSafe)):
        values = [one.value]
    else:
        return None
    # Nothing is equal to null but by EqualNullSafe.
    if any(value is None for value in values) and isinstance(one, EqualNullSafe):
        return None
    values = [value for value in values if isinstance(value, of) and not isinstance(value, bool)]
    return values if of is str else [value for value in values if least <= value <= most]


def _both(known: list[Any] | None, more: list[Any] | None) -> list[Any] | None:
    if known is None or more is None:
        return more if known is None else known
    return [value for value in known if value in more]
