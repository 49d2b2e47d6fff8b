# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure d: the highest rate of one user event at which nothing is lost, of user and kernel events both, while all system calls
are traced and the other CPU makes them as fast as it can. By bisection, as measure 8 of bench/run.
"""

import os
import re
import subprocess

from . import kernel, kymo, stats
from .rate import CONTESTED
from .report import Row

PAPER = 2.9e6  # the best of the 2015 paper's: RT kernel, kernel tracing on
BAR = 5 * PAPER
RING = "32M"


class Rate:
    """Measure d."""

    name = "rate"
    about = "loss-free user rate while all system calls are traced (d)"

    def __init__(self):
        self.probes, self.best = [], []

    def run(self, ctx):
        for _ in range(1 if ctx.quick else 2):
            self.best.append(self._search(ctx, 4 if ctx.quick else 7))

    def _search(self, ctx, steps):
        """0 is as fast as the writer can; a probe that loses, or whose writer was kept from its CPU, is done twice."""
        low, high, target = 0.0, None, 0.0
        for _ in range(steps):
            tries = [self._probe(ctx, target)]
            if tries[0]["lost"] or tries[0]["contested"]:
                tries.append(self._probe(ctx, target))
            best = min(tries, key=lambda probe: (probe["lost"] > 0, -probe["rate"]))
            if not best["lost"]:
                low = max(low, best["rate"])
            if high is None and not best["lost"]:
                break
            if best["lost"]:
                high = target or best["rate"]
            if high - low < 0.03 * high:
                break
            target = (low + high) / 2
        return low

    def _probe(self, ctx, target):
        session = kernel.Kymo(ctx, ("syscalls",), ("--state", "none", "-u", "bench:*", "--ring-size", RING))
        env = dict(os.environ, KYMO_RUNTIME_DIR=str(ctx.runtime), LTTNG_UST_REGISTER_TIMEOUT="0")
        seconds = "0.7" if ctx.quick else "2"
        session.preexec = kernel.raised
        with session:
            load = subprocess.Popen([str(ctx.programs / "kernel_calls"), str(ctx.collector_cpu), "load"], text=True,
                                    stdout=subprocess.PIPE)
            try:
                done = subprocess.run([str(ctx.programs / "paced"), "--cpu", str(ctx.writer_cpu), "kymo_one", str(int(target)),
                                       seconds], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                      preexec_fn=kernel.raised)
            finally:
                load.terminate()
                calls = load.communicate()[0]
        if done.returncode != 0:
            raise kernel.KernelError(f"paced: {done.stdout}{done.stderr}")
        summary = session.summary()
        session.remove()
        probe = {key: float(value) for key, value in re.findall(r"(\w+) (-?[\d.]+)", done.stdout.splitlines()[-1])}
        probe["contested"] = probe["cpu_s"] < CONTESTED * probe["seconds"]
        lost_kernel = sum(summary["kernel"]["lost"].values())
        lost_user = max(probe["lost"], kymo.lost_at_least(summary), probe["produced"] - probe["recorded"])
        made, took = (float(word) for word in re.findall(r"[\d.]+", calls))
        probe.update(target=target, lost=lost_user + lost_kernel, lost_user=lost_user, lost_kernel=lost_kernel,
                     calls_per_s=made / took, kernel_records=summary["kernel"]["records"])
        self.probes.append(probe)
        return probe

    def rows(self, ctx):
        row = Row("d user rate without a loss, system calls traced", unit=" M/s", bar=BAR / 1e6, better="more")
        row.spread = stats.spread([rate / 1e6 for rate in self.best])
        row.ratio = row.spread["median"]
        row.kymo, row.peer = f"{row.ratio:.1f} M/s", f"{PAPER / 1e6} M/s (2015)"
        calls = stats.median([probe["calls_per_s"] for probe in self.probes])
        lost = [probe for probe in self.probes if probe["lost"]]
        row.note = (f"beside {calls:,.0f} system calls/s (two records each) on the collector's CPU; ring {RING}; "
                    f"writer kept from its CPU in {sum(p['contested'] for p in self.probes)}, "
                    f"{len(lost)} of {len(self.probes)} probes lost something (user {sum(p['lost_user'] for p in lost):,.0f}, "
                    f"kernel {sum(p['lost_kernel'] for p in lost):,.0f})")
        return [row]
