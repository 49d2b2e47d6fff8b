#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Writes traces that a viewer may choke on, as CTF 1.8 with the events of a kernel and of a program. One seed is one trace.

    tests/hostile_trace.py KIND DIR [--cpus N] [--threads N] [--records N] [--seed N]

KIND: wide (500 threads on 64 CPUs, with losses), threads (100,000 threads), names (names with HTML, quotes, control characters and
directions of writing), onecpu, onerecord, norecord.
"""

import argparse
import random
import struct
import sys
from pathlib import Path

METADATA = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; offset = 1700000000000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
stream {
    packet.context := struct {
        u32 packet_size; u32 content_size; u32 cpu_id; u32 events_discarded; time timestamp_begin; time timestamp_end;
    };
    event.header := struct { u8 id; time timestamp; };
};
event { id = 1; name = "sched_switch"; fields := struct {
    i32 prev_tid; i32 prev_prio; i64 prev_state; string next_comm; i32 next_tid; i32 next_prio; }; };
event { id = 2; name = "sched_waking"; fields := struct { string comm; i32 tid; i32 prio; i32 target_cpu; }; };
event { id = 3; name = "irq_handler_entry"; fields := struct { i32 irq; string name; }; };
event { id = 4; name = "irq_handler_exit"; fields := struct { i32 irq; }; };
event { id = 7; name = "syscall_entry_futex"; fields := struct { u64 uaddr; u64 op; }; };
event { id = 8; name = "syscall_exit_futex"; fields := struct { i64 ret; }; };
event { id = 9; name = "axis:begin"; fields := struct { u32 n; }; };
event { id = 10; name = "axis:end"; fields := struct { u32 n; }; };
event { id = 11; name = "motor:step"; fields := struct {
    floating_point { exp_dig = 11; mant_dig = 53; align = 8; byte_order = le; } position; i32 axis; string note; }; };
"""

# With names that a page might take for markup: of the machine and of an event.
HOSTILE_METADATA = """env { domain = "kernel"; hostname = "<script>window.hacked=1</script>"; };
event { id = 12; name = "x:<img src=x onerror=window.hacked=1>"; fields := struct { string text; }; };
"""

# What a page might take for something else than text: in fields, and as names of threads, which have 16 bytes.
NAMES = [
    "<img src=x>", "<b>bold</b>", "<script>1<", "\"'><svg/onload=", "&lt;b&gt;", "a\x1b[31mred\x07", "line\nbreak\ttab", "\u202egnp.exe", "\u2066x\u2069",
    "javascript:1", "{{constructor}}", "${1}", "%00%0a", "__proto__", "constructor", " ", "é\u0301\U0001F980", "=cmd|'/c'!A0",
]
HOSTILE = [
    "<script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>", "\"'><svg onload=window.hacked=1>", "&lt;b&gt;", "a\x1b[31mred\x07",
    "line\nbreak\ttab", "\u202egnp.exe", "\u2066x\u2069", "javascript:window.hacked=1", "{{constructor}}", "${window.hacked=1}", "%00%0a", "__proto__",
    "constructor", "x" * 300, " ", "é\u0301\U0001F980", "=cmd|'/c calc'!A0",
]
NICE, REAL_TIME = 20, -51


class Stream:
    """Records of one CPU, in packets."""

    def __init__(self, path, cpu):
        self.path, self.cpu, self.packet, self.discarded = path, cpu, [], 0
        self.out = bytearray()

    def record(self, at, number, *fields):
        self.packet.append((at, struct.pack("<BQ", number, at) + b"".join(fields)))

    def end_packet(self):
        if not self.packet:
            return
        content = b"".join(record for _, record in self.packet)
        bits = (32 + len(content)) * 8
        self.out += struct.pack("<IIIIQQ", bits, bits, self.cpu, self.discarded, self.packet[0][0], self.packet[-1][0]) + content
        self.packet = []

    def close(self):
        self.end_packet()
        self.path.write_bytes(bytes(self.out))


def text(value):
    return value.encode("utf-8", "replace").replace(b"\0", b"") + b"\0"


def i32(value):
    return struct.pack("<i", value)


def u64(value):
    return struct.pack("<Q", value)


class Cpu:
    """A CPU, its threads and who of them runs."""

    def __init__(self, stream, number, threads, chance):
        self.stream, self.number, self.threads, self.chance = stream, number, threads, chance
        self.now, self.current, self.ready = 1_000_000 + number * 37, 0, []
        self.span, self.is_hostile = False, False

    def put(self, number, *fields):
        self.now += self.chance.randrange(200, 20_000)
        self.stream.record(self.now, number, *fields)

    def wake(self, thread):
        tid, name, prio = thread
        self.put(2, text(name), i32(tid), i32(prio), i32(self.number))
        self.ready.append(thread)

    def switch(self, thread, state):
        tid, name, prio = thread
        self.put(1, i32(self.current), i32(NICE), struct.pack("<q", state), text(name), i32(tid), i32(prio))
        self.current = tid

    def step(self):
        choice = self.chance.randrange(10)
        if choice < 3:
            self.wake(self.chance.choice(self.threads))
        elif choice < 6 and self.ready:
            self.switch(self.ready.pop(0), self.chance.choice([1, 1, 2, 256]))
        elif choice == 6:
            self.put(3, i32(7), text("eth0"))
            self.put(4, i32(7))
        elif choice == 7:
            self.put(10 if self.span else 9, struct.pack("<I", 1))
            self.span = not self.span
        elif choice == 8 and self.is_hostile and self.chance.randrange(2):
            self.put(12, text(self.chance.choice(HOSTILE)))
        elif choice == 8:
            self.put(11, struct.pack("<d", self.chance.gauss(0, 1)), i32(2), text(self.chance.choice(HOSTILE)))
        elif self.current:
            self.put(7, u64(0xF00), u64(0))
            self.switch((0, f"swapper/{self.number}", NICE), 1)


def simulate(directory, options, name_of):
    chance = random.Random(options.seed)
    numbers = range(1, options.threads + 1)
    for cpu in range(options.cpus):
        threads = [(tid, name_of(tid), REAL_TIME if tid % 17 == 0 else NICE) for tid in numbers if tid % options.cpus == cpu]
        if not threads:
            continue
        stream = Stream(directory / f"kernel_{cpu}", cpu)
        one = Cpu(stream, cpu, threads, chance)
        one.is_hostile = options.kind == "names"
        for tid, name, prio in threads if options.kind == "threads" else []:
            one.wake((tid, name, prio))
            one.switch(one.ready.pop(0), 1)
        each = options.records // options.cpus
        packets = max(1, each // 500)
        for number in range(each):
            one.step()
            if number % 500 == 499:
                stream.end_packet()
                if options.kind == "wide" and chance.randrange(max(2, packets // 3)) == 0:
                    stream.discarded += chance.randrange(1, 100)
        stream.close()


def main():
    parser = argparse.ArgumentParser(description="Writes traces that a viewer may choke on.")
    parser.add_argument("kind", choices=["wide", "threads", "names", "onecpu", "onerecord", "norecord"])
    parser.add_argument("dir", type=Path)
    parser.add_argument("--cpus", type=int, default=None)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--records", type=int, default=None)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.cpus = options.cpus or {"wide": 64, "threads": 4, "names": 2}.get(options.kind, 1)
    options.threads = options.threads or {"wide": 500, "threads": 100_000, "names": len(NAMES)}.get(options.kind, 5)
    options.records = options.records or {"wide": 300_000, "threads": 100_000, "names": 4000}.get(options.kind, 2000)
    options.dir.mkdir(parents=True)
    metadata = METADATA + (HOSTILE_METADATA if options.kind == "names" else "")
    (options.dir / "metadata").write_text(metadata, encoding="utf-8")
    if options.kind == "norecord":
        (options.dir / "kernel_0").write_bytes(b"")
    elif options.kind == "onerecord":
        stream = Stream(options.dir / "kernel_0", 0)
        stream.record(5_000_000, 1, i32(0), i32(NICE), struct.pack("<q", 0), text("only"), i32(7), i32(NICE))
        stream.close()
    elif options.kind == "names":
        simulate(options.dir, options, lambda tid: NAMES[(tid - 1) % len(NAMES)])
    else:
        simulate(options.dir, options, lambda tid: f"thread-{tid}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
