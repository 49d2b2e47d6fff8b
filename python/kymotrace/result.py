# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows of a table or a query, which are read when somebody takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import html
from ._native import ArrowStream, KymoError
from .progress import Teller

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

_SHOWN = 10

Begin = Callable[[Teller | None], ArrowStream]


class _Own:
    """A stream for the package's own methods: what ends it is raised by them."""

    def __init__(self, stream: ArrowStream) -> None:
        self.stream = stream

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.stream.own_capsule()


class Result:
    """Rows of a table or a query, not yet read: each taker reads them anew, in batches, so that memory stays bounded.

    Whatever takes Arrow streams takes it as it is: ``pyarrow.table(result)``, ``polars.DataFrame(result)``,
    ``duckdb.sql("select * from result")``. The methods below do the same, and Ctrl-C ends them cleanly.
    """

    def __init__(
        self,
        begin: Begin,
        title: str,
        teller: Callable[[], Teller | None] = lambda: None,
        first: Callable[[int], Result] | None = None,
    ) -> None:
        self._begin = begin
        self._title = title
        self._teller = teller
        self._first = first

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """The Arrow PyCapsule interface. Reads the rows anew each time."""
        return self._begin(self._teller()).__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """The Arrow PyCapsule interface: names and types of the columns."""
        stream = self._begin(None)
        try:
            return stream.__arrow_c_schema__()
        finally:
            stream.cancel()

    @contextmanager
    def _own(self) -> Iterator[_Own]:
        teller = self._teller()
        stream = self._begin(teller)
        try:
            yield _Own(stream)
        except (GeneratorExit, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            stream.raise_pending()
            # polars before 2 panics, which is no Exception.
            if type(error).__module__.partition(".")[0] in ("pyarrow", "polars", "duckdb", "pyo3_runtime"):
                raise KymoError(f"{self._title}: {error}") from error
            raise
        finally:
            stream.cancel()
            if teller:
                teller.end()

    def arrow(self) -> pyarrow.Table:
        """All rows as a table of pyarrow."""
        import pyarrow as pa

        with self._own() as own:
            return pa.RecordBatchReader.from_stream(own).read_all()

    def reader(self) -> pyarrow.RecordBatchReader:
        """The rows as a stream of pyarrow."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(self)

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows batch by batch; the next ones are read meanwhile, two batches ahead at most."""
        import pyarrow as pa

        with self._own() as own:
            yield from pa.RecordBatchReader.from_stream(own)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries, one after the other. Slow: columns are what this package is for."""
        for batch in self:
            yield from batch.to_pylist()

    def polars(self) -> polars.DataFrame:
        """All rows as a data frame of polars."""
        import polars as pl

        with self._own() as own:
            frame = pl.DataFrame(own)
            # Nothing is a whole frame that was interrupted.
            own.stream.raise_pending()
            return frame

    def pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a data frame of pandas. Options are those of ``pyarrow.Table.to_pandas``."""
        return self.arrow().to_pandas(**options)

    def duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of DuckDB, which reads them when it is asked. It can be read once."""
        import duckdb as db

        return (connection or db).from_arrow(self.reader())

    def head(self, count: int = _SHOWN) -> pyarrow.Table:
        """The first rows as a table of pyarrow; the rest is not read."""
        if self._first:
            return self._first(count).arrow()
        import pyarrow as pa

        with self._own() as own:
            reader = pa.RecordBatchReader.from_stream(own)
            batches, left = [], count
            for batch in reader:
                batches.append(batch.slice(0, left))
                left -= batches[-1].num_rows
                if left <= 0:
                    break
            return pa.Table.from_batches(batches, reader.schema)

    def count(self) -> int:
        """How many rows there are. Reads them."""
        return sum(batch.num_rows for batch in self)

    def __repr__(self) -> str:
        return f"<kymotrace.Result: {self._title}; .arrow(), .polars(), .pandas(), .duckdb(), .reader()>"

    def _repr_html_(self) -> str:
        head = self.head(_SHOWN + 1)
        rows = head.slice(0, _SHOWN).to_pylist()
        more = "the first rows" if head.num_rows > _SHOWN else "all rows"
        return html.table(f"{self._title}: {more}", head.column_names, [list(row.values()) for row in rows])
