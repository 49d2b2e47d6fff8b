# SPDX-License-Identifier: MIT OR Apache-2.0
"""Times and durations as people write them, in nanoseconds. Nothing is rounded: a trace's times are exact."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

Time = int | str | dt.datetime | dt.timedelta | Any
"""Nanoseconds since 1970; "+1.5s" after the begin of the trace, "-1s" before its end; a datetime with a zone;
a timedelta after the begin; "2026-11-23T20:15:00.5Z"; also pandas.Timestamp and numpy.datetime64 (as UTC)."""

Duration = int | str | dt.timedelta | Any
"""Nanoseconds; "200us", "1.5ms", "2 s"; a timedelta; also pandas.Timedelta and numpy.timedelta64."""

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_UNITS |= {"m": 60_000_000_000, "min": 60_000_000_000, "h": 3_600_000_000_000}
_DURATION = re.compile(r"\s*(\d+)(?:\.(\d+))?\s*(ns|us|µs|ms|s|min|m|h)\s*")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def duration_ns(value: Duration) -> int:
    """A duration in nanoseconds."""
    if isinstance(value, bool) or isinstance(value, float):
        raise TypeError(f"{value!r} has no unit: give whole nanoseconds, or a text such as '200us'")
    if isinstance(value, str):
        found = _DURATION.fullmatch(value)
        if not found:
            raise ValueError(f"{value!r} is no duration: write it as 200us, 1.5ms, 2s")
        return _scaled(found[1], found[2] or "", _UNITS[found[3]])
    if isinstance(value, dt.timedelta):
        if hasattr(value, "value"):  # pandas.Timedelta has nanoseconds
            return int(value.value)
        return (value.days * 86_400 + value.seconds) * 1_000_000_000 + value.microseconds * 1_000
    return _of_numpy(value, "m", "timedelta64[ns]")


def time_ns(value: Time, bounds: Callable[[], tuple[int, int] | None]) -> int:
    """A time in nanoseconds since 1970 (or of the trace's clock). `bounds` is asked only where `value` is relative."""
    if isinstance(value, bool) or isinstance(value, float):
        raise TypeError(f"{value!r} has no unit: give whole nanoseconds since 1970, or a text such as '+1.5s'")
    if isinstance(value, str):
        return _time_of_text(value.strip(), bounds)
    if isinstance(value, dt.timedelta):
        return _relative(duration_ns(value), bounds)
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone: datetime(..., tzinfo=timezone.utc), or .astimezone()")
        if hasattr(value, "value"):  # pandas.Timestamp has nanoseconds
            return int(value.as_unit("ns").value) if hasattr(value, "as_unit") else int(value.value)
        return duration_ns(value - _EPOCH)
    return _of_numpy(value, "M", "datetime64[ns]")


def _time_of_text(text: str, bounds: Callable[[], tuple[int, int] | None]) -> int:
    if text[:1] in ("+", "-") and _DURATION.fullmatch(text[1:]):
        ns = duration_ns(text[1:])
        return _relative(ns, bounds) if text[0] == "+" else _relative(-ns, bounds, from_end=True)
    if text.isdecimal():
        return int(text)
    found = _ISO.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no time: '+1.5s', '-1s', '2026-11-23T20:15:00Z', or ns since 1970")
    zone = "+00:00" if found[4] == "Z" else found[4]
    whole = dt.datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}")
    return duration_ns(whole - _EPOCH) + int((found[3] or "0").ljust(9, "0"))


def _relative(ns: int, bounds: Callable[[], tuple[int, int] | None], from_end: bool = False) -> int:
    ends = bounds()
    if ends is None:
        raise ValueError("the trace has no records, so no time is relative to it")
    first, last = ends
    return (last if from_end or ns < 0 else first) + ns


def _scaled(whole: str, fraction: str, unit: int) -> int:
    scale: int = 10 ** len(fraction)
    ns, rest = divmod(int(whole + fraction) * unit, scale)
    if rest:
        raise ValueError(f"{whole}.{fraction}: less than a nanosecond")
    return ns


def _of_numpy(value: Any, kind: str, wanted: str) -> int:
    """numpy's times and durations; whole numbers of any kind."""
    if getattr(getattr(value, "dtype", None), "kind", "") == kind:
        return int(value.astype(wanted).astype("int64"))
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"{value!r} is neither a time nor a duration") from None


def show_ns(ns: float) -> str:
    """A duration as the verbs print it: three digits, and the unit that fits."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.3g}{unit}"
    return f"{ns:.0f}ns"
