# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pytest plug-in: a test passes, and fails with the explanation, as it must."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import kernel_text, import_kernel
from kymotrace import testing

SLEEPER = """
import threading, time

# The whole system is recorded, and nothing may be lost: a busy machine holds up the reader of the rings.
LARGE = ("--kernel-ring", "64M")

def sleeper(times=20):
    for _ in range(times):
        time.sleep(0.002)
"""


def test_the_judge_knows_what_is_too_long(kernel: Path) -> None:
    recording = testing.Recording(str(kernel), {"lost": {"full": 0}, "complete": True}, 0)
    recording.assert_wakeups(thread="motor", below="500us")
    recording.assert_wakeups(thread=100, below=500_000, samples=400)
    with pytest.raises(testing.LatencyExceeded) as raised:
        recording.assert_wakeups(thread="motor", below="200us")
    text = str(raised.value)
    assert text.startswith("wakeup of motor[100]: ") and "more than 200us" in text
    assert "where the time went" in text and str(kernel) in text
    with pytest.raises(testing.NothingRecorded, match=r"thread pump.*motor\[100\]"):
        recording.assert_wakeups(thread="pump", below="1s")
    with pytest.raises(testing.NothingRecorded, match="401 are needed"):
        recording.assert_wakeups(thread="motor", below="1s", samples=401)


@pytest.mark.parametrize(
    ("summary", "status", "part"),
    [
        ({"lost": {"full": 3}, "complete": True}, 0, "3 records of programs: full"),
        ({"lost": {"full": 0}, "complete": True, "kernel": {"lost": {"overwritten": 9}}}, 0, "9 records of the kernel"),
        ({"lost": {"full": 0}, "complete": True, "unknown": ["hello[3]: not recorded"]}, 3, "hello"),
        ({"lost": {"full": 0}, "complete": True}, 3, "did not account"),
        ({"lost": {"full": 0}, "complete": False}, 0, "did not account"),
        ({"lost": {"full": 0}, "complete": True, "write_error": "no space"}, 2, "no space"),
    ],
)
def test_the_judge_knows_what_is_lost(tmp_path: Path, summary: dict[str, object], status: int, part: str) -> None:
    trace = import_kernel(kernel_text(20), tmp_path / "t")
    recording = testing.Recording(str(trace), summary, status)
    for assertion in (recording.assert_nothing_lost, lambda: recording.assert_wakeups(below="1s")):
        with pytest.raises(testing.RecordsLost) as raised:
            assertion()
        assert part in str(raised.value)
    recording.assert_wakeups(below="1s", lost_ok=True)


@pytest.mark.usefixtures("can_record_kernel")
def test_a_marked_test_is_judged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        SLEEPER
        + """
import os, pytest

@pytest.mark.kymo(wakeup_below="600s", process=os.getpid(), samples=20, options=LARGE)
def test_passes():
    sleeper()

@pytest.mark.kymo(wakeup_below="1ns", process=os.getpid(), options=LARGE)
def test_fails():
    sleeper()

@pytest.mark.kymo(wakeup_below="600s", thread="no-such-thread", options=LARGE)
def test_says_nothing():
    sleeper()

@pytest.mark.kymo(wakeup_below="1ns")
def test_fails_by_itself():
    sleeper()
    assert False, "by itself"
"""
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rA")
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["*more than 1ns*", "*where the time went*", "*trace: */trace-1*"])
    result.stdout.fnmatch_lines(["*0 wakeup latencies of thread no-such-thread are in the trace*"])
    result.stdout.fnmatch_lines(["*by itself*"])


@pytest.mark.usefixtures("can_record_kernel")
def test_the_fixture_records_a_block_and_a_command(pytester: pytest.Pytester, program: Path) -> None:
    pytester.makepyfile(
        SLEEPER
        + f"""
import os, threading

def test_block(kymo):
    with kymo.record(kernel="sched,timer", options=LARGE) as recording:
        thread = threading.Thread(target=sleeper)
        thread.start()
        thread.join()
    recording.assert_wakeups(thread=thread, below="600s", samples=19)
    assert recording.trace.table("threads").count() > 0

def test_command(kymo, monkeypatch):
    monkeypatch.setenv("KYMO_ALLOW_BLOCKING", "1")
    monkeypatch.setenv("KYMO_START_WAIT", "10000")
    recording = kymo.run([{str(program)!r}, "50"], kernel=None, options=["--block", "10s"])
    recording.assert_nothing_lost()
    assert recording.trace.events("motor:step").count() == 50

def test_command_that_fails(kymo):
    import kymotrace, pytest
    with pytest.raises(kymotrace.KymoError, match="status 3"):
        kymo.run(["sh", "-c", "exit 3"], kernel=None)
    assert kymo.run(["sh", "-c", "echo out; exit 3"], kernel=None, check=False).output == "out\\n"
"""
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rA")
    result.assert_outcomes(passed=3)


def test_where_kymo_is_missing(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(
        """
import pytest

def test_it(kymo):
    pass

@pytest.mark.kymo
def test_marked():
    pass
"""
    )
    monkeypatch.setenv("KYMO", "/no/such/kymo")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.parseoutcomes().get("passed", 0) == 0
    result.stdout.fnmatch_lines(["*/no/such/kymo is no program*"])
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-o", "kymo_missing=skip", "-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*/no/such/kymo is no program*"])
