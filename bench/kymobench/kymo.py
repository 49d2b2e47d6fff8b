# SPDX-License-Identifier: MIT OR Apache-2.0
"""
kymo's side: one collector (`kymo record`, attaching, without a command) per recording, pinned like LTTng's consumer.

The collector is started first, so that the program finds a live session at its start and is traced from `main`; it is ended
with SIGINT when the program has ended. As it runs no command, its CPU time is its own.
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

RING = "4M"            # per CPU; hot loops, single records, collector's CPU
RING_THROUGHPUT = "32M"  # per CPU, as LTTng's 8 x 4M
START_TIMEOUT_S = 10


class KymoError(Exception):
    """The collector did not start or did not end as it should; says what it printed."""


def command(root):
    """The kymo command: $KYMO (the Makefile sets it), else where cargo puts it."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or root / "target")
    return Path(os.environ.get("KYMO") or target / "release/kymo").absolute()


def missing(root):
    """None when library and command are built, else what is missing."""
    for part in (root / "build/emit/libkymo.a", root / "emit/include/kymo/tracepoint.h", command(root)):
        if not part.exists():
            return str(part)
    return None


class Recording:
    """A running `kymo record`. Context manager; after it, records, lost, cpu_s and the summary are known."""

    def __init__(self, root, runtime_dir, output, cpu, ring=RING, events=("bench:*",), portable=False, compact=False):
        self.command = ["taskset", "-c", str(cpu), str(command(root)), "record"]
        for pattern in events:
            self.command += ["-u", pattern]
        self.command += ["-o", str(output), "--ring-size", ring] + (["--compact"] if compact else [])
        self.output, self.runtime_dir = output, runtime_dir
        self.env = dict(os.environ, KYMO_RUNTIME_DIR=str(runtime_dir))
        self.portable = portable
        self.process, self.text, self.summary = None, "", {}
        self.records = self.lost = None  # lost stays None where the session does not know what is missing
        self.unknown = []                # why it does not
        self.cpu_s = 0.0

    def __enter__(self):
        shutil.rmtree(self.output, ignore_errors=True)
        os.makedirs(self.runtime_dir, mode=0o700, exist_ok=True)
        self.log_path = str(self.output) + ".log"
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            if self._starts():
                return self
        except BaseException:  # Ctrl-C while it starts: nothing else would end it
            self._stop()
            raise
        self._stop()
        raise KymoError(f"{' '.join(self.command)} did not start a session:\n{self.text}")

    def _starts(self):
        until = time.monotonic() + START_TIMEOUT_S
        mark = f"s.{self.process.pid}."
        while time.monotonic() < until:
            if any(name.startswith(mark) for name in os.listdir(self.runtime_dir)):
                return True
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        return False

    def __exit__(self, *_):
        self._stop()
        self._read_summary()

    def _stop(self):
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
            watchdog = time.monotonic() + 60
            while True:
                pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > watchdog:
                    self.process.kill()
                time.sleep(0.005)
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_s = usage.ru_utime + usage.ru_stime
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            self.text = log.read()

    def _read_summary(self):
        try:
            with open(os.path.join(self.output, ".kymo.json"), encoding="utf-8") as file:
                self.summary = json.load(file)
        except (OSError, ValueError) as error:
            raise KymoError(f"no summary in {self.output} ({error}):\n{self.text}") from error
        self.records = _number(self.summary, "records")
        self.lost = _number(self.summary, "lost")
        self.unknown = unknown(self.summary)

    def program_env(self, base):
        env = dict(base, KYMO_RUNTIME_DIR=str(self.runtime_dir))
        if self.portable:
            env["KYMO_RING"] = "portable"
        return env

    def count(self, counter):
        """What count.c finds in the files: {records, gaps, disorder, discarded, bytes}; None when it cannot read them."""
        done = subprocess.run([str(counter), str(self.output)], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        found = dict((key, int(value)) for key, value in re.findall(r"(\w+) (\d+)", done.stdout))
        if done.returncode != 0 or "records" not in found:
            raise KymoError(f"count {self.output}: {done.stdout}{done.stderr}")
        return found

    def file_bytes(self):
        return machine.bytes_under(self.output, lambda name: name != "metadata" and not name.startswith("."))

    def remove(self):
        shutil.rmtree(self.output, ignore_errors=True)


def unknown(summary):
    """What a session cannot count of the records that are missing (spec/session.md 15): a sentence for each."""
    return [f"{one['what']} of {one['comm'] or one['pid'] or 'a program'}: {one['why']}" for one in summary.get("unknown", [])]


def lost_at_least(summary):
    """Records lost; not 0 where some cannot be counted, so a run counts as whole only if it is known to be."""
    counted = sum((summary["lost_counted"] if summary["lost"] is None else summary["lost"]).values())
    return max(1, counted) if summary["lost"] is None else counted


def _number(summary, key):
    value = summary.get(key)
    if isinstance(value, dict):  # losses, by cause
        value = sum(value.values())
    return value if isinstance(value, int) else None
