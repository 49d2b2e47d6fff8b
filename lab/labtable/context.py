# SPDX-License-Identifier: MIT OR Apache-2.0
"""What all measures share: paths, CPUs, the number of loops and rounds, and running `kymo` and `lab/vm`."""

import json
import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


GRACE_S = 10    # for a command to end when it is told to


class MeasureError(Exception):
    """A measure cannot go on; says why."""


@dataclass
class Context:
    root: Path          # of the repository
    out: Path           # of table and raw data: build/lab
    shm: Path           # a directory of our own on tmpfs
    kymo: Path
    cpu: int            # where is measured
    other_cpu: int      # collectors, and kymo itself
    loops: int          # of npt, in each run
    rounds: int
    trials: int
    seconds: float      # of a slot of wakeup and cyclictest
    priority: int = 80
    lift: bool = True   # real-time throttling is switched off while npt runs
    boots: int = 5      # of each kernel
    daemon: object = None  # LTTng's
    lttng_missing: str = ""
    until: float = math.inf  # on time.monotonic(): when the measure that runs makes no further round than it needs

    def is_late(self):
        return time.monotonic() >= self.until

    @property
    def raw(self):
        return self.out / "raw"

    def program(self, name):
        return self.root / "build/lab" / name

    def environment(self, runtime=None, base=None):
        env = dict(base or os.environ, KYMO_RUNTIME_DIR=str(runtime or self.shm / "nobody"))
        env.setdefault("LTTNG_UST_REGISTER_TIMEOUT", "0")
        return env

    def run_kymo(self, arguments, env=None, check=True):
        """Runs kymo on the other CPU; its threads that measure go where they are told."""
        command = ["taskset", "-c", str(self.other_cpu), str(self.kymo), *map(str, arguments)]
        done = run(command, env or self.environment())
        if check and done.returncode != 0:
            raise MeasureError(f"kymo {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stderr[-600:].strip()}")
        return done

    def npt(self, name, loops=None, env=None, probe=None):
        """One run of `kymo npt`; its record is kept under this name and returned."""
        env = env or self.environment()
        if probe:
            env["KYMO_PROBE"] = str(self.program(probe))
        path = self.raw / f"{name}.json"
        self.run_kymo(["npt", "-c", self.cpu, "-p", self.priority, "-l", loops or self.loops, "-o", path], env)
        return json.loads(path.read_text(encoding="utf-8"))

    def module(self, kernel):
        """lab/npt-module, built for a packaged kernel: the path of its .ko."""
        done = run([self.root / "lab/vm", "module", kernel, self.root / "lab/npt-module"])
        if done.returncode != 0:
            raise MeasureError(f"lab/vm module {kernel}: {done.stderr.strip()[-300:]}")
        return done.stdout.strip()

    def guest(self, kernel, name, *arguments, timeout=900):
        """Runs labtable/guest.sh in counted time; the folder with its results."""
        out = self.raw / name
        command = [self.root / "lab/vm", "run", "--icount", "--kernel", kernel, "--timeout", timeout, "--out", out, "--",
                   self.root / "lab/labtable/guest.sh", self.module(kernel), *arguments]
        done = run(command, dict(os.environ, KYMO=str(self.kymo)), timeout + 120)
        if done.returncode != 0:
            raise MeasureError(f"{name}: lab/vm: status {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
        return out


def run(command, env=None, timeout=1800):
    """As subprocess.run, but a command that is not waited for any longer is told to end, not killed: it has things to put away."""
    words = [str(one) for one in command]
    with subprocess.Popen(words, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.terminate()
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


class Progress:
    """A line on a terminal that says how far it is; nothing elsewhere."""

    def __init__(self, total_s):
        self.total_s, self.started = total_s, time.monotonic()
        self.live = sys.stderr.isatty()

    def say(self, text):
        if self.live:
            gone = time.monotonic() - self.started
            print(f"\r\x1b[K{gone:.0f} s of some {self.total_s:.0f}: {text}", end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
