"""Is the kernel's default real-time throttling found before a busy-loop run begins, each time; and is nothing said where there is none."""

import os

from . import intervals
from .context import MeasureError
from .rows import Row, between
from .throttling import DEFAULT_US, WITHOUT_US, Throttling


class Throttled:
    """Trials with the default in force, and without."""

    name = "throttling"
    about = "default real-time throttling is found before a busy-loop run"

    def __init__(self, _ctx):
        self.found = self.false = self.trials = 0
        self.before = 0  # of them without any measuring: the probe is one that cannot run
        self.lifted = False

    def seconds(self, ctx):
        return 0.15 * 2 * ctx.trials

    def run(self, ctx, progress):
        with Throttling(DEFAULT_US) as throttling:
            if throttling.in_force != DEFAULT_US:
                raise MeasureError("sched_rt_runtime_us cannot be set to its default")
            for number in range(ctx.trials):
                progress.say(f"throttling, trial {number + 1} of {ctx.trials}")
                self.trials += 1
                self.found += self._says(ctx, number % 2 == 1)
                self.before += number % 2
        if not ctx.lift:
            return
        with Throttling(WITHOUT_US) as throttling:
            self.lifted = throttling.in_force == WITHOUT_US
            for _ in range(ctx.trials if self.lifted else 0):
                self.false += self._says(ctx, False)

    @staticmethod
    def _says(ctx, no_probe):
        """Whether a busy-loop test says it; with `no_probe` nothing can be measured, so that it was said before."""
        env = dict(ctx.environment(), **({"KYMO_PROBE": "/bin/false"} if no_probe else {}))
        done = ctx.run_kymo(["npt", "-c", ctx.cpu, "-l", 1000, "--json"], env, check=False)
        said = "sched_rt_runtime_us" in done.stderr
        if no_probe:
            return said
        if done.returncode != 0:
            raise MeasureError(f"kymo npt: {done.stderr.strip()}")
        return said and '"rt-throttling"' in done.stdout

    def rows(self, _ctx):
        notes = [f"in {self.before} of them nothing was measured at all: it is said before the loop begins"]
        if self.lifted:
            notes.append(f"with throttling off it was said in {self.false} of {self.trials}")
        return [Row("default throttling found before a busy loop", f"{self.found} of {self.trials}",
                    between(intervals.of_share(self.found, self.trials)), "every time",
                    self.found == self.trials and self.false == 0, notes=notes)]

    def details(self, _ctx):
        return []

    def raw_values(self):
        return {"found": self.found, "trials": self.trials, "false": self.false, "uid": os.geteuid()}
