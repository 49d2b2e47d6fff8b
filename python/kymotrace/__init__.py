# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces of kymo in Python.

>>> import kymotrace
>>> trace = kymotrace.open("trace")
>>> trace.events("motor:step", filter="axis == 2").polars()
>>> trace.table("wakeups").arrow()
>>> trace.sql("select cpu, max(duration_ns) from wakeups group by cpu").pandas()
>>> print(trace.latency("wakeup"))
>>> print(trace.explain("wakeup"))

Results are Arrow streams (the PyCapsule interface): pyarrow, polars, pandas and DuckDB take them without a copy.
`kymotrace.testing` has a pytest plug-in, `kymotrace.spark` a data source for many machines.
"""

from __future__ import annotations

from ._native import KymoError, __version__
from .command import KymoNotFound, KymoWarning
from .compare import Comparison, Run, compare
from .findings import Latency, Story
from .result import Result
from .trace import Table, Tables, Trace, open

__all__ = [
    "Comparison",
    "KymoError",
    "KymoNotFound",
    "KymoWarning",
    "Latency",
    "Result",
    "Run",
    "Story",
    "Table",
    "Tables",
    "Trace",
    "__version__",
    "compare",
    "open",
]
