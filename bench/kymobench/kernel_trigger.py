# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure g: a flight recorder that waits for a late thread. src/kernel_late.c makes a thread run 2 ms after its wake-up; the trigger
`wakeup() > 1ms` sees the switch. From the switch (the kernel's stamp) to when the collector saw it, to the request, and to when the last
ring had been copied: all in the summary. Idle, and with two busy threads on each CPU. The bar: two polls to the request, at p99.
"""

import json
import os
import subprocess

from . import kernel, stats
from .report import Row

POLL_MS = 1
BAR_POLLS = 2
GAP_MS = 60
STEPS = (("seen", "seen"), ("request", "requested"), ("frozen", "rings copied"))


class Trigger:
    """Measure g."""

    name = "trigger"
    about = "from a late wake-up to the snapshot that it asks for (g)"

    def __init__(self):
        self.result = {}

    def run(self, ctx):
        rounds = 30 if ctx.quick else 100
        self.result["idle"] = self._times(ctx, "idle", rounds)
        busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * os.cpu_count())]
        try:
            self.result["loaded"] = self._times(ctx, "loaded", rounds)
        finally:
            for process in busy:
                process.kill()
                process.wait()

    @staticmethod
    def _times(ctx, name, rounds):
        out = ctx.shm / f"trigger_{name}"
        words = [str(ctx.kymo), "record", "-q", "--flight", "--state", "none", "--poll-us", str(POLL_MS * 1000), "-k", "sched",
                 "--trigger", 'wakeup($proc == "late") > 1ms', "--trigger-pause", "1us", "--trigger-limit", str(rounds), "-o", str(out),
                 "--", str(ctx.programs / "kernel_late"), str(ctx.writer_cpu), str(rounds), str(GAP_MS)]
        done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=rounds + 60,
                              env={**os.environ, "KYMO_RUNTIME_DIR": str(ctx.runtime)})
        if done.returncode != 0:
            raise kernel.KernelError(f"kymo record: exit {done.returncode}\n{done.stdout[-2000:]}")
        summary = json.loads((out / ".kymo.json").read_text(encoding="utf-8"))
        (ctx.out / "raw" / f"trigger_{name}.json").write_text(json.dumps(summary["flight"]), encoding="ascii")
        subprocess.run(["rm", "-rf", str(out)], check=True)
        fired = [one for one in summary["flight"]["snapshots"] if one["trigger"]]
        if len(fired) < 0.9 * rounds:
            raise kernel.KernelError(f"{len(fired)} of {rounds} late wake-ups fired the trigger")
        ms = 1e3 / summary["clock"]["frequency_hz"]
        since = {"seen": lambda one: one["trigger"]["seen"], "request": lambda one: one["at"], "frozen": lambda one: one["frozen"]}
        return {step: sorted((of(one) - one["trigger"]["record"]) * ms for one in fired) for step, of in since.items()}

    def rows(self, ctx):
        rows = []
        for name, times in self.result.items():
            row = Row(f"g from the switch to the request, p99, {name}", unit=" ms", bar=BAR_POLLS * POLL_MS,
                      ratio=stats.quantile(times["request"], 0.99))
            row.kymo = f"{row.ratio:.2f} ms"
            row.peer = f"poll {POLL_MS} ms"
            at = {step: [stats.quantile(times[step], q) for q in (0.5, 0.99, 1)] for step, _ in STEPS}
            parts = [f"{text} p50 {at[step][0]:.2f}, p99 {at[step][1]:.2f}, max {at[step][2]:.2f} ms" for step, text in STEPS]
            row.note = f"{len(times['request'])} triggers; " + "; ".join(parts)
            rows.append(row)
        return rows
