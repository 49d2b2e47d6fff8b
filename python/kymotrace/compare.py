# SPDX-License-Identifier: MIT OR Apache-2.0
"""The statistics of `kymo compare` on runs that were counted anywhere: here, or by Spark over many machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._native import compare as _compare
from ._native import result_record
from .times import Duration, duration_ns


@dataclass
class Run:
    """One run: what one machine measured in one stretch of time. The run is the unit of the statistics: samples of one
    run are not independent of each other."""

    series: Mapping[str, Mapping[int, int] | Iterable[int]]
    """By name: how often each value was seen, ns; or all values."""
    test: str = "trace"
    started_ns: int | None = None
    """Nanoseconds since 1970. With it, a drift over time is told from a difference."""
    duration_s: float | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> str:
        """As `kymo compare` reads it: JSON of the form kymo-lab-1."""
        counted = []
        for name, values in self.series.items():
            counts: dict[int, int] = {}
            if isinstance(values, Mapping):
                counts = {int(value): int(times) for value, times in values.items()}
            else:
                for value in values:
                    counts[int(value)] = counts.get(int(value), 0) + 1
            counted.append((name, None, sorted(counts.items())))
        environment = json.dumps(dict(self.environment))
        return result_record(self.test, counted, self.started_ns, self.duration_s, environment)


class Comparison(Mapping[str, Any]):
    """The document of `kymo compare --json`; as text what the verb prints."""

    def __init__(self, document: dict[str, Any], text: str) -> None:
        self._document = document
        self.text = text

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Any:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    @property
    def outcome(self) -> str:
        """better, worse, mixed, no_difference, not_enough_data: of the second group, beside the first."""
        return str(self["outcome"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<kymotrace.Comparison: {self.outcome}, {self['runs'][0]} and {self['runs'][1]} runs>"


def compare(a: Iterable[Run], b: Iterable[Run], deadline: Duration | None = None, extreme: bool = False) -> Comparison:
    """Compares two groups of runs (at least 5 each): is there a difference, and how small a one would have been seen.

    All metrics of all series are tested together, by permutation of the runs: the probability of one false difference
    among all of them is 5 % at most.
    """
    limit = None if deadline is None else duration_ns(deadline)
    document, text = _compare([run.record() for run in a], [run.record() for run in b], limit, False, extreme)
    return Comparison(json.loads(document), text)
