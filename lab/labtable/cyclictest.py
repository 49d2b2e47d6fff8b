# SPDX-License-Identifier: MIT OR Apache-2.0
"""
`kymo wakeup` against cyclictest in alternating slots, order A B B A, with the same CPU, priority, interval, count, memory locking and idle-state
bound; whether they differ is `kymo compare`'s to say.
"""

import json
import shutil

from . import intervals
from .context import MeasureError, run
from .rows import Row, between, ns

INTERVAL_US = 1000
RUNS_MIN = 5    # a side, below which `kymo compare` says nothing [spec/lab.md 5]
RUNS_MAX = 12
# cyclictest's largest histogram: 10^6 buckets, of a nanosecond each. What lies beyond is counted.
BUCKETS = 1_000_000


class Cyclictest:
    """Whether the two measure the same distribution."""

    name = "cyclictest"
    about = "kymo wakeup against cyclictest in alternating slots"
    is_counted = False

    def __init__(self, _ctx):
        self.medians = {"kymo": [], "cyclictest": []}
        self.outcome, self.detail = None, {}

    @staticmethod
    def _slots(ctx):
        return min(max(ctx.rounds, RUNS_MIN), RUNS_MAX)

    def seconds(self, ctx):
        return self._slots(ctx) * 2 * (ctx.seconds + 0.5)

    def run(self, ctx, progress):
        if not shutil.which("cyclictest"):
            raise MeasureError("cyclictest is not installed: apt-get install rt-tests")
        sides = {"kymo": self._kymo, "cyclictest": self._cyclictest}
        for side in sides:
            (ctx.raw / f"wakeup-{side}").mkdir(exist_ok=True)
        for number in range(self._slots(ctx)):
            if number >= RUNS_MIN and ctx.is_late():
                break
            order = list(sides) if number % 2 == 0 else list(sides)[::-1]
            for side in order:
                progress.say(f"wakeup, slot {number + 1} of {self._slots(ctx)}: {side}")
                record = sides[side](ctx, number)
                histogram = dict(map(tuple, record["series"][0]["histogram"]))
                self.medians[side].append(intervals.quantile(histogram, 0.5)[0])
        self._compare(ctx)

    @staticmethod
    def _count(ctx):
        return max(20, int(ctx.seconds * 1e6 / INTERVAL_US))

    def _kymo(self, ctx, number):
        path = ctx.raw / "wakeup-kymo" / f"{number:02}.json"
        ctx.run_kymo(["wakeup", "-c", ctx.cpu, "-p", ctx.priority, "-i", f"{INTERVAL_US}us", "-l", self._count(ctx), "--warmup", 0,
                      "--dma-latency", 0, "-o", path])
        return json.loads(path.read_text(encoding="utf-8"))

    def _cyclictest(self, ctx, number):
        raw = ctx.raw / f"cyclictest-{number:02}.json"
        # Its main thread on the other CPU, as kymo's: only the measuring thread is where is measured.
        done = run(["taskset", "-c", f"{ctx.other_cpu},{ctx.cpu}", "cyclictest", "-t1", "-a", ctx.cpu, "--mainaffinity", ctx.other_cpu,
                    "-p", ctx.priority, "-i", INTERVAL_US, "-l", self._count(ctx), "-m", "-q", "-N", "-h", BUCKETS, "--json", raw])
        if done.returncode != 0:
            raise MeasureError(f"cyclictest: {done.stderr.strip()[-300:]}")
        record = ctx.run_kymo(["import", raw]).stdout
        (ctx.raw / "wakeup-cyclictest" / f"{number:02}.json").write_text(record, encoding="utf-8")
        return json.loads(record)

    def _compare(self, ctx):
        done = ctx.run_kymo(["compare", "--json", ctx.raw / "wakeup-kymo", "--", ctx.raw / "wakeup-cyclictest"], check=False)
        if done.returncode not in (0, 1, 3):
            raise MeasureError(f"kymo compare: {done.stderr.strip()[-300:]}")
        self.detail = json.loads(done.stdout)
        self.outcome = self.detail["outcome"]
        (ctx.raw / "wakeup-compare.json").write_text(done.stdout, encoding="utf-8")

    def rows(self, ctx):
        name = "wakeup against cyclictest"
        if self.outcome in (None, "not_enough_data"):
            return [Row(name, bar="no difference", missing="kymo compare has not enough data")]
        shift = [ours - theirs for ours, theirs in zip(self.medians["kymo"], self.medians["cyclictest"])]
        middles = " and ".join(ns(intervals.median(self.medians[side])) for side in ("kymo", "cyclictest"))
        note = (f"{len(shift)} slots of {self._count(ctx)} samples a side; medians {middles}; difference of the slots' medians "
                f"{ns(intervals.median(shift))}")
        return [Row(name, self.outcome.replace("_", " "), between(intervals.of_median(shift), ns), "no difference",
                    self.outcome == "no_difference", notes=[note])]

    def details(self, _ctx):
        return []

    def raw_values(self):
        return {"medians_ns": self.medians, "comparison": self.detail}
