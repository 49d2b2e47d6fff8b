# SPDX-License-Identifier: MIT OR Apache-2.0
"""Delays of known causes, recorded with `kymo record` and asked about: do `kymo explain` and `kymo critical` name the cause, as text and JSON?"""
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
INJECT = HERE / "inject.py"
EVENTS = "sched,irq,syscalls,timer,faults,signal:signal_generate"
V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
NAME = f"kymo-faults-{os.getpid()}"
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


def build(directory):
    out = Path(directory) / "victim"
    command = [os.environ.get("CC", "cc"), "-O2", "-pthread", "-o", str(out), str(HERE / "victim.c")]
    subprocess.run(command, check=True)
    return out


@dataclass
class Wanted:
    """The largest part of a stretch, and what its text has."""
    kind: str
    words: list

    def wrong_in_json(self, verb, document):
        kind = largest(document)[0]
        return None if kind == self.kind else f"{verb} --json: {kind}"

    def wrong_in_text(self, verb, text):
        missing = [word for word in self.words if word not in text]
        return f"{verb}: no {missing[0]!r}" if missing else None


def largest(document):
    """The largest cause of an answer, and the slices of its budget that it is made of."""
    slices = {}
    for part in document["budget"]:
        # What one thread did, and how, is one cause.
        key = (part["kind"], part["tid"] if part["kind"] in ("lock_owner", "waker", "stopped") else None)
        slices.setdefault(key, []).append(part)
    kind, parts = max(slices.items(), key=lambda item: sum(part["ns"] for part in item[1]))
    return kind[0], parts


def ask(kymo, words):
    done = subprocess.run([kymo, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return done.stdout if done.returncode in (0, 1) else done.stderr


def wrong(kymo, trace, window, wanted):
    """What of the four answers about a stretch of the victim is wrong."""
    begin, end, tid = window
    question = [trace, "--thread", tid, "--from", begin, "--to", end]
    for verb in ("explain", "critical"):
        try:
            found = wanted.wrong_in_json(verb, json.loads(ask(kymo, [verb, *question, "--json"])))
        except ValueError:
            found = f"{verb}: no answer"
        found = found or wanted.wrong_in_text(verb, ask(kymo, [verb, *question]))
        if found:
            return found
    return None


def record(kymo, directory, victim, words, more=(), during=None):
    """Records the victim; `during` gets its number once it runs. The trace and the delays."""
    trace = Path(directory) / "trace"
    shutil.rmtree(trace, ignore_errors=True)
    command = [kymo, "record", "-k", EVENTS, "--kernel-ring", "32M", "-o", str(trace), *more, "--", str(victim), *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    windows = pid = None
    try:
        if during:
            pid = find("victim", process.pid)
            windows = during(pid)
            # It goes on for longer than anybody may need: a busy machine is slow.
            os.kill(pid, signal.SIGTERM)
        text = process.communicate(timeout=300)[0]
    except BaseException:
        if pid and process.poll() is None:
            os.kill(pid, signal.SIGKILL)
        process.terminate()
        process.wait(timeout=60)
        raise
    told = [tuple(map(int, line.split())) for line in text.splitlines() if line[:1].isdigit()]
    return trace, windows or told


def find(name, parent):
    """The child of that name, once it has it."""
    for _ in range(600):
        for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            try:
                if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                    return int(pid)
            except OSError:
                pass
        time.sleep(0.02)
    raise RuntimeError("the victim did not come up")


def stops(count, ms=50):
    def during(pid):
        windows = []
        for _ in range(count):
            time.sleep(0.2)
            os.kill(pid, signal.SIGSTOP)
            begin = time.time_ns() + 2_000_000
            time.sleep(ms / 1e3)
            windows.append((begin, time.time_ns() - 2_000_000, pid))
            os.kill(pid, signal.SIGCONT)
        return windows

    return during


def traces(count, ms=50):
    libc = ctypes.CDLL(None, use_errno=True)

    def during(pid):
        windows = []
        libc.ptrace(PTRACE_SEIZE, pid, None, None)
        for _ in range(count):
            time.sleep(0.2)
            libc.ptrace(PTRACE_INTERRUPT, pid, None, None)
            os.waitpid(pid, 0x40000000)
            begin = time.time_ns() + 2_000_000
            time.sleep(ms / 1e3)
            windows.append((begin, time.time_ns() - 2_000_000, pid))
            libc.ptrace(7, pid, None, None)  # PTRACE_CONT
        libc.ptrace(PTRACE_INTERRUPT, pid, None, None)
        os.waitpid(pid, 0x40000000)
        libc.ptrace(PTRACE_DETACH, pid, None, None)
        return windows

    return during


def hogs(count, ms=50):
    """A thread of a higher priority on the victim's CPU, which must be one."""
    def during(pid):
        cpu = min(os.sched_getaffinity(pid))
        words = [sys.executable, INJECT, "hog", cpu, 95, ms, count, 0.3]
        text = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True).stdout
        return [(*map(int, line.split()), pid) for line in text.splitlines()]

    return during


def in_group(settings, count, ms):
    """Puts the victim into a control group of its own, with these settings."""
    group, values = settings()

    def during(pid):
        group.mkdir(exist_ok=True)
        for name, value in values:
            (group / name).write_text(str(value))
        (group / "cgroup.procs").write_text(str(pid))
        time.sleep(0.3)
        windows = []
        for _ in range(count * WINDOWS_EACH):
            begin, before = time.time_ns(), throttled_ns(group)
            time.sleep(ms / 1e3)
            end, after = time.time_ns(), throttled_ns(group)
            # Where many others want the CPU the quota is never used up, and is not the cause.
            if before is None or after - before > HOLDS * (end - begin):
                windows.append((begin, end, pid))
            if len(windows) == count:
                return windows
        raise NotInjected(f"the group was throttled in less than {HOLDS:.0%} of the time: too many others want the CPU")

    return during


class NotInjected(RuntimeError):
    """The cause did not take hold, as the kernel itself counts it: there is nothing to be asked about."""


# Stretches that are tried for each that is wanted, and how much of one the cause must have.
WINDOWS_EACH = 4
HOLDS = 0.6


def throttled_ns(group):
    """How long the kernel held the group back by its quota; None if it does not count that."""
    if not any((group / name).exists() for name in ("cpu.cfs_quota_us", "cpu.max")) or is_real_time(group):
        return None
    stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    if "throttled_time" in stat:
        return int(stat["throttled_time"])
    return int(stat["throttled_usec"]) * 1000 if "throttled_usec" in stat else None


def is_real_time(group):
    """Whether it has real-time runtime: then that is what it is about."""
    runtime_us = group / "cpu.rt_runtime_us"
    return runtime_us.exists() and runtime_us.read_text().strip() not in ("0", "-1")


def quota():
    """The group, and what makes its quota a tenth of a CPU."""
    if (V1 / "cpu.cfs_quota_us").exists():
        return V1 / NAME, [("cpu.cfs_period_us", 100000), ("cpu.cfs_quota_us", 10000)]
    return V2 / NAME, [("cpu.max", "10000 100000")]


def no_quota():
    if (V1 / "cpu.cfs_quota_us").exists():
        return None
    controllers = V2 / "cgroup.subtree_control"
    if controllers.exists() and "cpu" in controllers.read_text().split():
        return None
    return f"neither {V1}/cpu.cfs_quota_us nor the controller cpu in {controllers}"


def runtime():
    return V1 / NAME, [("cpu.rt_period_us", 200000), ("cpu.rt_runtime_us", 20000)]


def no_runtime():
    if not (V1 / "cpu.rt_runtime_us").exists():
        return f"no {V1}/cpu.rt_runtime_us (cgroup v1, CONFIG_RT_GROUP_SCHED)"
    setting = Path("/proc/sys/kernel/sched_rt_runtime_us").read_text().strip()
    return "kernel.sched_rt_runtime_us is -1: no group is looked at" if setting == "-1" else None


def remove_group():
    for group in (V1 / NAME, V2 / NAME):
        for _ in range(100):
            try:
                group.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.05)


@dataclass
class Kind:
    """A cause that can be injected into the victim: its words, what must be named, who does it."""
    name: str
    words: list
    wanted: Wanted
    during: Callable | None = None
    # As long as lab/faults takes, and from where to where lab/blind draws (of faults MiB).
    ms: int = 50
    drawn: tuple = (15, 60)
    # It needs the victim on one CPU.
    is_pinned: bool = False
    # Why this machine cannot do it.
    missing: Callable = lambda: None


KINDS = [
    Kind("SIGSTOP", ["sleep", "{total}"], Wanted("stopped", ["stopped by", "by a signal"]), stops),
    Kind("ptrace stop", ["sleep", "{total}"], Wanted("stopped", ["stopped", "under a debugger"]), traces),
    Kind("hog of a higher priority", ["sleep", "{total}"], Wanted("higher_priority", ["fault-hog"]), hogs, drawn=(25, 60), is_pinned=True),
    Kind("minor page faults", ["faults", "{count}", "{ms}"], Wanted("page_fault", ["page faults"]), ms=16, drawn=(12, 40)),
    Kind("owner of an owner of a lock", ["owners", "{count}", "{ms}"], Wanted("lock_owner", ["v-inner"]), ms=15, drawn=(10, 40)),
    Kind("lock with inheritance", ["inherit", "{count}", "{ms}"], Wanted("lock_owner", ["v-owner"]), ms=15, drawn=(10, 40)),
    Kind("lock without inheritance", ["plain", "{count}", "{ms}"], Wanted("lock_owner", ["v-owner"]), ms=15, drawn=(10, 40),
         is_pinned=True),
    Kind("chain of three pipes", ["pipes", "{count}", "{ms}"], Wanted("waker", ["v-first"]), ms=15, drawn=(10, 30)),
    Kind("own computation", ["compute", "{count}", "{ms}"], Wanted("own", []), ms=15, drawn=(10, 40)),
    Kind("CPU quota of a group", ["work", "{total}"], Wanted("throttled", ["CPU quota"]),
         lambda count, ms: in_group(quota, count, ms), ms=300, drawn=(250, 500), missing=no_quota),
    Kind("real-time throttling of a group", ["burn", "{total}"], Wanted("throttled", ["real-time throttling"]),
         lambda count, ms: in_group(runtime, count, ms), ms=400, drawn=(400, 600), missing=no_runtime),
]


def recorded(kymo, kind, directory, count, ms=None, cpu=None):
    """Records `count` delays of a kind; the trace and the delays. On one CPU, if one is given or the kind needs it."""
    ms = ms or kind.ms
    words = [word.format(total=120_000, count=count, ms=ms) for word in kind.words]
    if cpu is None and kind.is_pinned:
        cpu = max(os.sched_getaffinity(0))
    victim = build(directory)
    if cpu is not None:
        words, victim = ["-c", cpu, victim, *words], "taskset"
    try:
        return record(kymo, directory, victim, words, during=kind.during(count, ms) if kind.during else None)
    finally:
        remove_group()


def named(kymo, kind, directory, count):
    """For each delay the wanted kind, or what was wrong."""
    missing = kind.missing()
    try:
        if missing:
            raise RuntimeError(missing)
        trace, windows = recorded(kymo, kind, directory, count)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return [f"not possible here: {error}"] * count
    got = [wrong(kymo, trace, window, kind.wanted) or kind.wanted.kind for window in windows]
    return got + ["not found"] * (count - len(got))
