# SPDX-License-Identifier: MIT OR Apache-2.0
"""A lake is read as it is by DuckDB, polars, pyarrow and Spark, with the answers of kymo sql --lake."""

from __future__ import annotations

import json
import os
from pathlib import Path

import cluster
import duckdb
import polars
import pyarrow.dataset
import pytest
from conftest import kymo, on_host

QUERY = """SELECT host, CAST(day AS VARCHAR) AS day, label_board, count(*) AS n, max(axis) AS most,
           CAST(min(CAST(time AS BIGINT)) AS BIGINT) AS first FROM {} GROUP BY host, day, label_board ORDER BY host, day"""
HOSTS = ("rt-1", "büro/2 %")


@pytest.fixture(scope="module")
def lake(steps: Path, kernel: Path, tmp_path_factory: pytest.TempPathFactory, has_sql: None) -> Path:
    """Two hosts with a program's events and different labels, and a kernel's records without a date."""
    root = tmp_path_factory.mktemp("lake")
    for number, host in enumerate(HOSTS):
        trace = on_host(steps, root / f"trace{number}", host)
        words = ["--table", "motor:step", "--table", "threads", "--label", f"board=b/{number}"]
        kymo("lake", "add", trace, "--to", root / "lake", *words)
    kymo("lake", "add", kernel, "--to", root / "lake")
    return root / "lake"


def of_kymo(lake: Path) -> list[tuple[object, ...]]:
    rows = json.loads(kymo("sql", "--lake", lake, QUERY.format('"motor:step"'), "--json"))
    return [tuple(row.values()) for row in rows]


def test_two_hosts(lake: Path) -> None:
    rows = of_kymo(lake)
    assert sorted({row[0] for row in rows}) == sorted(HOSTS) and {row[2] for row in rows} == {"b/0", "b/1"}
    listed = json.loads(kymo("lake", "list", lake, "--json"))
    assert len(listed["additions"]) == 3 and listed["unfinished"] == []


def test_duckdb(lake: Path) -> None:
    files = f"{lake}/motor%3Astep/*/*/*.parquet"
    table = f"read_parquet('{files}', hive_partitioning = true, union_by_name = true)"
    query = QUERY.format(table).replace("CAST(time AS BIGINT)", "epoch_ns(time)")
    assert duckdb.sql(query).fetchall() == of_kymo(lake)
    # What has no day is null.
    files = f"{lake}/threads/*/*/*.parquet"
    table = f"read_parquet('{files}', hive_partitioning = true, union_by_name = true)"
    (row,) = duckdb.sql(f"SELECT count(*) FILTER (day IS NULL), count(day), count(label_board) FROM {table}").fetchall()
    (own,) = json.loads(
        kymo(
            "sql",
            "--lake",
            lake,
            "SELECT sum(CASE WHEN day IS NULL THEN 1 ELSE 0 END) AS a, count(day) AS b, count(label_board) AS c FROM threads",
            "--json",
        )
    )
    assert row == tuple(own.values()) and row[0] > 0 and row[1] > 0


def test_polars(lake: Path) -> None:
    table = polars.scan_parquet(lake / "motor%3Astep", hive_partitioning=True)
    column = polars.col
    found = (
        table.with_columns(column("day").cast(polars.String), column("label_board").cast(polars.String))
        .group_by("host", "day", "label_board")
        .agg(polars.len().alias("n"), column("axis").max().alias("most"), column("time").min().cast(polars.Int64))
        .sort("host", "day")
        .collect()
    )
    assert found.rows() == of_kymo(lake)


def test_pyarrow(lake: Path) -> None:
    table = pyarrow.dataset.dataset(lake / "motor%3Astep", partitioning="hive").to_table(columns=["host", "time"])
    counts = {row["values"]: row["counts"] for row in table["host"].value_counts().to_pylist()}
    assert counts == {row[0]: row[3] for row in of_kymo(lake)}


@pytest.mark.skipif(cluster.missing() is not None, reason=cluster.missing() or "")
def test_spark(lake: Path) -> None:
    with cluster.session("local[1]", {"spark.sql.legacy.parquet.nanosAsLong": "true"}) as spark:
        table = spark.read.option("mergeSchema", "true").parquet(os.fspath(lake / "motor%3Astep"))
        counts = {row["host"]: row["count"] for row in table.groupBy("host").count().collect()}
    assert counts == {row[0]: row[3] for row in of_kymo(lake)}
