# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What stops a real-time thread that never sleeps, set for a while: real-time throttling, and the fair server of Linux 6.12 and later. What
there was before comes back whatever ends us: a small shell waits at a pipe that closes with this process, SIGKILL included, and writes the
old value.
"""

import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
DEFAULT_US = 950000
WITHOUT_US = -1
SERVER_DEFAULT_NS = 50_000_000
SERVER_WITHOUT_NS = 0


def server(cpu):
    """The fair server's time in each of its periods, ns: 0 is off."""
    return Path(f"/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime")


def value(path):
    """None where it cannot be read."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


class Setting:
    """The value while inside; a context manager. Does nothing where it is None or in force, or where it may not be written."""

    def __init__(self, path, wanted):
        self.path, self.wanted = path, wanted
        self.guard = None
        self.in_force = value(path)

    def __enter__(self):
        before = value(self.path)
        if before is None or self.wanted in (None, before):
            return self
        script = f"trap '' INT TERM HUP; read -r _; echo {before} >{self.path}"
        self.guard = subprocess.Popen(["setsid", "sh", "-c", script], stdin=subprocess.PIPE,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.path.write_text(f"{self.wanted}\n", encoding="ascii")
        except OSError:
            pass  # as it was; in_force says so
        self.in_force = value(self.path)
        return self

    def __exit__(self, *_):
        if self.guard:
            self.guard.stdin.close()
            self.guard.wait()
            self.guard = None


@contextmanager
def lifted(ctx):
    """Nothing stops a busy real-time thread on the CPU that is measured, unless --keep-throttling; yields what is in force, in words."""
    with ExitStack() as stack:
        wanted = (WITHOUT_US, SERVER_WITHOUT_NS) if ctx.lift else (None, None)
        throttling = stack.enter_context(Setting(RUNTIME, wanted[0]))
        fair = stack.enter_context(Setting(server(ctx.cpu), wanted[1]))
        share = "off" if throttling.in_force == WITHOUT_US else f"in force ({throttling.in_force} us of each second)"
        served = {None: "not to be read", 0: "off"}.get(fair.in_force, f"in force ({fair.in_force} ns a period)")
        yield f"real-time throttling {share}, fair server {served}"
