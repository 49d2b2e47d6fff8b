# SPDX-License-Identifier: MIT OR Apache-2.0
"""
`kymo wakeup` against itself: nothing differs between the two sides, so `kymo compare` has to say so. Each trial is a run of `kymo slots` of its own.
"""

from . import intervals
from .context import MeasureError
from .rows import Row, between

ROUNDS = 5          # a side, the fewest that are compared [spec/lab.md 5]
SLOT_MS = 200
TRIALS = 100        # of a run that is not a short one
TRIALS_MIN = 20     # where the time is over before all
BAR = 0.95
NONE, DIFFERENCE, TOO_LITTLE = 0, 1, 3  # exit codes


class Same:
    """How often two groups of runs of the same test are told apart."""

    name = "same"
    about = "kymo wakeup against itself in alternating slots: no difference"
    is_counted = False

    def __init__(self, _ctx):
        self.ended = []

    @staticmethod
    def _trials(ctx):
        return TRIALS if ctx.trials >= TRIALS_MIN else ctx.trials

    def seconds(self, ctx):
        return self._trials(ctx) * 2 * ROUNDS * (SLOT_MS / 1000 + 0.2)

    def run(self, ctx, progress):
        test = ["wakeup", "-i", "500us", "-p", ctx.priority, "--dma-latency", 0]
        for number in range(self._trials(ctx)):
            if number >= TRIALS_MIN and ctx.is_late():
                break
            progress.say(f"wakeup against itself, trial {number + 1} of {self._trials(ctx)}")
            done = ctx.run_kymo(["slots", "--json", "--seed", number, "-c", ctx.cpu, "--slot", f"{SLOT_MS}ms", "--rounds", ROUNDS,
                                 "--", *test, "--", *test], check=False)
            if done.returncode not in (NONE, DIFFERENCE, TOO_LITTLE):
                raise MeasureError(f"kymo slots: exit {done.returncode}: {done.stderr.strip()[-300:]}")
            (ctx.raw / f"same-{number:03}.json").write_text(done.stdout, encoding="utf-8")
            self.ended.append(done.returncode)

    def rows(self, _ctx):
        right, all_of = self.ended.count(NONE), len(self.ended)
        others = [f"{self.ended.count(code)} {words}" for code, words in ((DIFFERENCE, "a difference"), (TOO_LITTLE, "not enough data"))
                  if code in self.ended]
        notes = [f"{ROUNDS} slots of {SLOT_MS} ms a side"] + ([f"otherwise: {', '.join(others)}"] if others else [])
        return [Row("wakeup against itself: no difference", f"{right} of {all_of} trials", between(intervals.of_share(right, all_of)),
                    ">= 95 of 100", right >= BAR * all_of > 0, notes=notes)]

    def details(self, _ctx):
        return []

    def raw_values(self):
        return {"exit_codes": self.ended}
