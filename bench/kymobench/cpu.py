# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure 9: CPU time of the collectors (user and system) for a million records, at one rate that both sustain, in turns.
kymo: the whole `kymo record` process, start and end included. LTTng: lttng-sessiond and its consumer from before the session
is made until after it is destroyed. Everything else that these processes do is counted against them.
"""

from . import lttng, stats
from .rate import _parse
from .report import Row

RATE = 4_000_000


class Cpu:
    """Measure 9."""

    name = "cpu"
    about = "collector CPU per million records (measure 9)"

    def __init__(self):
        self.ms = {"kymo": {}, "lttng": {}}  # tracer: {round: ms per million records}
        self.rounds, self.left_out = 0, {"kymo": 0, "lttng": 0}
        self.file_bytes = {"kymo": 0, "lttng": 0}
        self.records = {"kymo": 0, "lttng": 0}
        self.rate = RATE

    def run_pass(self, ctx):
        if ctx.sustained:
            self.rate = min([RATE] + [0.5 * rate for rate in ctx.sustained.values() if rate])
        seconds = 0.5 if ctx.quick else 2
        for _ in range(3):
            for tracer in ("kymo", "lttng"):
                if (tracer == "kymo" and ctx.kymo_missing) or (tracer == "lttng" and not ctx.daemon):
                    continue
                arguments = ["--cpu", ctx.writer_cpu, f"{tracer}_one", int(self.rate), seconds]
                if not self._one(ctx, tracer, arguments):  # a collector that loses does less work: once more
                    self._one(ctx, tracer, arguments)
            self.rounds += 1

    def _one(self, ctx, tracer, arguments):
        """One round of one tracer; it counts, and the result is true, when nothing was lost."""
        if tracer == "kymo":
            with ctx.recording("cpu") as session:
                text = ctx.run("paced", arguments, recording=session)
            used, lost = session.cpu_s, session.lost or 0
        else:
            before = ctx.daemon.cpu_seconds()
            with ctx.session("cpu", lttng.THRIFTY) as session:
                text = ctx.run("paced", arguments, session=session)
            used, lost = ctx.daemon.cpu_seconds() - before, session.discarded
        produced = _parse(text)["produced"]
        written = session.file_bytes()
        session.remove()
        if not lost:
            self.file_bytes[tracer] += written
            self.records[tracer] += produced
            self.ms[tracer][self.rounds] = used * 1e9 / max(1, produced)
        self.left_out[tracer] += lost > 0
        with open(ctx.raw_path("cpu.txt"), "a", encoding="utf-8") as raw:
            raw.write(f"{tracer} round {self.rounds} cpu_s {used:.6f} lost {lost} {text}")
        return not lost

    def rows(self, ctx):
        row = Row("9 collector CPU per million records: kymo / LTTng")
        for tracer in ("kymo", "lttng"):
            if self.ms[tracer]:
                text = f"{stats.median(self.ms[tracer].values()):.2f} ms"
                row.kymo, row.peer = (text, row.peer) if tracer == "kymo" else (row.kymo, text)
        row.note = (f"at {self.rate / 1e6:.1f} M records/s; LTTng: {lttng.THRIFTY}; rounds with a loss, left out: "
                    f"kymo {self.left_out['kymo']}, LTTng {self.left_out['lttng']}")
        for tracer in ("kymo", "lttng"):
            if self.records[tracer]:
                each = self.file_bytes[tracer] / self.records[tracer]
                per_mb = stats.median(self.ms[tracer].values()) / each
                row.note += f"; {tracer}: {each:.1f} bytes a record in the files, {per_mb:.2f} ms of CPU a megabyte"
        if not self.ms["kymo"]:
            row.missing = f"kymo is not built ({ctx.kymo_missing})"
        elif not self.ms["lttng"]:
            row.missing = f"LTTng is not there: {lttng.APT}"
        else:
            row.spread = stats.spread(stats.paired(self.ms["kymo"], self.ms["lttng"], lambda x, y: x / y))
            row.ratio = row.spread["median"]
        return [row]
