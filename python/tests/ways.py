# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ways to ask the same of traces: kymo sql, this package, Spark, and a lake, which kymo sql --lake, DuckDB and polars
read. Each gives rows of a table, and answers a question in its own language. The verbs are in the test itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import duckdb
import kymotrace
import polars
import pyarrow as pa
from kymotrace import command

TIMES = ("time", "end_time")
Row = tuple[object, ...]
ByTrace = dict[str, list[Row]]
"""Rows of each trace, by the name of its directory, in an order that does not depend on who read them."""


class Way(Protocol):
    """One way to ask."""

    name: str

    def rows(self, table: str, columns: Sequence[str]) -> ByTrace:
        """All rows of a table; times are ns."""

    def grouped(self, table: str, keys: Sequence[str], sums: Sequence[str]) -> ByTrace:
        """By these columns: how many rows, and sums of others. Versions of an event without one of them have no row, or
        null."""


def ordered(found: dict[str, list[Row]]) -> ByTrace:
    """Without traces that have no row."""
    return {trace: sorted(rows, key=repr) for trace, rows in found.items() if rows}


def by_trace(rows: Sequence[Row]) -> ByTrace:
    """The first value of each row is the directory of its trace."""
    found: dict[str, list[Row]] = {}
    for trace, *rest in rows:
        found.setdefault(Path(str(trace)).name, []).append(tuple(rest))
    return ordered(found)


def name_in_sql(column: str) -> str:
    return f"CAST({column} AS BIGINT)" if column in TIMES else f'"{column}"'


def select(table: str, columns: Sequence[str], more: str = "") -> str:
    return f'SELECT {more}{", ".join(map(name_in_sql, columns))} FROM "{table}"'


def grouping(keys: Sequence[str], sums: Sequence[str], table: str, first: str = "") -> str:
    """The question in SQL. Sums have names: some engines want one for each column."""
    added = "".join(f", sum({name}) AS sum{number}" for number, name in enumerate(sums))
    listed = ", ".join([*([first] if first else []), *keys])
    return f"SELECT {listed}, count(*) AS n{added} FROM {table} GROUP BY {listed}"


@dataclass
class KymoSql:
    """`kymo sql`, of one trace after the other."""

    traces: dict[str, Path]
    name: str = "kymo sql"

    def ask(self, trace: Path, query: str) -> list[Row]:
        """Rows of a query; none where the trace has no such table, or its version of the event no such field."""
        words = [command.find("the tests"), "sql", trace, query, "--json"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if done.returncode != 0 and ("there is no table" in done.stderr or "No field named" in done.stderr):
            return []
        assert done.returncode == 0, done.stderr
        return [tuple(row.values()) for row in json.loads(done.stdout)]

    def rows(self, table: str, columns: Sequence[str]) -> ByTrace:
        return ordered({name: self.ask(trace, select(table, columns)) for name, trace in self.traces.items()})

    def grouped(self, table: str, keys: Sequence[str], sums: Sequence[str]) -> ByTrace:
        query = grouping(keys, sums, f'"{table}"')
        return ordered({name: self.ask(trace, query) for name, trace in self.traces.items()})


@dataclass
class Package:
    """The Python package; questions are asked of its streams by pyarrow, without SQL."""

    traces: dict[str, Path]
    name: str = "the package"

    def table(self, trace: Path, table: str, columns: Sequence[str]) -> pa.Table | None:
        """None where the trace has no such table, or its version of the event no such field."""
        opened = kymotrace.open(trace)
        known = {name for name, _, _ in opened.tables[table].columns} if table in opened.tables else set()
        return opened.table(table, columns=list(columns)).arrow() if known.issuperset(columns) else None

    def rows(self, table: str, columns: Sequence[str]) -> ByTrace:
        found: dict[str, list[Row]] = {}
        for name, trace in self.traces.items():
            read = self.table(trace, table, columns)
            found[name] = of_arrow(read) if read is not None else []
        return ordered(found)

    def grouped(self, table: str, keys: Sequence[str], sums: Sequence[str]) -> ByTrace:
        found: dict[str, list[Row]] = {}
        for name, trace in self.traces.items():
            read = self.table(trace, table, [*keys, *sums])
            if read is None:
                continue
            added = read.group_by(list(keys)).aggregate([([], "count_all"), *((name, "sum") for name in sums)])
            names = [*keys, "count_all", *(f"{name}_sum" for name in sums)]
            found[name] = of_arrow(added.select(names))
        return ordered(found)


def of_arrow(table: pa.Table) -> list[Row]:
    """Rows; times are ns."""
    columns = []
    for column in table.columns:
        is_time = pa.types.is_timestamp(column.type)
        columns.append((column.cast(pa.int64()) if is_time else column).to_pylist())
    return list(zip(*columns, strict=True))


@dataclass
class Spark:
    """The data source of Spark: one job for all traces, good ones and bad ones."""

    session: Any
    root: Path
    name: str = "Spark"

    def frame(self, table: str) -> Any:
        frame = self.session.read.format("kymo").option("table", table).load(str(self.root))
        frame.createOrReplaceTempView("asked")
        return frame

    def rows(self, table: str, columns: Sequence[str]) -> ByTrace:
        return by_trace([tuple(row) for row in self.frame(table).select("trace", *columns).collect()])

    def grouped(self, table: str, keys: Sequence[str], sums: Sequence[str]) -> ByTrace:
        self.frame(table)
        query = grouping(keys, sums, "asked", "trace")
        return by_trace([tuple(row) for row in self.session.sql(query).collect()])


@dataclass
class Lake:
    """`kymo sql --lake`."""

    url: Path
    name: str = "kymo sql --lake"

    def ask(self, query: str) -> list[Row]:
        words = [command.find("the tests"), "sql", "--lake", str(self.url), query, "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return [tuple(row.values()) for row in json.loads(done.stdout)]

    def rows(self, table: str, columns: Sequence[str]) -> ByTrace:
        return by_trace(self.ask(select(table, columns, "trace, ")))

    def grouped(self, table: str, keys: Sequence[str], sums: Sequence[str]) -> ByTrace:
        return by_trace(self.ask(grouping(keys, sums, f'"{table}"', "trace")))


@dataclass
class DuckDb:
    """DuckDB on the lake's files."""

    url: Path
    name: str = "DuckDB"
    connection: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def files(self, table: str) -> str:
        pattern = f"{self.url}/{quote(table)}/*/*/*.parquet"
        return f"read_parquet('{pattern}', hive_partitioning = true, union_by_name = true)"

    def rows(self, table: str, columns: Sequence[str]) -> ByTrace:
        named = ", ".join(f"epoch_ns({name})" if name in TIMES else f'"{name}"' for name in columns)
        return by_trace(self.connection.sql(f"SELECT trace, {named} FROM {self.files(table)}").fetchall())

    def grouped(self, table: str, keys: Sequence[str], sums: Sequence[str]) -> ByTrace:
        return by_trace(self.connection.sql(grouping(keys, sums, self.files(table), "trace")).fetchall())


@dataclass
class Polars:
    """polars on the lake's files."""

    url: Path
    name: str = "polars"

    def scan(self, table: str) -> polars.LazyFrame:
        """File by file: scanned at once, all would have the columns and types of the first one."""
        files = sorted((self.url / quote(table)).rglob("*.parquet"))
        scanned = [polars.scan_parquet(file, hive_partitioning=True) for file in files]
        return polars.concat(scanned, how="diagonal_relaxed")

    def rows(self, table: str, columns: Sequence[str]) -> ByTrace:
        chosen = [polars.col(name).cast(polars.Int64) if name in TIMES else polars.col(name) for name in columns]
        return by_trace(self.scan(table).select(polars.col("trace").cast(polars.String), *chosen).collect().rows())

    def grouped(self, table: str, keys: Sequence[str], sums: Sequence[str]) -> ByTrace:
        frame = self.scan(table)
        # Its sums of small integers are small integers.
        types = frame.collect_schema()
        wide = [polars.Int64 if types[name].is_integer() else types[name] for name in sums]
        added = [polars.col(name).cast(of).sum() for name, of in zip(sums, wide, strict=True)]
        named = [column.alias(f"sum{number}") for number, column in enumerate(added)]
        counted = frame.group_by("trace", *keys).agg(polars.len().alias("n"), *named).collect()
        return by_trace(counted.with_columns(polars.col("trace").cast(polars.String)).rows())


@dataclass
class Asked:
    """Traces, and all ways to ask of them."""

    root: Path
    traces: dict[str, Path]
    lake: Path
    session: Any

    @cached_property
    def ways(self) -> list[Way]:
        """All of them."""
        many = KymoSql(self.traces), Package(self.traces), Spark(self.session, self.root)
        return [*many, Lake(self.lake), DuckDb(self.lake), Polars(self.lake)]
