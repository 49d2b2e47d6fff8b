# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure c: what a record costs by what sessions want of it: overwritten, recorded twice, rejected by a filter; in turns, in one process."""

from contextlib import ExitStack

from . import sessions, stats
from .report import Row

ROOM = ("--memory", "4G", "--ring-size", "64M")


class Cost:
    """Measure c."""

    name = "cost"
    about = "a record for a flight recorder, for two sessions, for a filter that rejects it (c)"

    def __init__(self):
        self.blocks = []  # (round, kind, ns)
        self.lost = 0

    def run(self, ctx):
        wanted = [("discard",), ("two",), ("two2", "two"), ("overwrite", "overwrite", "--flight"),
                  ("reject", "reject", "--filter", "cost:reject: a == 1000000 && b > 5")]
        all_of = []
        with ExitStack() as stack:
            for name, *rest in wanted:
                event, more = (rest[0] if rest else name), rest[1:]
                all_of.append(stack.enter_context(sessions.Session(ctx, name, "-u", f"cost:{event}", *ROOM, *more)))
            for words in sessions.run(ctx, "session_cost", ctx.writer_cpu, 40 if ctx.quick else 300):
                self.blocks.append((int(words[0]) // 5, words[1], float(words[2])))
        self.lost = sum(session.lost() for session in all_of)
        counts = {session.name: session.summary["records"] for session in all_of}
        if counts["reject"] or not all(counts[name] for name in ("discard", "two", "two2", "overwrite")):
            raise sessions.SessionError(f"the sessions did not record what was measured: {counts}")

    def rows(self, _ctx):
        ns = {kind: stats.per_round(self.blocks, kind) for kind in ("off", "discard", "two", "overwrite", "reject")}
        rows = []
        for kind, peer, text, bar in (("overwrite", "discard", "c overwritten / recorded", 1.1),
                                      ("two", "discard", "c two sessions / one", 2.1)):
            spread = stats.spread(stats.paired(ns[kind], ns[peer], lambda x, y: x / y))
            rows.append(Row(text, f"{stats.median(ns[kind].values()):.2f} ns", f"{stats.median(ns[peer].values()):.2f} ns",
                            spread["median"], "x", spread, bar, note=f"{self.lost} records lost to full rings in all sessions"))
        added = stats.spread(stats.paired(ns["reject"], ns["off"], lambda x, y: x - y))
        rows.append(Row("c filter of two comparisons that rejects, beyond off", f"{stats.median(ns['reject'].values()):.2f} ns",
                        f"{stats.median(ns['off'].values()):.2f} ns", added["median"], " ns", added, 5))
        return rows
