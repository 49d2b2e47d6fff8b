# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What is measured in virtual machines, with Debian's stock and PREEMPT_RT kernels, in counted time (lab/README.md): each instruction takes 2 ns of
the guest's time, so runs repeat on a busy machine. Emulation has no firmware, no frequency, no caches and one CPU here: such causes are not
looked for.
"""

import json
import sys

from . import intervals
from .context import MeasureError
from .rows import Row, between, ns

KERNELS = ("stock", "rt")
HOLD_US = 300       # of the load beside wakeup, under a spinlock
FAULT_US = 500
WORDS = {"irqs": f"interrupts off for {FAULT_US} us", "preempt": f"preemption off for {FAULT_US} us", "hardirq": f"hard interrupt of {FAULT_US} us",
         "frequency": f"frequency change of {FAULT_US} us"}
SLACK_NS = 100_000  # of a sample's time in the trace against the kernel's clock
REPEAT_BAR = 0.10   # largest distance of two boots' means, of the mean
ROUNDS_MAX = 10     # of npt under tracers: they repeat
RUNS_MIN = 5        # a side, below which `kymo compare` says nothing


def _record(path):
    return json.loads(path.read_text(encoding="utf-8"))


def _series(path):
    return _record(path)["series"][0]


class Wakeup:
    """Boots of both kernels in turns, each with one run of `kymo wakeup` beside a load that holds a spinlock."""

    name = "vm-wakeup"
    about = "stock and RT kernels in counted time: runs repeat, and stock is told from RT"
    is_counted = True

    def __init__(self, _ctx):
        self.runs = {kernel: [] for kernel in KERNELS}
        self.comparisons = {}

    def seconds(self, ctx):
        return 2 * ctx.boots * 15

    def run(self, ctx, progress):
        for number in range(ctx.boots):
            if number >= RUNS_MIN and ctx.is_late():
                break
            for kernel in KERNELS if number % 2 == 0 else KERNELS[::-1]:
                progress.say(f"boot {number + 1} of {ctx.boots}: wakeup on {kernel}")
                out = ctx.guest(kernel, f"vm-{kernel}-{number:02}", "wakeup", 300, HOLD_US)
                self.runs[kernel].append(out / "wakeup.json")
        self.comparisons["stock and rt"] = self._compare(ctx, self.runs["stock"], self.runs["rt"])
        if len(self.runs["stock"]) >= 2 * RUNS_MIN:
            for kernel in KERNELS:
                self.comparisons[kernel] = self._compare(ctx, self.runs[kernel][0::2], self.runs[kernel][1::2])

    @staticmethod
    def _compare(ctx, ours, theirs):
        done = ctx.run_kymo(["compare", "--json", *ours, "--", *theirs], check=False)
        if done.returncode not in (0, 1, 3):
            raise MeasureError(f"kymo compare: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def rows(self, _ctx):
        return [self._repeats(kernel) for kernel in KERNELS] + [self._told()]

    def _repeats(self, kernel):
        every = [_series(path) for path in self.runs[kernel]]
        means = [series["mean"] for series in every]
        distance = (max(means) - min(means)) / intervals.median(means)
        again = self.comparisons.get(kernel, {}).get("outcome", "").replace("_", " ")
        notes = [f"means {ns(min(means))} to {ns(max(means))}, maxima {ns(min(s['max'] for s in every))} to {ns(max(s['max'] for s in every))}"]
        if again:
            notes.append(f"every other boot against the rest, as kymo compare has it: {again}")
        return Row(f"VM, {kernel}: wakeup's mean over {len(every)} boots", f"{distance:.2%} apart", "-", f"<= {REPEAT_BAR:.0%}",
                   distance <= REPEAT_BAR and again in ("", "no difference"), notes=notes)

    def _told(self):
        maxima = {kernel: [_series(path)["max"] for path in self.runs[kernel]] for kernel in KERNELS}
        metrics = {one["metric"]: one["outcome"] for one in self.comparisons["stock and rt"]["series"][0]["metrics"]}
        told = {word: [name for name, outcome in metrics.items() if outcome == word] for word in ("better", "worse")}
        notes = [f"a load holds a spinlock for {HOLD_US} us again and again; max, median of the boots: stock {ns(intervals.median(maxima['stock']))}, "
                 f"RT {ns(intervals.median(maxima['rt']))}"]
        notes += [f"RT is {word} in: {', '.join(names)}" for word, names in told.items() if names]
        ratios = [stock / rt for stock, rt in zip(maxima["stock"], maxima["rt"])]
        return Row("VM: RT told from stock by kymo compare, max", f"{metrics['max'].replace('_', ' ')}; {intervals.median(ratios):.1f}x",
                   between(intervals.of_median(ratios)), "better", metrics["max"] == "better", notes=notes)

    def details(self, _ctx):
        return []

    def raw_values(self):
        return {"runs": {kernel: [str(path) for path in paths] for kernel, paths in self.runs.items()}, "comparisons": self.comparisons}


class Module:
    """npt's loop inside of the kernel: interrupts on, preemption off, interrupts off; and throttling in these kernels."""

    name = "vm-npt"
    about = "npt with interrupts off, by a module, and default throttling, in both kernels"
    is_counted = True
    modes = ("on", "preempt", "irqs")

    def __init__(self, _ctx):
        self.series = {}
        self.throttling = {}

    def seconds(self, ctx):
        return 2 * (30 + ctx.trials)

    def run(self, ctx, progress):
        for kernel in KERNELS:
            progress.say(f"npt inside of the kernel, {kernel}")
            out = ctx.guest(kernel, f"vm-npt-{kernel}", "npt", 200_000)
            for mode in self.modes:
                record = json.loads(ctx.run_kymo(["import", out / f"npt-{mode}.txt"]).stdout)
                self.series[kernel, mode] = record["series"][0]
            out = ctx.guest(kernel, f"vm-throttling-{kernel}", "throttling", ctx.trials)
            found = sum("sched_rt_runtime_us" in path.read_text(encoding="utf-8") for path in out.glob("throttling-*.txt"))
            self.throttling[kernel] = (found, ctx.trials)

    def rows(self, _ctx):
        out = []
        for kernel in KERNELS:
            maxima = {mode: self.series[kernel, mode]["max"] for mode in self.modes}
            note = f"longest gap: preemption off {ns(maxima['preempt'])}, interrupts on {ns(maxima['on'])}"
            out.append(Row(f"VM, {kernel}: longest gap, interrupts off", ns(maxima["irqs"]), "-", "a tenth of on",
                           maxima["irqs"] * 10 <= maxima["on"], notes=[note]))
            found, trials = self.throttling[kernel]
            out.append(Row(f"VM, {kernel}: default throttling found", f"{found} of {trials}", between(intervals.of_share(found, trials)),
                           "every time", found == trials))
        return out

    def details(self, _ctx):
        return []

    def raw_values(self):
        return {f"{kernel} {mode}": {name: series[name] for name in ("count", "min", "max", "mean", "std")}
                for (kernel, mode), series in self.series.items()}


class Tracers:
    """npt under tracers, as on the machine itself; here nothing but the tracers differs between two runs, so that a pair of maxima says something."""

    name = "vm-tracers"
    about = "the table of the 2015 paper in counted time, in both kernels"
    is_counted = True
    loops = 100_000
    shown = ("npt: kymo's added mean / LTTng's", "npt: kymo's max no larger", "npt: kymo's added mean / a uprobe's")

    def __init__(self, _ctx):
        self.results, self.tables = {}, {}

    @staticmethod
    def rounds(ctx):
        return min(ctx.rounds, ROUNDS_MAX)

    def seconds(self, ctx):
        return 2 * (20 + 20 * self.rounds(ctx))

    def run(self, ctx, progress):
        for kernel in KERNELS:
            progress.say(f"npt under tracers on {kernel}")
            out = ctx.guest(kernel, f"vm-tracers-{kernel}", "tracers", self.rounds(ctx), self.loops, timeout=300 + 120 * self.rounds(ctx))
            self.results[kernel] = _record(out / "lab/table.json")
            lines = (out / "table.txt").read_text(encoding="utf-8").splitlines()
            begin = next(at for at, line in enumerate(lines) if line.startswith("npt, ns"))
            self.tables[kernel] = lines[begin:lines.index("", begin)]

    def rows(self, _ctx):
        out = []
        for kernel, found in self.results.items():
            for one in found["rows"]:
                if one["measure"].startswith(self.shown):
                    fields = {name: value for name, value in one.items() if name != "verdict"}
                    out.append(Row(**dict(fields, measure=f"VM, {kernel}: {one['measure']}")))
        return out

    def details(self, _ctx):
        return [line for kernel, lines in self.tables.items() for line in (f"VM, {kernel}, counted time, an instruction is 2 ns:", *lines)]

    def raw_values(self):
        return {kernel: found["values"] for kernel, found in self.results.items()}


class Hwlat:
    """Delays in hard interrupts, which are to user space what firmware is: kymo hwlat finds each, and nothing where there is none."""

    name = "vm-hwlat"
    about = "kymo hwlat finds gaps of 500 us that no thread made"
    is_counted = True

    def __init__(self, _ctx):
        self.found = {}

    def seconds(self, ctx):
        return 2 * (20 + 2 * ctx.trials)

    def run(self, ctx, progress):
        for kernel in KERNELS:
            progress.say(f"hwlat on {kernel}")
            out = ctx.guest(kernel, f"vm-hwlat-{kernel}", "hwlat", ctx.trials, FAULT_US, timeout=300 + 30 * ctx.trials)
            record = _record(out / "hwlat.json")
            ordered = [int(line.split()[0]) for line in (out / "delays").read_text(encoding="utf-8").splitlines()]
            trials = sum(0 < at - record["started_ns"] < record["duration_s"] * 1e9 for at in ordered)
            gaps = [one["value_ns"] for one in record["series"][0]["worst"]]
            self.found[kernel] = {"found": sum(abs(gap - FAULT_US * 1000) < 50_000 for gap in gaps), "count": record["series"][0]["count"],
                                  "without": _series(out / "hwlat-none.json")["count"], "trials": trials, "gaps": gaps}

    def rows(self, _ctx):
        out = []
        for kernel, one in self.found.items():
            note = (f"gaps above 100 us: {one['count']} with the delays, {one['without']} in as long without; emulation has no firmware: its "
                    "interrupts are not shown here")
            out.append(Row(f"VM, {kernel}: {FAULT_US} us gaps found by kymo hwlat", f"{one['found']} of {one['trials']}",
                           between(intervals.of_share(one["found"], one["trials"])), ">= 19 of 20",
                           one["found"] * 20 >= one["trials"] * 19 > 0 == one["without"], notes=[note]))
        return out

    def details(self, _ctx):
        return []

    def raw_values(self):
        return self.found


class Faults:
    """
    Interrupts or preemption off, a hard interrupt, or a change of frequency, for 500 us under `kymo wakeup --explain`: is the delay found, and its
    cause the right one, in JSON and in text.
    """

    name = "vm-faults"
    about = "injected IRQs off, preemption off, hard interrupts and frequency changes are found in the VM, with the right cause"
    is_counted = True
    # What `--explain` calls them [spec/analyze.md 6].
    causes = {"irqs": ("irqs_off",), "preempt": ("preemption_off",), "hardirq": ("irq",), "frequency": ("frequency",)}

    def __init__(self, _ctx):
        self.results = {}

    def seconds(self, ctx):
        return 2 * len(self.causes) * (30 + 2 * ctx.trials)

    def run(self, ctx, progress):
        if "--explain" not in ctx.run_kymo(["wakeup", "--help"]).stdout:
            raise MeasureError("this kymo has no wakeup --explain")
        for kernel in KERNELS:
            for kind in self.causes:
                progress.say(f"{kind} on {kernel}")
                out = ctx.guest(kernel, f"vm-faults-{kernel}-{kind}", "faults", kind, ctx.trials, FAULT_US, timeout=300 + 60 * ctx.trials)
                samples = [sample for path in sorted(out.glob("faults-*.json")) for sample in self._samples(path)]
                delays = [list(map(int, line.split()[:2])) for line in (out / "delays").read_text(encoding="utf-8").splitlines()]
                self.results[kernel, kind] = [self._named(delay, samples) for delay in delays]

    @staticmethod
    def _samples(path):
        """The explained samples of a run, each with whether the text names its cause, too."""
        text = path.with_suffix(".txt").read_text(encoding="utf-8")
        found = [sample for sample in _series(path)["worst"] if sample.get("budget")]
        return [dict(sample, is_in_text=sample["budget"]["signature"] in text) for sample in found]

    @staticmethod
    def _named(delay, samples):
        """The main cause of the longest explained sample that this delay, [from, to] in ns since 1970, lies in; where there is none, why."""
        def hit(sample):
            at = sample["budget"].get("at_ns")
            return at is not None and at - sample["value_ns"] - SLACK_NS <= delay[1] and at + SLACK_NS >= delay[0]

        found = [sample for sample in samples if hit(sample)]
        if not found:
            return "not among the worst samples"
        longest = max(found, key=lambda sample: sample["value_ns"])
        parts = longest["budget"]["parts"]
        if not longest["is_in_text"]:
            return "not in the text"
        return max(parts, key=lambda part: part["ns"])["cause"] if parts else "no parts"

    def rows(self, ctx):
        out = []
        for (kernel, kind), named in self.results.items():
            right = sum(cause in self.causes[kind] for cause in named)
            others = {cause: named.count(cause) for cause in sorted(set(named)) if cause not in self.causes[kind]}
            note = "otherwise: " + ", ".join(f"{cause} ({count})" for cause, count in others.items())
            out.append(Row(f"VM, {kernel}: {WORDS[kind]}, named", f"{right} of {len(named)}",
                           between(intervals.of_share(right, len(named))), ">= 19 of 20", right * 20 >= len(named) * 19 > 0,
                           notes=[note] if others else []))
        return out

    def details(self, _ctx):
        return []

    def raw_values(self):
        return {f"{kernel} {kind}": named for (kernel, kind), named in self.results.items()}


class Causes:
    """Delays that need a guest, in programs that `kymo record` records there: `explain`, `critical` and `latency` name them, as text and JSON."""

    name = "vm-causes"
    about = "15 ms of interrupts off, preemption off and hard interrupts, late timers, softirqs, throttling and cpu.max in the VM are named in recordings"
    is_counted = True

    def __init__(self, _ctx):
        self.results, self.missing = {}, {}

    def seconds(self, ctx):
        return 2 * (60 + 20 * ctx.trials)

    def run(self, ctx, progress):
        told = _told(ctx)
        kinds = {kind.name: kind for kind in told.KINDS}
        victim = told.build(ctx.shm)
        shared = ctx.raw / victim.name
        shared.write_bytes(victim.read_bytes())
        shared.chmod(0o755)
        for kernel in KERNELS:
            progress.say(f"causes on {kernel}")
            out = ctx.guest(kernel, f"vm-causes-{kernel}", "causes", ctx.trials, shared, timeout=600 + 120 * ctx.trials)
            for name, runs in _record(out / "delays.json").items():
                progress.say(f"causes on {kernel}: {name}")
                self.results[kernel, name] = [found for run in runs for found in self._named(ctx, kinds[name], out, run)]
                missing = [run["missing"] for run in runs if "missing" in run]
                if missing:
                    self.missing[kernel, name] = missing[0]

    @staticmethod
    def _named(ctx, kind, out, run):
        """For each delay of a recording the wanted cause, or what was wrong."""
        windows = run.get("windows", [])
        return [kind.wrong(str(ctx.kymo), out / run["trace"], window, kind.wanted) or kind.wanted.kind for window in windows]

    def rows(self, ctx):
        kinds = {kind.name: kind for kind in _told(ctx).KINDS}
        out = []
        for (kernel, name), named in self.results.items():
            title = f"VM, {kernel}: {name}, recorded, named"
            if not named:
                out.append(Row(title, bar=">= 19 of 20", missing=self.missing.get((kernel, name), "no delay")))
                continue
            expected = kinds[name].wanted.kind
            right = named.count(expected)
            others = {other: named.count(other) for other in sorted(set(named)) if other != expected}
            notes = ["otherwise: " + ", ".join(f"{other} ({count})" for other, count in others.items())] if others else []
            notes += [f"some recordings failed: {self.missing[kernel, name]}"] if (kernel, name) in self.missing else []
            out.append(Row(title, f"{right} of {len(named)}", between(intervals.of_share(right, len(named))), ">= 19 of 20",
                           right * 20 >= len(named) * 19 > 0, notes=notes))
        return out

    def details(self, _ctx):
        return []

    def raw_values(self):
        return {f"{kernel} {name}": named for (kernel, name), named in self.results.items()}


def _told(ctx):
    """The module of lab/labfaults that injects delays and asks about them."""
    folder = str(ctx.root / "lab/labfaults")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    import told  # noqa: E402  pylint: disable=import-outside-toplevel,import-error

    return told
