# SPDX-License-Identifier: MIT OR Apache-2.0
"""The measuring floor of npt's loop beside that of the original's loop (lab/npt-original), in turns on one CPU."""

import json

from . import intervals
from .context import MeasureError, run
from .rows import Row, between, ns
from .throttling import lifted


ROUNDS_MIN = 6  # an interval of a median needs six


class Floor:
    """Ratio of the loops' means and medians, ours to the original's."""

    name = "floor"
    about = "measuring floor of npt's loop against the original's"
    is_counted = False

    def __init__(self, _ctx):
        self.pairs = []  # (ours, original's): {"mean": .., "p50": ..}

    def seconds(self, ctx):
        return ctx.rounds * (1 + ctx.loops * 40e-9)

    def run(self, ctx, progress):
        for number in range(ctx.rounds):
            if number >= ROUNDS_MIN and ctx.is_late():
                break
            progress.say(f"floor, round {number + 1} of {ctx.rounds}")
            sides = [self._ours, self._original]
            found = {}
            for side in sides if number % 2 else sides[::-1]:
                with lifted(ctx):
                    found[side.__name__] = self._figures(side(ctx, number))
            self.pairs.append((found["_ours"], found["_original"]))

    @staticmethod
    def _ours(ctx, number):
        return ctx.npt(f"floor-{number:02}-kymo", probe="kymo-probe")

    @staticmethod
    def _original(ctx, number):
        """Through kymo import, as any result of npt."""
        text = ctx.raw / f"floor-{number:02}-original.txt"
        done = run([ctx.program("npt-original"), ctx.cpu, ctx.loops, ctx.priority])
        if done.returncode != 0:
            raise MeasureError(f"npt-original: {done.stderr.strip()}")
        text.write_text(done.stdout, encoding="utf-8")
        return json.loads(ctx.run_kymo(["import", text]).stdout)

    @staticmethod
    def _figures(record):
        series = record["series"][0]
        histogram = dict(map(tuple, series["histogram"]))
        return {"mean": series["mean"], "min": series["min"], "p50": intervals.quantile(histogram, 0.5)[0]}

    def rows(self, _ctx):
        ratios = [ours["mean"] / original["mean"] for ours, original in self.pairs]
        interval = intervals.of_median(ratios)
        medians = {side: ns(intervals.median([pair[index]["mean"] for pair in self.pairs])) for index, side in enumerate(("ours", "theirs"))}
        note = (f"mean gap of the empty loop: {medians['ours']}, the original's {medians['theirs']}; smallest gaps "
                f"{ns(min(pair[0]['min'] for pair in self.pairs))} and {ns(min(pair[1]['min'] for pair in self.pairs))}; a smaller floor is a better one")
        return [Row("floor of npt's loop / the original's", f"{intervals.median(ratios):.2f}", between(interval), "<= 1.10",
                    (interval[1] if interval else intervals.median(ratios)) <= 1.1, notes=[note])]

    def details(self, _ctx):
        return []

    def raw_values(self):
        return {"pairs": self.pairs}
