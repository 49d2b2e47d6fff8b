"""Injected faults on this machine itself: lab/faults makes them and says how many of each kind were found with the right cause."""

import json

from . import intervals
from .context import MeasureError, run
from .rows import Row, between


class Faults:
    """One row for each kind of fault that lab/faults reports."""

    name = "faults"
    about = "injected faults on this machine are found, with the right cause"

    def __init__(self, _ctx):
        self.kinds = []

    def seconds(self, ctx):
        return 20 * ctx.trials

    def run(self, ctx, progress):
        script = ctx.root / "lab/faults"
        if not script.exists():
            raise MeasureError("lab/faults is not there")
        progress.say("faults on this machine")
        done = run([script, "--json", "--trials", ctx.trials], ctx.environment(ctx.shm / "faults"))
        try:
            self.kinds = json.loads(done.stdout)["faults"]
        except (ValueError, KeyError) as error:
            raise MeasureError(f"lab/faults: exit {done.returncode}: {done.stderr.strip()[-300:]}") from error

    def rows(self, _ctx):
        out = []
        for kind in self.kinds:
            found, trials = kind["found"], kind["trials"]
            out.append(Row(f"fault: {kind['name']}", f"{found} of {trials}", between(intervals.of_share(found, trials)), ">= 19 of 20",
                           found * 20 >= trials * 19, kind.get("missing", ""), notes=kind.get("notes", [])))
        return out

    def details(self, _ctx):
        return []

    def raw_values(self):
        return {"faults": self.kinds}
