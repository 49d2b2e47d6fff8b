# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure c: how fast one core turns pages into records of a trace, in memory: real pages, captured under load, decoded again
and again.
"""

import json
import shutil
import subprocess
import time

from . import kernel, kernel_load, stats
from .report import Row

KINDS = (("sched",), ("syscalls",), kernel.EVENTS)
BAR = 10


class Decode:
    """Measure c."""

    name = "decode"
    about = "pages to CTF records on one core, in memory (c)"

    def __init__(self):
        self.found = {}  # kind: what decode_speed printed

    def run(self, ctx):
        if not ctx.decode_speed:
            return
        for events in KINDS:
            kind = "+".join(events)
            capture = ctx.out / "capture" / kind
            self._capture(ctx, events, capture)
            seconds = "1" if ctx.quick else "4"
            done = subprocess.run(["taskset", "-c", str(ctx.writer_cpu), str(ctx.decode_speed), str(capture), seconds], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            if done.returncode != 0:
                raise kernel.KernelError(f"decode_speed {capture}: {done.stderr}")
            self.found[kind] = json.loads(done.stdout)

    @staticmethod
    def _capture(ctx, events, capture):
        """A second of the mixed load; kept in build/bench/capture."""
        load = kernel_load.LOADS[-1] if "hackbench" not in ctx.missing else "find+gcc"
        shutil.rmtree(capture, ignore_errors=True)
        with kernel.Drain(ctx, events) as session, kernel_load.Load(ctx, load):
            time.sleep(1)
        shutil.copytree(session.out, capture)
        session.describe(capture)
        session.remove()

    def rows(self, ctx):
        rows = []
        for kind, found in self.found.items():
            rates = [found["records"] * 1e3 / ns for ns in found["rounds_ns"]]
            row = Row(f"c decoding, {kind}", unit=" M/s", bar=BAR, better="more", spread=stats.spread(rates))
            row.ratio = row.spread["median"]
            row.kymo = f"{row.ratio:.1f} M/s"
            mb = found["ring_bytes"] * 1e3 / stats.median(found["rounds_ns"])
            row.note = (f"{found['records']:,} records, {mb:,.0f} MB/s of pages in, "
                        f"{found['trace_bytes'] / max(1, found['records']):.0f} bytes a record out; "
                        f"unknown {found['unknown']}, damaged pages {found['damaged_pages']}")
            if found["unknown"] or found["damaged_pages"]:
                row.ratio = 0.0  # what is skipped is not decoded
            rows.append(row)
        if not rows:
            how = "cargo build --release -p kymo-ftrace --example decode_speed"
            rows.append(Row("c decoding", missing=f"decode_speed is not built: {how}"))
        return rows
