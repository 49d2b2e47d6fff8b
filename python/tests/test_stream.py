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
    begin = time.monotonic()
    assert result.count() == 0
    whole = time.monotonic() - begin
    for take in (result.arrow, result.polars, result.pandas, lambda: pa.table(result), lambda: pl.DataFrame(result)):
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            try:
                take()
            finally:
                took = time.monotonic() - begin
                timer.join()
                # Where the taker raises its own error first, Python raises this one at the next chance.
                for _ in range(100):
                    time.sleep(0.001)
        assert took < max(0.6, whole * 0.7), f"{took:.2f} s of {whole:.2f} s"


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
    ticks: list[float] = []
    over = threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    def rate(what: Callable[[], object]) -> float:
        begin = time.monotonic()
        what()
        end = time.monotonic()
        return sum(begin <= at <= end for at in ticks) / (end - begin)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        alone = rate(lambda: time.sleep(1))
        beside = rate(getattr(large.events("motor:step", filter="axis > 100"), taker))
    finally:
        over.set()
        thread.join()
    # Who waits with the GIL lets others run 20 times a second.
    assert beside > alone / 8, f"{beside:.0f} times a second beside a scan, {alone:.0f} alone"


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
    for _ in range(200):
        if threads() <= before + 1:
            return
        time.sleep(0.01)
    pytest.fail(f"{threads() - before} threads are left")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))
