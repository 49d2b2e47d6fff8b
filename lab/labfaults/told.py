# SPDX-License-Identifier: MIT OR Apache-2.0
"""Delays of known causes, recorded with `kymo record` and asked about: do `kymo explain` and `kymo critical` name the cause, as text and JSON?"""
import ctypes
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
EVENTS = "sched,irq,syscalls,timer,faults,signal:signal_generate"
GROUPS = Path("/sys/fs/cgroup/cpu")  # cgroup v1
GROUP = GROUPS / "kymo-faults"
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
        # What one thread did, and how, is one cause.
        sums = {}
        for part in document["budget"]:
            key = (part["kind"], part["tid"] if part["kind"] in ("lock_owner", "waker", "stopped") else None)
            sums[key] = sums.get(key, 0) + part["ns"]
        kind = max(sums, key=sums.get)[0]
        return None if kind == self.kind else f"{verb} --json: {kind}"

    def wrong_in_text(self, verb, text):
        missing = [word for word in self.words if word not in text]
        return f"{verb}: no {missing[0]!r}" if missing else None


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
    windows = during(find("victim", process.pid)) if during else None
    text = process.communicate(timeout=300)[0]
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


def stops(count):
    def during(pid):
        windows = []
        for _ in range(count):
            time.sleep(0.2)
            os.kill(pid, signal.SIGSTOP)
            begin = time.time_ns() + 2_000_000
            time.sleep(0.05)
            windows.append((begin, time.time_ns() - 2_000_000, pid))
            os.kill(pid, signal.SIGCONT)
        return windows

    return during


def traces(count):
    libc = ctypes.CDLL(None, use_errno=True)

    def during(pid):
        windows = []
        libc.ptrace(PTRACE_SEIZE, pid, None, None)
        for _ in range(count):
            time.sleep(0.2)
            libc.ptrace(PTRACE_INTERRUPT, pid, None, None)
            os.waitpid(pid, 0x40000000)
            begin = time.time_ns() + 2_000_000
            time.sleep(0.05)
            windows.append((begin, time.time_ns() - 2_000_000, pid))
            libc.ptrace(7, pid, None, None)  # PTRACE_CONT
        libc.ptrace(PTRACE_INTERRUPT, pid, None, None)
        os.waitpid(pid, 0x40000000)
        libc.ptrace(PTRACE_DETACH, pid, None, None)
        return windows

    return during


def in_group(settings, count, work):
    """Puts the victim into a control group of its own, with these settings."""
    def during(pid):
        GROUP.mkdir(exist_ok=True)
        for name, value in settings:
            (GROUP / name).write_text(str(value))
        (GROUP / "cgroup.procs").write_text(str(pid))
        time.sleep(0.3)
        windows = []
        for _ in range(count):
            begin = time.time_ns()
            time.sleep(work)
            windows.append((begin, time.time_ns(), pid))
        return windows

    return during


def remove_group():
    for _ in range(100):
        try:
            GROUP.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)


KINDS = [
    ("SIGSTOP", ["sleep", "{ms}"], Wanted("stopped", ["stopped by", "by a signal"]), stops),
    ("ptrace stop", ["sleep", "{ms}"], Wanted("stopped", ["stopped", "under a debugger"]), traces),
    ("minor page faults", ["faults", "{count}"], Wanted("page_fault", ["page faults"]), None),
    ("owner of an owner of a lock", ["owners", "{count}"], Wanted("lock_owner", ["v-inner"]), None),
    ("lock with inheritance", ["inherit", "{count}"], Wanted("lock_owner", ["v-owner"]), None),
    ("chain of three pipes", ["pipes", "{count}"], Wanted("waker", ["v-first"]), None),
    ("CPU quota of a group", ["work", "{ms}"], Wanted("throttled", ["CPU quota"]),
     lambda count: in_group([("cpu.cfs_period_us", 100000), ("cpu.cfs_quota_us", 10000)], count, 0.3)),
    ("real-time throttling of a group", ["burn", "{ms}"], Wanted("throttled", ["real-time throttling"]),
     lambda count: in_group([("cpu.rt_period_us", 200000), ("cpu.rt_runtime_us", 20000)], count, 0.4)),
]


def named(kymo, kind, directory, count):
    """For each delay the wanted kind, or what was wrong."""
    _, words, wanted, how = kind
    ms = 1000 + 700 * count
    words = [word.format(ms=ms, count=count) for word in words]
    try:
        trace, windows = record(kymo, directory, build(directory), words, during=how(count) if how else None)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return [f"not possible here: {error}"] * count
    finally:
        remove_group()
    got = [wrong(kymo, trace, window, wanted) or wanted.kind for window in windows]
    return got + ["not found"] * (count - len(got))
