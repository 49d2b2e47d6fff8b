# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measures f and t: a snapshot of full rings while four threads write, beside memcpy; and from a trigger's record to the frozen ring."""

import json
import os
import subprocess
import time

from . import sessions, stats
from .report import Row

RING_BYTES = 64 << 20
POLL_US = 1000


def _writers(ctx, *args):
    return subprocess.Popen([str(ctx.programs / "session_writers"), *map(str, args)], env=sessions.environment(ctx), text=True,
                            stdout=subprocess.PIPE)


class Snapshot:
    """Measure f."""

    name = "snapshot"
    about = "a snapshot of 64 MiB rings while four threads write (f)"

    def __init__(self):
        self.copy, self.memcpy, self.whole, self.written = [], [], [], []  # bytes a second
        self.lost = self.bytes = 0

    def run(self, ctx):
        ring = RING_BYTES // 4 if ctx.quick else RING_BYTES
        with sessions.Session(ctx, "snapshot", "--flight", "-u", "flight:*", "--memory", "4G", "--ring-size", str(ring)) as session:
            writers = _writers(ctx, 4, 600, 0, 50)
            try:
                self._until_full(session, ring)
                for number in range(3 if ctx.quick else 7):
                    self._one(ctx, session, number)
            finally:
                writers.terminate()
                writers.wait()
        self.lost = session.summary["lost"]["full"]
        self.hz = session.summary["clock"]["frequency_hz"]
        self.copy = [bytes_ / (cycles / self.hz) for bytes_, cycles in self.copy]

    @staticmethod
    def _until_full(session, ring):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            programs = session.verb("status")["view"]["programs"]
            rings = [one for program in programs for one in program["rings"] or [] if one["cpu"] is not None]
            if rings and all(one["bytes"] >= ring for one in rings):
                return
            time.sleep(0.1)
        raise sessions.SessionError("the writers did not fill their rings within a minute")

    def _one(self, ctx, session, number):
        out = ctx.shm / f"snapshot-{number}"
        done = session.verb("snapshot", "-o", str(out), "--wait")
        self.bytes = done["bytes"]
        self.copy.append((done["bytes"], done["frozen"] - done["at"]))
        self.whole.append(done["bytes"] / done["took"])
        subprocess.run(["rm", "-rf", str(out)], check=True)
        os.environ["OUT"] = str(ctx.shm / "copy")
        for copied, written in sessions.run(ctx, "session_copy", done["bytes"], 1):
            self.memcpy.append(float(copied))
            self.written.append(float(written))

    def rows(self, _ctx):
        rows = []
        for mine, peer, text in ((self.copy, self.memcpy, "f snapshot, request to last ring copied"),
                                 (self.whole, self.written, "f snapshot, request to files complete")):
            spread = stats.spread([x / y for x, y in zip(mine, peer)])
            rows.append(Row(text, f"{stats.median(mine) / 1e9:.2f} GB/s", f"{stats.median(peer) / 1e9:.2f} GB/s", spread["median"],
                            "x", spread, better="more"))
        rows[0].note = f"{self.bytes >> 20} MiB; peer: memcpy into fresh memory; of memory and file system there is one for both"
        rows[1].note = "peer: the same memcpy and one write to the same tmpfs"
        rows.append(Row("f records lost to full rings meanwhile", f"{self.lost}", ratio=self.lost, unit="", bar=0))
        return rows


class Trigger:
    """Measure t."""

    name = "trigger"
    about = "from a trigger's record to the frozen ring (t)"

    def __init__(self):
        self.us = {"seen": [], "frozen": []}

    def run(self, ctx):
        count = 40 if ctx.quick else 200
        options = ["--flight", "-u", "flight:*", "--trigger", "flight:late: n >= 0", "--trigger-limit", "100000", "--trigger-pause", "1ms",
                   "--ring-size", "1M", "--memory", "4G", "--poll-us", str(POLL_US), "--before", "1ms"]
        with sessions.Session(ctx, "trigger", *options) as session:
            writers = _writers(ctx, 1, count * 0.044 + 1, 40, 2000)
            writers.wait()
        hz = session.summary["clock"]["frequency_hz"]
        for done in session.summary["flight"]["snapshots"]:
            if done["trigger"]:
                record = done["trigger"]["record"]
                self.us["seen"].append((done["trigger"]["seen"] - record) / hz * 1e6)
                self.us["frozen"].append((done["frozen"] - record) / hz * 1e6)
        if len(self.us["frozen"]) < count * 0.9:
            raise sessions.SessionError(f"{len(self.us['frozen'])} snapshots of {count} triggers: {json.dumps(session.summary['caveats'])}")

    def rows(self, _ctx):
        rows = []
        for what, bar in (("seen", None), ("frozen", 2 * POLL_US)):
            values = sorted(self.us[what])
            p50, p99 = stats.quantile(values, 0.5), stats.quantile(values, 0.99)
            rows.append(Row(f"t trigger: record to {what}, p99", f"{p99:.0f} us", ratio=p99, unit=" us", bar=bar,
                            note=f"p50 {p50:.0f} us, max {values[-1]:.0f} us, {len(values)} triggers; poll {POLL_US} us"))
        return rows
