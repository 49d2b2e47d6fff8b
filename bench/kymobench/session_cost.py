# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure c: what a record costs by what sessions want of it: overwritten, recorded twice, rejected or selected by a filter, with
contexts, compact, lost; in turns, in one process.
"""

from contextlib import ExitStack

from . import sessions, stats
from .report import Row

ROOM = ("--memory", "4G", "--ring-size", "64M")
# name of the session: event, more options
WANTED = {
    "discard": ("discard",), "two": ("two",), "two2": ("two",), "overwrite": ("overwrite", "--flight"),
    "reject": ("reject", "--filter", "cost:reject: a == 1000000 && b > 5"),
    "pass": ("pass", "--filter", "cost:pass: a < 1000000 && b < 5"),
    "prio": ("prio", "--context", "prio"), "callstack": ("callstack", "--context", "callstack"),
    "compact": ("compact", "--compact"),
}
# kind, compared with, text, bar
RATIOS = (
    ("overwrite", "discard", "c overwritten / recorded", 1.1),
    ("two", "discard", "c two sessions / one", 2.05),
    ("pass", "discard", "c selected by a filter / without one", 1.3),
    ("full", "discard", "c lost (ring full) / recorded", 1.2),
    ("prio", "discard", "c with context prio / without", 1.3),
    ("callstack", "discard", "c with context callstack / without", None),
    ("compact", "discard", "c compact / plain", None),
)


class Cost:
    """Measure c."""

    name = "cost"
    about = "a record for a flight recorder, two sessions, filters, contexts, --compact, a full ring (c)"

    def __init__(self):
        self.blocks = []  # (round, kind, ns)
        self.lost, self.full = 0, (0, 0)

    def run(self, ctx):
        all_of = []
        with ExitStack() as stack:
            for name, (event, *more) in WANTED.items():
                all_of.append(stack.enter_context(sessions.Session(ctx, name, "-u", f"cost:{event}", *ROOM, *more)))
            full = stack.enter_context(sessions.Session(ctx, "full", "-u", "cost:full", "--ring-size", "64K"))
            for words in sessions.run(ctx, "session_cost", ctx.writer_cpu, 40 if ctx.quick else 300):
                self.blocks.append((int(words[0]) // 5, words[1], float(words[2])))
        self.lost = sum(session.lost() for session in all_of)
        counts = {session.name: session.summary["records"] for session in all_of}
        if counts.pop("reject") or not all(counts.values()):
            raise sessions.SessionError(f"the sessions did not record what was measured: {counts}")
        self.full = (full.lost(), full.summary["records"])
        if self.full[0] < 9 * self.full[1]:
            raise sessions.SessionError(f"of the records for a full ring only {self.full[0]} were lost, {self.full[1]} were not")

    def rows(self, _ctx):
        kinds = {kind for one in RATIOS for kind in one[:2]} | {"off", "reject"}
        ns = {kind: stats.per_round(self.blocks, kind) for kind in kinds}
        rows = []
        for kind, peer, text, bar in RATIOS:
            spread = stats.spread(stats.paired(ns[kind], ns[peer], lambda x, y: x / y))
            note = f"{self.lost} records lost to full rings in all other sessions"
            if kind == "full":
                note = f"{self.full[0]} were lost, {self.full[1]} found room"
            rows.append(Row(text, f"{stats.median(ns[kind].values()):.2f} ns", f"{stats.median(ns[peer].values()):.2f} ns",
                            spread["median"], "x", spread, bar, note=note))
        added = stats.spread(stats.paired(ns["reject"], ns["off"], lambda x, y: x - y))
        rows.append(Row("c filter of two comparisons that rejects, beyond off", f"{stats.median(ns['reject'].values()):.2f} ns",
                        f"{stats.median(ns['off'].values()):.2f} ns", added["median"], " ns", added, 2))
        return rows
