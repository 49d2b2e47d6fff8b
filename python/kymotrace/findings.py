# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `kymo latency` and `kymo explain` found, as their JSON documents, with a text and a display."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

from . import html
from .times import show_ns


class Document(Mapping[str, Any]):
    """A JSON document of a verb, with its own keys."""

    def __init__(self, document: dict[str, Any], text: Callable[[], str]) -> None:
        self._document = document
        self._make_text = text
        self._text: str | None = None

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    @property
    def text(self) -> str:
        """What the verb prints without --json. Runs it again, once."""
        if self._text is None:
            self._text = self._make_text().rstrip("\n")
        return self._text

    def __str__(self) -> str:
        return self.text


class Latency(Document):
    """Latencies of a trace: the document of `kymo latency --json`. Durations and times are nanoseconds."""

    @property
    def series(self) -> list[dict[str, Any]]:
        """A dictionary for each kind, or for each group of a kind: count, min, mean, max, quantiles, worst."""
        return list(self["series"])

    def of(self, what: str) -> list[dict[str, Any]]:
        """Those of one kind, such as "wakeup"."""
        return [series for series in self.series if series["what"] == what]

    def worst(self, what: str | None = None) -> list[dict[str, Any]]:
        """The worst samples of all series that are of this kind, the longest first."""
        series = self.series if what is None else self.of(what)
        found = [{"what": one["what"], "of": one["of"], **sample} for one in series for sample in one["worst"]]
        return sorted(found, key=lambda sample: -int(sample["value"]))

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each series, as ``polars.DataFrame(latency.rows())`` takes it. A quantile is the end of its
        bucket."""
        plain = ("what", "of", "process", "process_name", "tid", "thread_name", "prio", "cpu", "count", "doubtful")
        rows = []
        for one in self.series:
            row = {name: one[name] for name in (*plain, "min", "mean", "max")}
            row |= {f"p{quantile['q'] * 100:g}": quantile["high_ns"] for quantile in one["quantiles"]}
            rows.append(row)
        names = list(dict.fromkeys(name for row in rows for name in row))
        return [{name: row.get(name) for name in names} for row in rows]

    def __repr__(self) -> str:
        return f"<kymotrace.Latency: {len(self['series'])} series of {self['records']:,} records>"

    def _repr_html_(self) -> str:
        most = max((one["max"] or 0 for one in self.series), default=0) or 1
        rows = []
        for one in self.series:
            name = " ".join(str(part) for part in (one["what"], one["of"], _whose(one)) if part)
            times = [show_ns(one[key]) if one["count"] else "" for key in ("min", "mean", "max")]
            doubtful = f"{one['doubtful']:,}" if one["doubtful"] else ""
            cells = [escape(cell) for cell in (name, f"{one['count']:,}", doubtful, *times)]
            rows.append([*cells, html.bar((one["max"] or 0) / most)])
        return html.raw_table(["latency", "samples", "doubtful", "min", "mean", "max", ""], rows)


def _whose(series: dict[str, Any]) -> str:
    parts = []
    if series["process"] is not None:
        parts.append(f"{series['process_name'] or ''}[{series['process']}]")
    if series["tid"] is not None:
        parts.append(f"{series['thread_name'] or ''}[{series['tid']}]")
    parts += [f"{name} {series[name]}" for name in ("prio", "cpu") if series[name] is not None]
    return " ".join(parts)


class Story(Document):
    """Why something took so long: the document of `kymo explain --json`. Durations and times are nanoseconds."""

    @property
    def headline(self) -> str:
        """Who, how long and why, in a sentence."""
        return str(self["headline"])

    @property
    def budget(self) -> list[dict[str, Any]]:
        """What the time went to, the largest part first."""
        return list(self["budget"])

    def __repr__(self) -> str:
        return f"<kymotrace.Story: {self.headline}>"

    def _repr_html_(self) -> str:
        whole = sum(part["ns"] for part in self.budget) or 1
        rows = [
            [escape(show_ns(ns)), f"{ns / whole:.0%}", html.bar(ns / whole), escape(part["text"])]
            for part in self.budget
            for ns in [part["ns"]]
        ]
        parts = [f"<p><b>{escape(self.headline)}</b></p>", html.raw_table(["time", "", "", "what had it"], rows)]
        missing = [one["text"] for one in self.get("missing_events", [])] + list(self.get("blind", []))
        for title, lines in (("Doubtful", self.get("doubts")), ("Not in the trace", missing)):
            if lines:
                listed = "".join(f"<li>{escape(str(line))}</li>" for line in lines)
                parts.append(f"<p>{title}:</p><ul>{listed}</ul>")
        if self.get("advice"):
            listed = "".join(
                f"<li>{escape(str(one['because']))}: {escape(str(one['try_this']))}</li>" for one in self["advice"]
            )
            parts.append(f"<p>What to try:</p><ul>{listed}</ul>")
        return "".join(parts)
