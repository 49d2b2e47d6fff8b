# SPDX-License-Identifier: MIT OR Apache-2.0
"""What all measures of bench/query share: traces, a process that is measured, interpreters of Python that have a package."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from . import kymo

EVENT = "motor:step"
# Bytes of a record: make_trace takes all of them for those of a kernel.
KERNEL_BYTES, PROGRAM_BYTES = 29, 16
SCRIPTS = Path(__file__).resolve().parents[1] / "src"


@dataclass
class QueryContext:
    """Paths, the command, and where each run is noted."""

    root: Path
    shm: Path
    raw: object
    is_quick: bool

    @property
    def command(self):
        return str(kymo.command(self.root))

    def note(self, measure, number, who, wall_s, cpu_s):
        """A line of raw/query.csv, and one for who waits."""
        self.raw.write(f"{measure},{number},{who},{wall_s:.4f},{cpu_s:.4f}\n")
        self.raw.flush()
        print(f"  {measure}: {who} {wall_s:.2f} s, CPU {cpu_s:.2f} s", flush=True)

    def index(self, trace):
        """Builds the index of a trace."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([self.command, "index", str(trace)], check=True, **quiet)

    def make_trace(self, name, mib, share=None):
        """A trace of the example make_trace, whose building may take a while. share: percent of a program's records."""
        if share:
            mib = round(mib * KERNEL_BYTES / (share * PROGRAM_BYTES + (100 - share) * KERNEL_BYTES) * 100)
        cargo = os.environ.get("CARGO", "cargo")
        if not shutil.which(cargo):
            raise RuntimeError("cargo is not there; name a trace with --trace")
        target = self.shm / name
        words = [cargo, "run", "--release", "-q", "-p", "kymo-index", "--example", "make_trace", "--", str(target), str(mib)]
        subprocess.run(words + ([str(share)] if share else []), cwd=self.root, check=True)
        return target


def measured(words, cpu=None, check=True):
    """Wall and CPU seconds of a process, its largest memory in MiB, and what it printed."""
    if cpu is not None:
        words = ["taskset", "-c", str(cpu)] + words
    begin = time.monotonic()
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, error = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begin
    if check and process.returncode != 0:
        raise RuntimeError(f"{' '.join(words[:6])} ...: {error[-600:]}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out


def ask(command, trace, text, cpu=0):
    """A query on one CPU: wall and CPU seconds of the process, memory in MiB, rows."""
    wall, cpu_s, memory, out = measured([command, "sql", str(trace), text, "--json", "--threads", "1"], cpu)
    return wall, cpu_s, memory, json.loads(out)


def script(python, name, *arguments, cpu=None):
    """What one of bench/src/NAME.py prints, run by this interpreter: the last line is JSON."""
    _, _, _, out = measured([python, str(SCRIPTS / f"{name}.py"), *map(str, arguments)], cpu)
    return json.loads(out.strip().split("\n")[-1])


def interpreter(*modules):
    """A Python that has all these modules, or None: the environment of `make python-test`, ours, the system's."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    named = Path(os.environ.get("KYMO_PYTHON_VENV") or cache / f"kymo/python-{version}") / "bin/python"
    probe = "import importlib.util, sys; sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1:]))"
    for python in (str(named), sys.executable, "/usr/bin/python3"):
        if os.access(python, os.X_OK) and subprocess.run([python, "-c", probe, *modules], check=False).returncode == 0:
            return python
    return None
