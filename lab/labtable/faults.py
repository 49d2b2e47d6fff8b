# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Injected faults on this machine itself: lab/faults makes them and says, as JSON, how many of each kind were found with the right cause:
{"faults": [{"name", "found", "trials", "others": {cause: count}}], "elsewhere": [sentence]}.
"""

import json

from . import intervals
from .context import MeasureError, run
from .rows import Row, between


class Faults:
    """One row for each kind of fault that lab/faults reports."""

    name = "faults"
    about = "injected faults on this machine are found, with the right cause"
    is_counted = False

    def __init__(self, _ctx):
        self.kinds, self.elsewhere = [], []

    def seconds(self, ctx):
        return 9 * ctx.trials

    def run(self, ctx, progress):
        script = ctx.root / "lab/faults"
        if not script.exists():
            raise MeasureError("lab/faults is not there")
        progress.say("faults on this machine")
        command = [script, "--json", "--kymo", ctx.kymo, "--cpu", ctx.cpu, "--trials", ctx.trials]
        done = run(command, ctx.environment(ctx.shm / "faults"), timeout=600 + 120 * ctx.trials)
        try:
            found = json.loads(done.stdout)
            self.kinds, self.elsewhere = found["faults"], found.get("elsewhere", [])
        except (ValueError, KeyError) as error:
            raise MeasureError(f"lab/faults: exit {done.returncode}: {done.stderr.strip()[-300:]}") from error

    def rows(self, _ctx):
        out = []
        for kind in self.kinds:
            found, trials = kind["found"], kind["trials"]
            others = ", ".join(f"{cause} ({count})" for cause, count in kind["others"].items())
            out.append(Row(f"fault: {kind['name']}", f"{found} of {trials}", between(intervals.of_share(found, trials)), ">= 19 of 20",
                           found * 20 >= trials * 19 > 0, notes=[f"otherwise: {others}"] if others else []))
        return out

    def details(self, _ctx):
        return [f"fault: {sentence}" for sentence in self.elsewhere]

    def raw_values(self):
        return {"faults": self.kinds}
