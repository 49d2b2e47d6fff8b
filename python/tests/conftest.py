# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces for the tests: a program with events of its own, recorded here, and a kernel's records, imported from text."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import kymotrace
import pytest
from kymotrace import command

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
STEPS = 60_000
WAKEUPS = 400
# One of them takes so much longer, us.
LATE_US = 400
KERNEL_HEAD = "# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "small: what the usual run of all tests has of these (KYMO_PYTHON_SMALL=1)")


def kymo(*words: str | os.PathLike[str], good: tuple[int, ...] = (0,)) -> str:
    """What a verb prints."""
    done = subprocess.run([command.find("the tests"), *map(os.fspath, words)], capture_output=True, text=True)
    assert done.returncode in good, f"kymo {words}: {done.returncode}\n{done.stderr}"
    return done.stdout


def read_json(*words: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Records as `kymo read --json` has them."""
    return [json.loads(line) for line in kymo("read", *words, "--json").splitlines()]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with the event motor:step."""
    path = tmp_path_factory.mktemp("program") / "motor"
    source = Path(__file__).with_name("motor.c")
    library = Path(os.environ.get("KYMO_LIB", ROOT / "build/emit")) / "libkymo.a"
    if not library.exists():
        pytest.fail(f"{library} is missing: make emit")
    words = ["cc", "-O2", "-I", ROOT / "emit/include", source, library, "-pthread", "-ldl", "-o", path]
    subprocess.run(words, check=True)
    return path


def record_steps(program: Path, directory: Path, steps: int) -> Path:
    """Records the program; it waits for room in its rings, so that nothing is lost."""
    env = os.environ | {"KYMO_ALLOW_BLOCKING": "1", "KYMO_START_WAIT": "10000"}
    words = [command.find("the tests"), "record", "-q", "--json", "--block", "10s", "-o", directory, "--", program]
    done = subprocess.run([*map(os.fspath, words), str(steps)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == steps
    return directory


@pytest.fixture(scope="session")
def steps(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with records of motor:step."""
    return record_steps(program, tmp_path_factory.mktemp("traces") / "steps", STEPS)


@pytest.fixture(scope="session")
def large(steps: Path, tmp_path_factory: pytest.TempPathFactory) -> kymotrace.Trace:
    """As many copies of it as take two seconds of CPU time to read, while nothing is found."""
    took = []
    for _ in range(3):
        begin = time.process_time()
        kymotrace.open(steps).events("motor:step", filter="axis > 100").count()
        took.append(time.process_time() - begin)
    # A busy machine must not make it small: its rows are much more than the batches that are held of them.
    copies = min(max(8, int(2.0 / min(took)) + 1), 100)
    base = tmp_path_factory.mktemp("large")
    for number in range(copies):
        shutil.copytree(steps, base / f"{number:02}")
    return kymotrace.open(base)


def kernel_text(wakeups: int = WAKEUPS, begin_us: int = 1_000_000_000, late_us: int = LATE_US) -> str:
    """A kernel's records: one thread, woken each millisecond; one wake-up in the middle is late."""
    lines = [KERNEL_HEAD]

    def line(task: str, pid: int, flags: str, us: int, text: str) -> None:
        lines.append(f"{task:>16}-{pid:<7} [000] {flags} {us // 1_000_000:5d}.{us % 1_000_000:06d}: {text}\n")

    idle, motor = ("comm=swapper/0", "pid=0", "prio=120"), ("comm=motor", "pid=100", "prio=49")
    for number in range(wakeups):
        us = begin_us + 1000 * number
        ran = us + 20 + number % 7 * 5 + (late_us if number == wakeups // 2 else 0)
        line("<idle>", 0, "dNh2.", us, f"sched_waking: {' '.join(motor)} target_cpu=000")
        line("<idle>", 0, "d..2.", ran, _switch(idle, "R", motor))
        line("motor", 100, "d..2.", ran + 100, _switch(motor, "S", idle))
    return "".join(lines)


def lock_text(waits: int = 10) -> str:
    """Two threads and one lock: each wait for it takes 310 us."""
    lines = [KERNEL_HEAD]
    worker, holder = ("comm=worker", "pid=200", "prio=120"), ("comm=holder", "pid=201", "prio=120")

    def line(task: str, pid: int, us: int, text: str) -> None:
        lines.append(f"{task:>16}-{pid:<7} [000] d..2. {us // 1_000_000:5d}.{us % 1_000_000:06d}: {text}\n")

    call = "sys_futex(uaddr: 0x7f0000001000, op: 0x{}, val: 1, utime: 0, uaddr2: 0x0, val3: 0)"
    for number in range(waits):
        us = 1_000_000_000 + 1000 * number
        line("worker", 200, us, call.format(80))
        line("worker", 200, us + 5, _switch(worker, "S", holder))
        line("holder", 201, us + 300, call.format(81))
        line("holder", 201, us + 302, f"sched_waking: {' '.join(worker)} target_cpu=000")
        line("holder", 201, us + 305, "sys_futex -> 0x1")
        line("holder", 201, us + 306, _switch(holder, "S", worker))
        line("worker", 200, us + 310, "sys_futex -> 0x0")
    return "".join(lines)


def _switch(a: tuple[str, ...], state: str, b: tuple[str, ...]) -> str:
    previous = " ".join(f"prev_{part}" for part in a)
    following = " ".join(f"next_{part}" for part in b)
    return f"sched_switch: {previous} prev_state={state} ==> {following}"


def import_kernel(text: str, directory: Path) -> Path:
    """A trace of what a kernel printed."""
    source = directory.with_suffix(".txt")
    source.write_text(text)
    kymo("import", source, "-o", directory)
    return directory


def made(directory: Path, fields: str, *payloads: bytes, event: str = "motor:made") -> Path:
    """A trace with one event, of which each byte is given."""
    head = """/* CTF 1.8 */
        typealias integer { size = 8; align = 8; } := u8;
        typealias integer { size = 32; align = 8; } := u32;
        typealias integer { size = 64; align = 8; signed = true; } := i64;
        typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; byte_order = le; } := f64;
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1000000000; };
        typealias integer { size = 8; align = 8; map = clock.c.value; } := time;
        stream { event.header := struct { u8 id; time timestamp; }; };"""
    directory.mkdir(parents=True, exist_ok=True)
    described = f'event {{ id = 1; name = "{event}"; fields := struct {{ {fields} }}; }};'
    (directory / "metadata").write_text(head + described)
    (directory / "stream").write_bytes(b"".join(bytes([1, at + 10]) + payload for at, payload in enumerate(payloads)))
    return directory


def on_host(trace: Path, directory: Path, host: str) -> Path:
    """A copy of a trace, of a host with another name, and of another boot, which its clock names."""
    directory.mkdir()
    for file in trace.iterdir():
        data = file.read_bytes()
        if file.name == "metadata":
            data = re.sub(rb"hostname = .*;", lambda _: f'hostname = "{host}";'.encode(), data)
            boot = f'\\1uuid = "{uuid.uuid5(uuid.NAMESPACE_DNS, host)}"'.encode()
            data, count = re.subn(rb"(clock \{[^}]*?)uuid = \S*\"", boot, data)
            assert count == 1
        if file.is_file() and not file.name.startswith("."):
            (directory / file.name).write_bytes(data)
    return directory


def cut_in_half(trace: Path) -> None:
    """Takes the second half of its largest stream away, and its index."""
    streams = [file for file in trace.iterdir() if not file.name.startswith((".", "metadata"))]
    stream = max(streams, key=lambda file: file.stat().st_size)
    os.truncate(stream, stream.stat().st_size // 2)
    (trace / ".kymo-index").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with the scheduler's records."""
    return import_kernel(kernel_text(), tmp_path_factory.mktemp("traces") / "kernel")


@pytest.fixture(scope="session")
def can_record_kernel(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where the kernel's events cannot be recorded."""
    path = tmp_path_factory.mktemp("probe") / "trace"
    words = [command.find("the tests"), "record", "-q", "-k", "sched", "-o", os.fspath(path), "--", "true"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        pytest.skip(f"no kernel events here: {done.stderr.strip()}")


@pytest.fixture(scope="session")
def has_sql(steps: Path) -> None:
    """Skips where there is no kymo-sql: kymo itself knows the verb's help without it."""
    words = [command.find("the tests"), "sql", steps, "select 1"]
    done = subprocess.run([*map(os.fspath, words)], capture_output=True, text=True)
    if done.returncode != 0 and "needs the command kymo-sql" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[0])
