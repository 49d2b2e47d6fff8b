# SPDX-License-Identifier: MIT OR Apache-2.0
"""latency(), explain(), sql(): the verb's own answers; and the statistics of `kymo compare`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import kymotrace
import pytest
from conftest import LATE_US, STEPS, WAKEUPS, kymo


def test_latency_is_that_of_the_verb(kernel: Path) -> None:
    for kinds in (None, "wakeup", ["syscall", "runqueue"], "irq, preempted"):
        for who in ({"thread": "motor"}, {"process": 100}):
            with pytest.raises(ValueError, match="the thread that leaves the CPU"):
                kymotrace.open(kernel).latency(kinds, **who)
    found = kymotrace.open(kernel).latency("wakeup", by=["thread"], limit=2)
    words = ["--what", "wakeup", "--by", "thread", "--limit", "2", "--json"]
    assert dict(found) == json.loads(kymo("latency", kernel, *words))
    (series,) = found.of("wakeup")
    assert series["count"] == WAKEUPS and series["thread_name"] == "motor"
    assert LATE_US * 1000 < found.worst("wakeup")[0]["value"] == series["max"]
    (row,) = found.rows()
    assert row["tid"] == 100 and row["p50"] < row["max"]
    assert "motor[100]" in str(found) and "motor[100]" in found._repr_html_()


def test_explain_is_that_of_the_verb(kernel: Path) -> None:
    story = kymotrace.open(kernel).explain("wakeup", whole_system=True)
    assert dict(story) == json.loads(kymo("explain", kernel, "--worst", "wakeup", "--all", "--json"))
    assert story.headline.startswith("motor[100]") and story.budget
    assert story.headline.split(":")[0] in story.text.replace("\n", " ")
    assert "motor[100]" in story._repr_html_()


def test_spans_are_those_of_the_verb(steps: Path) -> None:
    trace = kymotrace.open(steps)
    rows = trace.spans("motor:step", "motor:step").arrow()
    (series,) = trace.latency(span="motor:step, motor:step").of("span")
    assert rows.num_rows == series["count"] == STEPS - 1
    assert max(rows.column("duration_ns").to_pylist()) == series["max"]
    with pytest.raises(kymotrace.KymoError, match="motor:stpe"):
        trace.spans("motor:stpe", "motor:step").arrow()


def test_the_critical_path_sums_up_to_its_stretch(kernel: Path) -> None:
    rows = kymotrace.open(kernel).critical_path(100, "+10ms", "+20ms").arrow()
    assert sum(rows.column("duration_ns").to_pylist()) == 10_000_000
    assert rows.column("tid").to_pylist()


def test_what_a_verb_says_of_damage_is_a_warning(kernel: Path, tmp_path: Path) -> None:
    import shutil

    cut = tmp_path / "cut"
    shutil.copytree(kernel, cut)
    stream = max((file for file in cut.iterdir() if file.name != "metadata"), key=lambda file: file.stat().st_size)
    os.truncate(stream, stream.stat().st_size - 100)
    with pytest.warns(kymotrace.KymoWarning):
        kymotrace.open(cut).latency("wakeup")
    assert kymotrace.open(cut).losses.count() > 0


def test_errors_are_those_of_the_verb(kernel: Path, steps: Path) -> None:
    with pytest.raises(kymotrace.KymoError, match="there is wakeup"):
        kymotrace.open(kernel).explain("wake")
    with pytest.raises(kymotrace.KymoError):
        kymotrace.open(steps).explain("wakeup")


def test_without_kymo_it_says_what_to_do(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = kymotrace.open(kernel)
    monkeypatch.delenv("KYMO", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    for ask in (trace.latency, trace.explain, trace.sql("select 1").arrow):
        with pytest.raises(kymotrace.KymoNotFound, match="KYMO"):
            ask()
    monkeypatch.setenv("KYMO", "/no/such/kymo")
    with pytest.raises(kymotrace.KymoNotFound, match="/no/such/kymo"):
        trace.latency()


FAKE = """#!{python}
import os, signal, sys, time
import pyarrow as pa
how = sys.argv[-1].split()[0]
if how == "wrong":
    print("kymo: no such table", file=sys.stderr)
    sys.exit(2)
if how == "begins":
    open(sys.argv[0] + ".begins", "w").close()
    time.sleep(600)
schema = pa.schema([("n", pa.int64())])
writer = pa.ipc.new_stream(sys.stdout.buffer, schema)
for number in range(5):
    writer.write_batch(pa.record_batch([[number] * 10], schema=schema))
    sys.stdout.flush()
if how == "late":
    print("kymo: out of memory", file=sys.stderr)
    sys.exit(2)
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "hangs":
    open(sys.argv[0] + ".hangs", "w").close()
    time.sleep(600)
writer.close()
sys.stdout.flush()
if how == "notes":
    print("kymo: something is odd", file=sys.stderr)
    sys.exit(1)
"""


@pytest.fixture
def fake(steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> kymotrace.Trace:
    """A command that prints Arrow streams, and ends in many ways."""
    program = tmp_path / "kymo"
    program.write_text(FAKE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("KYMO", str(program))
    return kymotrace.open(steps)


def test_the_stream_of_a_command_is_read_to_its_end(fake: kymotrace.Trace) -> None:
    assert fake.sql("good").arrow().column("n").to_pylist() == [n for n in range(5) for _ in range(10)]
    assert fake.sql("good").polars().shape == (50, 1)
    with pytest.warns(kymotrace.KymoWarning, match="something is odd"):
        assert fake.sql("notes").count() == 50


@pytest.mark.parametrize(("how", "why"), [("wrong", "no such table"), ("late", "out of memory"), ("killed", "signal")])
def test_a_stream_that_breaks_off_is_no_answer(fake: kymotrace.Trace, how: str, why: str) -> None:
    import polars as pl
    import pyarrow as pa

    for taker in ("arrow", "polars", "count"):
        with pytest.raises(kymotrace.KymoError, match=why):
            getattr(fake.sql(how), taker)()
    # Takers of other packages have errors of their own. None of them gives the rows up to there as if they were all.
    result = fake.sql(how)
    takers: list[Callable[[], object]] = [
        lambda: pl.DataFrame(result),
        lambda: pl.from_arrow(result),
        lambda: pa.table(result),
        lambda: rows_of_duckdb(result),
    ]
    for number, take in enumerate(takers):
        # polars before 2 panics, which is no Exception.
        with pytest.raises(BaseException, match=why):
            pytest.fail(f"taker {number} has {take()}")


def rows_of_duckdb(result: kymotrace.Result) -> object:
    """DuckDB finds what a query names among the variables of its caller."""
    import duckdb

    return duckdb.sql("select count(*) from result").fetchall()


@pytest.mark.parametrize("how", ["begins", "hangs"])
def test_ctrl_c_ends_the_command(fake: kymotrace.Trace, how: str) -> None:
    mark = Path(f"{os.environ['KYMO']}.{how}")

    def interrupt() -> None:
        while not mark.exists():
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        fake.sql(how).arrow()
    assert not children(os.environ["KYMO"])


def test_a_command_that_nobody_reads_ends(fake: kymotrace.Trace) -> None:
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(fake.sql("hangs"))
    assert reader.read_next_batch().num_rows == 10
    assert children(os.environ["KYMO"], tries=1)
    del reader
    assert not children(os.environ["KYMO"])


def children(program: str, tries: int = 2400) -> list[str]:
    """Processes of a program, by its path or its name, that go on for longer than it takes to kill one."""
    for _ in range(tries):
        tasks = [task.read_text().split() for task in Path("/proc/self/task").glob("*/children")]
        running = [child for of_task in tasks for child in of_task]
        found = [child for child in running if _runs(child, program)]
        if not found:
            return []
        time.sleep(0.05)
    return found


def _runs(child: str, program: str) -> bool:
    try:
        state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        # Of a script it is the second word. Directories of other programs, as Java, may be called so, too.
        words = Path(f"/proc/{child}/cmdline").read_text().split("\0")[:2]
        return any(program in (word, Path(word).name) for word in words) and state != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.usefixtures("has_sql")
def test_sql_is_a_stream(steps: Path) -> None:
    trace = kymotrace.open(steps)
    query = 'select axis, count(*) as n, max(position) as far from "motor:step" group by axis order by axis'
    for _ in range(2):
        table = trace.sql(query).arrow()
        assert table.column_names == ["axis", "n", "far"]
        assert table.column("axis").to_pylist() == [-2, -1, 0, 1, 2]
        assert table.column("n").to_pylist() == [STEPS // 5] * 5
    assert trace.sql('select number from "motor:step"').polars()["number"].sum() == STEPS * (STEPS - 1) // 2
    with pytest.raises(kymotrace.KymoError, match="no_such"):
        trace.sql("select * from no_such").arrow()


@pytest.mark.usefixtures("has_sql")
def test_a_query_that_nobody_wants_ends(steps: Path) -> None:
    batches = iter(kymotrace.open(steps).sql('select a.number from "motor:step" a, "motor:step" b'))
    next(batches)
    assert children("kymo-sql", tries=1)
    batches.close()  # type: ignore[attr-defined]
    assert not children("kymo-sql")


def test_compare_is_that_of_the_verb(tmp_path: Path) -> None:
    def run(late: int, seed: int) -> kymotrace.Run:
        values = {20_000 + 100 * (number * seed % 37): 50 for number in range(40)} | {90_000 + late: 3}
        return kymotrace.Run({"wakeup": values}, started_ns=1_000 * seed, environment={"kernel": "6.1"})

    a, b = [run(0, seed) for seed in range(1, 13, 2)], [run(400_000, seed) for seed in range(2, 14, 2)]
    found = kymotrace.compare(a, b)
    assert found.outcome == "worse" and found.text.startswith("B is worse")
    assert kymotrace.compare(a, a[:-1] + b[:0]).outcome in ("no_difference", "not_enough_data")
    assert kymotrace.compare(a[:2], b[:2]).outcome == "not_enough_data"
    for name, runs in (("a", a), ("b", b)):
        (tmp_path / name).mkdir()
        for number, one in enumerate(runs):
            (tmp_path / name / f"{number}.json").write_text(one.record())
    printed = kymo("compare", "--json", tmp_path / "a", "--", tmp_path / "b", good=(1,))
    assert dict(found) == json.loads(printed)
