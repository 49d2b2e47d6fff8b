#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Writes small kernel traces of one host, one of each day, whose wake-ups take about as long as is asked for. For a lake.

    tests/lake_traces.py DIR --host NAME --first YYYY-MM-DD --waits US[,US...] [--release TEXT] [--wakeups N] [--seed N]
                         [--lost DAY:N]

One trace for each number of --waits, as DIR/YYYY-MM-DD; 0: no trace of that day. --lost: records that are lost on the
day with this number, from 0. The thread `worker` waits; on each day one wait of `late` is 40 times as long.
"""

import argparse
import datetime
import math
import random
import struct
from pathlib import Path

from hostile_trace import METADATA, NICE, Stream, i32, text

PACKET_RECORDS = 300


def write(directory, environment, begin_ns, wait_ns, wakeups, lost, chance):
    directory.mkdir(parents=True)
    metadata = METADATA.replace("offset = 1700000000000000000", f"offset = {begin_ns}; absolute = TRUE")
    (directory / "metadata").write_text(metadata + environment, encoding="utf-8")
    stream, now = Stream(directory / "kernel_0", 0), 1_000_000
    worst = chance.randrange(wakeups)
    for number in range(wakeups):
        tid, comm = (8, "late") if number == worst else (7, "worker")
        wait = int(wait_ns * (40 if number == worst else math.exp(chance.gauss(0, 0.4))))
        stream.record(now, 2, text(comm), i32(tid), i32(NICE), i32(0))
        now += wait
        stream.record(now, 1, i32(0), i32(NICE), struct.pack("<q", 0), text(comm), i32(tid), i32(NICE))
        now += 20_000
        stream.record(now, 1, i32(tid), i32(NICE), struct.pack("<q", 1), text("swapper/0"), i32(0), i32(NICE))
        now += chance.randrange(50_000, 200_000)
        if len(stream.packet) >= PACKET_RECORDS:
            stream.end_packet()
            # Packets count what was lost since the begin.
            stream.discarded = lost
    stream.close()


def quoted(value):
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main():
    parser = argparse.ArgumentParser(description="Writes small kernel traces of one host, one of each day.")
    parser.add_argument("dir", type=Path)
    parser.add_argument("--host", required=True)
    parser.add_argument("--first", type=datetime.date.fromisoformat, required=True)
    parser.add_argument("--waits", required=True)
    parser.add_argument("--release", default="")
    parser.add_argument("--wakeups", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lost", default="")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    release = f"kernel_release = {quoted(options.release)}; " if options.release else ""
    environment = f'env {{ domain = "kernel"; hostname = {quoted(options.host)}; {release}}};\n'
    lost_day, _, lost = options.lost.partition(":")
    for number, wait in enumerate(options.waits.split(",")):
        if float(wait) == 0:
            continue
        day = options.first + datetime.timedelta(days=number)
        begin = (day - datetime.date(1970, 1, 1)).days * 86_400 + 10 * 3600
        own = int(lost) if lost and int(lost_day) == number else 0
        write(options.dir / day.isoformat(), environment, begin * 10**9, float(wait) * 1000, options.wakeups, own, chance)


if __name__ == "__main__":
    main()
