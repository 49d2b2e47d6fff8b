# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows of the table: measure, figure with its interval, bar, whether it is met; as text and as JSON."""

import json
import math
from dataclasses import asdict, dataclass, field

HEAD = ["measure", "figure", "interval (95 %)", "bar", "verdict"]


@dataclass
class Row:
    """One line. `met` is None where there is no bar; `missing` says why there is no figure; notes stand below the line."""

    measure: str
    figure: str = "-"
    interval: str = "-"
    bar: str = "-"
    met: bool | None = None
    missing: str = ""
    notes: list = field(default_factory=list)

    @property
    def verdict(self):
        if self.missing:
            return "SKIP"
        return {True: "met", False: "MISSED", None: ""}[self.met]

    def cells(self):
        return [self.measure, self.figure, self.interval, self.bar, self.verdict]


def columns(lines, right=()):
    """Lines of cells under each other; the first line is the head."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    out = []
    for number, line in enumerate(lines):
        cells = [cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(line, widths))]
        out.append("  ".join(cells).rstrip())
        if number == 0:
            out.append("  ".join("-" * width for width in widths))
    return out


def table(rows):
    lines = columns([HEAD] + [row.cells() for row in rows])
    out = lines[:2]
    for line, row in zip(lines[2:], rows):
        out.append(line)
        out += [f"    {note}" for note in ([f"skipped: {row.missing}"] if row.missing else []) + row.notes]
    return "\n".join(out)


def ns(value):
    """A time with a unit that suits it."""
    if value is None or math.isnan(value):
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}" if abs(value) < 1000 * size else f"{value / size:.0f} {unit}"
    return f"{value:.1f} ns"


def between(pair, show=lambda value: f"{value:.2f}"):
    return "-" if pair is None else f"{show(pair[0])} .. {show(pair[1])}"


def write_json(path, document):
    def clean(value):
        if isinstance(value, Row):
            return clean(dict(asdict(value), verdict=value.verdict))
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, dict):
            return {str(key): clean(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [clean(inner) for inner in value]
        return value

    with open(path, "w", encoding="utf-8") as file:
        json.dump(clean(document), file, indent=1)
        file.write("\n")
