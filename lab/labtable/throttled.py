# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Is what stops a busy real-time thread by default found before such a run begins, each time, and is nothing said where there is none? There are
two: real-time throttling, and the fair server of Linux 6.12 and later.
"""

import os
from dataclasses import dataclass

from . import intervals
from .context import MeasureError
from .rows import Row, between
from .throttling import DEFAULT_US, RUNTIME, SERVER_DEFAULT_NS, SERVER_WITHOUT_NS, WITHOUT_US, Setting, server


@dataclass
class Found:
    """Of one of the two."""

    title: str
    said: str           # what stands on standard error
    caveat: str
    found: int = 0
    false: int = 0      # said where it was off
    trials: int = 0
    before: int = 0     # of them without any measuring: the probe is one that cannot run
    was_off: bool = False
    is_secret: bool = False


class Throttled:
    """Trials with the default in force, and without; each mechanism while the other is off."""

    name = "throttling"
    about = "default real-time throttling, and the fair server, are found before a busy-loop run"
    is_counted = False

    def __init__(self, ctx):
        self.throttling = Found("default throttling", "sched_rt_runtime_us", '"rt-throttling"')
        self.server = Found("default fair server", "fair server", '"fair-server"')
        self.has_server = server(ctx.cpu).exists()

    def seconds(self, ctx):
        return 0.15 * 2 * ctx.trials * (2 if self.has_server else 1)

    def run(self, ctx, progress):
        fair = server(ctx.cpu)
        with Setting(fair, SERVER_WITHOUT_NS if ctx.lift else None):
            self._trials(ctx, progress, self.throttling, (RUNTIME, DEFAULT_US, WITHOUT_US))
        if self.has_server:
            with Setting(RUNTIME, WITHOUT_US if ctx.lift else None):
                self._trials(ctx, progress, self.server, (fair, SERVER_DEFAULT_NS, SERVER_WITHOUT_NS))

    def _trials(self, ctx, progress, of, setting):
        path, default, without = setting
        with Setting(path, default) as now:
            # What cannot be read cannot have been changed either: the kernel began with it.
            of.is_secret = now.in_force is None
            if now.in_force not in (None, default):
                raise MeasureError(f"{path} cannot be set to its default")
            for number in range(ctx.trials):
                progress.say(f"{of.title}, trial {number + 1} of {ctx.trials}")
                of.trials += 1
                of.found += self._says(ctx, of, number % 2 == 1)
                of.before += number % 2
        if not ctx.lift or of.is_secret:
            return
        with Setting(path, without) as now:
            of.was_off = now.in_force == without
            for _ in range(ctx.trials if of.was_off else 0):
                of.false += self._says(ctx, of, False)

    @staticmethod
    def _says(ctx, of, no_probe):
        """Whether a busy-loop test says it; with `no_probe` nothing can be measured, so that it was said before."""
        env = dict(ctx.environment(), **({"KYMO_PROBE": "/bin/false"} if no_probe else {}))
        done = ctx.run_kymo(["npt", "-c", ctx.cpu, "-l", 1000, "--json"], env, check=False)
        said = of.said in done.stderr
        if no_probe:
            return said
        if done.returncode != 0:
            raise MeasureError(f"kymo npt: {done.stderr.strip()}")
        return said and of.caveat in done.stdout

    def rows(self, _ctx):
        return [self._row(of) for of in (self.throttling, self.server) if of.trials]

    @staticmethod
    def _row(of):
        notes = [f"in {of.before} of them nothing was measured at all: it is said before the loop begins"]
        if of.is_secret:
            notes.append("this kernel lets nobody read or set it, so the default is in force; said is that it cannot be read")
        if of.was_off:
            notes.append(f"with it off it was said in {of.false} of {of.trials}")
        return Row(f"{of.title} found before a busy loop", f"{of.found} of {of.trials}",
                   between(intervals.of_share(of.found, of.trials)), "every time",
                   of.found == of.trials and of.false == 0, notes=notes)

    def details(self, _ctx):
        return []

    def raw_values(self):
        of = {of.title: {"found": of.found, "trials": of.trials, "false": of.false} for of in (self.throttling, self.server)}
        return dict(of, uid=os.geteuid())
