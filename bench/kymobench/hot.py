# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures 1 to 5: hot loops. Bare clock, kymo and LTTng alternate block by block in one process on one core, with both
collectors attached; a block is below a millisecond. A round's value for a kind is the median of its blocks, a ratio is
formed inside each round, and the table shows the median and the spread of these ratios.
"""

from contextlib import ExitStack

from . import lttng, stats
from .report import Row

# Executions a block: short enough to alternate often, and together smaller than kymo's ring.
BLOCK = {"rdtsc": 20000, "vdso": 10000, "empty": 500000, "kymo_one": 20000, "kymo_five": 10000, "kymo_off": 500000,
         "lttng_one": 5000, "lttng_five": 4000, "lttng_off": 500000}


class Blocks:
    """Results of one or more runs of `hot`, kept as (round, kind, ns)."""

    def __init__(self):
        self.good, self.bad, self.unverified = [], 0, 0
        self.recorded = 0
        self.ring_bytes = 0
        self.rounds = 0

    def add(self, text):
        lines = [line.split() for line in text.splitlines()]
        tsc_hz = next(float(line[1]) for line in lines if line[0] == "tsc_hz")
        for line in lines:
            if line[0] == "rings":
                self.ring_bytes = int(line[7])
            if line[0] != "block":
                continue
            number, kind, n, ticks, recorded, lost = int(line[1]), line[3], *map(int, line[4:8])
            self.rounds = max(self.rounds, number + 1)
            if kind.startswith("kymo_") and kind != "kymo_off":
                if recorded < 0:
                    self.unverified += 1
                elif recorded != n or lost:
                    self.bad += 1
                    continue
                else:
                    self.recorded += n
            self.good.append((number, kind, ticks / n / tsc_hz * 1e9))

    def ns(self, kind):
        return stats.per_round(self.good, kind)

    def median_ns(self, kind):
        return stats.median(self.ns(kind).values())

    def ratio(self, a, b):
        return stats.spread(stats.paired(self.ns(a), self.ns(b), lambda x, y: x / y))

    def note(self):
        if self.unverified:
            return "kymo's rings were not found in the program: blocks NOT verified"
        text = f"{self.recorded:,} kymo records, each found in its ring"
        return text + f"; {self.bad} blocks with a loss left out" if self.bad else text


def run_hot(ctx, blocks, name, kinds, rounds, cycles, setting, portable=False):
    """One process with everything attached; appends its blocks. Returns the finished LTTng session, or None."""
    arguments = ["--cpu", ctx.writer_cpu, "--rounds", rounds, "--cycles", cycles, "--from", blocks.rounds]
    arguments += [f"{kind}:{BLOCK[kind]}" for kind in kinds]
    with ExitStack() as stack:
        session = recording = None
        if any(kind.startswith("lttng_") for kind in kinds):
            session = stack.enter_context(ctx.session("hot", setting, ("kb:one", "kb:five")))
        if any(kind.startswith("kymo_") for kind in kinds):
            recording = stack.enter_context(ctx.recording("hot", portable=portable))
        text = ctx.run("hot", arguments, recording, session)
    with open(ctx.raw_path(f"{name}.txt"), "a", encoding="utf-8") as raw:
        raw.write(text)
    blocks.add(text)
    if recording:
        recording.remove()
    if session:
        check_session(session)
        session.remove()
    return session


def check_session(session):
    """The peer must have recorded too: a discarded record is cheap, and would flatter LTTng."""
    if session.discarded or not session.bytes:
        raise lttng.LttngError(f"{session.setting}: {session.discarded} records discarded, {session.bytes} bytes "
                               "written: these blocks are not valid")


def choose_setting(ctx):
    """Tries the settings in turn, several times round; returns {setting: median ns of its rounds}, best first."""
    found = {}
    for turn in range(1 if ctx.quick else 3):
        for setting in lttng.HOT_CANDIDATES + [lttng.HOT_INFORMATION]:
            blocks = found.setdefault(setting, Blocks())
            try:
                run_hot(ctx, blocks, "settings", ["rdtsc", "lttng_one"], 3, 5 if ctx.quick else 9, setting)
            except lttng.LttngError as error:
                print(f"  round {turn}: {error}", flush=True)
    medians = {name: blocks.median_ns("lttng_one") for name, blocks in found.items() if blocks.good}
    return dict(sorted(medians.items(), key=lambda item: item[1]))


class Hot:
    """Measures 1, 2, 3 and 5."""

    name = "hot"
    about = "records and disabled tracepoints in hot loops (measures 1, 2, 3, 5)"

    def __init__(self):
        self.blocks = Blocks()

    def run_pass(self, ctx):
        kinds = ["rdtsc", "vdso", "empty"]
        if not ctx.kymo_missing:
            kinds += ["kymo_one", "kymo_five", "kymo_off"]
        if ctx.daemon:
            kinds += ["lttng_one", "lttng_five", "lttng_off"]
        run_hot(ctx, self.blocks, "hot", kinds, 3 if ctx.quick else 5, 9 if ctx.quick else 25, ctx.hot_setting)

    def clock(self):
        return {"rdtsc": self.blocks.median_ns("rdtsc"), "vDSO CLOCK_MONOTONIC": self.blocks.median_ns("vdso")}

    def rows(self, ctx):
        b = self.blocks
        ns = {kind: f"{b.median_ns(kind):.2f} ns" for kind in BLOCK}
        peer = f"LTTng: {ctx.hot_setting}" if ctx.daemon else ""
        rows = [
            Row("1 one u64, hot / bare rdtsc", ns["kymo_one"], ns["rdtsc"], bar=1.15,
                note=f"{b.note()}; ring {b.ring_bytes >> 20} MiB"),
            Row("2 one field, hot: LTTng / kymo", ns["kymo_one"], ns["lttng_one"], bar=6, better="more", note=peer),
            Row("3 four fields + 12-byte string / bare rdtsc", ns["kymo_five"], ns["rdtsc"], bar=1.8,
                note=f"LTTng, the same fields: {ns['lttng_five']}" if ctx.daemon else ""),
            Row("5 disabled, beyond an empty loop", unit=" ns", bar=1),
            Row("5 disabled: kymo less LTTng", unit=" ns", bar=0.05,
                note="bar: not more than LTTng; 0.05 ns is this loop's resolution"),
        ]
        if ctx.kymo_missing:
            for row in rows:
                row.kymo, row.missing = "-", f"kymo is not built ({ctx.kymo_missing})"
        if not ctx.daemon:
            for row in (rows[1], rows[4]):
                row.missing = row.missing or f"LTTng is not there: {lttng.APT}"
        self._fill(rows, ctx)
        return rows

    def _fill(self, rows, ctx):
        b = self.blocks
        off = {}
        for tracer in ("kymo", "lttng"):
            extra = stats.paired(b.ns(f"{tracer}_off"), b.ns("empty"), lambda x, y: x - y)
            off[tracer] = stats.spread(extra)
        rows[3].peer = rows[4].peer = f"{round(off['lttng']['median'], 2) + 0.0:.2f} ns" if ctx.daemon else "-"
        if ctx.kymo_missing:
            return
        rows[3].kymo = rows[4].kymo = f"{round(off['kymo']['median'], 2) + 0.0:.2f} ns"
        sets = [b.ratio("kymo_one", "rdtsc"), b.ratio("lttng_one", "kymo_one"), b.ratio("kymo_five", "rdtsc"),
                off["kymo"], stats.spread(stats.paired(b.ns("kymo_off"), b.ns("lttng_off"), lambda x, y: x - y))]
        for row, values in zip(rows, sets):
            row.spread, row.ratio = values, values["median"]


class Portable:
    """Measure 4: the portable ring (KYMO_RING=portable) against LTTng."""

    name = "portable"
    about = "portable ring, one u64, hot (measure 4)"

    def __init__(self):
        self.blocks = Blocks()

    def run_pass(self, ctx):
        if ctx.kymo_missing:
            return
        kinds = ["rdtsc", "kymo_one"] + (["lttng_one"] if ctx.daemon else [])
        run_hot(ctx, self.blocks, "portable", kinds, 3 if ctx.quick else 5, 9 if ctx.quick else 25, ctx.hot_setting,
                portable=True)

    def rows(self, ctx):
        row = Row("4 portable ring, one field, hot: LTTng / kymo", bar=4, better="more")
        if ctx.kymo_missing:
            row.missing = f"kymo is not built ({ctx.kymo_missing})"
            return [row]
        b = self.blocks
        row.kymo = f"{b.median_ns('kymo_one'):.2f} ns"
        row.note = f"{b.median_ns('kymo_one') / b.median_ns('rdtsc'):.2f}x of a bare rdtsc; {b.note()}"
        if not ctx.daemon:
            row.missing = f"LTTng is not there: {lttng.APT}"
            return [row]
        row.peer = f"{b.median_ns('lttng_one'):.2f} ns"
        row.spread = b.ratio("lttng_one", "kymo_one")
        row.ratio = row.spread["median"]
        return [row]
