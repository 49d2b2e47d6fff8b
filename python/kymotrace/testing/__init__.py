# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency as a test: record it, and assert that no wake-up of a thread took longer than it may, and that nothing was
lost. A failure has the explanation of the worst one.

>>> from kymotrace import testing
>>> with testing.record(kernel="sched,irq,timer") as recording:
...     run_the_motor()
>>> recording.assert_wakeups(thread="motor", below="200us")

pytest finds the plug-in by itself: see the fixture `kymo` and the marker `kymo` in docs/python.md.
"""

from .recording import (
    LatencyExceeded,
    NothingRecorded,
    Recording,
    RecordsLost,
    record,
    run,
)

__all__ = ["LatencyExceeded", "NothingRecorded", "Recording", "RecordsLost", "record", "run"]
