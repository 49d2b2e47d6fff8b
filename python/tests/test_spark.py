# SPDX-License-Identifier: MIT OR Apache-2.0
"""Many traces on Spark: a cluster of one worker on this machine."""

from __future__ import annotations

import os
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster
import kymotrace
import pytest
from conftest import STEPS, WAKEUPS, cut_in_half, import_kernel, kernel_text, kymo, lock_text, made

pytestmark = pytest.mark.skipif(cluster.missing() is not None, reason=cluster.missing() or "")

KERNELS = 4


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, steps: Path) -> Path:
    """Traces of several machines: good ones, one with an index, a cut one, and directories that are no traces."""
    root = tmp_path_factory.mktemp("fleet")
    for number in range(KERNELS):
        text = kernel_text(WAKEUPS, 1_000_000_000 + 10_000_000 * number, 400 + 100 * number)
        day = root / f"day{number % 2 + 1}"
        day.mkdir(exist_ok=True)
        import_kernel(text, day / f"host{number}")
        (day / f"host{number}.txt").unlink()
    kymo("index", root / "day1/host0")
    import_kernel(lock_text(), root / "lock")
    (root / "lock.txt").unlink()
    shutil.copytree(steps, root / "user")
    kymo("index", root / "user")
    shutil.copytree(root / "day1/host0", root / "cut")
    cut_in_half(root / "cut")
    (root / "foreign").mkdir()
    (root / "foreign/metadata").write_text("this is no metadata { of CTF")
    (root / "foreign/stream").write_bytes(b"\0" * 4096)
    (root / "half").mkdir()
    shutil.copy(steps / "metadata", root / "half/user_0_0")
    return root


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with cluster.session("local-cluster[1,1,1024]") as session:
        yield session


def load(spark: Any, path: Path, table: str, **options: Any) -> Any:
    reader = spark.read.format("kymo").option("table", table)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(path))


def test_rows_are_those_of_the_package(spark: Any, fleet: Path) -> None:
    frame = load(spark, fleet, "motor:step", partitionBytes=300_000)
    assert frame.rdd.getNumPartitions() > 3
    own = kymotrace.open(fleet / "user").events("motor:step").arrow()
    rows = frame.select("time", "number", "axis", "position", "state").orderBy("number").collect()
    assert [row.time for row in rows] == [int(time.value) for time in own.column("time")]
    for name in ("number", "axis", "position", "state"):
        assert [row[name] for row in rows] == own.column(name).to_pylist(), name
    assert {row.trace for row in frame.select("trace").distinct().collect()} == {str(fleet / "user")}


def test_partitions_have_each_derived_row_once(spark: Any, fleet: Path) -> None:
    if "wakeups" not in kymotrace.open(fleet / "day1/host0").tables:
        pytest.skip("kymo-tables has no wakeups yet")
    columns = ["time", "end_time", "duration_ns", "tid"]
    own = kymotrace.open(fleet / "day1/host0").table("wakeups", columns=columns).arrow()
    wanted = sorted(zip(*(own.column(name).cast("int64").to_pylist() for name in columns), strict=True))
    assert len(wanted) >= WAKEUPS
    for size in (64 << 20, 5_000):
        frame = load(spark, fleet / "day1/host0", "wakeups", partitionBytes=size, columns=",".join(columns))
        assert sorted(tuple(row) for row in frame.collect()) == wanted


def test_filters_are_pushed_down(spark: Any, fleet: Path) -> None:
    from pyspark.sql import functions as F

    frame = load(spark, fleet, "motor:step", partitionBytes=300_000)
    middle = frame.agg(F.expr("percentile_approx(time, 0.5)")).first()[0]
    conditions = [
        (F.col("time") >= middle, lambda row: row["time"] >= middle),
        ((F.col("axis") == 2) & (F.col("number") < 1000), lambda row: row["axis"] == 2 and row["number"] < 1000),
        (F.col("tid") == -1, lambda row: False),
        (F.col("cpu").isin(0, 77), lambda row: row["cpu"] in (0, 77)),
        (F.col("trace") == "elsewhere", lambda row: False),
    ]
    own = kymotrace.open(fleet / "user").events("motor:step").arrow()
    times = own.column("time").cast("int64").to_pylist()
    rows = [row | {"time": time} for row, time in zip(own.to_pylist(), times, strict=True)]
    for condition, holds in conditions:
        assert frame.where(condition).count() == sum(map(holds, rows)), condition


def test_the_reader_reads_less_where_filters_are_pushed() -> None:
    from kymotrace.spark.filters import push
    from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNotNull, LessThanOrEqual, Not

    pushed = push(
        [
            GreaterThan(("time",), 5),
            LessThanOrEqual(("time",), 9),
            In(("cpu",), (0, 1)),
            EqualTo(("cpu",), 1),
            EqualTo(("axis",), -2),
            Not(EqualTo(("tid",), 3)),
            IsNotNull(("tid",)),
            EqualTo(("state",), "x' || 1"),
            EqualTo(("trace",), "/a"),
        ],
        "motor:step",
        True,
    )
    assert (pushed.start, pushed.end, pushed.cpus, pushed.tids) == (6, 10, [1], None)
    assert pushed.conditions == ["axis == -2"]
    assert pushed.has_trace("/a") and not pushed.has_trace("/b")


def test_a_bad_trace_is_a_row_of_losses(spark: Any, fleet: Path) -> None:
    rows = load(spark, fleet, "losses").collect()
    by_trace = {Path(row.trace).name: row for row in rows}
    assert {"foreign", "half", "cut"} <= set(by_trace)
    assert by_trace["foreign"].kind == by_trace["half"].kind == "unreadable"
    assert "metadata" in by_trace["half"].what
    assert by_trace["cut"].kind == "damage"
    assert not [name for name in by_trace if name.startswith(("host", "user"))]
    # The others are read, and no job fails; what is left of the cut one is there.
    counts = {
        Path(row.trace).name: row["count"]
        for row in load(spark, fleet, "records", columns="trace,time").groupBy("trace").count().collect()
    }
    assert set(counts) == {"user", "cut", "lock", *(f"host{number}" for number in range(KERNELS))}
    whole = kymotrace.open(fleet / "day2/host1").table("records").count()
    assert counts["user"] == STEPS and counts["host1"] == whole > counts["cut"] > 0


def test_a_directory_of_bad_traces_only(spark: Any, fleet: Path) -> None:
    rows = load(spark, fleet / "foreign", "losses").collect()
    assert [row.kind for row in rows] == ["unreadable"]
    with pytest.raises(Exception, match="no trace below"):
        load(spark, fleet / "foreign", "records").collect()


def test_traces_say_what_they_are(spark: Any, fleet: Path) -> None:
    rows = {Path(row.trace).name: row for row in load(spark, fleet, "traces").collect()}
    assert {"user", "cut", "host0"} <= set(rows) and "foreign" not in rows
    assert rows["user"].is_indexed and rows["user"].kernel_release == os.uname().release
    assert not rows["host1"].is_indexed
    # One definition for all: the columns and values are those of the package.
    (own,) = kymotrace.open(fleet / "user").table("traces").rows()
    assert rows["user"].asDict() == own and own["architecture"] == os.uname().machine
    (host,) = kymotrace.open(fleet / "user").table("hosts").rows()
    assert [host[name] for name in ("kernel_release", "kernel_version", "architecture")] == [
        os.uname().release,
        os.uname().version,
        os.uname().machine,
    ]


def test_wrong_options_are_named(spark: Any, fleet: Path) -> None:
    for table, options, part in [
        ("records", {"colums": "time"}, "colums"),
        ("records", {"columns": "tme"}, "tme"),
        # What no trace takes is not a result without rows.
        ("motor:step", {"filter": "axsi == 2"}, "axsi"),
        ("records", {"filter": "axis =="}, "axis =="),
        ("wakeups", {"filter": "tid == 7"}, "takes neither"),
        ("wakeups", {"events": "sched*"}, "takes neither"),
        ("traces", {"filter": "axis == 2"}, "takes neither"),
    ]:
        with pytest.raises(Exception, match=part):
            load(spark, fleet, table, **options).collect()
    # One trace of all has the field.
    assert load(spark, fleet, "motor:step", filter="axis == 2 && number < 1000").count() > 0


def test_no_number_is_rounded(spark: Any, tmp_path: Path) -> None:
    odd = 2**53 + 1
    made(tmp_path / "a", "i64 x;", odd.to_bytes(8, "little"), (-odd).to_bytes(8, "little", signed=True))
    made(tmp_path / "b", "f64 x;", struct.pack("<d", 0.5))
    rows = load(spark, tmp_path, "motor:made").select("x").collect()
    assert sorted(row.x for row in rows) == sorted([str(odd), str(-odd), "0.5"])
    # Smaller ones have room in a float.
    made(tmp_path / "a", "u8 x;", b"\7")
    assert sorted(row.x for row in load(spark, tmp_path, "motor:made").select("x").collect()) == [0.5, 7.0]


def test_types_of_several_traces() -> None:
    import pyarrow as pa
    from kymotrace.spark.types import converted, union

    for a, b, both in [
        (pa.int64(), pa.float64(), pa.string()),
        (pa.uint64(), pa.float32(), pa.string()),
        (pa.uint32(), pa.float64(), pa.string()),
        (pa.uint16(), pa.float64(), pa.float64()),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.uint64(), pa.int8(), pa.decimal128(20, 0)),
        (pa.binary(), pa.int64(), pa.string()),
    ]:
        for first, second in ((a, b), (b, a)):
            assert union([pa.schema([("x", first)]), pa.schema([("x", second)])], True).field("x").type == both
    assert converted(pa.array([b"\x00\xff", None]), pa.string()).to_pylist() == ["00ff", None]
    assert converted(pa.array([2**64 - 1], pa.uint64()), pa.string()).to_pylist() == [str(2**64 - 1)]


def test_a_field_called_trace_is_not_the_directory(spark: Any, tmp_path: Path) -> None:
    # A word of the metadata's language: the reader takes the underscore away.
    made(tmp_path / "a", "u8 _trace; u8 axis;", b"\5\6")
    made(tmp_path / "b", "u8 axis;", b"\7")
    rows = load(spark, tmp_path, "motor:made").orderBy("axis").collect()
    assert [(Path(row["trace"]).name, row["trace.2"], row["axis"]) for row in rows] == [("a", 5, 6), ("b", None, 7)]
    rows = load(spark, tmp_path, "motor:made", columns="axis,trace").orderBy("axis").collect()
    assert [(row["axis"], Path(row["trace"]).name) for row in rows] == [(6, "a"), (7, "b")]


def test_half_a_copy_that_a_pattern_names_is_a_row_of_losses(spark: Any, fleet: Path) -> None:
    for pattern in ("half", "h?lf", "[fh]*"):
        rows = {Path(row.trace).name: row.kind for row in load(spark, fleet / pattern, "losses").collect()}
        assert rows["half"] == "unreadable", pattern


def test_a_trace_that_was_replaced_is_opened_again(tmp_path: Path) -> None:
    from kymotrace.spark.source import _opened

    path = str(made(tmp_path / "a", "u8 axis;", b"\7"))
    first = _opened(path)
    assert _opened(path) is first
    made(tmp_path / "a", "u8 speed;", b"\7")
    assert [name for name, _, _ in _opened(path).columns("motor:made")][-1] == "speed"


def test_examples_run(spark: Any, fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if "wakeups" not in kymotrace.open(fleet / "day1/host0").tables:
        pytest.skip("kymo-tables has no wakeups yet")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/fleet"))
    import one_lock
    import regressions
    import worst_wakeups

    worst_wakeups.main([str(fleet), "--worst", "2"], spark)
    printed = capsys.readouterr().out
    assert "motor" in printed and "unreadable" in printed
    regressions.main([str(fleet / "day1"), str(fleet / "day2")], spark)
    printed = capsys.readouterr().out
    # Of each of two traces the first wake-up, whose thread was not known before.
    assert "runs are too few" in printed and printed.count("left out: 2 wake-ups") == 2
    one_lock.main([str(fleet), "--waiter", "worker"], spark)
    printed = capsys.readouterr().out
    assert "lock 0x7f0000001000: 10 waits of 1 threads, 3.1 ms together" in printed and "while holder had it" in printed
    assert "left out: 0 waits that are doubtful" in printed
