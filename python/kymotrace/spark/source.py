# SPDX-License-Identifier: MIT OR Apache-2.0
"""The data source "kymo": plans partitions on the driver, and reads them on the workers."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from .._native import KymoError, Source
from ..choice import Chosen
from . import discover, filters, types
from .discover import Found

TRACES = "traces"
"""A row for each trace, with what it says of itself: there is nothing to divide."""
LOSSES = "losses"
_OWN_TRACE = "trace.2"
"""A field of an event that is called as the column with the directory is."""
_PARTITION_BYTES = 64 << 20
_OPENERS = 8
_OPTIONS = ("path", "table", "columns", "filter", "events", "partitionbytes", "schematraces", "pushdown")

# What a row has that stands for a trace that cannot be read: also where there is no other.
_UNREADABLE = pa.schema(
    [
        ("trace", pa.string()),
        ("time", pa.int64()),
        ("end_time", pa.int64()),
        ("kind", pa.string()),
        ("records", pa.int64()),
        ("packets", pa.int64()),
        ("cpu", pa.int64()),
        ("pid", pa.int64()),
        ("proc", pa.string()),
        ("host", pa.string()),
        ("stream", pa.string()),
        ("what", pa.string()),
    ]
)

T = TypeVar("T")


def register(spark: SparkSession) -> None:
    """Makes the format "kymo" known to a session, and lets Spark hand filters to it."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(KymoDataSource)


class KymoDataSource(DataSource):
    """Tables of the traces below a directory, as one.

    Options: ``table``; ``columns``: names with commas between them, others are not read; ``filter``: kymo's filter
    language, of records; ``events``: of the table records, globs with commas between them; ``partitionBytes``: about
    so much of a trace is one task (default 64 MiB; needs an index); ``schemaTraces``: look at so many traces for the
    columns of an event (default: all); ``pushdown``: false to leave all filters to Spark.
    """

    @classmethod
    def name(cls) -> str:
        return "kymo"

    @functools.cached_property
    def _plan(self) -> _Plan:
        unknown = [name for name in self.options if name.lower() not in _OPTIONS]
        if unknown:
            raise ValueError(f"the format kymo has no option {', '.join(unknown)}; it has {', '.join(_OPTIONS)}")
        path, table = self.options.get("path"), self.options.get("table")
        if not path or not table:
            raise ValueError('the format kymo needs a path and a table: .option("table", "wakeups").load("traces/")')
        return _Plan(
            path=path,
            table=table,
            columns=_words(self.options.get("columns")),
            filter=self.options.get("filter"),
            events=_words(self.options.get("events")),
            partition_bytes=int(self.options.get("partitionBytes") or _PARTITION_BYTES),
            schema_traces=int(self.options.get("schemaTraces") or 0),
        )

    def schema(self) -> StructType:
        return types.struct(self._plan.schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        pushes = (self.options.get("pushdown") or "true").lower() != "false"
        return (KymoPushingReader if pushes else KymoReader)(self._plan, schema)


@dataclass(frozen=True)
class _Plan:
    """What is asked for, by all options."""

    path: str
    table: str
    columns: list[str] | None
    filter: str | None
    events: list[str] | None
    partition_bytes: int
    schema_traces: int

    def schema(self) -> pa.Schema:
        """The columns, of all traces that can be read."""
        found = discover.traces(self.path)
        looked = self._first_schema(found)
        schema = types.union(looked, self.is_event(looked))
        if "trace" in schema.names:
            place = schema.names.index("trace")
            own = schema.field(place)
            schema = schema.remove(place)
            if self.is_event(looked):
                if _OWN_TRACE in schema.names:
                    raise ValueError(f"the event {self.table} has fields trace and {_OWN_TRACE}")
                schema = schema.insert(place, own.with_name(_OWN_TRACE))
        schema = schema.insert(0, pa.field("trace", pa.string()))
        return self._chosen(schema)

    def _chosen(self, schema: pa.Schema) -> pa.Schema:
        if self.columns is None:
            return schema
        missing = [name for name in self.columns if name not in schema.names]
        if missing:
            raise ValueError(f"table {self.table} has no column {', '.join(missing)}; it has {', '.join(schema.names)}")
        return pa.schema([schema.field(name) for name in self.columns])

    def _first_schema(self, found: Sequence[Found]) -> list[pa.Schema]:
        """Columns of tables that every trace has are the same in each; those of an event may differ."""
        reasons: list[str] = [f"{one.path}: {one.error}" for one in found if one.error]
        paths = [one.path for one in found if not one.error]
        schemas: list[pa.Schema] = []
        for number, (path, schema) in enumerate(zip(paths, _in_threads(self._schema_of, paths), strict=True)):
            if isinstance(schema, str):
                reasons.append(f"{path}: {schema}")
                continue
            schemas.append(schema)
            if not self.is_event(schemas) or (self.schema_traces and number + 1 >= self.schema_traces):
                break
        if not schemas and self.table == LOSSES:
            return [_UNREADABLE]
        if not schemas:
            shown = "\n".join(reasons[:5]) or "no trace was found"
            raise ValueError(f"no trace below {self.path} has a table {self.table}:\n{shown}")
        return schemas

    def _schema_of(self, path: str) -> pa.Schema | str:
        try:
            source = _opened(path)
            schema = pa.schema(_Schema(source, self.table))
            is_event = _is_event(source, self.table)
            return schema.with_metadata({"is_event": "1" if is_event else "0"})
        except KymoError as error:
            return str(error)

    def is_event(self, schemas: Sequence[pa.Schema]) -> bool:
        """Whether the table has the records of one event."""
        return any((schema.metadata or {}).get(b"is_event") == b"1" for schema in schemas)


class _Schema:
    """Columns of a table, as pyarrow takes them."""

    def __init__(self, source: Source, table: str) -> None:
        self._source, self._table = source, table

    def __arrow_c_schema__(self) -> Any:
        return self._source.schema(self._table)


@dataclass
class KymoPartition(InputPartition):
    """A stretch of time of a trace; or why there is none."""

    trace: str
    part: str | None = None
    """As the reader takes it; None: all of the trace."""
    error: str | None = None

    def __repr__(self) -> str:
        return f"KymoPartition({self.trace!r}, {self.part!r}, {self.error!r})"


class KymoReader(DataSourceReader):
    """Reads a table of all traces."""

    def __init__(self, plan: _Plan, schema: StructType) -> None:
        self.plan = plan
        self.schema = schema
        self.pushed = filters.Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        found = [one for one in discover.traces(self.plan.path) if self.pushed.has_trace(one.path)]
        self._check_choice(found)
        planned = _in_threads(self._partitions_of, found)
        # Without a partition Spark would ask for one that is none.
        return [partition for of_trace in planned for partition in of_trace] or [KymoPartition("")]

    def _check_choice(self, found: Sequence[Found]) -> None:
        """A filter that no trace takes is a mistake: on the workers each trace for itself would have no row."""
        if self.plan.filter is None and self.plan.events is None:
            return
        reasons: list[str] = []
        for one in found:
            try:
                source = None if one.error else _opened(one.path)
            except KymoError:
                # A row of the table losses.
                source = None
            if source is None:
                continue
            try:
                source.scan(self.plan.table, _chosen(filter=self.plan.filter, events=self.plan.events, limit=0))
                return
            except KymoError as error:
                if not _has_no_table(error):
                    reasons.append(f"{one.path}: {error}")
        if reasons:
            raise ValueError("no trace takes the filter:\n" + "\n".join(reasons[:5]))

    def _partitions_of(self, found: Found) -> list[KymoPartition]:
        if found.error:
            return [KymoPartition(found.path, error=found.error)]
        if self.plan.table == TRACES:
            return [KymoPartition(found.path)]
        try:
            source = _opened(found.path)
            environment = json.loads(source.environment())
            # Without an index, dividing a trace means to read it here.
            is_indexed = all(part["is_indexed"] for part in environment)
            size = sum(int(part["bytes"]) for part in environment)
            wanted = max(1, -(-size // max(1, self.plan.partition_bytes))) if is_indexed else 1
            parts: list[str | None] = [None]
            if wanted > 1:
                parts = list(source.partitions(self.plan.table, wanted))
            return [KymoPartition(found.path, part) for part in parts]
        except KymoError as error:
            return [KymoPartition(found.path, error=str(error))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, KymoPartition)
        if not partition.trace:
            return
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        # What goes wrong with a value is no bad trace: it ends the task.
        for batch in self._read(partition, wanted):
            yield _shaped(batch, wanted, partition.trace)

    def _read(self, partition: KymoPartition, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            if partition.error:
                raise KymoError(partition.error)
            yield from self._batches(partition, wanted)
        except (KymoError, OSError, pa.ArrowException) as error:
            # One bad trace of ten thousand ends no job: it is a row of the table losses.
            if self.plan.table == LOSSES:
                yield _lost(partition.trace, str(error))
            elif not _has_no_table(error):
                print(f"kymo: {partition.trace}: {error}", file=sys.stderr)

    def _batches(self, partition: KymoPartition, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        source = _opened(partition.trace)
        known = pa.schema(_Schema(source, self.plan.table)).names
        columns = [name for name in wanted.names if name in known and name != "trace"]
        has_own_trace = _OWN_TRACE in wanted.names and "trace" in known and _is_event(source, self.plan.table)
        if has_own_trace:
            columns.append("trace")
        condition = " && ".join(f"({one})" for one in self.pushed.conditions)
        given = self.plan.filter
        both = f"({given}) && {condition}" if given and condition else given or condition or None
        # A field of an event may be called so.
        has_ends = self.plan.table != "records" and not _is_event(source, self.plan.table)
        chosen = _chosen(
            columns=columns,
            start=self.pushed.start,
            end=self.pushed.end,
            end_start=self.pushed.end_start if has_ends else None,
            end_end=self.pushed.end_end if has_ends else None,
            cpus=self.pushed.cpus,
            tids=self.pushed.tids,
            events=self.plan.events,
            names=self.pushed.events,
            filter=both,
            partition=partition.part,
        )
        try:
            stream = source.scan(self.plan.table, chosen)
        except KymoError:
            if not condition:
                raise
            # Where a trace has no such field its rows have null, and Spark drops them.
            less: Chosen = {**chosen, "filter": given}
            stream = source.scan(self.plan.table, less)
        for batch in pa.RecordBatchReader.from_stream(stream):
            if has_own_trace:
                batch = pa.RecordBatch.from_arrays(batch.columns, names=[*batch.schema.names[:-1], _OWN_TRACE])
            yield batch


class KymoPushingReader(KymoReader):
    """The same; filters choose what is read. Spark applies them again: some choose only roughly."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        is_event = self.plan.table not in (TRACES, LOSSES, "records") and "end_time" not in self.schema.names
        self.pushed = _push(filters, self.plan.table, is_event)
        return filters


_push = filters.push


def _opened(path: str) -> Source:
    """Several partitions of a trace come to one worker."""
    return _opened_as(path, _stamp(path))


@functools.lru_cache(maxsize=8)
def _opened_as(path: str, stamp: tuple[Any, ...]) -> Source:
    """A trace as its files are: workers live longer than a trace may stay the same."""
    del stamp
    return Source([path])


def _stamp(path: str) -> tuple[Any, ...]:
    """What changes with the files of a trace, or of the file that it is."""
    files = [path]
    for directory, below, names in os.walk(path):
        below.sort()
        files.extend(os.path.join(directory, name) for name in sorted(names))
    stamp = []
    for file in files:
        try:
            of = os.stat(file)
        except OSError:
            continue
        stamp.append((file, of.st_mtime_ns, of.st_size, of.st_ino))
    return tuple(stamp)


def _chosen(
    *,
    columns: list[str] | None = None,
    start: int | None = None,
    end: int | None = None,
    end_start: int | None = None,
    end_end: int | None = None,
    cpus: list[int] | None = None,
    tids: list[int] | None = None,
    events: list[str] | None = None,
    names: list[str] | None = None,
    filter: str | None = None,
    limit: int | None = None,
    partition: str | None = None,
) -> Chosen:
    """A choice of rows, in any order."""
    return Chosen(
        columns=columns,
        start=start,
        end=end,
        end_start=end_start,
        end_end=end_end,
        cpus=cpus,
        tids=tids,
        events=events,
        names=names,
        filter=filter,
        limit=limit,
        partition=partition,
        any_order=True,
    )


def _is_event(source: Source, table: str) -> bool:
    return any(name == table and own for name, _, own in source.tables())


def _in_threads(work: Callable[[T], Any], items: Sequence[T]) -> Iterator[Any]:
    """Files of many traces are opened at once: it is the network file system that one waits for."""
    with ThreadPoolExecutor(_OPENERS) as pool:
        yield from pool.map(work, items)


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _has_no_table(error: Exception) -> bool:
    """A trace need not have the event."""
    return str(error).startswith("there is no table ")


def _shaped(batch: pa.RecordBatch, wanted: pa.Schema, trace: str) -> pa.RecordBatch:
    """The columns that Spark wants, in its order and types."""
    columns = []
    for field in wanted:
        if field.name == "trace":
            columns.append(pa.repeat(pa.scalar(trace, pa.string()), batch.num_rows).cast(field.type))
        elif field.name in batch.schema.names:
            columns.append(types.converted(batch.column(field.name), field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _lost(trace: str, error: str) -> pa.RecordBatch:
    row = dict.fromkeys(_UNREADABLE.names)
    row |= {"trace": trace, "kind": "unreadable", "what": error}
    return pa.RecordBatch.from_pylist([row], schema=_UNREADABLE)
