# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables as columns: each taker has the rows that the verb has."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import kymotrace
import pytest
from conftest import STEPS, kymo, made, read_json

FIELDS = ["number", "axis", "position", "state"]


@pytest.fixture(scope="module")
def expected(steps: Path) -> list[dict[str, object]]:
    return [{"time": record["time"], **record["fields"]} for record in read_json(steps)]


@pytest.fixture(scope="module")
def trace(steps: Path) -> kymotrace.Trace:
    return kymotrace.open(steps)


def test_pyarrow_takes_it(trace: kymotrace.Trace, expected: list[dict[str, object]]) -> None:
    import pyarrow as pa

    result = trace.events("motor:step", columns=["time", *FIELDS])
    for table in (result.arrow(), pa.table(result), pa.RecordBatchReader.from_stream(result).read_all()):
        assert table.column_names == ["time", *FIELDS]
        assert table.column("time").cast(pa.int64()).to_pylist() == [row["time"] for row in expected]
        for name in FIELDS:
            assert table.column(name).to_pylist() == [row[name] for row in expected], name
    assert pa.schema(result).names == ["time", *FIELDS]


def test_polars_takes_it(trace: kymotrace.Trace, expected: list[dict[str, object]]) -> None:
    import polars as pl

    result = trace.events("motor:step")
    for frame in (result.polars(), pl.DataFrame(result)):
        assert frame["time"].to_physical().to_list() == [row["time"] for row in expected]
        for name in FIELDS:
            assert frame[name].to_list() == [row[name] for row in expected], name


def test_pandas_takes_it(trace: kymotrace.Trace, expected: list[dict[str, object]]) -> None:
    frame = trace.events("motor:step").pandas()
    assert frame["time"].astype("int64").to_list() == [row["time"] for row in expected]
    for name in FIELDS:
        assert frame[name].to_list() == [row[name] for row in expected], name


def test_duckdb_takes_it(trace: kymotrace.Trace, expected: list[dict[str, object]]) -> None:
    import duckdb

    result = trace.events("motor:step")
    wanted = sum(int(str(row["number"])) for row in expected if row["axis"] == 2)
    assert duckdb.sql("select count(*), sum(number) from result where axis = 2").fetchall() == [(STEPS // 5, wanted)]
    with duckdb.connect() as connection:
        assert result.duckdb(connection).aggregate("count(*), max(position)").fetchall() == [(STEPS, (STEPS - 1) / 4)]


def test_it_is_the_csv_of_the_verb(trace: kymotrace.Trace, steps: Path, tmp_path: Path) -> None:
    import csv

    kymo("export", steps, "--format", "csv", "-o", tmp_path / "csv")
    file = next(path for path in tmp_path.rglob("*") if path.is_file())
    with file.open(newline="") as opened:
        lines = list(csv.DictReader(opened))
    rows = trace.events("motor:step").arrow()
    assert len(lines) == rows.num_rows
    column = next(name for name in lines[0] if name.endswith("number"))
    assert [int(line[column]) for line in lines] == rows.column("number").to_pylist()


# No text has the first of these; the others are half of a character, a surrogate, and what is valid.
ODD = b"a\xff\x80 \xe2\x82 \xed\xa0\x80 \xc3\xa9"


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path, has_sql: None) -> None:
    import duckdb
    import polars as pl

    odd = made(tmp_path / "odd", "string note; u8 n;", ODD + b"\0\1", b"plain\0\2", event="odd:text")
    notes = [record["fields"]["note"] for record in read_json(odd)]
    assert notes == [ODD.decode(errors="replace"), "plain"] and notes[0].count("\ufffd") == 6
    trace = kymotrace.open(odd)
    result = trace.events("odd:text", columns=["note"])
    assert result.arrow().column("note").to_pylist() == notes
    assert result.polars()["note"].to_list() == notes
    assert result.pandas()["note"].to_list() == notes
    assert duckdb.sql("select note from result").fetchall() == [(note,) for note in notes]
    records = trace.table("records", columns=["fields"])
    for fields in (
        records.arrow().column("fields").to_pylist(),
        pl.DataFrame(records)["fields"].to_list(),
        records.pandas()["fields"].to_list(),
    ):
        assert [json.loads(text)["note"] for text in fields] == notes
    asked = trace.sql("SELECT note FROM odd.text ORDER BY time")
    assert asked.arrow().column("note").to_pylist() == notes


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (["--filter", "axis == 2 && position > 100"], {"filter": "axis == 2 && position > 100"}),
        (["--filter", "axis == 2", "--filter", "number < 70"], {"filter": ["axis == 2", "number < 70"]}),
        (["--filter", 'state == "rests"'], {"filter": 'state == "rests"'}),
        (["--from", "+A"], {"start": "+A"}),
        (["--to", "+B"], {"end": "+B"}),
        (["--from", "+A", "--to", "+B", "--filter", "axis < 0"], {"start": "+A", "end": "+B", "filter": "axis < 0"}),
        (["--from", "-A"], {"start": "-A"}),
    ],
)
def test_a_choice_is_that_of_the_verb(
    trace: kymotrace.Trace,
    steps: Path,
    expected: list[dict[str, object]],
    words: list[str],
    chosen: dict[str, str],
) -> None:
    # A and B: a third of the records, and two thirds, after the first one.
    times = [int(str(expected[at]["time"])) for at in (0, STEPS // 3, 2 * STEPS // 3)]

    def placed(text: str) -> str:
        after = {"A": f"{times[1] - times[0]}ns", "B": f"{times[2] - times[0]}ns"}
        return text[0] + after[text[1]] if text[1:] in after else text

    chosen = {name: placed(text) if name != "filter" else text for name, text in chosen.items()}
    wanted = [record["fields"]["number"] for record in read_json(steps, *map(placed, words))]
    assert 0 < len(wanted) < STEPS
    assert trace.events("motor:step", **chosen).arrow().column("number").to_pylist() == wanted  # type: ignore[arg-type]


def test_numbers_of_times_cpus_and_threads_choose(
    trace: kymotrace.Trace, expected: list[dict[str, object]]
) -> None:
    at = int(str(expected[100]["time"]))
    later = [row["number"] for row in expected if int(str(row["time"])) >= at]
    assert trace.events("motor:step", start=at).arrow().column("number").to_pylist() == later
    table = trace.events("motor:step").arrow()
    for column, name in (("cpu", "cpus"), ("tid", "threads")):
        present = set(table.column(column).to_pylist())
        assert sum(trace.events("motor:step", **{name: [one]}).count() for one in present) == STEPS  # type: ignore[arg-type]
        assert trace.events("motor:step", **{name: 4_000_000}).count() == 0  # type: ignore[arg-type]


def test_limit_and_head_are_the_first(trace: kymotrace.Trace) -> None:
    result = trace.events("motor:step")
    assert trace.events("motor:step", limit=7).arrow().column("number").to_pylist() == list(range(7))
    assert result.head(3).column("number").to_pylist() == [0, 1, 2]
    assert trace.events("motor:step", limit=2).head(5).num_rows == 2
    assert next(iter(result.rows()))["state"] == "rests"


def test_a_glob_gives_the_records_of_all_events(trace: kymotrace.Trace) -> None:
    table = trace.events("motor:*", limit=5).arrow()
    assert table.column("event").to_pylist() == ["motor:step"] * 5
    assert '"number"' in table.column("fields").to_pylist()[0]
    assert trace.events("no:*").count() == 0


def test_tables_say_what_they_are(trace: kymotrace.Trace) -> None:
    assert {"records", "losses", "motor:step"} <= set(trace.tables)
    step = trace.tables["motor:step"]
    assert step.is_event and [column[0] for column in step.columns][-4:] == FIELDS
    assert "motor:step" in repr(trace.tables) and "motor:step" in trace._repr_html_()
    assert trace.losses.count() == 0
    assert trace.environment[0]["env"]["tracer_name"]


def test_what_is_wrong_is_named(trace: kymotrace.Trace, tmp_path: Path) -> None:
    for wrong, part in [
        (lambda: trace.events("motor:stp"), "motor:step"),
        (lambda: trace.table("loses"), "losses"),
        (lambda: trace.events("losses"), "is no event"),
        (lambda: trace.events("motor:step", filter="axis ==").arrow(), "expected a value"),
        (lambda: trace.events("motor:step", filter="axes == 2").arrow(), "axes"),
        (lambda: trace.events("motor:step", columns=["nubmer"]).arrow(), "number"),
        (lambda: kymotrace.open(tmp_path / "nothing"), "nothing"),
    ]:
        with pytest.raises(kymotrace.KymoError) as raised:
            wrong()
        assert part in str(raised.value)
    for value in (1.5, True):
        with pytest.raises(TypeError, match="no unit"):
            trace.events("motor:step", start=value)


def test_a_trace_goes_to_other_processes(trace: kymotrace.Trace) -> None:
    again = pickle.loads(pickle.dumps(trace))
    assert again.events("motor:step", limit=3).count() == 3


def test_several_workers_read_what_one_reads(trace: kymotrace.Trace) -> None:
    one, three = (kymotrace.open(trace.paths, workers=workers) for workers in (1, 3))
    for table in ("motor:step", "records"):
        assert three.table(table).arrow().equals(one.table(table).arrow())
    assert pickle.loads(pickle.dumps(three)).events("motor:step").count() == one.events("motor:step").count()
    with pytest.raises(ValueError, match="0 workers"):
        kymotrace.open(trace.paths, workers=0)


def test_names_of_a_program_are_no_html(trace: kymotrace.Trace) -> None:
    from kymotrace import html

    assert "<script>" not in html.table("<script>", ["<script>"], [["<script>"]])
    shown = trace.events("motor:step")._repr_html_()
    assert "moves" in shown and "the first rows" in shown


def test_several_traces_are_one(steps: Path, kernel: Path) -> None:
    both = kymotrace.open([steps, kernel])
    assert both.events("motor:step").count() == STEPS
    assert len(both.environment) == 2
