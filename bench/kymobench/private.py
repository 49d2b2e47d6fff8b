# SPDX-License-Identifier: MIT OR Apache-2.0
"""
A mount namespace of our own with an empty /run and /dev/shm, and a session of our own, so that neither an LTTng of this machine nor another
user of kymo is touched or measured.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PRIVATE = "KYMO_BENCH_PRIVATE"


def enter(script):
    """As root: starts this Python script again inside. Returns only there, or where it is not needed or not allowed."""
    if os.geteuid() != 0 or os.environ.get(PRIVATE) or not shutil.which("unshare"):
        return
    mounts = 'mount -t tmpfs tmpfs /run && mount -t tmpfs -o size=75% tmpfs /dev/shm && exec "$@"'
    probe = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounts, "sh"]
    # A session of its own is a scheduling group of its own (autogroup), without which nice values mean nothing to
    # the rest of the machine. The waiting setsid stays in the terminal's group; when it is ended, so are we (the caller's main).
    session = ["setsid", "--fork", "--wait"]
    if subprocess.run(probe + ["true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("bench: no private mounts here: the daemon will use the machine's /run/lttng", file=sys.stderr)
        if os.path.exists("/run/lttng/client-lttng-sessiond"):
            sys.exit("bench: an lttng-sessiond of this machine is there; not touching it")
        return
    os.environ[PRIVATE] = "1"
    os.execvp(probe[0], probe + session + [sys.executable, str(Path(script).resolve())] + sys.argv[1:])


def raise_priority():
    """
    Against other load on the machine, where we may: the writer and both collectors alike (children inherit it). Returns
    the nice value that is in force.
    """
    try:
        if os.environ.get(PRIVATE):
            Path("/proc/self/autogroup").write_text("-15", encoding="ascii")
    except OSError:
        pass  # no such scheduling groups here
    try:
        return os.nice(-15)
    except OSError:
        return os.nice(0)
