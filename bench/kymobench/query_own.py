# SPDX-License-Identifier: MIT OR Apache-2.0
"""kymo sql alone: records a second of one field, a part of the time with an index, and memory of large questions."""

from . import report, stats
from .query_run import EVENT, ask

FIELD = [
    ("count and sum", f"SELECT count(axis), sum(axis) FROM \"{EVENT}\""),
    ("group by", f"SELECT axis % 16 AS a, count(*) FROM \"{EVENT}\" GROUP BY a"),
]
MEMORY = [
    ("sort of all wake-ups", "SELECT * FROM wakeups ORDER BY duration_ns DESC LIMIT 10"),
    ("states by thread", "SELECT tid, state, sum(duration_ns) FROM thread_state GROUP BY tid, state"),
    ("quantiles of latencies", "SELECT kind, quantile(duration_ns, 0.99) FROM latencies GROUP BY kind"),
    ("all records by event", "SELECT event, count(*), sum(bits) FROM records GROUP BY event"),
]


def walls(ctx, trace, name, text, rounds):
    """Wall seconds of whole processes."""
    taken = []
    for number in range(rounds):
        wall, cpu, _, _ = ask(ctx.command, trace, text)
        ctx.note(name, number, "kymo sql", wall, cpu)
        taken.append(wall)
    return taken


def rows(ctx, trace, rounds):
    """The trace has an index."""
    found = []
    records = ask(ctx.command, trace, f"SELECT count(*) AS n FROM \"{EVENT}\"")[3][0]["n"]
    start = stats.median(walls(ctx, trace, "start of a process", "SELECT 1", rounds))
    bounds = ask(ctx.command, trace, "SELECT CAST(time AS BIGINT) AS a, CAST(end_time AS BIGINT) AS b FROM hosts")[3][0]
    middle, part = (bounds["a"] + bounds["b"]) // 2, (bounds["b"] - bounds["a"]) // 100
    whole = {}
    for name, text in FIELD:
        whole[name] = walls(ctx, trace, name, text, rounds)
        rates = stats.spread([records / max(wall - start, 1e-9) / 1e6 for wall in whole[name]])
        found.append(report.Row(f"{name} of a field, one CPU", kymo=f"{stats.median(whole[name]):.3f} s", ratio=rates["median"],
                                unit=" M records/s", spread=rates, bar=15, better="more",
                                note=f"{records / 1e6:.1f} M records of the event; {start:.3f} s of the start of a process are not counted"))
    name, text = FIELD[0]
    text += f" WHERE time >= at('{middle}') AND time < at('{middle + part}')"
    small = stats.median(walls(ctx, trace, "1 % of the time", text, rounds))
    found.append(report.Row("1 % of the time, with an index", kymo=f"{small:.3f} s", ratio=stats.median(whole[name]) / max(small, 1e-9),
                            bar=50, better="more", note="the whole query over this one, whole processes"))
    for name, text in MEMORY:
        wall, cpu, memory, _ = ask(ctx.command, trace, text)
        ctx.note(name, 0, "kymo sql", wall, cpu)
        found.append(report.Row(f"memory: {name}", kymo=f"{wall:.1f} s", ratio=memory, unit=" MiB", bar=512,
                                note=f"{cpu:.1f} s of CPU; all that the process had at most, mapped files too"))
    return found
