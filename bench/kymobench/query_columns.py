# SPDX-License-Identifier: MIT OR Apache-2.0
"""All columns of all records: an event as a frame of polars, and the table records as Parquet."""

import shutil

from . import machine, report, stats
from .query_run import EVENT, ask, interpreter, measured, script


def rows(ctx, trace, part, rounds):
    """Frames, then files."""
    return frames(ctx, trace, part, rounds) + parquet(ctx, trace, rounds)


def frames(ctx, trace, part, rounds):
    """All fields to polars, with all CPUs, beside babeltrace2's Python, which fills lists."""
    bars = ("all fields of an event to polars", "all fields to polars / babeltrace2's Python to lists")
    python, bt2 = interpreter("kymotrace", "polars"), interpreter("bt2")
    if not python:
        missing = "no Python here has kymotrace and polars (make python-test installs them)"
        return [report.Row(bars[0], bar=10, better="more", missing=missing), report.Row(bars[1], bar=200, better="more", missing=missing)]
    total = ask(ctx.command, trace, f"SELECT CAST(sum(axis) AS BIGINT) AS s FROM \"{EVENT}\"")[3][0]["s"]
    rates, slow, cpus = [], [], []
    for number in range(rounds):
        done = script(python, "query_columns", trace, EVENT)
        ctx.note(bars[0], number, "kymotrace", done["seconds"], done["cpu_s"])
        rates.append(done["records"] / done["seconds"] / 1e6)
        cpus.append(done["cpu_s"])
        if done["answer"] != total:
            raise RuntimeError(f"polars has another sum than kymo sql: {done['answer']} for {total}")
        if bt2:
            done = script(bt2, "query_bt2", part, EVENT, "columns")
            ctx.note(bars[0], number, "babeltrace2's Python", done["seconds"], done["cpu_s"])
            slow.append(done["records"] / done["seconds"] / 1e6)
    spread = stats.spread(rates)
    found = [report.Row(bars[0], f"{spread['median']:.1f} M/s", "-", spread["median"], unit=" M records/s", spread=spread, bar=10,
                        better="more", note=f"from the call until the frame is there; {stats.median(cpus):.2f} s of CPU")]
    if not slow:
        return found + [report.Row(bars[1], bar=200, better="more", missing="no Python here has bt2 (Debian: python3-bt2)")]
    spread = stats.spread([ours / theirs for ours, theirs in zip(rates, slow)])
    return found + [report.Row(bars[1], f"{stats.median(rates):.1f} M/s", f"{stats.median(slow):.3f} M/s", spread["median"],
                               spread=spread, bar=200, better="more", note="time, cpu, pid, tid and the field; theirs measured on a part")]


def parquet(ctx, trace, rounds):
    """The table records in a lake, written on one CPU."""
    size = machine.bytes_under(trace, lambda name: name != "metadata" and not name.startswith("."))
    records = ask(ctx.command, trace, "SELECT count(*) AS n FROM records")[3][0]["n"]
    rates, share = [], 0.0
    for number in range(rounds):
        lake = ctx.shm / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        words = [ctx.command, "lake", "add", str(trace), "--to", str(lake), "--table", "records", "-q"]
        wall, cpu, _, _ = measured(words, 0)
        ctx.note("records as Parquet", number, "kymo lake add", wall, cpu)
        rates.append(records / wall / 1e6)
        share = machine.bytes_under(lake / "records", lambda name: name.endswith(".parquet")) / size
        kept = ask_lake(ctx, lake)
        if kept != records:
            raise RuntimeError(f"the lake has {kept} of {records} records")
    shutil.rmtree(lake, ignore_errors=True)
    spread = stats.spread(rates)
    what = f"{records / 1e6:.1f} M records, {size / (1 << 20):.0f} MiB of CTF"
    return [
        report.Row("records as Parquet: rows a second, one CPU", f"{spread['median']:.2f} M/s", "-", spread["median"], unit=" M rows/s",
                   spread=spread, bar=3, better="more", note=f"kymo lake add --table records, the whole process; {what}"),
        report.Row("records as Parquet: size / CTF", f"{share * size / (1 << 20):.0f} MiB", f"{size / (1 << 20):.0f} MiB", share, bar=0.5,
                   note=what),
    ]


def ask_lake(ctx, lake):
    """How many records it has."""
    out = measured([ctx.command, "sql", "--lake", str(lake), "SELECT count(*) FROM records", "--format", "csv"])[3]
    return int(out.strip().split("\n")[-1])
