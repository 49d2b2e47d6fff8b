# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pytest plug-in: a fixture that records, and a marker that records a whole test and judges it.

    def test_motor(kymo):
        with kymo.record() as recording:
            run_the_motor()
        recording.assert_wakeups(thread="motor", below="200us")

    @pytest.mark.kymo(thread="motor", wakeup_below="200us")
    def test_motor_again():
        run_the_motor()
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ..command import KymoNotFound, find
from . import recording as own
from .recording import KERNEL, Recording

_MARKER = (
    "kymo(wakeup_below=None, thread=None, process=None, latency=None, samples=1, lost_ok=False, "
    "kernel='sched,irq,timer', user=None, options=()): record the test with kymo, and fail it if a wake-up took longer, "
    "or if records were lost; "
    "latency: other kinds and their limits, as {'irq': '50us'}"
)
_RECORDING = pytest.StashKey[list[Recording]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kymo", "latency recorded with kymo")
    group.addoption("--kymo-dir", metavar="DIR", help="directory for traces [default: that of tmp_path]")
    parser.addini(
        "kymo_missing",
        "what a test does that needs the command kymo where there is none: fail (default) or skip",
        default="fail",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if config.getini("kymo_missing") not in ("fail", "skip"):
        raise pytest.UsageError(f"kymo_missing = {config.getini('kymo_missing')}: fail or skip")


class Recorder:
    """The fixture `kymo`: recordings of a test, each in a directory of its own."""

    def __init__(self, directory: Path, kept: list[Recording]) -> None:
        self._directory = directory
        self._kept = kept
        self._numbers = itertools.count(1)

    def _next(self) -> str:
        return os.fspath(self._directory / f"trace-{next(self._numbers)}")

    @contextmanager
    def record(
        self, *, kernel: str | None = KERNEL, user: str | Sequence[str] | None = None, options: Sequence[str] = ()
    ) -> Iterator[Recording]:
        """As :func:`kymotrace.testing.record`."""
        with own.record(self._next(), kernel=kernel, user=user, options=options) as recording:
            self._kept.append(recording)
            yield recording

    def run(self, words: Sequence[str | os.PathLike[str]], **options: Any) -> Recording:
        """As :func:`kymotrace.testing.run`."""
        recording = own.run(words, self._next(), **options)
        self._kept.append(recording)
        return recording


def _recorder(item: pytest.Item, factory: pytest.TempPathFactory) -> Recorder:
    try:
        find("this test")
    except KymoNotFound as missing:
        if item.config.getini("kymo_missing") == "skip":
            pytest.skip(str(missing))
        pytest.fail(str(missing), pytrace=False)
    named = item.config.getoption("--kymo-dir")
    name = "".join(letter if letter.isalnum() else "-" for letter in item.name)[:40]
    if named:
        Path(named).mkdir(parents=True, exist_ok=True)
        number = 0
        while (directory := Path(named) / f"{name}{number}").exists():
            number += 1
        directory.mkdir()
    else:
        directory = factory.mktemp(f"kymo-{name}")
    return Recorder(directory, item.stash.setdefault(_RECORDING, []))


@pytest.fixture
def kymo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Records with kymo: .record() while a block runs, .run() a command."""
    return _recorder(request.node, tmp_path_factory)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Records what has the marker, and judges it when it has passed."""
    marker = item.get_closest_marker("kymo")
    if marker is None:
        return (yield)
    wanted = _Wanted(**marker.kwargs)
    if marker.args:
        raise pytest.UsageError(f"the marker kymo takes names only: {_MARKER}")
    factory: pytest.TempPathFactory = item.config._tmp_path_factory  # type: ignore[attr-defined]
    recorder = _recorder(item, factory)
    with ExitStack() as stack:
        # The setting up of fixtures is not recorded.
        recording = stack.enter_context(
            recorder.record(kernel=wanted.kernel, user=wanted.user, options=wanted.options)
        )
        result = yield
    wanted.judge(recording)
    return result


class _Wanted:
    """What a marker asks for."""

    def __init__(
        self,
        wakeup_below: Any = None,
        thread: Any = None,
        process: Any = None,
        latency: dict[str, Any] | None = None,
        samples: int = 1,
        lost_ok: bool = False,
        kernel: str | None = KERNEL,
        user: str | Sequence[str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.limits = dict(latency or {})
        if wakeup_below is not None:
            self.limits["wakeup"] = wakeup_below
        self.thread, self.process, self.samples, self.lost_ok = thread, process, samples, lost_ok
        self.kernel, self.user, self.options = kernel, user, options

    def judge(self, recording: Recording) -> None:
        __tracebackhide__ = True
        if not self.lost_ok:
            recording.assert_nothing_lost()
        for what, below in self.limits.items():
            recording.assert_latency(
                what,
                below=below,
                thread=self.thread,
                process=self.process,
                samples=self.samples,
                lost_ok=self.lost_ok,
            )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """A failure names the traces; its text is the explanation, without the lines of Python."""
    report = yield
    if call.when == "call" and report.failed:
        raised = call.excinfo.value if call.excinfo else None
        if isinstance(raised, (own.LatencyExceeded, own.RecordsLost, own.NothingRecorded)):
            report.longrepr = str(raised)
        traces = [recording.path for recording in item.stash.get(_RECORDING, [])]
        if traces:
            report.sections.append(("traces of kymo", "\n".join(traces)))
    return report
