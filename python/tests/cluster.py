# SPDX-License-Identifier: MIT OR Apache-2.0
"""A standalone Spark cluster on loopback, from the wheel of pyspark: a master, and workers of one core each. Every
process is one of ours, and is ended by its number. Used by the tests and by bench/query; needs no pytest."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_S = 120
"""A JVM on a busy machine."""
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_ON_PORT = re.compile(r"Starting Spark master at (spark://\S+)")
_LOOPBACK = "127.0.0.1"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "1g",
}


def missing() -> str | None:
    """Why there can be no cluster here."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is missing"
    return None if shutil.which("java") else "Java is missing"


@dataclass(frozen=True)
class Process:
    """A process that a service of ours started; `begin` tells it from a later one with its number."""

    pid: int
    parent: int
    begin: int

    def is_alive(self) -> bool:
        """Whether it still runs."""
        now = _process(self.pid)
        return now is not None and now.begin == self.begin

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _process(pid: int) -> Process | None:
    """What the kernel tells of it; none of one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else Process(pid, int(fields[1]), int(fields[19]))


def _processes() -> list[Process]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [one for one in map(_process, pids) if one]


class Service:
    """A master or a worker: one process, and what it prints."""

    def __init__(self, words: Sequence[str], log: Path, cpu: int | None = None) -> None:
        spec = importlib.util.find_spec("pyspark")
        assert spec and spec.origin
        home = Path(spec.origin).parent
        env = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": _LOOPBACK, "PYSPARK_PYTHON": sys.executable}
        self.log = log
        # taskset and spark-class become the JVM: the number is that of the JVM.
        command = [str(home / "bin/spark-class"), *words]
        if cpu is not None:
            command = ["taskset", "-c", str(cpu), *command]
        with log.open("wb") as to:
            # A session of its own: Ctrl-C is ours to answer.
            self.process = subprocess.Popen(
                command, stdout=to, stderr=subprocess.STDOUT, env=env, start_new_session=True, cwd=log.parent
            )

    def wait_for(self, pattern: re.Pattern[str]) -> str:
        """The first group of what the pattern finds in the log."""
        end, text = time.monotonic() + READY_S, ""
        while time.monotonic() < end:
            text = self.log.read_text(errors="replace")
            if found := pattern.search(text):
                return found[1]
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.log.name} ended with {self.process.returncode}:\n{text[-2000:]}")
            time.sleep(0.1)
        raise RuntimeError(f"{self.log.name}: not ready after {READY_S} s:\n{text[-2000:]}")

    def descendants(self) -> list[Process]:
        """Executors, and the Python processes that they started."""
        found: list[Process] = []
        queue = [self.process.pid]
        running = _processes()
        while queue:
            parent = queue.pop()
            below = [one for one in running if one.parent == parent]
            found += below
            queue += [one.pid for one in below]
        return found

    def kill(self) -> None:
        """SIGKILL for it and for what it started, as a machine that loses its power."""
        below = self.descendants()
        self.process.kill()
        self.process.wait()
        for one in below:
            one.kill()

    def end(self) -> None:
        """Ends it, at first politely, then what it has left: executors end by themselves a little later."""
        if self.process.poll() is not None:
            return
        below = self.descendants()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        end = time.monotonic() + 5
        while time.monotonic() < end and any(one.is_alive() for one in below):
            time.sleep(0.1)
        for one in below:
            one.kill()


class Cluster:
    """A master and its workers."""

    def __init__(self, root: Path, workers: int, cpus: Sequence[int] | None = None, memory: str = "1200m") -> None:
        """``cpus``: pins each worker, with all that it starts, to one of these."""
        self.root = root
        self.workers: list[Service] = []
        self.master = Service([_MASTER, "--host", _LOOPBACK, "--port", "0", "--webui-port", "0"], root / "master.log")
        try:
            self.url = self.master.wait_for(_ON_PORT)
            for number in range(workers):
                words = [_WORKER, "--host", _LOOPBACK, "-c", "1", "-m", memory, "--webui-port", "0"]
                words += ["-d", str(root / f"worker{number}"), self.url]
                cpu = cpus[number % len(cpus)] if cpus else None
                self.workers.append(Service(words, root / f"worker{number}.log", cpu))
            for worker in self.workers:
                worker.wait_for(re.compile(r"(Successfully registered with master)"))
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Ends all of it: workers first."""
        for worker in self.workers:
            worker.end()
        self.master.end()


@contextmanager
def session(master: str, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session of Spark with the data source "kymo"."""
    from kymotrace.spark import register
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # There is one in a process: what another test has left would be taken, with its master.
    if before := SparkSession.getActiveSession():
        before.stop()
    builder = SparkSession.builder.master(master)
    for name, value in (_SETTINGS | dict(settings or {})).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        register(spark)
        yield spark
    finally:
        spark.stop()


@contextmanager
def running(root: Path, workers: int, cpus: Sequence[int] | None = None) -> Iterator[Cluster]:
    """A cluster that is ended."""
    cluster = Cluster(root, workers, cpus)
    try:
        yield cluster
    finally:
        cluster.end()
