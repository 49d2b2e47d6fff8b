# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure i: what attached, quiet programs cost: context switches in them, and the collector's CPU beside that of bare sleeping."""

import subprocess
import time
from pathlib import Path

from . import sessions, stats
from .report import Row

BAR_PERCENT = 0.1


def _switches(pid):
    """Voluntary and other context switches of all threads."""
    lines = [line for task in Path(f"/proc/{pid}/task").iterdir() for line in (task / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def _cpu_ns(pid):
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


class Idle:
    """Measure i."""

    name = "idle"
    about = "attached, quiet programs (i)"

    def __init__(self):
        self.of = {}  # (programs, ring size): [(switches of the programs a second, collector's %, its switches a second, bare %)]

    def run(self, ctx):
        seconds = 3 if ctx.quick else 10
        for number in range(1 if ctx.quick else 3):
            for ring in ("4M", "16M"):
                for programs in (1, 20):
                    self.of.setdefault((programs, ring), []).append(self._one(ctx, programs, ring, seconds, number))

    def _one(self, ctx, programs, ring, seconds, number):
        options = ["-u", "events:*", "--memory", "4G", "--ring-size", ring]
        with sessions.Session(ctx, f"idle{number}-{programs}-{ring}", *options) as session:
            command = [str(ctx.programs / "session_events"), "stay"]
            running = [subprocess.Popen(["/bin/sh", "-c", 'exec "$0" "$@" 3>/dev/null', *command],
                                        env=sessions.environment(ctx)) for _ in range(programs)]
            try:
                until = time.monotonic() + 10
                while session.verb("status")["recorded_programs"] < programs and time.monotonic() < until:
                    time.sleep(0.05)
                self._settle(running)
                before = [_switches(one.pid) for one in running], _cpu_ns(session.pid), _switches(session.pid)
                begin = time.monotonic()
                time.sleep(seconds)
                after = [_switches(one.pid) for one in running], _cpu_ns(session.pid), _switches(session.pid)
                passed = time.monotonic() - begin
            finally:
                for one in running:
                    one.kill()
                    one.wait()
        looks = (after[2] - before[2]) / passed
        # A program that sleeps as often, at the same time of day: what the machine takes for that alone.
        bare_ns = int(sessions.run(ctx, "session_sleep", int(1e6 / max(looks, 1)), max(int(looks), 20))[0][0])
        return ((sum(after[0]) - sum(before[0])) / passed, (after[1] - before[1]) / passed / 1e7, looks, bare_ns * looks / 1e7)

    @staticmethod
    def _settle(running):
        """Waits until the helper threads have touched the rings: until nothing switches for a second, half a minute at most."""
        until = time.monotonic() + 30
        seen = None
        while time.monotonic() < until:
            now = [_switches(one.pid) for one in running]
            if now == seen:
                return
            seen = now
            time.sleep(1)

    def rows(self, _ctx):
        rows = []
        for (programs, ring), values in self.of.items():
            wakes, percent, own, bare = ([one[at] for one in values] for at in range(4))
            spread = stats.spread(percent)
            row = Row(f"i collector's CPU, {programs} quiet, rings of {ring}", unit=" %", ratio=spread["median"], spread=spread,
                      bar=BAR_PERCENT)
            row.kymo, row.peer = f"{spread['median']:.3f} %", f"{stats.median(bare):.3f} %"
            row.note = f"context switches a second: {stats.median(wakes):.1f} in the programs, {stats.median(own):.0f} in the collector; peer: a program that only sleeps as often"
            rows.append(row)
            most = max(wakes)
            rows.append(Row(f"i switches/s in {programs} quiet, rings of {ring}", unit="", ratio=most, bar=0,
                            kymo=f"{most:.1f}"))
        return rows
