# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces of many machines on Apache Spark (4.1 or later): a Python Data Source.

>>> from kymotrace.spark import register
>>> register(spark)
>>> wakeups = spark.read.format("kymo").option("table", "wakeups").load("traces/")

The package must be installed on the workers, and the directory must have the same path there. docs/python.md has the
options, and examples/fleet whole jobs.
"""

from .source import KymoDataSource, register

__all__ = ["KymoDataSource", "register"]
