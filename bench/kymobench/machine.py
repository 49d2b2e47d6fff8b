# SPDX-License-Identifier: MIT OR Apache-2.0
"""What qualifies every number: processor, virtual machine, clock, other load, time that the hypervisor took."""

import os
import platform
import time


def _read(path, default=""):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return default


def _cpuinfo(key):
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def describe():
    flags = _cpuinfo("flags").split()
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "cpu": _cpuinfo("model name"),
        "cpus": os.cpu_count(),
        "virtual_machine": "hypervisor" in flags,
        "tsc_invariant": "nonstop_tsc" in flags and "constant_tsc" in flags,
        "clocksource": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource", "unknown"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "not visible"),
        "isolated_cpus": _read("/sys/devices/system/cpu/isolated") or "none",
        "libc": " ".join(platform.libc_ver()),
    }


class Window:
    """Load of the machine between start and end: from /proc/stat, less what our own processes used."""

    FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

    def __init__(self):
        self.at = time.monotonic()
        self.stat = self._stat()
        self.own = self._own()

    @classmethod
    def _stat(cls):
        first = _read("/proc/stat").splitlines()[0].split()[1:]
        return dict(zip(cls.FIELDS, map(int, first)))

    @staticmethod
    def _own():
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system

    def end(self, other_own_s=0.0):
        """
        Percent of all CPU time: steal, busy, and busy with others' work. Children that still run (sessiond, consumerd)
        are not in os.times(): the caller passes their seconds.
        """
        hz = os.sysconf("SC_CLK_TCK")
        now = self._stat()
        delta = {name: (now[name] - self.stat[name]) / hz for name in self.FIELDS}
        total = max(sum(delta.values()), 1e-9)
        busy = total - delta["idle"] - delta["iowait"] - delta["steal"]
        own = self._own() - self.own + other_own_s
        return {
            "seconds": round(time.monotonic() - self.at, 1),
            "steal_percent": round(100 * delta["steal"] / total, 2),
            "busy_percent": round(100 * busy / total, 1),
            "others_percent": round(max(0.0, 100 * (busy - own) / total), 1),
            "load_average": os.getloadavg()[0],
        }


def cpu_seconds(pids):
    """CPU seconds of live processes, all threads: from schedstat (ns) where it counts, else from stat (ticks)."""
    total = 0.0
    for pid in pids:
        precise, ticks = 0, 0
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                precise += int((_read(f"/proc/{pid}/task/{task}/schedstat") or "0").split()[0])
            fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
        except (OSError, IndexError, ValueError):
            continue
        total += precise / 1e9 if precise else ticks / os.sysconf("SC_CLK_TCK")
    return total


def bytes_under(directory, wanted):
    """Bytes of the files below a directory whose names are wanted."""
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(directory)
               for name in names if wanted(name))


def children_of(pid):
    """The process and all its descendants."""
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        found.append(one)
        for task in _listdir(f"/proc/{one}/task"):
            queue += [int(child) for child in _read(f"/proc/{one}/task/{task}/children").split()]
    return found


def _listdir(path):
    try:
        return os.listdir(path)
    except OSError:
        return []
