# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The table of the 2015 paper: npt without tracer, with kymo, with LTTng-UST (its writer and timer modes) and with a uprobe, in rounds of one
run each, interleaved. All are the same probe with another tracer's tracepoints (lab/probe/npt_tracer.h); what a tracer adds is against a run
of the same program without session in the same round.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field

from kymobench import kymo, lttng

from . import intervals, rows
from .rows import Row, between, ns
from .throttling import lifted

RECORD_BYTES = 48       # no smaller than a record of npt:loop of either tracer
RING_BYTES_MIN = 32 << 20
SUBBUFFER_BYTES = 4 << 20
# A run that lost records, or does not know whether it did, is made again: a reader that other programs kept from its CPU loses for a
# reason that is not its own. What the last attempt lost stays, and is shown.
ATTEMPTS = 3
MEMORY_RINGS = 16      # of all CPUs, and those of processes without one
ROUNDS_MIN = 8          # where the time is over before all
# Layouts of kymo's records, and how rows call them.
LAYOUTS = (("kymo", ""), ("compact", ", --compact"))
NS_PER_LOOP = {"none": 15, "kymo": 45, "lttng": 280, "uprobe": 18000}


@dataclass
class Variant:
    """A program with a tracer, or without one, and what its rounds gave."""

    key: str
    title: str
    probe: str
    base: str = ""      # the variant of the same program without tracer
    setting: str = ""   # of LTTng
    share: float = 1.0  # of the loops: a uprobe is slow
    runs: dict = field(default_factory=dict)    # round: series
    lost: dict = field(default_factory=dict)    # round: records that the tracer lost; None: it does not know
    unknown: dict = field(default_factory=dict)  # round: why it does not, a sentence each
    records: dict = field(default_factory=dict)

    def column(self, name):
        return {number: series[name] for number, series in self.runs.items()}

    def pooled(self):
        histogram = {}
        for series in self.runs.values():
            for index, count in series["histogram"]:
                histogram[index] = histogram.get(index, 0) + count
        return histogram

    def smallest(self):
        """The smallest gap, in ns; with a tracer without each run's smallest, since the first gap of a run has no tracepoint in it."""
        left_out = 1 if self.base else 0
        found = []
        for series in self.runs.values():
            (index, count), *others = sorted(map(tuple, series["histogram"]))
            found.append(intervals.value_of(index if count > left_out or not others else others[0][0]))
        return min(found)

    def pooled_std(self):
        """Standard deviation of all samples, from the rounds' counts, means and deviations."""
        total = sum(series["count"] for series in self.runs.values())
        mean = sum(series["count"] * series["mean"] for series in self.runs.values()) / total
        squares = sum(series["count"] * (series["std"]**2 + (series["mean"] - mean)**2) for series in self.runs.values())
        return (squares / total)**0.5


def ring_bytes(loops):
    """A ring that holds a whole run: the loop writes faster than any reader of a traced program copies."""
    return max(RING_BYTES_MIN, 1 << (loops * RECORD_BYTES - 1).bit_length())


def set_lttng(loops):
    """
    The two designs of the paper, with as much memory as kymo's: the record that fills a sub-buffer wakes the consumer by a write(2) to a
    pipe, or the consumer looks every 200 us (the paper: 20 to 200).
    """
    size = [f"--subbuf-size={SUBBUFFER_BYTES}", f"--num-subbuf={ring_bytes(loops) // SUBBUFFER_BYTES}"]
    lttng.SETTINGS["npt writer"] = (False, [*size, "--read-timer=0"], False)
    lttng.SETTINGS["npt timer"] = (False, [*size, "--read-timer=200"], False)


def variants(ctx):
    # Twice without a tracer: by how much two runs differ in which nothing differs.
    every = [Variant("none", "no tracer", "kymo-probe"), Variant("again", "no tracer, again", "kymo-probe"),
             Variant("kymo", "kymo", "kymo-probe", "none"), Variant("compact", "kymo --compact", "kymo-probe", "none")]
    if ctx.daemon:
        every += [Variant("lttng-none", "no tracer, LTTng's program", "kymo-probe-lttng"),
                  Variant("writer", "LTTng-UST writer", "kymo-probe-lttng", "lttng-none", "npt writer"),
                  Variant("timer", "LTTng-UST timer", "kymo-probe-lttng", "lttng-none", "npt timer")]
    every += [Variant("function-none", "no tracer, a function", "kymo-probe-function", share=0.01),
              Variant("uprobe", "uprobe (kymo -U)", "kymo-probe-function", "function-none", share=0.01)]
    return every


class Npt:
    """Ratios of what kymo and LTTng add, and the paper's table of all."""

    name = "npt"
    about = "the table of the 2015 paper: npt under kymo, LTTng-UST and a uprobe"
    is_counted = False

    def __init__(self, ctx):
        set_lttng(ctx.loops)
        self.every = variants(ctx)
        self.failed = {}
        self.rounds = 0
        self.throttling = None

    def seconds(self, ctx):
        cost = {"none": "none", "again": "none", "lttng-none": "none", "function-none": "none", "kymo": "kymo", "compact": "kymo", "writer": "lttng", "timer": "lttng",
                "uprobe": "uprobe"}
        # Each run also starts a session and writes out what it recorded.
        return ctx.rounds * sum(2 + 2 * one.share * ctx.loops * NS_PER_LOOP[cost[one.key]] / 1e9 for one in self.every)

    def run(self, ctx, progress):
        for number in range(ctx.rounds):
            if number >= ROUNDS_MIN and ctx.is_late():
                break
            self.rounds = number + 1
            # The order turns, so that none is always the one after another.
            turn = number % len(self.every)
            for one in self.every[turn:] + self.every[:turn]:
                if one.key in self.failed:
                    continue
                progress.say(f"npt, round {number + 1} of {ctx.rounds}: {one.title}")
                try:
                    for _ in range(ATTEMPTS):
                        self._one(ctx, one, number)
                        if one.lost.get(number, 0) == 0:
                            break
                except (kymo.KymoError, lttng.LttngError) as error:
                    self.failed[one.key] = str(error).strip().splitlines()[-1]

    def _one(self, ctx, one, number):
        loops = max(1000, int(ctx.loops * one.share))
        with self._recording(ctx, one) as (session, env), lifted(ctx) as self.throttling:
            record = ctx.npt(f"npt-{number:02}-{one.key}", loops, env, one.probe)
        one.runs[number] = record["series"][0]
        if session is None:
            return
        one.lost[number] = session.discarded if one.setting else session.lost
        one.unknown[number] = getattr(session, "unknown", [])
        one.records[number] = getattr(session, "records", None)
        session.remove()

    @contextmanager
    def _recording(self, ctx, one):
        """The tracer of a variant while its program runs: (session or None, environment of the program)."""
        if one.setting:
            with ctx.daemon.session(one.setting, ctx.shm / "lttng", ("npt:*",)) as session:
                yield session, ctx.environment(base=ctx.daemon.program_env(one.setting))
        elif one.base:
            events = () if one.key == "uprobe" else ("npt:*",)
            size = ring_bytes(ctx.loops)
            is_compact = one.key == "compact"
            recording = kymo.Recording(ctx.root, ctx.shm / "runtime", ctx.shm / "trace", ctx.other_cpu, str(size), events, compact=is_compact)
            recording.command += ["--memory", str(MEMORY_RINGS * size)]
            if one.key == "uprobe":
                place = f"{ctx.program(one.probe)}:npt_trace_loop iteration=%di:u64 ticks=%si:u64"
                recording.command += ["-U", place, "--kernel-ring", "32M"]
            with recording as session:
                yield session, recording.program_env(ctx.environment(ctx.shm / "runtime"))
        else:
            yield None, ctx.environment()

    def _by_key(self, key):
        return next((one for one in self.every if one.key == key), None)

    def added(self, key):
        """{round: what a tracer adds to the mean}."""
        one = self._by_key(key)
        base = self._by_key(one.base)
        return {number: one.runs[number]["mean"] - base.runs[number]["mean"] for number in one.runs.keys() & base.runs.keys()}

    def rows(self, ctx):
        out = []
        for key, name in (("timer", "timer"), ("writer", "writer")):
            one = self._by_key(key)
            if one is None or not one.runs:
                why = ctx.lttng_missing or self.failed.get(key, "no round was completed")
                out += [Row(f"npt: kymo's added mean / LTTng's, {name}", bar="<= 0.33", missing=why),
                        Row(f"npt: kymo's max no larger than LTTng's, {name}", bar="each pair", missing=why)]
                continue
            for own, layout in LAYOUTS:
                title = f"{name}{layout}"
                if self._by_key(own).runs:
                    out += [self._mean_row(own, key, title), self._max_row(own, key, title), self._beyond_row(own, key, title)]
                else:
                    why = self.failed.get(own, "no round was completed")
                    out += [Row(f"npt: kymo's max no larger than LTTng's, {title}", bar="each pair", missing=why)]
        out += self._uprobe_rows()
        return out

    def _mean_row(self, own, key, name):
        ours, theirs = self.added(own), self.added(key)
        ratios = [ours[number] / theirs[number] for number in ours.keys() & theirs.keys() if theirs[number] > 0]
        if not ratios:
            return Row(f"npt: kymo's added mean / LTTng's, {name}", bar="<= 0.33", missing="no round has both")
        middle, interval = intervals.median(ratios), intervals.of_median(ratios)
        note = (f"added mean: kymo {ns(intervals.median(ours.values()))}, LTTng {ns(intervals.median(theirs.values()))}; "
                f"{len(ratios)} interleaved rounds; lost records: kymo {self._lost(own)}, LTTng {self._lost(key)}")
        return Row(f"npt: kymo's added mean / LTTng's, {name}", f"{middle:.3f}", between(interval, lambda x: f"{x:.3f}"), "<= 0.33",
                   (interval[1] if interval else middle) <= 1 / 3, notes=[note])

    def _max_row(self, own, key, name):
        ours, theirs = self._by_key(own).column("max"), self._by_key(key).column("max")
        floor = self._by_key("none").column("max")
        both = sorted(ours.keys() & theirs.keys() & floor.keys())
        held = sum(ours[number] <= theirs[number] for number in both)
        ratios = [ours[number] / floor[number] for number in both]
        others = [theirs[number] / floor[number] for number in both]
        note = (f"max over the untraced max of the same round, median: kymo {intervals.median(ratios):.2f} "
                f"({between(intervals.of_median(ratios))}), LTTng {intervals.median(others):.2f} ({between(intervals.of_median(others))})")
        return Row(f"npt: kymo's max no larger than LTTng's, {name}", f"{held} of {len(both)} pairs",
                   between(intervals.of_share(held, len(both))), "each pair", held == len(both), notes=[note])

    def _beyond_row(self, own, key, name):
        """
        Is a larger max the tracer's, or the machine's own? Two untraced runs of a round are the control: kymo's max counts as larger where
        it is so by more than any two of them differ, either way. That happens by chance with 1 in 2 (n + 1) a pair.
        """
        ours, theirs = self._by_key(own).column("max"), self._by_key(key).column("max")
        control = [self._by_key("none").column("max"), self._by_key("again").column("max")]
        pairs = sorted(ours.keys() & theirs.keys())
        same = sorted(control[0].keys() & control[1].keys())
        title = f"npt: max beyond the machine's own, {name}"
        if len(same) < ROUNDS_MIN:
            return Row(title, bar="by chance", missing=f"needs {ROUNDS_MIN} rounds as control, there are {len(same)}")
        spread = max(max(control[0][n], control[1][n]) / min(control[0][n], control[1][n]) for n in same)
        larger = sum(ours[n] > theirs[n] * spread for n in pairs)
        smaller = sum(theirs[n] > ours[n] * spread for n in pairs)
        chance = intervals.at_least(larger, len(pairs), 1 / (2 * (len(same) + 1)))
        ratios = [ours[n] / theirs[n] for n in pairs]
        first = sum(control[0][n] <= control[1][n] for n in same)
        notes = [f"kymo's max / LTTng's of the same round, median {intervals.median(ratios):.2f} ({between(intervals.of_median(ratios))}); "
                 f"LTTng's is larger so much in {smaller} of {len(pairs)}",
                 f"control: of two untraced runs of a round the first has the smaller max in {first} of {len(same)} "
                 f"({between(intervals.of_share(first, len(same)))}), and they differ by up to {spread:.1f}x; so many or more pairs by chance: p {chance:.2f}"]
        return Row(title, f"{larger} of {len(pairs)} pairs", between(intervals.of_share(larger, len(pairs))), "by chance", chance > 0.05,
                   notes=notes)

    def _uprobe_rows(self):
        one = self._by_key("uprobe")
        if not one.runs:
            return [Row("npt: kymo's added mean / a uprobe's", missing=self.failed.get("uprobe", "no round was completed"))]
        ours, theirs = self.added("kymo"), self.added("uprobe")
        ratios = [ours[number] / theirs[number] for number in ours.keys() & theirs.keys() if theirs[number] > 0]
        return [Row("npt: kymo's added mean / a uprobe's", f"{intervals.median(ratios):.4f}",
                    between(intervals.of_median(ratios), lambda x: f"{x:.4f}"))]

    def _lost(self, key):
        lost = self._by_key(key).lost.values()
        unknown = sum(count is None for count in lost)
        counted = f"{sum(count or 0 for count in lost):,}"
        return f"{counted}, unknown in {unknown} of {len(lost)} rounds" if unknown else counted

    def details(self, ctx):
        """The paper's table: one line for each variant, over all its rounds."""
        lines = [["npt, ns", "loops", "min", "mean", "added", "p99.999", "max", "std dev", "lost"]]
        for one in self.every:
            if not one.runs:
                continue
            tail = intervals.quantile(one.pooled(), 0.99999)
            means = list(one.column("mean").values())
            added = self.added(one.key) if one.base else {}
            lines.append([one.title, f"{sum(one.column('count').values()):.1e}", f"{one.smallest()}",
                          self._with_interval(means), self._with_interval(list(added.values())) if added else "",
                          f"{tail[0]:,} ({tail[1]:,} .. {tail[2]:,})" if tail else "too few loops",
                          f"{max(one.column('max').values()):,}", f"{one.pooled_std():.1f}", self._lost(one.key) if one.base else ""])
        after = [f"mean and added: median of {self.rounds} rounds with its interval; meanwhile: {self.throttling}"]
        return rows.columns(lines, right=range(1, 9)) + after

    @staticmethod
    def _with_interval(values):
        interval = intervals.of_median(values)
        middle = f"{intervals.median(values):.1f}"
        return middle if interval is None else f"{middle} ({interval[0]:.1f} .. {interval[1]:.1f})"

    def raw_values(self):
        return {one.key: {"lost": one.lost, "unknown": one.unknown, "records": one.records,
                          "rounds": {number: {name: series[name] for name in ("count", "min", "max", "mean", "std")}
                                     for number, series in one.runs.items()}} for one in self.every}
