# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure e: user and kernel records on one clock. src/kernel_clock.c reads CLOCK_MONOTONIC_RAW in front of and behind each record;
the times of the records come from the trace. For each kind: a line through (middle of the bracket, time in the trace). The bar is
on the difference of the slopes, and on the jitter: how far the records of one kind lie from the line of the user's, less their
own median. Only records with a narrow bracket count: a wide one was interrupted, and its middle means nothing.
"""

import json
import os
import subprocess

from . import kernel, stats
from .report import Row

KINDS = {"u": "bench:one", "m": "lttng_logger", "s": "syscall_entry_getppid"}
NAMES = {"u": "user", "m": "mark", "s": "system call"}
NARROW = 1.15  # a bracket is narrow up to so many times the width that 5 % of its kind stay below
STEP_US = 8000
BAR_PPM, BAR_NS = 1, 200


def fit(points):
    """Least squares, centred: (mean x, mean y, slope)."""
    n = len(points)
    x0, y0 = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    xx = sum((x - x0) ** 2 for x, _ in points)
    return x0, y0, sum((x - x0) * (y - y0) for x, y in points) / xx


class Clock:
    """Measure e."""

    name = "clock"
    about = "user and kernel time against CLOCK_MONOTONIC_RAW (e)"

    def __init__(self):
        self.result, self.widths = {}, {}

    def run(self, ctx):
        seconds = 10 if ctx.quick else 60
        brackets = ctx.out / "raw" / "clock_brackets.txt"
        session = kernel.Kymo(ctx, ("syscalls",), ("--state", "none", "-u", "bench:one", "--", str(ctx.programs / "kernel_clock"),
                                                   str(ctx.writer_cpu), str(seconds), str(STEP_US), str(brackets)))
        session.patterns = "syscalls:sys_enter_getppid"
        session.ask_to_end = lambda: None  # the program ends by itself
        session.preexec, session.end_timeout_s = kernel.raised, seconds + 60
        with session:
            pass
        if session.code:
            raise kernel.KernelError(f"the clock program: exit {session.code}\n{session.text[-2000:]}")
        points = self._points(self._brackets(brackets), self._times(ctx, session.out))
        session.remove()
        (ctx.out / "raw" / "clock_points.json").write_text(json.dumps(points), encoding="ascii")
        self._evaluate(points)

    @staticmethod
    def _brackets(path):
        found = {kind: {} for kind in KINDS}
        for line in path.read_text(encoding="ascii").splitlines():
            kind, number, before, behind = line.split()
            found[kind][int(number)] = (int(before), int(behind))
        return found

    @staticmethod
    def _times(ctx, trace):
        """{kind: {number: ns in the trace}}; kymo read gives ns since 1970 by the trace's own clock."""
        names = [word for name in KINDS.values() for word in ("--event", name)]
        done = subprocess.run([str(ctx.kymo), "read", "--json", *names, str(trace)], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, env=dict(os.environ))
        if done.returncode != 0:
            raise kernel.KernelError(f"kymo read: {done.stderr}")
        times, by_tid, tid = {kind: {} for kind in KINDS}, {}, None
        for line in done.stdout.splitlines():
            record = json.loads(line)
            name, fields = record.get("event"), record.get("fields") or {}
            if name == KINDS["u"]:
                tid = record.get("tid", tid)
                times["u"][int(fields["value"])] = int(record["time"])
            elif name == KINDS["m"] and str(fields.get("msg", "")).startswith("step "):
                times["m"][int(fields["msg"].split()[1])] = int(record["time"])
            elif name == KINDS["s"]:
                of_tid = by_tid.setdefault(record.get("tid"), {})
                of_tid[len(of_tid) + 1] = int(record["time"])
        times["s"] = by_tid.get(tid, {})
        return times

    def _points(self, brackets, times):
        """Per kind, narrow brackets only: [middle of the bracket, time in the trace], ns since the first of all."""
        base_x = min(pair[0] for kind in brackets.values() for pair in kind.values())
        base_y = min(time for kind in times.values() for time in kind.values())
        points = {}
        for kind, pairs in brackets.items():
            both = [(behind - before, (before + behind) / 2 - base_x, times[kind][number] - base_y)
                    for number, (before, behind) in pairs.items() if number in times[kind]]
            if len(both) < 100 or len(both) < 0.99 * len(pairs):
                raise kernel.KernelError(f"of {len(pairs)} records of kind {NAMES[kind]} only {len(both)} are in the trace")
            both.sort()
            widest = NARROW * both[len(both) // 20][0]
            points[kind] = sorted((x, y) for width, x, y in both if width <= widest)
            self.widths[NAMES[kind]] = {"narrow_ns": widest, "narrow": len(points[kind]), "all": len(both)}
        return points

    def _evaluate(self, points):
        x0, y0, slope = fit(points["u"])
        for kind, of_kind in points.items():
            apart = [y - (y0 + slope * (x - x0)) for x, y in of_kind]
            middle = stats.median(apart)
            off = sorted(abs(one - middle) for one in apart)
            self.result[NAMES[kind]] = {
                "points": len(of_kind), "slope_ppm": (fit(of_kind)[2] - 1) * 1e6, "offset_ns": middle,
                "ppm_from_user": (fit(of_kind)[2] - slope) * 1e6, "jitter_p50_ns": stats.quantile(off, 0.5),
                "jitter_p99_ns": stats.quantile(off, 0.99), "jitter_max_ns": off[-1]}

    def rows(self, ctx):
        user, rows = self.result["user"], []
        for name in ("mark", "system call"):
            one = self.result[name]
            slopes = Row(f"e slope, {name} against user", unit=" ppm", bar=BAR_PPM, ratio=abs(one["ppm_from_user"]))
            slopes.kymo = f"{one['ppm_from_user']:+.4f} ppm"
            slopes.note = (f"trace clock against CLOCK_MONOTONIC_RAW: {user['slope_ppm']:+.3f} ppm "
                           "(a constant of the machine's clocks)")
            jitter = Row(f"e jitter, {name} against user, p99", unit=" ns", bar=BAR_NS, ratio=one["jitter_p99_ns"])
            jitter.kymo, jitter.peer = f"{one['jitter_p99_ns']:.0f} ns", f"user {user['jitter_p99_ns']:.0f} ns"
            jitter.note = (f"p50 {one['jitter_p50_ns']:.0f} ns, max {one['jitter_max_ns']:.0f} ns "
                           f"(user {user['jitter_max_ns']:.0f} ns) of {one['points']:,} brackets of up to "
                           f"{self.widths[name]['narrow_ns']:.0f} ns (of {self.widths[name]['all']:,}); constant offset "
                           f"{one['offset_ns']:+.0f} ns: where in its bracket it is stamped")
            rows += [slopes, jitter]
        return rows
