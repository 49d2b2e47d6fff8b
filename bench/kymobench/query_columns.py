# SPDX-License-Identifier: MIT OR Apache-2.0
"""All columns of all records: an event as a frame of polars, and the table records as Parquet."""

import shutil

from . import machine, report, stats
from .query_run import EVENT, ask, interpreter, measured, script


def rows(ctx, trace, part, rounds):
    """Frames, then files."""
    return frames(ctx, trace, part, rounds) + parquet(ctx, trace, rounds)


# What all fields of an event are, and what there is besides.
CHOICES = {"time and all fields": ("time", "axis"), "all columns": ()}


def frames(ctx, trace, part, rounds):
    """An event to polars, with all CPUs, beside babeltrace2's Python, which fills lists with all columns."""
    python, bt2 = interpreter("kymotrace", "polars"), interpreter("bt2")
    total = ask(ctx.command, trace, f"SELECT CAST(sum(axis) AS BIGINT) AS s FROM \"{EVENT}\"")[3][0]["s"]
    rates, slow = {choice: [] for choice in CHOICES}, []
    for number in range(rounds):
        for choice, columns in CHOICES.items() if python else ():
            done = script(python, "query_columns", trace, EVENT, *columns)
            ctx.note(f"{choice} to polars", number, "kymotrace", done["seconds"], done["cpu_s"])
            rates[choice].append(done["records"] / done["seconds"] / 1e6)
            if done["answer"] != total:
                raise RuntimeError(f"polars has another sum than kymo sql: {done['answer']} for {total}")
        if bt2:
            done = script(bt2, "query_bt2", part, EVENT, "columns")
            ctx.note("all columns to lists", number, "babeltrace2's Python", done["seconds"], done["cpu_s"])
            slow.append(done["records"] / done["seconds"] / 1e6)
    return [row for choice in CHOICES for row in frame_rows(choice, rates[choice], slow)]


def frame_rows(choice, rates, slow):
    """One in records a second, one beside the peer."""
    rate = report.Row(f"{choice} of an event to polars", bar=10, better="more", unit=" M records/s")
    ratio = report.Row(f"{choice} to polars / babeltrace2's Python to lists", bar=200, better="more")
    if not rates:
        rate.missing = ratio.missing = "no Python here has kymotrace and polars (make python-test installs them)"
        return [rate, ratio]
    rate.spread = stats.spread(rates)
    rate.ratio, rate.kymo = rate.spread["median"], f"{rate.spread['median']:.1f} M/s"
    rate.note = "from the call until the frame is there"
    if choice == "all columns":
        rate.note += "; process, thread and its name follow the kernel's records"
    if not slow:
        ratio.missing = "no Python here has bt2 (Debian: python3-bt2)"
        return [rate, ratio]
    ratio.spread = stats.spread([ours / theirs for ours, theirs in zip(rates, slow)])
    ratio.ratio, ratio.kymo, ratio.peer = ratio.spread["median"], rate.kymo, f"{stats.median(slow):.3f} M/s"
    ratio.note = "theirs: time, cpu, pid, tid and the field, measured on a part"
    return [rate, ratio]


def parquet(ctx, trace, rounds):
    """The table records in a lake, written on one CPU."""
    size = machine.bytes_under(trace, lambda name: name != "metadata" and not name.startswith("."))
    records = ask(ctx.command, trace, "SELECT count(*) AS n FROM records")[3][0]["n"]
    rates, walls, share = [], [], 0.0
    for number in range(rounds):
        lake = ctx.shm / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        words = [ctx.command, "lake", "add", str(trace), "--to", str(lake), "--table", "records", "-q"]
        wall, cpu, _, _ = measured(words, 0)
        ctx.note("records as Parquet", number, "kymo lake add", wall, cpu)
        walls.append(wall)
        rates.append(records / cpu / 1e6)
        share = machine.bytes_under(lake / "records", lambda name: name.endswith(".parquet")) / size
        kept = ask_lake(ctx, lake)
        if kept != records:
            raise RuntimeError(f"the lake has {kept} of {records} records")
    shutil.rmtree(lake, ignore_errors=True)
    spread = stats.spread(rates)
    what = f"{records / 1e6:.1f} M records, {size / (1 << 20):.0f} MiB of CTF"
    return [
        report.Row("records as Parquet: rows a second of CPU time", f"{spread['median']:.2f} M/s", "-", spread["median"],
                   unit=" M rows/s", spread=spread, bar=3, better="more",
                   note=f"kymo lake add --table records, the whole process on one CPU, {stats.median(walls):.1f} s; {what}"),
        report.Row("records as Parquet: size / CTF", f"{share * size / (1 << 20):.0f} MiB", f"{size / (1 << 20):.0f} MiB", share, bar=0.5,
                   note=what),
    ]


def ask_lake(ctx, lake):
    """How many records it has."""
    out = measured([ctx.command, "sql", "--lake", str(lake), "SELECT count(*) FROM records", "--format", "csv"])[3]
    return int(out.strip().split("\n")[-1])
