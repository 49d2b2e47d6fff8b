# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure 6: single records, one by one, cold and hot, with both collectors running. The floor of the timer (an empty body)
is printed beside them and subtracted from nothing.
"""

import array
from contextlib import ExitStack

from . import lttng, stats
from .report import Row

KINDS = {"kymo_one": "kymo", "lttng_one": "LTTng", "empty": "timer's floor"}
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


class Single:
    """Measure 6."""

    name = "cold"
    about = "distribution of single records, cold and hot (measure 6)"

    def __init__(self):
        self.rounds = {}  # (kind, cold or hot): list of rounds, each a list of ns
        self.said = []

    def run_pass(self, ctx):
        kinds = [kind for kind in KINDS if not (kind == "kymo_one" and ctx.kymo_missing)
                 and not (kind == "lttng_one" and not ctx.daemon)]
        rounds, cold, hot = (3, 1500, 5000) if ctx.quick else (3, 3000, 20000)
        prefix = ctx.shm / "single"
        with ExitStack() as stack:
            session = recording = None
            if "lttng_one" in kinds:
                session = stack.enter_context(ctx.session("single", lttng.STREAMING))
            if "kymo_one" in kinds:
                recording = stack.enter_context(ctx.recording("single"))
            text = ctx.run("single", ["--cpu", ctx.writer_cpu, "--rounds", rounds, "--cold", cold, "--hot", hot, "--out",
                                      prefix] + kinds, recording, session)
        self.said.append(text)
        self._read(ctx, text, prefix, kinds, {"cold": cold, "hot": hot})
        if recording:
            recording.remove()
        if session:
            session.remove()

    def _read(self, ctx, text, prefix, kinds, per_round):
        tsc_hz = next(float(line.split()[1]) for line in text.splitlines() if line.startswith("tsc_hz"))
        for kind in kinds:
            for how, count in per_round.items():
                ticks = array.array("I")
                with open(f"{prefix}.{kind}.{how}", "rb") as file:
                    ticks.frombytes(file.read())
                with open(ctx.raw_path(f"single.{kind}.{how}.u32"), "ab") as file:
                    ticks.tofile(file)
                ns = [tick / tsc_hz * 1e9 for tick in ticks]
                self.rounds.setdefault((kind, how), []).extend(
                    ns[at:at + count] for at in range(0, len(ns), count))

    def quantiles(self):
        """[(title, {p50: ns, ...})] for the table of distributions."""
        out = []
        for how in ("cold", "hot"):
            for kind, title in KINDS.items():
                if (kind, how) in self.rounds:
                    values = sorted(value for one in self.rounds[kind, how] for value in one)
                    out.append((f"{how}, {title} ({len(values):,} samples)",
                                {name: stats.quantile(values, q) for name, q in QUANTILES.items()}))
        return out

    def rows(self, ctx):
        rows = []
        for how, bar in (("cold", 1.0), ("hot", None)):
            for name, q in (("p99.9", 0.999), ("p50", 0.5)):
                row = Row(f"6 single record, {how}, {name}: kymo / LTTng", bar=bar if name == "p99.9" else None)
                a, b = self.rounds.get(("kymo_one", how)), self.rounds.get(("lttng_one", how))
                if b:
                    row.peer = self._ns(b, q)
                if a:
                    row.kymo = self._ns(a, q)
                if a and b:
                    row.spread = stats.tail_ratio(a, b, q)
                    row.ratio = row.spread["median"]
                elif ctx.kymo_missing:
                    row.missing = f"kymo is not built ({ctx.kymo_missing})"
                else:
                    row.missing = f"LTTng is not there: {lttng.APT}"
                rows.append(row)
        cold = self.rounds.get(("kymo_one", "cold"))
        row = Row("6 single record, cold, p50", unit=" ns", bar=320)
        if cold:
            row.kymo = self._ns(cold, 0.5)
            row.spread = stats.spread([stats.quantile(sorted(one), 0.5) for one in cold])
            row.ratio = row.spread["median"]
        else:
            row.missing = f"kymo is not built ({ctx.kymo_missing})"
        rows.append(row)
        rows[0].note = f"both collectors running; LTTng: {lttng.STREAMING}; spread: resampled rounds"
        return rows

    @staticmethod
    def _ns(rounds, q):
        return f"{stats.quantile(sorted(value for one in rounds for value in one), q):,.0f} ns"
