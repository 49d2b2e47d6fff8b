# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The blind test: lab/blind draws causes and loads from a seed, asks for the causes, and says as JSON how many answers are right, how many are
doubtful, how many failed, and how many are wrong without a mark of doubt.
"""

import json

from . import intervals
from .context import MeasureError, run
from .rows import Row, between

TRACES, QUICK = 60, 6
SECONDS = 7  # for a trace
TRIALS = 20  # of a run that is not a short one


class Blind:
    """How often an unknown cause is named."""

    name = "blind"
    about = "random causes beside random loads, from a seed that is drawn: the cause is named"
    is_counted = False

    def __init__(self, _ctx):
        self.found = {}

    @staticmethod
    def _traces(ctx):
        return TRACES if ctx.trials >= TRIALS else QUICK

    def seconds(self, ctx):
        return SECONDS * self._traces(ctx)

    def run(self, ctx, progress):
        progress.say("the blind test")
        command = [ctx.root / "lab/blind", "--json", "--kymo", ctx.kymo, "--traces", self._traces(ctx)]
        done = run(command, ctx.environment(ctx.shm / "blind"), timeout=600 + 60 * self._traces(ctx))
        try:
            self.found = json.loads(done.stdout)
            self.found["seed"], self.found["traces"]  # pylint: disable=pointless-statement
        except (ValueError, KeyError) as error:
            raise MeasureError(f"lab/blind: exit {done.returncode}: {done.stderr.strip()[-300:]}") from error
        (ctx.raw / "blind.json").write_text(done.stdout, encoding="utf-8")

    def rows(self, _ctx):
        right, wrong, all_of = self.found["right"], self.found["wrong"], len(self.found["traces"])
        others = {}
        for trace in self.found["traces"]:
            if trace["score"] != "right":
                others.setdefault(trace["cause"], []).append(trace["score"])
        notes = [f"seed {self.found['seed']}"]
        notes += [f"{cause}: {', '.join(scores)}" for cause, scores in others.items()]
        return [
            Row("blind test: causes named", f"{right} of {all_of}", between(intervals.of_share(right, all_of)), ">= 57 of 60",
                right * 60 >= 57 * all_of > 0, notes=notes),
            Row("blind test: wrong without a doubt", f"{wrong} of {all_of}", between(intervals.of_share(wrong, all_of)), "0",
                wrong == 0 < all_of),
        ]

    def details(self, _ctx):
        return [f"blind test: not injected here: {one['cause']}: {one['why']}" for one in self.found.get("left_out", [])]

    def raw_values(self):
        return self.found
