# SPDX-License-Identifier: MIT OR Apache-2.0
"""Many traces on a standalone cluster: a master and two workers, which are processes of their own. The answers are
those of `kymo sql` of each trace, row for row, also while a worker dies."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster
import pytest
from conftest import cut_in_half, import_kernel, kernel_text, kymo, record_steps

pytestmark = [
    pytest.mark.skipif(cluster.missing() is not None, reason=cluster.missing() or ""),
    pytest.mark.usefixtures("has_sql"),
    pytest.mark.small,
]

USERS, KERNELS = 4, 4
STEPS = 3000
GATE_S = 120
TABLES = {
    "motor:step": ("time", "cpu", "pid", "tid", "proc", "number", "axis", "position", "state"),
    "wakeups": ("time", "end_time", "duration_ns", "tid", "name", "prio", "cpu", "by_tid", "by", "cpu_mostly", "doubt"),
    "losses": ("time", "end_time", "kind", "records", "packets", "cpu", "what"),
}
TIMES = ("time", "end_time")
Rows = dict[str, list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def fleet(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight good traces, half of them with an index, and a cut one."""
    root = tmp_path_factory.mktemp("fleet")
    for number in range(USERS):
        record_steps(program, root / f"user{number}", STEPS + number)
    for number in range(KERNELS):
        import_kernel(kernel_text(200, 1_000_000_000 + 10_000_000 * number, 300 + number), root / f"kernel{number}")
        (root / f"kernel{number}.txt").unlink()
    shutil.copytree(root / "kernel0", root / "cut")
    cut_in_half(root / "cut")
    for name in ("user0", "user1", "kernel0", "kernel1"):
        kymo("index", root / name)
    return root


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    with cluster.running(tmp_path_factory.mktemp("cluster"), 2) as running:
        yield running


@pytest.fixture(scope="module")
def spark(two_workers: cluster.Cluster) -> Iterator[Any]:
    with cluster.session(two_workers.url) as session:
        yield session


def load(spark: Any, fleet: Path, table: str) -> Any:
    reader = spark.read.format("kymo").option("table", table).option("partitionBytes", 30_000)
    return reader.load(str(fleet)).select("trace", *TABLES[table])


def of_spark(frame: Any) -> Rows:
    """Rows by trace, in an order that does not depend on who read them."""
    found: Rows = {}
    for row in frame.collect():
        found.setdefault(Path(row["trace"]).name, []).append(tuple(row)[1:])
    return {trace: sorted(rows, key=repr) for trace, rows in found.items()}


def of_kymo_sql(fleet: Path, table: str) -> Rows:
    """The same of `kymo sql`, of one trace after the other."""
    columns = ", ".join(f"CAST({name} AS BIGINT)" if name in TIMES else name for name in TABLES[table])
    found: Rows = {}
    for trace in sorted(path for path in fleet.iterdir() if path.is_dir()):
        names = json.loads(kymo("sql", trace, "SHOW TABLES", "--json"))
        if table not in {row["table_name"] for row in names}:
            continue
        rows = json.loads(kymo("sql", trace, f'SELECT {columns} FROM "{table}"', "--json"))
        if rows:
            found[trace.name] = sorted((tuple(row.values()) for row in rows), key=repr)
    return found


@pytest.mark.parametrize("table", TABLES)
def test_rows_are_those_of_kymo_sql(spark: Any, fleet: Path, table: str) -> None:
    wanted = of_kymo_sql(fleet, table)
    traces = {"motor:step": USERS, "wakeups": KERNELS + 1, "losses": 1}
    assert len(wanted) == traces[table]
    frame = load(spark, fleet, table)
    assert frame.rdd.getNumPartitions() > USERS + KERNELS
    assert of_spark(frame) == wanted


def test_both_workers_read(spark: Any, two_workers: cluster.Cluster, fleet: Path) -> None:
    def who(_: int, rows: Iterator[Any]) -> Iterator[tuple[int, int]]:
        yield os.getpid(), sum(1 for _ in rows)

    read = load(spark, fleet, "motor:step").rdd.mapPartitionsWithIndex(who).collect()
    assert sum(rows for _, rows in read) == sum(STEPS + number for number in range(USERS))
    pids = {pid for pid, _ in read}
    for worker in two_workers.workers:
        assert pids & {one.pid for one in worker.descendants()}, worker.log.read_text()[-2000:]


def test_a_cut_trace_is_counted_among_good_ones(spark: Any, fleet: Path) -> None:
    counted = load(spark, fleet, "wakeups").groupBy("trace").count().collect()
    counts = {Path(row["trace"]).name: row["count"] for row in counted}
    assert 0 < counts["cut"] < counts["kernel0"]
    (loss,) = load(spark, fleet, "losses").collect()
    assert Path(loss["trace"]).name == "cut" and loss["kind"] == "damage"


# The last one: a worker is gone then.
def test_a_worker_that_dies_changes_no_row(
    spark: Any, two_workers: cluster.Cluster, fleet: Path, tmp_path: Path
) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    started.mkdir()
    notes, opened, patience = str(started), str(gate), GATE_S

    def held(batches: Iterator[Any]) -> Iterator[Any]:
        """Stands still between the first rows of a partition and the next ones."""
        from pyspark import TaskContext

        task = TaskContext.get()
        for position, batch in enumerate(batches):
            yield batch
            if position == 0:
                with open(f"{notes}/{task.partitionId()}-{task.attemptNumber()}-{os.getpid()}", "w"):
                    pass
                end = time.monotonic() + patience
                while not os.path.exists(opened) and time.monotonic() < end:
                    time.sleep(0.05)

    frame = load(spark, fleet, "motor:step")
    result: list[Rows] = []
    job = threading.Thread(target=lambda: result.append(of_spark(frame.mapInArrow(held, frame.schema))), daemon=True)
    job.start()
    killed = two_workers.workers[0]
    below = begun_by(killed, started)
    assert len(below) == 1, "a worker of one core has one task"
    assert job.is_alive() and not result
    killed.kill()
    gate.touch()
    job.join(GATE_S)
    assert result and result[0] == of_kymo_sql(fleet, "motor:step")
    # The part that had been begun there was read again elsewhere.
    partition, _, pid = below[0].split("-")
    others = [name for name in os.listdir(started) if name.split("-")[0] == partition and name.split("-")[2] != pid]
    assert others, sorted(os.listdir(started))
    assert killed.process.returncode == -9


def begun_by(worker: cluster.Service, started: Path) -> list[str]:
    """What a worker's processes have begun, as soon as there is something."""
    end = time.monotonic() + GATE_S
    while time.monotonic() < end:
        own = {str(one.pid) for one in worker.descendants()}
        if below := [name for name in os.listdir(started) if name.split("-")[2] in own]:
            return below
        time.sleep(0.1)
    raise AssertionError(f"no task on {worker.log.name}: {os.listdir(started)}\n{worker.log.read_text()[-2000:]}")
