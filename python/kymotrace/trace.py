# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opened traces."""

from __future__ import annotations

import builtins
import json
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

from . import command, html
from ._native import ArrowStream, KymoError, Source, run_arrow
from .choice import Chosen
from .findings import Latency, Story
from .progress import Progress, Teller
from .result import Result
from .times import Time, time_ns

Path = str | os.PathLike[str]
Who = int | str | threading.Thread

_BY_SWITCH = frozenset(["wakeup", "runqueue", "preempted"])
"""Kinds of latencies that end with the switch to their thread."""
_SMALL = 64 << 20
_SHOWN = 60
_GLOB = frozenset("*?[")


class Options(TypedDict):
    """How traces are opened."""

    without_index: bool
    ignore_uuid: bool
    workers: int | None


@dataclass(frozen=True)
class Table:
    """A table of a trace."""

    name: str
    about: str
    """What its rows are."""
    is_event: bool
    """Whether its rows are the records of an event."""
    columns: tuple[tuple[str, str, str], ...]
    """Name, type as Arrow writes it, and what it holds."""

    def _repr_html_(self) -> str:
        return html.table(f"{self.name}: {self.about}", ["column", "type", "what it holds"], self.columns)


class Tables(Mapping[str, Table]):
    """The tables of a trace, by name."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known = {name: (about, is_event) for name, about, is_event in source.tables()}

    def __getitem__(self, name: str) -> Table:
        about, is_event = self._known[name]
        return Table(name, about, is_event, tuple(self._source.columns(name)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        width = max((len(name) for name in self), default=0)
        return "\n".join(f"{name:{width}}  {about}" for name, (about, _) in self._known.items())

    def _repr_html_(self) -> str:
        # A kernel has a thousand events.
        rows = [[name, of[0]] for name, of in self._known.items()]
        title = "Tables" if len(rows) <= _SHOWN else f"Tables: {_SHOWN} of {len(rows)}; print(trace.tables) has all"
        return html.table(title, ["table", "its rows"], rows[:_SHOWN])


class Trace:
    """Opened traces: one, or several that are read together. It can be pickled, and used from several threads."""

    def __init__(
        self,
        paths: Path | Sequence[Path],
        *,
        progress: Progress = None,
        without_index: bool = False,
        ignore_uuid: bool = False,
        workers: int | None = None,
    ) -> None:
        listed: Sequence[Path] = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        self.paths: list[str] = [os.fspath(path) for path in listed]
        self._progress = progress
        if workers is not None and workers < 1:
            raise ValueError(f"{workers} workers: it takes one at least")
        self._options = Options(without_index=without_index, ignore_uuid=ignore_uuid, workers=workers)
        self._source = Source(self.paths, **self._options)

    def __reduce__(self) -> Any:
        return (_again, (self.paths, self._options))

    @cached_property
    def tables(self) -> Tables:
        """All tables: those that every trace has, then one for each event."""
        return Tables(self._source)

    @cached_property
    def bounds(self) -> tuple[int, int] | None:
        """Times of the first record and of the last, ns since 1970. Without an index this reads the trace."""
        return self._source.bounds()

    @cached_property
    def environment(self) -> list[dict[str, Any]]:
        """What each trace says of itself: where it is, its machine, and in `env` kernel, tracer and session."""
        loaded: list[dict[str, Any]] = json.loads(self._source.environment())
        return loaded

    def events(
        self,
        name: str,
        start: Time | None = None,
        end: Time | None = None,
        filter: str | Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        cpus: int | Sequence[int] | None = None,
        threads: int | Sequence[int] | None = None,
        limit: int | None = None,
    ) -> Result:
        """Records of an event in the order of time, with a column for each field.

        A name with ``* ? [`` gives the records of all events that match it: their fields are one column, in JSON.
        ``start`` and ``end``: from this time on, and before that time (see :data:`kymotrace.times.Time`). ``filter``:
        kymo's filter language (kymo-filter(7)), as ``"axis == 2 && position > 0.5"``; of several, all must hold.
        """
        chosen = self._chosen(start, end, filter, columns, cpus, threads, limit)
        if _GLOB.isdisjoint(name):
            if name in self.tables and not self.tables[name].is_event:
                raise KymoError(f"{name} is no event, but a table: .table({name!r})")
            return self._result(name, chosen)
        chosen["events"] = [name]
        return self._result("records", chosen, f"records of {name}")

    def table(
        self,
        name: str,
        start: Time | None = None,
        end: Time | None = None,
        filter: str | Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        cpus: int | Sequence[int] | None = None,
        threads: int | Sequence[int] | None = None,
        limit: int | None = None,
        any_order: bool = False,
    ) -> Result:
        """Rows of a table, such as "wakeups"; `tables` lists them. ``start`` and ``end`` choose by the column `time`.
        ``any_order``: rows of records may come in any order, which is faster."""
        chosen = self._chosen(start, end, filter, columns, cpus, threads, limit)
        chosen["any_order"] = any_order
        return self._result(name, chosen)

    def spans(
        self,
        begin: str,
        end: str,
        by: str | Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Result:
        """Spans from a record of one event to the next of another, of the same thread; with ``by`` of the same values of
        these fields instead, of any thread: `kymo latency --span`, a row each."""
        chosen = self._chosen(None, None, None, columns, None, None, limit)
        fields = ",".join(command.listed(by)) or None

        def scan(teller: Teller | None) -> ArrowStream:
            return self._source.scan_span(begin, end, fields, chosen, teller)

        return Result(scan, f"spans {begin} to {end}", lambda: self._teller("spans", None, None))

    def critical_path(self, thread: int | threading.Thread, start: Time, end: Time) -> Result:
        """What a stretch of a thread waited for, across threads and CPUs: `kymo critical`, a row for each step."""
        chosen = self._chosen(None, None, None, None, None, None, None)
        tid, first, last = _who(thread), self._at(start), self._at(end)
        if not isinstance(tid, int) or first is None or last is None:
            raise TypeError("the number of a thread, and where its stretch begins and ends")

        def scan(teller: Teller | None) -> ArrowStream:
            return self._source.scan_critical_path(tid, first, last, chosen, teller)

        return Result(scan, f"critical path of {tid}", lambda: self._teller("critical path", first, last))

    @property
    def losses(self) -> Result:
        """Records that are missing, and damage."""
        return self.table("losses")

    def sql(self, query: str) -> Result:
        """Rows of a query over all tables of the trace. The command `kymo sql` answers it: the query engine is larger
        than all of kymo, so it is not in this package."""

        def begin(teller: Teller | None) -> ArrowStream:
            program = command.find("sql()")
            ignoring = ["--ignore-uuid"] if self._options["ignore_uuid"] else []
            paths = [command.as_word(path) for path in self.paths]
            # A word without a space would be taken for a path.
            words = [program, "sql", "--format", "arrow", *ignoring, "--", *paths, f"{query} "]
            return run_arrow(words, teller, _warn)

        title = " ".join(query.split())
        return Result(begin, title if len(title) <= 60 else title[:59] + "…", lambda: self._teller(title, None, None))

    def latency(
        self,
        what: str | Sequence[str] | None = None,
        *,
        span: str | Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        filter: str | Sequence[str] | None = None,
        cpu: str | int | None = None,
        thread: Who | None = None,
        process: int | str | None = None,
        limit: int | None = None,
        start: Time | None = None,
        end: Time | None = None,
        explain: bool = False,
    ) -> Latency:
        """How many, quantiles, histogram, and the worst of each kind: `kymo latency`, with its options.

        ``thread`` and ``process`` choose by who wrote the record that ends a latency. Of a wake-up that is the thread
        that leaves the CPU, and not the one that was woken: they are refused there.
        """
        kinds = ",".join(command.listed(what)).replace(" ", "").split(",")
        is_of_switch = not span if kinds == [""] else not _BY_SWITCH.isdisjoint(kinds)
        if is_of_switch and (thread is not None or process is not None):
            raise ValueError(
                "latency(): wake-ups end with a record of the thread that leaves the CPU, so thread= and process= would "
                "not choose those of the woken thread: use trace.table('latencies', threads=...), by=['thread'], "
                "explain(thread=...), or another kind than " + ", ".join(sorted(_BY_SWITCH))
            )
        words = ["latency", *self._words()]
        words += command.options(
            what=",".join(command.listed(what)) or None,
            span=command.listed(span),
            by=",".join(command.listed(by)) or None,
            filter=command.listed(filter),
            cpu=cpu,
            thread=_who(thread),
            process=process,
            limit=limit,
            **{"from": self._at(start), "to": self._at(end)},
            explain=explain,
        )
        found = command.document(words, "latency()")
        return Latency(found, lambda: command.output([*words, "--color=never"], "latency()"))

    def explain(
        self,
        worst: str | int | None = None,
        *,
        span: str | None = None,
        nth: int | None = None,
        at: Time | None = None,
        thread: Who | None = None,
        process: int | str | None = None,
        prio: int | str | None = None,
        whole_system: bool = False,
        cpu: int | None = None,
        filter: str | Sequence[str] | None = None,
        start: Time | None = None,
        end: Time | None = None,
        symbols: Path | None = None,
        limit: int | None = None,
    ) -> Story:
        """Why something took so long: `kymo explain`, with its options. ``worst``: a kind of latency such as "wakeup",
        "futex:3" for the third worst."""
        words = ["explain", *self._words()]
        words += command.options(
            worst=worst,
            span=span,
            nth=nth,
            at=self._at(at),
            thread=_who(thread),
            process=process,
            prio=prio,
            all=whole_system,
            cpu=cpu,
            filter=command.listed(filter),
            **{"from": self._at(start), "to": self._at(end)},
            symbols=None if symbols is None else os.fspath(symbols),
            limit=limit,
        )
        found = command.document(words, "explain()")
        return Story(found, lambda: command.output([*words, "--color=never"], "explain()"))

    def _words(self) -> list[str]:
        ignoring = ["--ignore-uuid"] if self._options["ignore_uuid"] else []
        return ignoring + [command.as_word(path) for path in self.paths]

    def _at(self, time: Time | None) -> int | None:
        return None if time is None else time_ns(time, lambda: self.bounds)

    def _chosen(
        self,
        start: Time | None,
        end: Time | None,
        filter: str | Sequence[str] | None,
        columns: Sequence[str] | None,
        cpus: int | Sequence[int] | None,
        threads: int | Sequence[int] | None,
        limit: int | None,
    ) -> Chosen:
        filters = command.listed(filter)
        return Chosen(
            columns=None if columns is None else list(columns),
            start=self._at(start),
            end=self._at(end),
            end_start=None,
            end_end=None,
            cpus=_numbers(cpus),
            tids=_numbers(threads),
            events=None,
            names=None,
            filter=filters[0] if len(filters) == 1 else " && ".join(f"({one})" for one in filters) or None,
            limit=limit,
            partition=None,
            any_order=False,
        )

    def _result(self, table: str, chosen: Chosen, title: str | None = None) -> Result:
        # A wrong name is an error now, not when the first row is taken.
        self._source.schema(table)

        def begin(teller: Teller | None, chosen: Chosen = chosen) -> ArrowStream:
            return self._source.scan(table, chosen, teller)

        def first(count: int) -> Result:
            most = count if chosen["limit"] is None else min(count, chosen["limit"])
            few: Chosen = {**chosen, "limit": most}
            return Result(lambda teller: begin(teller, few), table)

        return Result(begin, title or table, lambda: self._teller(table, chosen["start"], chosen["end"]), first)

    def _teller(self, title: str, start: int | None, end: int | None) -> Teller | None:
        def stretch() -> tuple[int, int] | None:
            ends = self._quick_bounds()
            return ends and (ends[0] if start is None else start, ends[1] if end is None else end)

        return Teller.of(self._progress, title, stretch)

    def _quick_bounds(self) -> tuple[int, int] | None:
        """The bounds where they cost little: a progress line is not worth a second pass over the trace."""
        is_small = sum(int(trace["bytes"]) for trace in self.environment) <= _SMALL
        is_indexed = all(bool(trace["is_indexed"]) for trace in self.environment)
        return self.bounds if is_small or is_indexed else None

    def __repr__(self) -> str:
        return f"<kymotrace.Trace: {', '.join(self.paths)}; .tables lists {len(self.tables)} tables>"

    def _repr_html_(self) -> str:
        rows = [
            [trace["trace"], trace["host"], trace["env"].get("kernel_release", ""), trace["streams"], trace["bytes"]]
            for trace in self.environment
        ]
        return html.table("Traces", ["trace", "host", "kernel", "streams", "bytes"], rows) + self.tables._repr_html_()


def open(
    paths: Path | Sequence[Path],
    *,
    progress: Progress = None,
    without_index: bool = False,
    ignore_uuid: bool = False,
    workers: int | None = None,
) -> Trace:
    """Opens a trace, a directory with traces below, or several of them.

    ``progress``: see :data:`kymotrace.progress.Progress`. ``without_index``: read as if there were no index, with the
    same results. ``ignore_uuid``: read also packets that may belong to another trace. ``workers``: threads that read a
    table at once where the traces have indexes, with the same rows in the same order; by default as many as there are
    CPUs, 4 at most. Each keeps up to half a million records in memory.
    """
    return Trace(paths, progress=progress, without_index=without_index, ignore_uuid=ignore_uuid, workers=workers)


def _again(paths: list[str], options: Options) -> Trace:
    return Trace(paths, **options)


def _who(thread: Who | None) -> int | str | None:
    if isinstance(thread, threading.Thread):
        if thread.native_id is None:
            raise ValueError(f"{thread!r} has not started, so it has no number")
        return thread.native_id
    return thread


def _numbers(numbers: int | Sequence[int] | None) -> builtins.list[int] | None:
    if numbers is None:
        return None
    return [numbers] if isinstance(numbers, int) else [int(number) for number in numbers]


def _warn(said: str) -> None:
    for line in said.splitlines():
        warnings.warn(line.removeprefix("kymo: "), command.KymoWarning, stacklevel=2)
