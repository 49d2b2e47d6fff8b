# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the jobs of this folder share: a session of Spark, a table of all traces, and what is missing from them."""

from __future__ import annotations

from typing import Any

from kymotrace.spark import register
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def session(given: SparkSession | None) -> SparkSession:
    """The session of `spark-submit`, with the format "kymo"."""
    spark = given or SparkSession.builder.appName("kymo").getOrCreate()
    register(spark)
    return spark


def table(spark: SparkSession, path: str, name: str, **options: Any) -> DataFrame:
    """A table of all traces below a directory."""
    reader = spark.read.format("kymo").option("table", name)
    for option, value in options.items():
        reader = reader.option(option, value)
    return reader.load(path)


def say_what_is_missing(spark: SparkSession, path: str) -> None:
    """No number is shown without what qualifies it: traces that could not be read, and records that were lost."""
    losses = table(spark, path, "losses", columns="trace,kind,records,packets,what")
    rows = losses.groupBy("kind").agg(
        F.countDistinct("trace").alias("traces"),
        F.count("*").alias("rows"),
        F.sum("records").alias("records"),
        F.first("what", ignorenulls=True).alias("what"),
    )
    found = rows.orderBy("kind").collect()
    print("missing:" if found else "missing: nothing is known to be lost, and every trace could be read")
    for row in found:
        print(f"  {row.kind}: {row.traces} traces, {row.rows} places, {row.records or 0} records; {row.what or ''}")


def show_ns(ns: float) -> str:
    """A duration with its unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"
