# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The peer: a private lttng-sessiond for the time of the run, and sessions with the settings that are tried.

Privacy: as root, bench/run runs in its own mount namespace with an empty /run and /dev/shm, because a root sessiond has
fixed paths there; otherwise LTTNG_HOME is enough. The daemon is a child in the foreground and is ended by its pid.
"""

import os
import re
import shutil
import subprocess
import time

from . import machine

APT = "apt-get install lttng-tools liblttng-ust-dev babeltrace2"

# name: (snapshot session: nobody consumes, options of the channel, clock plug-in)
SETTINGS = {
    "default": (False, [], False),
    "discard 4x1M, read timer": (False, ["--subbuf-size=1M", "--num-subbuf=4", "--read-timer=1000"], False),
    "discard 8x4M": (False, ["--subbuf-size=4M", "--num-subbuf=8"], False),
    "discard 8x4M, read timer": (False, ["--subbuf-size=4M", "--num-subbuf=8", "--read-timer=1000"], False),
    "overwrite 4x1M, read timer": (
        False, ["--overwrite", "--subbuf-size=1M", "--num-subbuf=4", "--read-timer=1000"], False),
    "flight recorder 4x1M": (True, ["--overwrite", "--subbuf-size=1M", "--num-subbuf=4"], False),
    "flight recorder 4x64k": (True, ["--overwrite", "--subbuf-size=64k", "--num-subbuf=4"], False),
    "flight recorder 4x64k, TSC plug-in": (True, ["--overwrite", "--subbuf-size=64k", "--num-subbuf=4"], True),
}
# Tried for the hot loops; the plug-in is our code and not a setting of LTTng, so it is shown and never chosen.
HOT_CANDIDATES = [name for name, (_, _, plugin) in SETTINGS.items() if not plugin]
HOT_INFORMATION = "flight recorder 4x64k, TSC plug-in"
# Where a consumer must run: a read timer, so that no record wakes the consumer, which is LTTng's advice for latency.
STREAMING = "discard 4x1M, read timer"
# For throughput: large sub-buffers in the same total as kymo's ring.
THROUGHPUT = "discard 8x4M"
# For the collectors' CPU: of the settings that lose nothing, the one whose consumer was seen to use least.
THRIFTY = "default"


class LttngError(Exception):
    """A command of lttng failed; says which and why."""


def missing():
    """None when everything is there, else what is missing."""
    if not shutil.which("lttng") or not shutil.which("lttng-sessiond"):
        return "lttng-tools"
    probe = subprocess.run(["cc", "-E", "-include", "lttng/tracepoint.h", "-x", "c", "/dev/null"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return "liblttng-ust-dev" if probe.returncode else None


class Daemon:
    """A private session daemon; its consumer comes with the first session. Context manager."""

    def __init__(self, home, cpu, plugin):
        self.home, self.cpu, self.plugin = home, cpu, plugin
        self.process = None
        self.count = 0
        self.env = dict(os.environ, LTTNG_HOME=str(home), HOME=str(home), LTTNG_UST_REGISTER_TIMEOUT="-1")

    def __enter__(self):
        os.makedirs(self.home, exist_ok=True)
        with open(self.home / "sessiond.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["taskset", "-c", str(self.cpu), "lttng-sessiond", "--no-kernel"],
                env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            for _ in range(200):
                if self._run(["list"], check=False).returncode == 0:
                    return self
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        except BaseException:  # Ctrl-C while it starts: nothing else would end it
            self.__exit__()
            raise
        self.__exit__()
        raise LttngError(f"lttng-sessiond did not start; see {self.home}/sessiond.log")

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _run(self, arguments, check=True):
        done = subprocess.run(["lttng", "--no-sessiond"] + arguments, env=self.env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if check and done.returncode != 0:
            raise LttngError(f"lttng {' '.join(arguments)}: {done.stdout.strip()}")
        return done

    def pids(self):
        return machine.children_of(self.process.pid)

    def cpu_seconds(self):
        return machine.cpu_seconds(self.pids())

    def program_env(self, setting):
        env = dict(self.env)
        if SETTINGS[setting][2]:
            env["LTTNG_UST_CLOCK_PLUGIN"] = str(self.plugin)
        return env

    def session(self, setting, output, events=("kb:one",)):
        self.count += 1
        return Session(self, f"bench{self.count}", setting, output, events)


class Session:
    """One recording session. Context manager; after it, lost and bytes are known."""

    def __init__(self, daemon, name, setting, output, events):
        self.daemon, self.name, self.setting = daemon, name, setting
        self.output, self.events = output, events
        self.snapshot = SETTINGS[setting][0]
        self.discarded = 0      # records refused because the buffer was full, as LTTng counts them
        self.lost_packets = 0   # overwrite mode: sub-buffers overwritten; the number of records is not known
        self.bytes = 0

    def __enter__(self):
        shutil.rmtree(self.output, ignore_errors=True)
        run = self.daemon._run
        run(["create", self.name, "--snapshot" if self.snapshot else f"--output={self.output}"])
        run(["enable-channel", "-u", "-s", self.name] + SETTINGS[self.setting][1] + ["chan"])
        run(["enable-event", "-u", "-s", self.name, "-c", "chan", ",".join(self.events)])
        run(["start", self.name])
        return self

    def __exit__(self, *_):
        run = self.daemon._run
        run(["stop", self.name], check=False)  # waits until the consumer has written everything
        listing = run(["list", self.name], check=False).stdout
        self.discarded = _sum_of(r"Discarded events:\s*(\d+)", listing)
        self.lost_packets = _sum_of(r"Lost packets:\s*(\d+)", listing)
        if self.snapshot:
            run(["snapshot", "record", "-s", self.name, str(self.output)], check=False)
        run(["destroy", self.name], check=False)
        self.bytes = self.file_bytes()

    def file_bytes(self):
        return machine.bytes_under(self.output, lambda name: name != "metadata" and not name.endswith(".idx"))

    def count(self):
        """Records that are in the trace, by babeltrace2; None where it is not installed. 1 to 2 million a second."""
        if not shutil.which("babeltrace2"):
            return None
        done = subprocess.run(["babeltrace2", str(self.output), "-c", "sink.utils.counter", "--params=step=+0"],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        found = re.findall(r"(\d+) Event message", done.stdout)
        return int(found[-1]) if found else None

    def remove(self):
        shutil.rmtree(self.output, ignore_errors=True)


def _sum_of(pattern, text):
    return sum(int(value) for value in re.findall(pattern, text))
