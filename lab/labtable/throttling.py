"""
Real-time throttling, set for a while. What there was before comes back whatever ends us: a small shell waits at a pipe that closes with
this process, SIGKILL included, and writes the old value.
"""

import subprocess
from pathlib import Path

RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
DEFAULT_US = 950000
WITHOUT_US = -1


def value():
    """Microseconds of each second, -1 for no bound; None where it cannot be read."""
    try:
        return int(RUNTIME.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


class Throttling:
    """The value while inside; a context manager. Does nothing where it is None or in force, or where it may not be written."""

    def __init__(self, wanted_us):
        self.wanted_us = wanted_us
        self.guard = None
        self.in_force = value()

    def __enter__(self):
        before = value()
        if before is None or self.wanted_us in (None, before):
            return self
        script = f"trap '' INT TERM HUP; read -r _; echo {before} >{RUNTIME}"
        self.guard = subprocess.Popen(["setsid", "sh", "-c", script], stdin=subprocess.PIPE,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            RUNTIME.write_text(f"{self.wanted_us}\n", encoding="ascii")
        except OSError:
            pass  # as it was; in_force says so
        self.in_force = value()
        return self

    def __exit__(self, *_):
        if self.guard:
            self.guard.stdin.close()
            self.guard.wait()
            self.guard = None
