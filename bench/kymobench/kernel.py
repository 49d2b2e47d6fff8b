# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Kernel tracers under one roof: an instance of tracefs of our own, kymo, trace-cmd in a namespace where that instance is all
the tracefs that there is, and `drain`, a reader that only copies. Each is started, is left to record, and is ended; how much
CPU it took and how many events there were comes from the kernel's own counts, in the same way for all.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from . import machine

EVENTS = ("sched", "irq", "syscalls")
START_TIMEOUT_S = 20
DRAIN_POLL_US = 5000
# What trace-cmd writes to outside of an instance: it finds a file of no meaning there. The lines behind it make sure that
# no other tracefs is in sight before it runs.
PRIVATE = """
at=$(mktemp -d)
mount --bind "$1" "$at"
grep ' - tracefs ' /proc/self/mountinfo | cut -d' ' -f5 | while read -r other; do
	[ "$other" = "$at" ] || umount -l "$other"
done
mount --bind "$at" /sys/kernel/tracing
umount "$at"
rmdir "$at"
mount --bind "$2" /proc/sys/kernel/ftrace_enabled
for file in set_ftrace_filter set_ftrace_notrace set_ftrace_pid set_ftrace_notrace_pid; do
	[ ! -e /sys/kernel/tracing/$file ] || mount --bind "$2" /sys/kernel/tracing/$file
done
[ "$(grep -c ' - tracefs ' /proc/self/mountinfo)" = 1 ]
shift 2
exec "$@"
"""


class KernelError(Exception):
    """A tracer did not start or end as it should; says what it printed."""


def tracefs():
    """Where tracefs is: $KYMO_TRACEFS, else the first mount of it that has instances; None without one."""
    places = [os.environ.get("KYMO_TRACEFS"), "/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        places += [line.split()[4] for line in mounts if " - tracefs " in line]
    return next((Path(place) for place in places if place and os.access(f"{place}/instances", os.W_OK)), None)


def raised():
    """
    For `preexec_fn`, where what others run on the machine would decide: a session of its own, which is a scheduling group
    of its own (autogroup), at nice -15 among the groups and within.
    """
    os.setsid()
    try:
        Path("/proc/self/autogroup").write_text("-15", encoding="ascii")
    except OSError:
        pass  # no such scheduling groups here
    os.nice(-15)


class Instance:
    """An instance of ours. Context manager: the directory exists until the end."""

    def __init__(self, root, ring_bytes, clock="x86-tsc"):
        self.path = root / "instances" / f"bench-{os.getpid()}-{time.monotonic_ns() % 10 ** 9}"
        self.ring_bytes, self.clock = ring_bytes, clock

    def __enter__(self):
        self.path.mkdir()
        (self.path / "trace_clock").write_text(self.clock, encoding="ascii")
        (self.path / "buffer_size_kb").write_text(str(self.ring_bytes // 1024), encoding="ascii")
        return self

    def __exit__(self, *_):
        until = time.monotonic() + 5
        while True:
            try:
                (self.path / "tracing_on").write_text("0", encoding="ascii")
                (self.path / "events/enable").write_text("0", encoding="ascii")
                return self.path.rmdir()
            except FileNotFoundError:
                return None
            except OSError:  # a reader that was ended a moment ago still holds it
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def enable(self, events):
        for system in events:
            (self.path / "events" / system / "enable").write_text("1", encoding="ascii")


def counts(instance):
    """The kernel's own: events that came, and events that were lost of them."""
    came = lost = 0
    for stats in instance.glob("per_cpu/cpu*/stats"):
        found = dict(re.findall(r"^([a-z ]+): (\d+)$", stats.read_text(encoding="ascii"), re.M))
        gone = sum(int(found[name]) for name in ("overrun", "commit overrun", "dropped events"))
        came += int(found["entries"]) + int(found["read events"]) + gone
        lost += gone
    return came, lost


class Tracer:
    """One recording by one tool. Context manager; `steady` and `whole` are known afterwards."""

    end_timeout_s = 60
    env = {}        # of the tool, beside what all have
    preexec = None  # `raised` where the tool itself is not what is compared

    def __init__(self, ctx, name):
        self.ctx, self.name = ctx, name
        self.out = ctx.shm / f"kernel-{name}"
        self.log = ctx.shm / f"kernel-{name}.log"
        self.process = self.instance = None
        self.whole_cpu_s, self.code, self.text = 0.0, None, ""

    def command(self):
        raise NotImplementedError

    def find_instance(self):
        raise NotImplementedError

    def __enter__(self):
        shutil.rmtree(self.out, ignore_errors=True)
        with open(self.log, "w", encoding="utf-8") as log:
            env = dict(os.environ, KYMO_TRACEFS=str(self.ctx.tracefs), KYMO_RUNTIME_DIR=str(self.ctx.runtime), **self.env)
            self.process = subprocess.Popen(self.command(), env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd="/", preexec_fn=self.preexec)
        until = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < until and self.process.poll() is None:
            self.instance = self.find_instance()
            if self.instance and _is_recording(self.instance):
                return self
            time.sleep(0.02)
        self.end()
        raise KernelError(f"{self.name} did not start to record:\n{self.text[-2000:]}")

    def __exit__(self, *_):
        self.end()

    def cpu_s(self):
        """CPU seconds so far of the process, its children and all their threads."""
        return machine.cpu_seconds(descendants(self.process.pid))

    def sample(self):
        return {"at": time.monotonic(), "cpu_s": self.cpu_s(), "counts": counts(self.instance)}

    def ask_to_end(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        if self.code is not None:
            return
        if self.process.returncode is not None:
            # It ended by itself before it recorded, and was seen to.
            self.code, self.text = self.process.returncode, self.log.read_text(encoding="utf-8", errors="replace")
            return
        self.ask_to_end()
        until = time.monotonic() + self.end_timeout_s
        while True:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > until:
                for one in reversed(descendants(self.process.pid)):
                    os.kill(one, signal.SIGKILL)
            time.sleep(0.01)
        self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.whole_cpu_s = usage.ru_utime + usage.ru_stime
        self.text = self.log.read_text(encoding="utf-8", errors="replace")

    def remove(self):
        shutil.rmtree(self.out, ignore_errors=True)


def descendants(pid):
    """The process and all below it, by the parents that /proc tells: not every kernel lists children."""
    below = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        below.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += below.get(one, [])
    return found


def _is_recording(instance):
    try:
        return (instance / "tracing_on").read_text().strip() == "1" and counts(instance)[0] > 0
    except (OSError, KeyError):
        return False


class Kymo(Tracer):
    """`kymo record -k` with its default ring."""

    def __init__(self, ctx, events=EVENTS, options=()):
        super().__init__(ctx, "kymo")
        self.patterns, self.options = ",".join(f"{system}:*" for system in events), options

    def command(self):
        return [str(self.ctx.kymo), "record", "-q", "--json", "-k", self.patterns, "-o", str(self.out), *self.options]

    def find_instance(self):
        found = list((self.ctx.tracefs / "instances").glob(f"kymo-{self.process.pid}-*"))
        return found[0] if found else None

    def summary(self):
        try:
            return json.loads((self.out / ".kymo.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise KernelError(f"kymo left no summary ({error}):\n{self.text[-2000:]}") from error


class InInstance(Tracer):
    """A tool that records into an instance that we make."""

    def __init__(self, ctx, name, events):
        super().__init__(ctx, name)
        self.events, self.own = events, Instance(ctx.tracefs, ctx.ring_bytes)

    def __enter__(self):
        self.own.__enter__()
        try:
            return super().__enter__()
        except BaseException:
            self.own.__exit__()
            raise

    def __exit__(self, *_):
        self.end()
        self.own.__exit__()

    def find_instance(self):
        return self.own.path


class TraceCmd(InInstance):
    """`trace-cmd record`, without compression, in a namespace where our instance is all the tracefs that there is."""

    def __init__(self, ctx, events=EVENTS):
        super().__init__(ctx, "trace-cmd", events)

    def command(self):
        nothing = self.ctx.shm / "nothing"
        nothing.write_text("1", encoding="ascii")
        self.out.mkdir()
        names = [word for system in self.events for word in ("-e", system)]
        record = ["trace-cmd", "record", "-C", "x86-tsc", "-b", str(self.ctx.ring_bytes // 1024), "--compression", "none",
                  "-o", str(self.out / "trace.dat"), *names]
        return ["unshare", "--mount", "--propagation", "private", "sh", "-eu", "-c", PRIVATE, "sh", str(self.own.path),
                str(nothing), *record]


class Drain(InInstance):
    """src/kernel_drain.c: the floor."""

    def __init__(self, ctx, events=EVENTS):
        super().__init__(ctx, "drain", events)

    def command(self):
        self.out.mkdir()
        self.own.enable(self.events)
        return [str(self.ctx.programs / "kernel_drain"), str(self.own.path), str(self.out), str(self.page_bytes()),
                str(DRAIN_POLL_US)]

    def page_bytes(self):
        size = self.own.path / "buffer_subbuf_size_kb"
        return int(size.read_text()) * 1024 if size.exists() else os.sysconf("SC_PAGE_SIZE")

    def ask_to_end(self):
        (self.own.path / "tracing_on").write_text("0", encoding="ascii")
        super().ask_to_end()

    def describe(self, into):
        """What decode_speed wants beside the pages: formats and the size of a page."""
        shutil.copy(self.ctx.tracefs / "events/header_page", into / "header_page")
        (into / "page_bytes").write_text(f"{self.page_bytes()}\n", encoding="ascii")
        for system in self.events:
            for form in (self.ctx.tracefs / "events" / system).glob("*/format"):
                shutil.copy(form, into / f"{system}.{form.parent.name}.format")


TOOLS = {"kymo": Kymo, "trace-cmd": TraceCmd, "drain": Drain}


def tools_missing():
    """Peer: why it is not there; empty when all are."""
    missing = {}
    for name, package in (("trace-cmd", "trace-cmd"), ("hackbench", "rt-tests"), ("unshare", "util-linux")):
        if not shutil.which(name):
            missing["trace-cmd" if name == "unshare" else name] = f"apt-get install {package}"
    return missing
