# SPDX-License-Identifier: MIT OR Apache-2.0
"""The same questions of one event's field: kymo sql, babeltrace2's Python bindings, and DuckDB over our CSV, interleaved on one CPU."""

from . import report, stats
from .query_own import FIELD
from .query_run import EVENT, ask, interpreter, measured, script

QUESTIONS = {"count and sum": "sum", "group by": "group"}  # as query_bt2.py calls them
OVER_CSV = {
    "count and sum": "SELECT count(axis), sum(axis) FROM {}",
    "group by": "SELECT axis % 16 AS a, count(*) FROM {} GROUP BY a ORDER BY a",
}


def csv_of(ctx, trace):
    """Our CSV of the event, and its size."""
    target = ctx.shm / "csv"
    measured([ctx.command, "export", str(trace), "--format", "csv", "--event", EVENT, "-o", str(target)])
    (file,) = target.rglob("*.csv")
    return file, file.stat().st_size


def plain(rows):
    """Answers as lists of numbers, in order."""
    return sorted([int(value) for value in row] for row in rows)


def rows(ctx, trace, part, rounds):
    """``part``: a trace of the same kind that the bindings read in some seconds; its rate stands for the whole."""
    bt2, duck = interpreter("bt2"), interpreter("duckdb")
    records = ask(ctx.command, trace, f"SELECT count(*) AS n FROM \"{EVENT}\"")[3][0]["n"]
    file, size = csv_of(ctx, trace) if duck else (None, 0)
    found = []
    for name, text in FIELD:
        ours, slow, csv = [], [], []
        for number in range(rounds):
            wall, cpu, _, answer = ask(ctx.command, trace, text)
            ctx.note(name, number, "kymo sql", wall, cpu)
            ours.append(wall)
            if duck:
                done = script(duck, "query_duckdb", file, OVER_CSV[name], cpu=0)
                ctx.note(name, number, "DuckDB over CSV", done["seconds"], done["cpu_s"])
                csv.append(done["seconds"])
                same(name, "DuckDB", plain(row.values() for row in answer), plain(done["answer"]))
            if bt2:
                done = script(bt2, "query_bt2", part, EVENT, QUESTIONS[name], cpu=0)
                ctx.note(name, number, "babeltrace2's Python", done["seconds"], done["cpu_s"])
                slow.append(done["records"] / done["seconds"])
                wanted = plain(row.values() for row in ask(ctx.command, part, text)[3])
                answer = [[done["records"], done["answer"]]] if name == "count and sum" else done["answer"]
                same(name, "babeltrace2", wanted, plain(answer))
        found += [row_of_bt2(name, records, ours, slow), row_of_csv(name, ours, csv, size)]
    return found


def same(name, who, ours, theirs):
    """A ratio of different answers says nothing."""
    if ours != theirs:
        raise RuntimeError(f"{name}: {who} has another answer than kymo sql: {theirs[:3]} for {ours[:3]}")


def row_of_bt2(name, records, ours, slow):
    measure = f"{name} of a field / babeltrace2's Python, one CPU"
    if not slow:
        return report.Row(measure, bar=50, better="more", missing="no Python here has bt2 (Debian: python3-bt2)")
    spread = stats.spread([records / wall / rate for wall, rate in zip(ours, slow)])
    return report.Row(measure, f"{records / stats.median(ours) / 1e6:.1f} M/s", f"{stats.median(slow) / 1e6:.3f} M/s", spread["median"],
                      spread=spread, bar=50, better="more", note="records of the event a second; the whole process of ours, the loop alone of theirs")


def row_of_csv(name, ours, csv, size):
    measure = f"{name} of a field / DuckDB over our CSV, one CPU"
    if not csv:
        return report.Row(measure, bar=5, better="more", missing="no Python here has duckdb (make python-test installs it)")
    spread = stats.spread([theirs / wall for wall, theirs in zip(ours, csv)])
    return report.Row(measure, f"{stats.median(ours):.2f} s", f"{stats.median(csv):.2f} s", spread["median"], spread=spread, bar=5,
                      better="more", note=f"CSV of {size / (1 << 20):.0f} MiB; the whole process of ours, the query alone of theirs")
