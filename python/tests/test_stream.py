# SPDX-License-Identifier: MIT OR Apache-2.0
"""How rows come: bounded memory, Ctrl-C, the GIL for others, progress."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import kymotrace
import pytest


def anonymous_kib() -> int:
    """Memory of the process that is no file's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def test_memory_stays_bounded(large: kymotrace.Trace) -> None:
    before, most, largest, size = anonymous_kib(), 0, 0, 0
    for batch in large.table("records"):
        if not size:
            # The reader could go far ahead meanwhile.
            time.sleep(4)
        size += batch.nbytes
        largest = max(largest, batch.nbytes)
        most = max(most, anonymous_kib() - before)
    # The rows together are much larger than the few batches that were ever held of them.
    bound = (6 * largest >> 10) + (6 << 10)
    assert size >> 10 > 2 * bound
    assert most < bound, f"{most} KiB for {size >> 10} KiB of rows in batches of {largest >> 10} KiB"


def test_ctrl_c_ends_a_scan(large: kymotrace.Trace) -> None:
    import polars as pl
    import pyarrow as pa

    # Nothing is ever found, so that nothing but waiting is interrupted.
    result = large.events("motor:step", filter="axis > 100")
    begin = time.process_time()
    assert result.count() == 0
    whole = time.process_time() - begin
    takers: list[Callable[[], object]] = [result.arrow, result.polars, result.pandas]
    takers += [lambda: pa.table(result), lambda: pl.DataFrame(result)]
    for number, take in enumerate(takers):
        # The signal of one attempt may come late, when all is read; a scan that does not end does so each time.
        used = []
        while not used or (min(used) > 0.7 * whole and len(used) < 5):
            used.append(interrupted(take))
        assert min(used) < 0.7 * whole, f"taker {number}: {used} s of CPU time, {whole:.2f} s for the whole scan"


def interrupted(take: Callable[[], object]) -> float:
    """CPU time that a scan takes which Ctrl-C ends: how long it takes depends on what else runs on the machine."""
    sent = threading.Event()

    def interrupt() -> None:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        sent.set()

    thread = threading.Thread(target=interrupt)
    begin = time.process_time()
    with pytest.raises(KeyboardInterrupt):
        try:
            thread.start()
            take()
        finally:
            # Where the taker raises its own error first, Python raises this one at the next chance.
            while not sent.is_set():
                time.sleep(0.001)
            for _ in range(100):
                time.sleep(0.001)
    used = time.process_time() - begin
    thread.join()
    return used


def test_who_interrupts_gets_no_further_rows(large: kymotrace.Trace) -> None:
    seen: list[int] = []

    def progress(rows: int, share: float | None) -> None:
        seen.append(rows)
        if rows:
            os.kill(os.getpid(), signal.SIGINT)

    trace = kymotrace.open(large.paths, progress=progress)
    with pytest.raises(KeyboardInterrupt):
        trace.events("motor:step").arrow()
    count = len(seen)
    time.sleep(0.2)
    assert len(seen) == count and seen[-1] < 60_000


@pytest.mark.parametrize("taker", ["arrow", "polars", "count"])
def test_other_threads_go_on(large: kymotrace.Trace, taker: str) -> None:
    import polars  # noqa: F401  While a package is imported, others run.
    import pyarrow  # noqa: F401

    take = getattr(large.events("motor:step", filter="axis > 100"), taker)
    # Who waits with the GIL lets others run 20 times a second, however idle the machine is. One good moment shows that
    # they can go on; a busy machine may have none in a scan.
    best = 0.0
    for _ in range(10):
        best = max(best, rate_beside(take))
        if best > 60:
            return
    pytest.fail(f"others run {best:.0f} times a second beside a scan")


def rate_beside(what: Callable[[], object], count: int = 20) -> float:
    """How often in a second another thread runs meanwhile: in the moment when it runs `count` times soonest."""
    ticks: list[float] = []
    over = threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    try:
        what()
    finally:
        end = time.monotonic()
        over.set()
        thread.join()
    # Without what lies before the first wait, and behind the last.
    margin = (end - begin) / 10
    within = [at for at in ticks if begin + margin <= at <= end - margin]
    return max((count / (b - a) for a, b in zip(within, within[count:], strict=False)), default=0.0)


def test_progress_is_told(large: kymotrace.Trace, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, float | None]] = []
    trace = kymotrace.open(large.paths[0] + "/00", progress=lambda rows, share: told.append((rows, share)))
    rows = trace.events("motor:step").count()
    assert told[-1][0] == rows == 60_000
    assert [rows for rows, _ in told] == sorted(rows for rows, _ in told)
    shares = [share for _, share in told if share is not None]
    assert shares == sorted(shares) and shares[-1] > 0.99
    loud = kymotrace.open(trace.paths, progress=True)
    loud.events("motor:step").count()
    line = capsys.readouterr().err
    assert "motor:step: " in line and line.endswith("\r\x1b[K")


def test_what_progress_raises_ends_the_scan(steps: Path) -> None:
    def progress(rows: int, share: float | None) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        kymotrace.open(steps, progress=progress).events("motor:step").arrow()


def test_a_stream_that_nobody_reads_ends(steps: Path) -> None:
    import pyarrow as pa

    before = threads()
    for _ in range(20):
        reader = pa.RecordBatchReader.from_stream(kymotrace.open(steps).events("motor:step"))
        reader.read_next_batch()
        del reader
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if threads() <= before + 1:
            return
        time.sleep(0.01)
    pytest.fail(f"{threads() - before} threads are left")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))
