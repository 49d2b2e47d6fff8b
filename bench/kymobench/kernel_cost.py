# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure f: what tracing all system calls costs one that does nothing: ns per getppid untraced, and under each tool, in turns."""

import subprocess

from . import kernel, stats
from .report import Row


class Cost:
    """Measure f."""

    name = "cost"
    about = "ns per traced system call (f)"

    def __init__(self):
        self.ns = {}  # tool: {round: p10 of its blocks}

    def run(self, ctx):
        tools = [None] + [name for name in kernel.TOOLS if name not in ctx.missing]
        for turn in range(2 if ctx.quick else 5):
            for tool in tools:
                self.ns.setdefault(tool or "untraced", {})[turn] = self._one(ctx, tool)

    def _one(self, ctx, tool):
        if not tool:
            return self._calls(ctx)
        with kernel.TOOLS[tool](ctx, ("syscalls",)) as session:
            before = kernel.counts(session.instance)[0]
            ns = self._calls(ctx)
            came = kernel.counts(session.instance)[0] - before
        session.remove()
        if came < 2 * self._count(ctx):
            raise kernel.KernelError(f"{tool}: {came} events of {2 * self._count(ctx)}: the calls were not traced")
        return ns

    @staticmethod
    def _count(ctx):
        return 100_000 if ctx.quick else 400_000

    def _calls(self, ctx):
        blocks = self._count(ctx) // 20_000
        done = subprocess.run([str(ctx.programs / "kernel_calls"), str(ctx.writer_cpu), "cost", str(blocks), "20000"], text=True,
                              stdout=subprocess.PIPE, check=True, preexec_fn=kernel.raised)
        return stats.quantile(sorted(float(word) for word in done.stdout.split()[1:]), 0.1)  # undisturbed blocks

    def rows(self, ctx):
        rows = []
        bare = self.ns["untraced"]
        for tool in self.ns:
            if tool == "untraced":
                continue
            added = stats.spread(stats.paired(self.ns[tool], bare, lambda x, y: x - y))
            row = Row(f"f added to a system call by {tool}", unit=" ns", spread=added, ratio=added["median"])
            row.kymo = f"{stats.median(self.ns[tool].values()):.0f} ns" if tool == "kymo" else "-"
            row.peer = row.peer if tool == "kymo" else f"{stats.median(self.ns[tool].values()):.0f} ns"
            row.note = f"untraced {stats.median(bare.values()):.0f} ns; entry and exit are two records"
            rows.append(row)
        return rows
