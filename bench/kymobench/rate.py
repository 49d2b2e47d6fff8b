# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure 8: the highest rate of one paced writer at which nothing is lost, to tmpfs; kymo and LTTng take turns, probe by probe.

A probe is a session of its own: the writer runs a few seconds, the collector is ended, and the loss is what the tool reports
(kymo: also what its rings say). First as fast as the writer can; when that loses, bisection. A probe that loses is tried once
more, for both tools, because a collector that another program pushed off its CPU loses for a reason that is not its own; a
probe whose writer was pushed off its CPU is tried up to three times.
The best rate of each pass is verified by counting the records in the files.
"""

import re

from . import kymo, lttng, stats
from .report import Row

CONTESTED = 0.95  # a writer that had less of its CPU than this is measured again


class Search:
    """Bisection for one tool in one pass, one step at a time, so that two searches can alternate."""

    def __init__(self, tracer, steps):
        self.tracer, self.steps = tracer, steps
        self.low, self.high = 0.0, None  # best loss-free rate reached, lowest that lost
        self.flat_out = None             # rate reached by an unpaced writer, lost or not
        self.best = None                 # the probe behind low

    @property
    def done(self):
        return self.steps <= 0 or self.high is not None and self.high - self.low < 0.02 * self.high

    def next_target(self):
        return 0 if self.flat_out is None else (self.low + self.high) / 2

    def take(self, probe):
        self.steps -= 1
        if self.flat_out is None:
            self.flat_out = probe["rate"]
            self.high = probe["rate"]
            if not probe["lost"]:
                self.steps = 0
        elif probe["lost"]:
            self.high = probe["target"]
        if not probe["lost"] and probe["rate"] > self.low:
            self.low, self.best = probe["rate"], probe
        # Stolen CPU can keep a paced writer below its target: then there is nothing to learn between the two.
        if probe["target"] and probe["rate"] < 0.9 * probe["target"]:
            self.high = min(self.high, probe["target"])


class Rate:
    """Measure 8."""

    name = "rate"
    about = "loss-free sustained rate of one writer, to tmpfs (measure 8)"

    def __init__(self):
        self.passes = {"kymo": [], "lttng": []}  # records/s, one a pass
        self.flat_out = {"kymo": [], "lttng": []}
        self.verified = {"kymo": [], "lttng": []}
        self.retries = {"kymo": 0, "lttng": 0}
        self.contested = 0  # probes that stayed so after three tries
        self.probes = []

    def run_pass(self, ctx):
        steps = 4 if ctx.quick else 7
        searches = []
        if not ctx.kymo_missing:
            searches.append(Search("kymo", steps))
        if ctx.daemon:
            searches.append(Search("lttng", steps))
        while not all(search.done for search in searches):
            for search in searches:
                if not search.done:
                    self._step(ctx, search)
        for search in searches:
            self.passes[search.tracer].append(search.low)
            self.flat_out[search.tracer].append(search.flat_out)
            if search.low:
                self.verified[search.tracer].append(search.best["counted"])
            ctx.sustained[search.tracer] = min(ctx.sustained.get(search.tracer, search.low), search.low)
        with open(ctx.raw_path("rate.txt"), "w", encoding="utf-8") as raw:
            raw.writelines(f"{probe}\n" for probe in self.probes)

    def _step(self, ctx, search):
        """
        One probe; a loss is tried once more, and a writer that was kept from its CPU twice more. The best of them counts.
        """
        target, tries = search.next_target(), []
        while len(tries) < 3:
            tries.append(self._probe(ctx, search.tracer, target))
            contested = tries[-1]["contested"]
            if not tries[-1]["lost"] and not contested or tries[-1]["lost"] and len(tries) > 1 and not contested:
                break
        self.retries[search.tracer] += len(tries) - 1
        best = min(tries, key=lambda probe: (probe["lost"] > 0, -probe["rate"]))
        self.contested += best["contested"]
        search.take(best)

    def _probe(self, ctx, tracer, target):
        seconds = 0.5 if ctx.quick else 2
        arguments = ["--cpu", ctx.writer_cpu, f"{tracer}_one", int(target), seconds]
        if tracer == "kymo":
            with ctx.recording("rate", ring=kymo.RING_THROUGHPUT) as session:
                text = ctx.run("paced", arguments, recording=session)
        else:
            with ctx.session("rate", lttng.THROUGHPUT) as session:
                text = ctx.run("paced", arguments, session=session)
        probe = _parse(text)
        probe.update(tracer=tracer, target=target, contested=probe["cpu_s"] < CONTESTED * probe["seconds"])
        if tracer == "kymo":
            found = session.count(ctx.programs / "count")
            probe["counted"] = found["records"]
            # The strictest of three: the rings, the summary, and the values that are missing in the files.
            probe["lost"] = max(probe["lost"], kymo.lost_at_least(session.summary), probe["produced"] - found["records"])
            probe["disorder"] = found["disorder"]
            if found["disorder"]:
                raise kymo.KymoError(f"{found['disorder']} records out of order or double: {probe}")
        else:
            probe["lost"] = session.discarded + session.lost_packets
            counted = session.count() if not probe["lost"] and len(self.verified["lttng"]) == 0 else None
            probe["counted"] = counted
            if counted is not None and counted != probe["produced"]:
                probe["lost"] = max(1, probe["produced"] - counted)
        session.remove()
        self.probes.append(probe)
        return probe

    def rows(self, ctx):
        row = Row("8 loss-free rate, one writer", unit=" M/s", bar=25, better="more")
        if self.passes["lttng"]:
            row.peer = f"{stats.median(self.passes['lttng']) / 1e6:.2f} M/s"
        if not self.passes["kymo"]:
            row.missing = f"kymo is not built ({ctx.kymo_missing})"
            return [row]
        row.spread = stats.spread([rate / 1e6 for rate in self.passes["kymo"]])
        row.ratio = row.spread["median"]
        row.kymo = f"{row.ratio:.1f} M/s"
        row.note = "; ".join(self._note(tracer) for tracer in ("kymo", "lttng") if self.passes[tracer])
        if self.contested:
            row.note += (f"; in {self.contested} of the probes that count, others had more than "
                         f"{1 - CONTESTED:.0%} of the writer's CPU: the rate is too low by that")
        return [row]

    def _note(self, tracer):
        counted = [f"{count:,}" for count in self.verified[tracer] if count is not None]
        ring = f"ring {kymo.RING_THROUGHPUT}" if tracer == "kymo" else lttng.THROUGHPUT
        return (f"{tracer} ({ring}): unpaced writer {stats.median(self.flat_out[tracer]) / 1e6:.1f} M/s, "
                f"{self.retries[tracer]} probes repeated, counted in the files: {', '.join(counted) or 'none'}")


def _parse(text):
    return {key: float(value) if "." in value else int(value)
            for key, value in re.findall(r"(\w+) (-?[\d.]+)", text.splitlines()[-1])}
