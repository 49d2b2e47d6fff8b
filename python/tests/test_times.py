# SPDX-License-Identifier: MIT OR Apache-2.0
"""Times and durations, as people write them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from kymotrace.times import duration_ns, show_ns, time_ns

AT = 1_795_464_900_123_456_789


def bounds() -> tuple[int, int]:
    return 1_000_000, 5_000_000


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (7, 7),
        ("7", 7),
        (np.int64(7), 7),
        ("+1.5us", 1_001_500),
        ("-1us", 4_999_000),
        (dt.timedelta(microseconds=2), 1_002_000),
        (-dt.timedelta(microseconds=2), 4_998_000),
        ("2026-11-23T20:15:00.123456789Z", AT),
        ("2026-11-23 21:15:00.123456789+01:00", AT),
        (pd.Timestamp("2026-11-23T20:15:00.123456789Z"), AT),
        (np.datetime64("2026-11-23T20:15:00.123456789"), AT),
        (dt.datetime(2026, 11, 23, 20, 15, 0, 123456, dt.timezone.utc), AT - 789),
    ],
)
def test_times(value: object, ns: int) -> None:
    assert time_ns(value, bounds) == ns


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (7, 7),
        ("200us", 200_000),
        ("1.5 ms", 1_500_000),
        ("0.000000001s", 1),
        ("2min", 120_000_000_000),
        (dt.timedelta(days=1, microseconds=1), 86_400_000_001_000),
        (pd.Timedelta("5s"), 5_000_000_000),
        (pd.Timedelta("1ns"), 1),
        (np.timedelta64(5, "us"), 5_000),
    ],
)
def test_durations(value: object, ns: int) -> None:
    assert duration_ns(value) == ns


@pytest.mark.parametrize("value", ["yesterday", "1.5", "+1", "2026-11-23", "0.5ns", dt.datetime(2026, 1, 1)])
def test_what_is_no_time(value: object) -> None:
    with pytest.raises(ValueError):
        time_ns(value, bounds)


def test_relative_times_need_records() -> None:
    with pytest.raises(ValueError, match="no records"):
        time_ns("+1s", lambda: None)


def test_durations_are_shown_with_their_unit() -> None:
    assert [show_ns(ns) for ns in (0, 999, 1500, 200_000, 10_592_018, 2_500_000_000)] == [
        "0ns",
        "999ns",
        "1.5us",
        "200us",
        "10.6ms",
        "2.5s",
    ]
