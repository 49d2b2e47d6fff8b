# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure 9: CPU time of the collectors (user and system) for a million records of one 32-bit integer, and their bytes on disk, at
one rate that all sustain, in turns. kymo: the whole `kymo record` process, start and end included, plain and with --compact.
LTTng: lttng-sessiond and its consumer from before the session is made until after it is destroyed. Everything else that these
processes do is counted against them.
"""

from . import kymo, lttng, stats
from .rate import _parse
from .report import Row

RATE = 4_000_000
HOW = ("kymo", "compact", "lttng")


class Cpu:
    """Measure 9."""

    name = "cpu"
    about = "collector CPU and bytes per million records, plain, compact, LTTng (measure 9)"

    def __init__(self):
        self.ms = {how: {} for how in HOW}  # how: {round: ms per million records}
        self.rounds, self.left_out = 0, dict.fromkeys(HOW, 0)
        self.file_bytes, self.records = dict.fromkeys(HOW, 0), dict.fromkeys(HOW, 0)
        self.rate = RATE

    def run_pass(self, ctx):
        if ctx.sustained:
            self.rate = min([RATE] + [0.5 * rate for rate in ctx.sustained.values() if rate])
        seconds = 0.5 if ctx.quick else 2
        for _ in range(3):
            for how in HOW:
                if (how != "lttng" and ctx.kymo_missing) or (how == "lttng" and not ctx.daemon):
                    continue
                kind = "lttng_one" if how == "lttng" else "kymo_int"
                arguments = ["--cpu", ctx.writer_cpu, kind, int(self.rate), seconds]
                if not self._one(ctx, how, arguments):  # a collector that loses does less work: once more
                    self._one(ctx, how, arguments)
            self.rounds += 1

    def _one(self, ctx, how, arguments):
        """One round of one tracer; it counts, and the result is true, when nothing was lost."""
        if how == "lttng":
            before = ctx.daemon.cpu_seconds()
            with ctx.session("cpu", lttng.THRIFTY) as session:
                text = ctx.run("paced", arguments, session=session)
            used, lost = ctx.daemon.cpu_seconds() - before, session.discarded
        else:
            with ctx.recording("cpu", compact=how == "compact") as session:
                text = ctx.run("paced", arguments, recording=session)
            used, lost = session.cpu_s, kymo.lost_at_least(session.summary)
        produced = _parse(text)["produced"]
        written = session.file_bytes()
        session.remove()
        if not lost:
            self.file_bytes[how] += written
            self.records[how] += produced
            self.ms[how][self.rounds] = used * 1e9 / max(1, produced)
        self.left_out[how] += lost > 0
        with open(ctx.raw_path("cpu.txt"), "a", encoding="utf-8") as raw:
            raw.write(f"{how} round {self.rounds} cpu_s {used:.6f} lost {lost} bytes {written} {text}")
        return not lost

    def _text(self, how):
        return f"{stats.median(self.ms[how].values()):.2f} ms" if self.ms[how] else "-"

    def _each(self, how):
        return self.file_bytes[how] / self.records[how] if self.records[how] else None

    def rows(self, ctx):
        own = Row("9 collector CPU per million records", self._text("kymo"), unit=" ms", bar=8)
        ratio = Row("9 collector CPU: kymo / LTTng", self._text("kymo"), self._text("lttng"))
        compact = Row("9 collector CPU: kymo --compact / LTTng", self._text("compact"), self._text("lttng"), bar=1)
        sizes = Row("9 bytes of a record of one int: --compact less LTTng", unit=" B", bar=0)
        left_out = ", ".join(f"{how} {self.left_out[how]}" for how in HOW)
        own.note = f"at {self.rate / 1e6:.1f} M records/s; LTTng: {lttng.THRIFTY}; rounds with a loss, left out: {left_out}"
        each = {how: self._each(how) for how in HOW}
        sizes.note = "bytes a record in the files: " + ", ".join(f"{how} {each[how]:.2f}" for how in HOW if each[how])
        for row in (own, ratio, compact, sizes):
            if ctx.kymo_missing:
                row.missing = f"kymo is not built ({ctx.kymo_missing})"
            elif row is not own and not ctx.daemon:
                row.missing = f"LTTng is not there: {lttng.APT}"
        if self.ms["kymo"] and not own.missing:
            own.spread = stats.spread(self.ms["kymo"].values())
            own.ratio = own.spread["median"]
        for row, how in ((ratio, "kymo"), (compact, "compact")):
            if self.ms[how] and self.ms["lttng"]:
                row.spread = stats.spread(stats.paired(self.ms[how], self.ms["lttng"], lambda x, y: x / y))
                row.ratio = row.spread["median"]
        if each["compact"] and each["lttng"]:
            sizes.kymo, sizes.peer = f"{each['compact']:.2f} B", f"{each['lttng']:.2f} B"
            sizes.ratio = each["compact"] - each["lttng"]
        return [own, ratio, compact, sizes]
