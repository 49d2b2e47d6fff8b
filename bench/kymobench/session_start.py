# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure s: how long a program with 500 events takes until main, beside the same program without libkymo, in turns."""

from . import sessions, stats
from .report import Row

BAR_WITH_US = 5000
BAR_WITHOUT_US = 500


class Start:
    """Measure s."""

    name = "start"
    about = "start-up of a program with 500 events (s)"

    def __init__(self):
        self.us = {}  # (ring size of the session, None without one; program): [us]

    def run(self, ctx):
        count = 60 if ctx.quick else 300
        # In turns here too: what else the machine does changes from minute to minute.
        for number in range(3):
            self._starts(ctx, None, count // 3)
            for ring in ("4M", "1M"):
                with sessions.Session(ctx, f"start{number}-{ring}", "-u", "events:*", "--memory", "4G", "--ring-size", ring):
                    self._starts(ctx, ring, count // 3)

    def _starts(self, ctx, ring, count):
        programs = [ctx.programs / "session_plain", ctx.programs / "session_events"]
        for number, ns in sessions.run(ctx, "session_start", count, *programs):
            self.us.setdefault((ring, int(number)), []).append(int(ns) / 1000)

    def rows(self, _ctx):
        rows = []
        for ring, text, bar in ((None, "no session", BAR_WITHOUT_US), ("4M", "session, rings of 4M", BAR_WITH_US),
                                ("1M", "session, rings of 1M", BAR_WITH_US)):
            plain, traced = self.us[ring, 0], self.us[ring, 1]
            added = stats.spread([x - y for x, y in zip(traced, plain)])
            row = Row(f"s until main, 500 events, {text}: added", unit=" us", ratio=added["median"], spread=added, bar=bar)
            row.kymo, row.peer = f"{stats.median(traced):.0f} us", f"{stats.median(plain):.0f} us"
            p99 = [stats.quantile(sorted(values), 0.99) for values in (traced, plain)]
            row.note = f"peer: without libkymo; p99 {p99[0]:.0f} us and {p99[1]:.0f} us, fastest {min(traced):.0f} us and {min(plain):.0f} us"
            rows.append(row)
        return rows
