# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows, their bars and verdicts; the table and the JSON."""

import json
import math
from dataclasses import asdict, dataclass, field


@dataclass
class Row:
    """One line of the table. ratio and bar are numbers in the same unit; better says which side of the bar is good."""

    measure: str
    kymo: str = "-"
    peer: str = "-"
    ratio: float = math.nan
    unit: str = "x"
    spread: dict = field(default_factory=dict)
    bar: float | None = None
    better: str = "less"
    missing: str = ""      # why there is no number
    note: str = ""

    @property
    def verdict(self):
        if self.missing:
            return "SKIP"
        if self.bar is None or math.isnan(self.ratio):
            return ""
        ok = self.ratio <= self.bar if self.better == "less" else self.ratio >= self.bar
        return "PASS" if ok else "MISS"

    def cells(self):
        if self.missing:
            return [self.measure, self.kymo, self.peer, "-", "-", self._bar(), self.verdict]
        return [self.measure, self.kymo, self.peer, self._value(self.ratio), self._spread(), self._bar(), self.verdict]

    def _value(self, value):
        if value is None or math.isnan(value):
            return "-"
        value = round(value, 2) + 0.0  # no "-0.00"
        digits = 0 if abs(value) >= 1000 else 2 if abs(value) < 100 else 1
        return f"{value:,.{digits}f}{self.unit}"

    def _spread(self):
        if not self.spread or self.spread.get("rounds", 0) < 2:
            return "-"
        low, high = self._value(self.spread["p10"]), self._value(self.spread["p90"])
        return f"{low} .. {high} (min {self._value(self.spread['min'])}, n={self.spread['rounds']})"

    def _bar(self):
        if self.bar is None:
            return "-"
        return f"{'<=' if self.better == 'less' else '>='} {self._value(self.bar)}"


HEAD = ["measure", "kymo", "peer", "median", "p10 .. p90 of rounds", "bar", "verdict"]


def table(rows):
    lines = [HEAD] + [row.cells() for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    out = []
    for number, line in enumerate(lines):
        out.append("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
        if number == 0:
            out.append("  ".join("-" * width for width in widths))
        elif rows[number - 1].missing:
            out.append(f"    skipped: {rows[number - 1].missing}")
        elif rows[number - 1].note:
            out.append(f"    {rows[number - 1].note}")
    return "\n".join(out)


def distributions(sets):
    """Table of quantiles: [(name, {p50:..}, unit)]."""
    names = list(sets[0][1]) if sets else []
    lines = [["ns of single records"] + names]
    lines += [[title] + [f"{values[name]:,.0f}" for name in names] for title, values in sets]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(line, widths))) for line in lines)


def caveats(machine, window, clock, ctx):
    """Sentences that qualify the table."""
    out = []
    kind = "a virtual machine" if machine["virtual_machine"] else "bare metal"
    out.append(f"{machine['cpu']}, {machine['cpus']} CPUs, {kind}, Linux {machine['kernel']}, "
               f"clock source {machine['clocksource']}, governor {machine['governor']}, "
               f"isolated CPUs {machine['isolated_cpus']}.")
    out.append(f"Writer on CPU {ctx.writer_cpu}, collectors on CPU {ctx.collector_cpu}, all at nice {ctx.nice}.")
    if clock:
        out.append("Clock read, hot: " + ", ".join(f"{name} {value:.1f} ns" for name, value in clock.items()) + ".")
    out.append(f"During the {window['seconds']:.0f} s of the run: steal {window['steal_percent']} %, "
               f"CPU used by others {window['others_percent']} %, load average at the end {window['load_average']:.1f}.")
    if machine["virtual_machine"]:
        out.append("In a virtual machine maxima and p99.9 contain what the hypervisor took; ratios of interleaved "
                   "rounds are what to read.")
    if window["steal_percent"] > 2 or window["others_percent"] > 20:
        out.append("The machine was NOT quiet: repeat before believing a MISS or a narrow PASS.")
    return out


def write_json(path, document):
    def plain(value):
        if isinstance(value, Row):
            return dict(asdict(value), verdict=value.verdict)
        raise TypeError(type(value))

    def clean(value):
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, dict):
            return {str(key): clean(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [clean(inner) for inner in value]
        if isinstance(value, Row):
            return clean(plain(value))
        return value

    with open(path, "w", encoding="utf-8") as file:
        json.dump(clean(document), file, indent=1)
        file.write("\n")
