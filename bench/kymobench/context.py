# SPDX-License-Identifier: MIT OR Apache-2.0
"""What all measures share: paths, CPUs, the tracers that are there, and running one of the programs."""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from . import kymo, lttng


@dataclass
class Context:
    root: Path              # of the repository
    out: Path               # build/bench
    shm: Path               # a directory of our own on tmpfs
    writer_cpu: int
    collector_cpu: int
    quick: bool
    kymo_missing: str | None
    lttng_missing: str | None
    nice: int
    daemon: lttng.Daemon | None = None
    hot_setting: str = "default"
    raw: list = field(default_factory=list)
    sustained: dict = field(default_factory=dict)  # tracer: records/s, set by the measure "rate"

    @property
    def programs(self):
        return self.out / "programs"

    def raw_path(self, name):
        path = self.out / "raw" / name
        self.raw.append(str(path.relative_to(self.out)))
        return path

    def recording(self, name, **options):
        """A kymo recording to tmpfs, or None when kymo is not built."""
        if self.kymo_missing:
            return None
        return kymo.Recording(self.root, self.shm / "runtime", self.shm / f"kymo-{name}", self.collector_cpu, **options)

    def session(self, name, setting, events=("kb:one",)):
        """An LTTng session to tmpfs, or None when LTTng is not installed."""
        if not self.daemon:
            return None
        return self.daemon.session(setting, self.shm / f"lttng-{name}", events)

    def run(self, program, arguments, recording=None, session=None, check=True):
        """Runs one of bench/src pinned to the writer's CPU; returns its output. stderr goes to ours."""
        env = dict(os.environ)
        if session:
            env = self.daemon.program_env(session.setting)
        elif not self.lttng_missing:
            env["LTTNG_UST_REGISTER_TIMEOUT"] = "0"
        if recording:
            env = recording.program_env(env)
        else:
            env["KYMO_RUNTIME_DIR"] = str(self.shm / "nobody")
        command = ["taskset", "-c", str(self.writer_cpu), str(self.programs / program)]
        done = subprocess.run(command + [str(one) for one in arguments], env=env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0 and check:
            raise RuntimeError(f"{program} {' '.join(map(str, arguments))}: exit {done.returncode}\n"
                               f"{done.stdout[-500:]}{done.stderr[-1500:]}")
        return done.stdout
