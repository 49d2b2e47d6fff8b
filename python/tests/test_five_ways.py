# SPDX-License-Identifier: MIT OR Apache-2.0
"""The same question asked five ways gives the same answer: a verb, kymo sql, this package, Spark, and a lake (which
kymo sql --lake, DuckDB and polars read). Traces: of a program, of a kernel, one with losses, a cut one, an older
version of the program beside newer ones, a foreign tracer's, several hosts, and what is no trace at all."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster
import pytest
from conftest import (
    ROOT,
    cut_in_half,
    import_kernel,
    kernel_text,
    kymo,
    lock_text,
    made,
    on_host,
    read_json,
    record_steps,
)
from kymotrace import command
from ways import Asked, ByTrace, KymoSql, Lake, Row, ordered

pytestmark = [
    pytest.mark.skipif(cluster.missing() is not None, reason=cluster.missing() or ""),
    pytest.mark.usefixtures("has_sql"),
]

STEPS = 5000
WAKEUPS = 300
LOST_STEPS = 100_000
BAD = ("foreign", "half")
TABLES = ("records", "motor:step", "wakeups", "latencies", "losses", "thread_state")
NAMES = ("kymo sql", "the package", "Spark", "kymo sql --lake", "DuckDB", "polars")


@pytest.fixture(scope="module")
def traces(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All in one directory."""
    root = tmp_path_factory.mktemp("five")
    record_steps(program, root / "user", STEPS)
    for number, host in enumerate(("rt-1", "rt-2")):
        on_host(root / "user", root / f"host{number}", host)
    kymo("index", root / "host0")
    lose(program, root / "lost")
    import_kernel(kernel_text(WAKEUPS), root / "kernel")
    import_kernel(lock_text(), root / "lock")
    for name in ("kernel", "lock"):
        (root / f"{name}.txt").unlink()
    shutil.copytree(root / "kernel", root / "cut")
    cut_in_half(root / "cut")
    kymo("index", root / "kernel")
    # As a version of the program that had fewer fields, and a smaller axis.
    steps = [bytes([number % 5]) + number.to_bytes(4, "little") for number in range(200)]
    made(root / "older", "u8 axis; u32 number;", *steps, event="motor:step")
    shutil.copytree(ROOT / "tests/traces/lttng-kernel", root / "lttng")
    (root / "foreign").mkdir()
    (root / "foreign/metadata").write_text("this is no metadata { of CTF")
    (root / "foreign/stream").write_bytes(b"\0" * 4096)
    (root / "half").mkdir()
    shutil.copy(root / "user/metadata", root / "half/user_0_0")
    return root


def lose(program: Path, directory: Path) -> None:
    """A recording whose rings are too small."""
    for _ in range(5):
        shutil.rmtree(directory, ignore_errors=True)
        words = [command.find("the tests"), "record", "-q", "--json", "--ring-size", "64K", "-o", directory]
        env = os.environ | {"KYMO_START_WAIT": "10000"}
        run = [*map(os.fspath, words), "--", os.fspath(program), str(LOST_STEPS)]
        done = subprocess.run(run, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        if json.loads(done.stdout)["records"] < LOST_STEPS:
            return
    pytest.fail("nothing was lost")


@pytest.fixture(scope="module")
def asked(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    lake = tmp_path_factory.mktemp("lake") / "lake"
    words = [word for table in TABLES for word in ("--table", table)]
    # 3: two of them are no traces, which is a row of losses.
    kymo("lake", "add", traces, "--to", lake, "-q", *words, good=(3,))
    good = {path.name: path for path in traces.iterdir() if path.name not in BAD}
    with cluster.session("local[2]") as session:
        yield Asked(traces, good, lake, session)


def test_all_ways_are_asked(asked: Asked) -> None:
    assert tuple(way.name for way in asked.ways) == NAMES
    assert {"user", "host0", "host1", "lost", "kernel", "lock", "cut", "older", "lttng"} == set(asked.traces)


def agree(asked: Asked, answers: dict[str, ByTrace]) -> ByTrace:
    """All answers are the first one, which is returned; what differs is shown in short."""
    (first, wanted), *others = answers.items()
    for name, answer in others:
        assert set(answer) == set(wanted), f"{name} and {first} have rows of other traces"
        for trace, rows in wanted.items():
            extra = Counter(answer[trace]) - Counter(rows)
            missing = Counter(rows) - Counter(answer[trace])
            differ = f"{trace}: {name} has {list(extra)[:3]} for {list(missing)[:3]} of {first}"
            assert not extra and not missing, differ
            # Counter takes 1 and 1.0 and True for one.
            assert [list(map(type, row)) for row in answer[trace][:50]] == [list(map(type, row)) for row in rows[:50]]
    return wanted


def all_rows(asked: Asked, table: str, *columns: str) -> dict[str, ByTrace]:
    return {way.name: way.rows(table, columns) for way in asked.ways}


def all_grouped(asked: Asked, table: str, keys: list[str], sums: list[str]) -> dict[str, ByTrace]:
    return {way.name: way.grouped(table, keys, sums) for way in asked.ways}


# Questions, each with the verb that answers it, too.


def test_records_by_event(asked: Asked) -> None:
    def by_verb(trace: Path) -> list[Row]:
        counted = json.loads(kymo("read", "--count", "--state", "--json", trace, good=(0, 1)))
        stats = json.loads(kymo("stats", "--json", trace, good=(0, 1)))
        assert {row["event"]: row["records"] for row in stats["rows"]} == counted["events"]
        return list(counted["events"].items())

    verb = ordered({name: by_verb(trace) for name, trace in asked.traces.items()})
    wanted = agree(asked, {"the verbs": verb, **all_grouped(asked, "records", ["event"], [])})
    assert wanted["user"] == wanted["host0"] == [("motor:step", STEPS)]
    assert 0 < wanted["lost"][0][1] < LOST_STEPS  # type: ignore[operator]
    assert wanted["cut"] != wanted["kernel"] and len(wanted["lttng"]) > 3


def test_a_sum_of_a_field_by_another_one(asked: Asked) -> None:
    def by_verb(trace: Path) -> list[Row]:
        words = ("--event", "motor:step", "--by", "axis", "--sum", "number")
        rows = json.loads(kymo("stats", "--json", trace, *words, good=(0, 1)))["rows"]
        return [(row["axis"], row["records"], row["sum"]) for row in rows]

    programs = [name for name in asked.traces if name in ("user", "host0", "host1", "lost", "older")]
    verb = ordered({name: by_verb(asked.traces[name]) for name in programs})
    wanted = agree(asked, {"kymo stats": verb, **all_grouped(asked, "motor:step", ["axis"], ["number"])})
    numbers = range(STEPS)
    sums = [(axis, STEPS // 5, sum(n for n in numbers if n % 5 - 2 == axis)) for axis in range(-2, 3)]
    assert wanted["user"] == sorted(sums, key=repr)
    # One version of the program has no position: a sum of nothing is null in SQL.
    answers = {way.name: way.grouped("motor:step", ["state"], ["position"]) for way in asked.ways}
    for found in answers.values():
        found.pop("older", None)
    positions = agree(asked, answers)
    assert [row[0] for row in positions["user"]] == ["moves", "rests"]


def test_records_row_for_row(asked: Asked) -> None:
    def by_verb(trace: Path) -> list[Row]:
        heads = ("time", "cpu", "pid", "tid", "proc")
        fields = ("number", "axis", "position", "state")
        rows = [row for row in read_json(trace, "--event", "motor:step") if "event" in row]
        return [tuple(row[name] for name in heads) + tuple(row["fields"][name] for name in fields) for row in rows]

    programs = ("user", "host0", "host1", "lost")
    verb = ordered({name: by_verb(asked.traces[name]) for name in programs})
    columns = ("time", "cpu", "pid", "tid", "proc", "number", "axis", "position", "state")
    answers = all_rows(asked, "motor:step", *columns)
    small = {way: {name: rows for name, rows in found.items() if name in programs} for way, found in answers.items()}
    wanted = agree(asked, {"kymo read": verb, **small})
    assert len(wanted["user"]) == STEPS


def test_records_of_all_events_row_for_row(asked: Asked) -> None:
    def by_verb(trace: Path) -> list[Row]:
        rows = [row for row in read_json_of_damaged(trace) if "event" in row]
        return [(row["time"], row["cpu"], row["tid"], row["event"], compact(row["fields"])) for row in rows]

    kernels = ("kernel", "lock", "cut", "lttng")
    verb = ordered({name: by_verb(asked.traces[name]) for name in kernels})
    answers = all_rows(asked, "records", "time", "cpu", "tid", "event", "fields")
    small: dict[str, ByTrace] = {}
    for way, found in answers.items():
        chosen = {name: rows for name, rows in found.items() if name in kernels}
        small[way] = ordered({name: list(map(with_compact, rows)) for name, rows in chosen.items()})
    wanted = agree(asked, {"kymo read": verb, **small})
    # One of them tells the thread's name.
    assert len(wanted["kernel"]) == 3 * WAKEUPS + 1 > len(wanted["cut"])


def read_json_of_damaged(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kymo("read", trace, "--state", "--json", good=(0, 1)).splitlines()]


def with_compact(row: Row) -> Row:
    """The last one is JSON, in which some write spaces."""
    *before, fields = row
    return (*before, compact(json.loads(str(fields or "{}"))))


def compact(fields: dict[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True)


def test_the_worst_wakeups(asked: Asked) -> None:
    columns = ("time", "end_time", "duration_ns", "tid", "name", "prio", "cpu", "doubt")
    answers = {
        way.name: {name: [row[1:] for row in rows if row[0] == "wakeup"] for name, rows in found.items()}
        for way in asked.ways
        for found in [way.rows("latencies", ("kind", *columns))]
    }
    wanted = agree(asked, {way: ordered(found) for way, found in answers.items()})
    assert {"kernel", "lock", "cut", "lttng"} == set(wanted)
    for name, rows in wanted.items():
        series = wakeups_by_verb(asked.traces[name])
        keys = ("from", "to", "value", "tid", "name", "prio", "cpu", "doubt")
        worst = [tuple(plain(key, row[key]) for key in keys) for row in series["worst"]]
        durations = sorted((row[2] for row in rows if "idle" not in str(row[7])), reverse=True)
        assert [row[2] for row in worst] == durations[: len(worst)] and len(worst) == min(20, len(durations))
        assert set(worst) <= set(rows), (name, set(worst) - set(rows))


def wakeups_by_verb(trace: Path) -> dict[str, Any]:
    words = ("--what", "wakeup", "--limit", "20", "--json")
    (series,) = json.loads(kymo("latency", trace, *words, good=(0, 1)))["series"]
    found: dict[str, Any] = series
    return found


def plain(key: str, value: object) -> object:
    """Doubts as the tables write them: null where there is none."""
    if key == "doubt":
        assert isinstance(value, list)
        return ",".join(value) or None
    return value


def test_what_cpus_did_in_wakeups(asked: Asked) -> None:
    columns = ("time", "end_time", "duration_ns", "tid", "pid", "name", "prio", "cpu", "by_tid", "by", "by_cpu")
    did = ("cpu_thread_ns", "cpu_interrupt_ns", "cpu_idle_ns", "cpu_leaving_ns", "unknown_ns", "cpu_mostly", "doubt")
    wanted = agree(asked, all_rows(asked, "wakeups", *columns, *did))
    assert len(wanted["kernel"]) == WAKEUPS > len(wanted["cut"]) > 0


def test_quantiles_of_wakeups(asked: Asked) -> None:
    durations = {
        way.name: {
            name: sorted(row[1] for row in rows if row[0] == "wakeup" and "idle" not in str(row[2]))
            for name, rows in way.rows("latencies", ("kind", "duration_ns", "doubt")).items()
        }
        for way in asked.ways
    }
    sql, lake = KymoSql(asked.traces), Lake(asked.lake)
    for name in ("kernel", "cut", "lttng"):
        series = wakeups_by_verb(asked.traces[name])
        assert len(series["quantiles"]) >= 2
        for quantile in series["quantiles"]:
            q = quantile["q"]
            query = f"""SELECT quantile_low(duration_ns, {q}), quantile(duration_ns, {q}) FROM latencies
                WHERE kind = 'wakeup' AND (doubt IS NULL OR doubt NOT LIKE '%idle%')"""
            bounds = (quantile["low_ns"], quantile["high_ns"])
            assert sql.ask(asked.traces[name], query) == [bounds]
            assert lake.ask(f"{query} AND trace = '{asked.traces[name]}'") == [bounds]
            # Exactly, of all rows, whoever reads them: between these.
            exact = {way: nearest_rank(found[name], q) for way, found in durations.items()}
            assert len(set(exact.values())) == 1 and bounds[0] <= exact["Spark"] <= bounds[1], (name, q, bounds, exact)


def nearest_rank(values: list[Any], q: float) -> int:
    rank = min(max(math.ceil(len(values) * q), 1), len(values))
    return int(values[rank - 1])


def test_losses(asked: Asked) -> None:
    def by_verb(trace: Path) -> list[Row]:
        found = [row for row in read_json_of_damaged(trace) if "lost" in row] if trace.name != "cut" else []
        return [(row["from"], row["to"], row["lost"], row["packets"], row["cpu"], row["pid"]) for row in found]

    verb = ordered({name: by_verb(trace) for name, trace in asked.traces.items()})
    columns = ("kind", "time", "end_time", "records", "packets", "cpu", "pid")
    answers = {
        way.name: ordered(
            {name: [row[1:] for row in rows if row[0] == "lost"] for name, rows in way.rows("losses", columns).items()}
        )
        for way in asked.ways
    }
    wanted = agree(asked, {"kymo read": verb, **answers})
    assert "lost" in wanted and "user" not in wanted
    # All sums are that of the verb, and with the records that are there, what the program wrote.
    stats = json.loads(kymo("stats", "--json", asked.traces["lost"]))
    lost = sum(int(str(row[2])) for row in wanted["lost"])
    assert stats["lost"]["records"] == lost > 0 and stats["records"] + lost == LOST_STEPS


def test_a_bad_trace_is_a_row_of_losses(asked: Asked) -> None:
    """Whoever is asked of all of them: no question failed above, and the reason is there."""
    query = "SELECT trace, kind FROM losses WHERE kind = 'unreadable' OR kind = 'damage'"
    words = [command.find("the tests"), "sql", str(asked.root), query, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    by_sql = {Path(row["trace"]).name: row["kind"] for row in json.loads(done.stdout)}
    assert by_sql["foreign"] == "unreadable" and by_sql["cut"] == "damage" and "foreign" in done.stderr
    for way in asked.ways[2:]:
        kinds = {name: rows[0][0] for name, rows in way.rows("losses", ("kind", "what")).items()}
        assert kinds["foreign"] == "unreadable" and kinds["cut"] == "damage", way.name
        (row,) = way.rows("losses", ("kind", "what"))["foreign"]
        assert "metadata" in str(row[1]), (way.name, row)
    # A verb that is asked of this one alone says why, and ends with an error.
    done = subprocess.run([words[0], "read", str(asked.root / "foreign")], capture_output=True, text=True)
    assert done.returncode == 2 and "metadata" in done.stderr


def test_hosts(asked: Asked) -> None:
    """Records of each host, of all traces at once."""
    wanted = Counter({"rt-1": STEPS, "rt-2": STEPS})
    query = 'SELECT host, count(*) AS n FROM "motor:step" GROUP BY host'
    words = [command.find("the tests"), "sql", str(asked.root), query, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    by_sql = {row["host"]: row["n"] for row in json.loads(done.stdout)}
    assert {host: by_sql[host] for host in wanted} == wanted
    for way in asked.ways[1:]:
        found: Counter[object] = Counter()
        for rows in way.grouped("motor:step", ["host"], []).values():
            found.update({host: count for host, count in rows})
        assert found == by_sql, way.name
