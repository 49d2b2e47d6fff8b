# SPDX-License-Identifier: MIT OR Apache-2.0
"""Delays of known causes, recorded with `kymo record` and asked about: do `kymo explain` and `kymo critical` name the cause, as text and JSON?"""
import ctypes
import json
import os
import re
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
MODULE = Path("/sys/kernel/debug/kymo_npt")  # lab/npt-module, in a virtual machine
EVENTS = "sched,irq,syscalls,timer,faults,signal:signal_generate"
V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


def name_of_group(pid):
    """The control group of whoever injects."""
    return f"kymo-faults-{pid}"


NAME = name_of_group(os.getpid())
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


def build(directory):
    """The victim; as $KYMO_VICTIM says, built before. Its file has another name than its thread, which has that once it is ready."""
    if os.environ.get("KYMO_VICTIM"):
        return Path(os.environ["KYMO_VICTIM"])
    out = Path(directory) / "victim-program"
    command = [os.environ.get("CC", "cc"), "-O2", "-pthread", "-o", str(out), str(HERE / "victim.c")]
    subprocess.run(command, check=True)
    return out


@dataclass
class Wanted:
    """The largest cause of a stretch, and a pattern that the text of its slices must match: who or what it was, at its place in the sentence."""
    kind: str
    says: str = ""

    def wrong(self, found, text):
        """What is wrong with an answer: its largest cause (`largest`), and the same answer as text. None: nothing.

        The name of the right thread stands in the time line of a wrong answer too, so only the slices of the largest cause count."""
        kind, parts = found
        if kind != self.kind:
            return kind
        of = [part for part in parts if re.search(self.says, said(part))]
        if 2 * sum(part["ns"] for part in of) <= sum(part["ns"] for part in parts):
            return f"{kind}: {said(max(parts, key=lambda part: part['ns']))!r} is not {self.says!r}"
        shown = max(of, key=lambda part: part["ns"])
        return None if said(shown) in " ".join(budget_of(text).split()) else f"{kind}: the text has no {said(shown)!r}"


def said(part):
    """The text of a slice: of `explain`, or of `critical`."""
    return part["text"] if "text" in part else part["part"]


def budget_of(text):
    """The lines of an answer that say where the time went; all of one that has no such part, as of `latency`."""
    for head in ("where the time went:\n", "of that time:\n"):
        if head in text:
            return text.split(head, 1)[1].split("\n\n", 1)[0]
    return text


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


def wrong_answer(kymo, verb, question, wanted):
    """What is wrong with the answer to a question, as JSON and as text; None: nothing."""
    try:
        found = largest(json.loads(ask(kymo, [verb, *question, "--json"])))
    except (ValueError, KeyError):
        return f"{verb}: no answer"
    wrong = wanted.wrong(found, ask(kymo, [verb, *question]))
    return f"{verb}: {wrong}" if wrong else None


def about_the_stretch(kymo, trace, window, wanted):
    """`explain` and `critical` about a stretch of the victim."""
    begin, end, tid = window
    question = [trace, "--thread", tid, "--from", begin, "--to", end]
    return wrong_answer(kymo, "explain", question, wanted) or wrong_answer(kymo, "critical", question, wanted)


def by_default(kymo, trace, window, wanted):
    """The same, and `explain` without any question: the worst of the recorded command is the delay."""
    found = about_the_stretch(kymo, trace, window, wanted)
    by_itself = None if found else wrong_answer(kymo, "explain", [trace], wanted)
    return f"by default: {by_itself}" if by_itself else found


def from_when_it_was_due(kymo, trace, window, wanted):
    """`latency`: the worst wake-up is as long as the delay, from when its timer was due; and its cause."""
    begin, end, tid = window
    # The timer was due at some time of the first interval of the victim.
    least_ns = end - begin - 3 * SLEEP_NS
    question = [trace, "--what", "wakeup", "--thread", tid, "--explain", "--limit", 20]
    try:
        samples = [sample for series in json.loads(ask(kymo, ["latency", *question, "--json"]))["series"] for sample in series["worst"]]
        worst = max((sample for sample in samples if sample["from"] < end and sample["to"] > begin), key=lambda sample: sample["value"])
    except (ValueError, KeyError):
        return "latency: no answer"
    if worst["value"] < least_ns:
        return f"latency: {worst['value'] / 1e6:.2f} ms"
    wrong = wanted.wrong(largest({"budget": worst["causes"]}), ask(kymo, ["latency", *question]))
    return f"latency --explain: {wrong}" if wrong else None


def woken_by_an_interrupt(kymo, trace, window, wanted):
    """Without events of interrupts: the worst wake-up of the victim, whose waker is an interrupt, and not the thread that it interrupted."""
    _begin, _end, tid = window
    question = [trace, "--thread", tid, "--worst", "wakeup"]
    try:
        story = json.loads(ask(kymo, ["explain", *question, "--json"]))
        headline, links = story["headline"], story["chain"]
    except (ValueError, KeyError):
        return "explain: no answer"
    if "after it was woken by an interrupt" not in headline or links:
        return f"explain: {headline!r}, {len(links)} links"
    return wrong_answer(kymo, "explain", question, wanted) or wrong_answer(kymo, "critical", question, wanted)


def record(kymo, directory, victim, words, more=(), during=None, events=EVENTS):
    """Records the victim; `during` gets its number once it runs. The trace and the delays."""
    trace = Path(directory) / "trace"
    shutil.rmtree(trace, ignore_errors=True)
    command = [kymo, "record", "-k", events, "--kernel-ring", "32M", "-o", str(trace), *more, "--", str(victim), *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    windows = pid = None
    try:
        if during:
            pid = find("victim", process.pid)
            windows = during(pid)
            # It goes on for longer than anybody may need: a busy machine is slow.
            os.kill(pid, signal.SIGTERM)
        text = process.communicate(timeout=120)[0]
    except BaseException:
        if pid and process.poll() is None:
            os.kill(pid, signal.SIGKILL)
        process.terminate()
        process.wait(timeout=60)
        raise
    told = [tuple(map(int, line.split())) for line in text.splitlines() if line[:1].isdigit()]
    return trace, windows or told


def wait_for_name(pid, name):
    """Until the first thread of a process has that name."""
    for _ in range(int(COMES_UP_S / LOOK_S)):
        if Path(f"/proc/{pid}/comm").read_text().strip() == name:
            return
        time.sleep(LOOK_S)
    raise RuntimeError(f"{pid} is not called {name}")


def find(name, parent):
    """The child of that name, once it has it: the victim takes its name when it is ready."""
    for _ in range(int(COMES_UP_S / LOOK_S)):
        for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            try:
                if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                    return int(pid)
            except OSError:
                pass
        time.sleep(LOOK_S)
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


def by_module(mode, verb="delay"):
    """Delays in the kernel, by lab/npt-module on the victim's CPU."""
    def kind(count, ms):
        def during(pid):
            cpu = min(os.sched_getaffinity(pid))
            windows = []
            for _ in range(count):
                time.sleep(0.2)
                (MODULE / "control").write_text(f"{verb} {cpu} {round(ms * 1000)} {mode}")
                if verb == "later":
                    time.sleep(0.06 + 2 * ms / 1e3)
                begin, end, _mode = (MODULE / "delays").read_text().splitlines()[-1].split()
                windows.append((int(begin), int(end), pid))
            return windows

        return during

    return kind


def no_module():
    return None if MODULE.exists() else "needs lab/npt-module in a virtual machine: lab/table --only vm-causes"


def no_softirq():
    return "softirqs can be preempted on a PREEMPT_RT kernel" if "PREEMPT_RT" in os.uname().version else None


def packets(count, thousands):
    """Packets for so many thousand sockets each: a softirq on the victim's CPU that takes long."""
    flood = Flood(thousands, count)

    def during(pid):
        windows = [(*window, pid) for window in flood.on(min(os.sched_getaffinity(pid))) if window[1] - window[0] >= SOFTIRQ_NS_MIN]
        if not windows:
            raise NotInjected(f"no packet kept the softirq busy for {SOFTIRQ_NS_MIN / 1e6} ms")
        return windows

    return during


class Flood:
    """`inject.py packets`, whose sockets are open before anything is recorded."""

    def __init__(self, thousands, count):
        words = [sys.executable, str(INJECT), "packets", str(thousands * 1000), str(count), "0.2"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError("no sockets for packets")

    def on(self, cpu):
        """Sends them on a CPU; when each was on its way."""
        text = self.process.communicate(f"{cpu}\n", timeout=60)[0]
        return [tuple(map(int, line.split())) for line in text.splitlines()]


def enter(group, values, pids):
    """Puts processes into a control group that is made for that."""
    group.mkdir(exist_ok=True)
    for name, value in values:
        (group / name).write_text(str(value))
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))


def in_group(settings, count, ms):
    """Puts the victim into a control group of its own, with these settings, and lets it begin."""
    group, values = settings()

    def during(pid):
        enter(group, values, [pid])
        os.kill(pid, signal.SIGUSR1)
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


# Seconds until a program is up, on a machine with much else to do; and between two looks.
COMES_UP_S = 60
LOOK_S = 0.02
# Stretches that are tried for each that is wanted, and how much of one the cause must have.
WINDOWS_EACH = 4
HOLDS = 0.6
# The victim sleeps for so long at a time.
SLEEP_NS = 2_000_000
# A softirq that is shorter is no delay to speak of.
SOFTIRQ_NS_MIN = 1_000_000
# Linux version that brought the fair server, and left throttling of CPUs to kernels with real-time group scheduling.
FAIR_SERVER = (6, 12)


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


def linux():
    """The kernel's version."""
    return tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))


def no_throttling():
    if Path("/proc/sys/kernel/sched_rt_runtime_us").read_text().strip() == "-1":
        return "kernel.sched_rt_runtime_us is -1"
    if linux() >= FAIR_SERVER and not (V1 / "cpu.rt_runtime_us").exists():
        return "from Linux 6.12 on only kernels with CONFIG_RT_GROUP_SCHED throttle a CPU"
    return None


def no_fair_server():
    return None if linux() >= FAIR_SERVER else "needs Linux 6.12"


def runtime():
    return V1 / NAME, [("cpu.rt_period_us", 200000), ("cpu.rt_runtime_us", 20000)]


def no_runtime():
    if not (V1 / "cpu.rt_runtime_us").exists():
        return f"no {V1}/cpu.rt_runtime_us (cgroup v1, CONFIG_RT_GROUP_SCHED)"
    setting = Path("/proc/sys/kernel/sched_rt_runtime_us").read_text().strip()
    return "kernel.sched_rt_runtime_us is -1: no group is looked at" if setting == "-1" else None


def remove_group(name):
    for group in (V1 / name, V2 / name):
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
    # As long as lab/faults takes, and from where to where lab/blind draws (of faults MiB, of packets thousands of sockets).
    ms: int = 50
    drawn: tuple = (15, 60)
    # It needs the victim on one CPU.
    is_pinned: bool = False
    # Why this machine cannot do it.
    missing: Callable = lambda: None
    # What of the answers about a delay is wrong.
    wrong: Callable = about_the_stretch
    # What is recorded of the kernel.
    events: str = EVENTS


# From Linux 6.12 on records do not tell real-time throttling from the fair server, and the answer says so.
RT_THROTTLED = "^throttled.* by (the fair server or )?real-time throttling"

KINDS = [
    Kind("SIGSTOP", ["sleep", "{total}"], Wanted("stopped", r"^stopped by (?!victim)\S.*\[\d+\].*, by a signal$"), stops),
    Kind("ptrace stop", ["sleep", "{total}"], Wanted("stopped", "^stopped.*, under a debugger$"), traces),
    Kind("hog of a higher priority", ["sleep", "{total}"], Wanted("higher_priority", r"^fault-hog\["), hogs, drawn=(25, 60), is_pinned=True),
    Kind("minor page faults", ["faults", "{count}", "{ms}"], Wanted("page_fault", "^page faults"), ms=16, drawn=(12, 40)),
    Kind("owner of an owner of a lock", ["owners", "{count}", "{ms}"], Wanted("lock_owner", r"^v-inner\["), ms=15, drawn=(10, 40)),
    Kind("lock with inheritance", ["inherit", "{count}", "{ms}"], Wanted("lock_owner", r"^v-owner\["), ms=15, drawn=(10, 40)),
    Kind("lock without inheritance", ["plain", "{count}", "{ms}"], Wanted("lock_owner", r"^v-owner\["), ms=15, drawn=(10, 40),
         is_pinned=True),
    Kind("chain of three pipes", ["pipes", "{count}", "{ms}"], Wanted("waker", r"^v-first\["), ms=15, drawn=(10, 30)),
    Kind("own computation", ["compute", "{count}", "{ms}"], Wanted("own", "^running$"), ms=15, drawn=(10, 40)),
    Kind("CPU quota of a group", ["work", "{total}"], Wanted("throttled", "^throttled.* by the CPU quota "),
         lambda count, ms: in_group(quota, count, ms), ms=300, drawn=(250, 500), missing=no_quota),
    Kind("real-time throttling of a group", ["burn", "{total}"], Wanted("throttled", RT_THROTTLED),
         lambda count, ms: in_group(runtime, count, ms), ms=400, drawn=(400, 600), missing=no_runtime),
    Kind("real-time throttling of the CPU", ["throttled", "{count}", "{ms}"], Wanted("throttled", RT_THROTTLED),
         ms=15, drawn=(15, 25), is_pinned=True, missing=no_throttling),
    Kind("fair server", ["served", "{count}", "{ms}"], Wanted("throttled", "^throttled.* by the fair server "), ms=15, drawn=(15, 25),
         is_pinned=True, missing=no_fair_server),
    Kind("long softirq of packets", ["sleep", "{total}", "200"], Wanted("softirq", "^softirq "), packets, ms=6, drawn=(4, 8),
         is_pinned=True, missing=no_softirq),
    Kind("interrupts off", ["sleep", "{total}"], Wanted("irqs_off", ", with interrupts off"), by_module("irqs"), ms=15, is_pinned=True,
         missing=no_module, wrong=by_default),
    Kind("long hard interrupt", ["sleep", "{total}"], Wanted("irq", "timer.* had "), by_module("hardirq", "later"), ms=15, is_pinned=True,
         missing=no_module, wrong=by_default),
    Kind("preemption off", ["sleep", "{total}"], Wanted("preemption_off", ", with preemption off"), by_module("preempt"), ms=15,
         is_pinned=True, missing=no_module, wrong=by_default),
    Kind("late timer", ["sleep", "{total}"], Wanted("irqs_off", ", with interrupts off"), by_module("irqs"), ms=15, is_pinned=True,
         missing=no_module, wrong=from_when_it_was_due),
]


# What lab/faults injects besides, and lab/blind does not draw.
MORE = [
    Kind("major page faults", ["majors", "{count}", "{ms}"], Wanted("page_fault", "^page faults that it slept in"), ms=2),
    Kind("wake-up without events of interrupts", ["sleep", "{total}"], Wanted("higher_priority", r"^fault-hog\["), hogs, is_pinned=True,
         wrong=woken_by_an_interrupt, events="sched"),
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
        trace, windows = record(kymo, directory, victim, words, during=kind.during(count, ms) if kind.during else None,
                                events=kind.events)
    finally:
        remove_group(NAME)
    if not windows:
        raise NotInjected("the victim ended without such a delay")
    return trace, windows


def named(kymo, kind, directory, count):
    """For each delay the wanted kind, or what was wrong."""
    try:
        trace, windows = recorded(kymo, kind, directory, count)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return [f"not possible here: {error}"] * count
    got = [kind.wrong(kymo, trace, window, kind.wanted) or kind.wanted.kind for window in windows]
    return got + ["not found"] * (count - len(got))
