#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records the delays that only a virtual machine has, to be asked about outside of it (lab/table --only vm-causes).

    record.py KYMO OUT TRIALS    OUT/NUMBER/trace, and OUT/delays.json: {kind: [{"trace", "windows"} or {"missing"}]}
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import told

# Injected in each recording: a real-time victim that never sleeps gives the collector little time.
PER_RUN = 5
# What is injected, and how long, if not as long as elsewhere: code takes longer in a guest.
LENGTHS = {"interrupts off": None, "preemption off": None, "long hard interrupt": None, "late timer": None, "long softirq of packets": 4,
           "real-time throttling of the CPU": None, "CPU quota of a group": None}


def recorded(kymo, kind, out, count):
    """One recording, with its delays. Made in the guest's own memory, and then put where the machine finds it."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            trace, windows = told.recorded(kymo, kind, directory, count, LENGTHS[kind.name])
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return {"missing": f"{type(error).__name__}: {error}"}
        shutil.copytree(trace, out / "trace")
    return {"trace": f"{out.name}/trace", "windows": windows}


def main(kymo, out, trials):
    delays = {}
    for kind in (kind for kind in told.KINDS if kind.name in LENGTHS):
        delays[kind.name] = runs = []
        for at in range(0, trials, PER_RUN):
            why = kind.missing()
            number = Path(out) / f"{len(delays)}-{len(runs)}"
            number.mkdir()
            runs.append({"missing": why} if why else recorded(kymo, kind, number, min(PER_RUN, trials - at)))
    (Path(out) / "delays.json").write_text(json.dumps(delays), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
