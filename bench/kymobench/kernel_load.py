# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures a and b: the collectors' CPU and the losses under the loads of the LTTng paper of 2006: nothing, `find`, `find` and
gcc, these and hackbench. The tools take turns under each load. Events are counted by the kernel. The CPU of a tool is that
of its process with all children and threads, from a look when it recorded to its end: what a tool puts off until the end (trace-cmd
looks at a ring when it is half full, and joins its files at the end) is its cost too. That of the load's time alone stands in
the note.
"""

import os
import signal
import subprocess
import time

from . import kernel, stats
from .report import Row

LOADS = ("quiet", "find", "find+gcc", "find+gcc+hackbench")
PARTS = {
    "find": "while :; do find / -xdev -size +1G >/dev/null 2>&1 || :; done",
    "gcc": "while :; do gcc -O2 -x c -c -o /dev/null {source} || exit 1; done",
    "hackbench": "while :; do hackbench -g 5 -l 500 >/dev/null || exit 1; done",
}
BAR = 1.5


class Load:
    """Programs that run until the end of the `with`. Each part is a process group of its own."""

    def __init__(self, ctx, name):
        self.parts = [] if name == "quiet" else name.split("+")
        self.source, self.running = ctx.root / "bench/src/hot.c", []
        self.include = f"-I{ctx.root}/bench/src -I{ctx.root}/emit/include -D_GNU_SOURCE "

    def __enter__(self):
        for part in self.parts:
            script = PARTS[part].format(source=self.include + str(self.source))
            self.running.append(subprocess.Popen(["sh", "-c", script], start_new_session=True, stdin=subprocess.DEVNULL,
                                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return self

    def __exit__(self, *_):
        failed = [part for part, one in zip(self.parts, self.running) if one.poll() is not None]
        for one in self.running:
            try:
                os.killpg(one.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            one.wait()
        if failed:
            raise kernel.KernelError(f"the load ended by itself: {', '.join(failed)}")


def _session(ctx, tool):
    """Without the state dump, which trace-cmd has not: its cost does not grow with the events, and has a row of its own."""
    return kernel.Kymo(ctx, options=("--state", "none")) if tool == "kymo" else kernel.TOOLS[tool](ctx)


class Loads:
    """Measures a and b."""

    name = "load"
    about = "collector CPU and losses under the loads of 2006 (a, b)"

    def __init__(self):
        self.runs = []          # one dict a session, see _one
        self.state_dump_s = []  # CPU of a short session: without, with

    def run(self, ctx):
        tools = [name for name in kernel.TOOLS if name != "trace-cmd" or "trace-cmd" not in ctx.missing]
        loads = [load for load in LOADS if "hackbench" not in load or "hackbench" not in ctx.missing]
        for turn in range(1 if ctx.quick else 3):
            for load in loads:
                for tool in tools[turn % len(tools):] + tools[:turn % len(tools)]:
                    self.runs.append(dict(self._one(ctx, load, tool), round=turn))
        for options in (("--state", "none"), ()):
            with kernel.Kymo(ctx, options=options) as session:
                time.sleep(0.5)
            self.state_dump_s.append(session.whole_cpu_s)
            session.remove()

    def _one(self, ctx, load, tool):
        seconds = 1.5 if ctx.quick else 4
        with _session(ctx, tool) as session:
            with Load(ctx, load):
                time.sleep(0.3)
                first = session.sample()
                time.sleep(seconds)
                during = session.sample()
            last = session.sample()
        events, lost = (last["counts"][i] - first["counts"][i] for i in (0, 1))
        found = {"load": load, "tool": tool, "seconds": during["at"] - first["at"], "events": events, "lost": lost,
                 "events_during": during["counts"][0] - first["counts"][0], "cpu_s": session.whole_cpu_s - first["cpu_s"],
                 "cpu_s_during": during["cpu_s"] - first["cpu_s"], "whole_cpu_s": session.whole_cpu_s, "came": last["counts"][0]}
        if tool == "kymo":
            found["summary"] = self._checked(session.summary(), last["counts"])
        session.remove()
        return found

    @staticmethod
    def _checked(summary, seen):
        """kymo's own words beside the kernel's: it may not know of fewer losses than the kernel had counted before the end."""
        one = summary["kernel"]
        lost = sum(one["lost"].values())
        return {"records": one["records"], "lost": lost, "dated": len(one["losses"]), "cpu_s": one["cpu_s"], "pages": one["pages"],
                "bytes": one["bytes"], "ring_bytes": one["ring_bytes"], "understated": lost < seen[1],
                "came_before_end": seen[0], "damage": one["damage"]}

    def rows(self, ctx):
        rows = [self._cpu_row(load) for load in LOADS]
        return rows + [self._state_row(), self._loss_row()]

    def _of(self, tool, load, value):
        return {run["round"]: value(run) for run in self.runs if (run["tool"], run["load"]) == (tool, load) and run["events"]}

    def _cpu_row(self, load):
        cost = {tool: self._of(tool, load, lambda run: run["cpu_s"] * 1e9 / run["events"]) for tool in kernel.TOOLS}
        during = {tool: self._of(tool, load, lambda run: run["cpu_s_during"] * 1e9 / run["events_during"]) for tool in kernel.TOOLS}
        row = Row(f"a CPU per event, {load}: kymo / trace-cmd", bar=BAR)
        row.kymo, row.peer = (self._cell(tool, load, cost[tool]) for tool in ("kymo", "trace-cmd"))
        if not cost["kymo"] or not cost["trace-cmd"]:
            row.missing = "the load or trace-cmd is not there: apt-get install trace-cmd rt-tests"
            return row
        row.spread = stats.spread(stats.paired(cost["kymo"], cost["trace-cmd"], lambda x, y: x / y))
        row.ratio = row.spread["median"]
        lost = {tool: sum(self._of(tool, load, lambda run: run["lost"]).values()) for tool in cost}
        rate = stats.median(self._of("kymo", load, lambda run: run["events_during"] / run["seconds"]).values())
        row.note = (f"{rate:,.0f} events/s under kymo; only copied: {stats.median(cost['drain'].values()):.0f} ms/M; "
                    "while the load ran: "
                    + ", ".join(f"{tool} {stats.median(ms.values()):.0f} ms/M" for tool, ms in during.items() if ms)
                    + "; lost: " + ", ".join(f"{tool} {count:,}" for tool, count in lost.items()))
        return row

    def _cell(self, tool, load, cost):
        """ms per million events, and the share of all CPUs over the time of the load."""
        share = self._of(tool, load, lambda run: 100 * run["cpu_s"] / run["seconds"] / os.cpu_count())
        return f"{stats.median(cost.values()):.0f} ms/M ({stats.median(share.values()):.2f} %)" if cost else "-"

    def _state_row(self):
        without, full = self.state_dump_s
        note = f"a session of 0.5 s: {1e3 * without:.0f} ms of CPU without, {1e3 * full:.0f} ms with both dumps"
        return Row("a two state dumps (kymo only)", kymo=f"{1e3 * (full - without):.0f} ms", note=note)

    def _loss_row(self):
        """Lost at the default ring under the heaviest load; where there are, whether all are told and dated."""
        heaviest = [run for run in self.runs if run["tool"] == "kymo" and run["load"] == LOADS[-1]]
        row = Row("b lost under the heaviest load, default ring", unit="", bar=0)
        if not heaviest:
            row.missing = "hackbench is not there: apt-get install rt-tests"
            return row
        lost = [run["summary"]["lost"] for run in heaviest]
        peer = [run["lost"] for run in self.runs if run["tool"] == "trace-cmd" and run["load"] == LOADS[-1]]
        row.kymo, row.peer = f"{max(lost):,}", f"{max(peer):,}" if peer else "-"
        row.ratio, row.spread = float(max(lost)), stats.spread(lost)
        understated = sum(run["summary"]["understated"] for run in heaviest)
        records = sum(run["summary"]["records"] for run in heaviest)
        dated = sum(run["summary"]["dated"] for run in heaviest)
        row.note = (f"of {records:,} records in all; ring {heaviest[0]['summary']['ring_bytes'] >> 20} MiB a CPU; {dated} dated "
                    f"intervals; sessions that told of less than the kernel had counted: {understated}")
        return row
