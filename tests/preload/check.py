#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""check.py CHECK... <records: whether a trace made through the preload helpers can be true.

Reads what `kymo read --json` prints. Each CHECK is a name of the table at the end, or EVENT>=N for a least number of
records. `late`, in front of others: the trace of a program that ran already. Prints what contradicts itself and exits
1. Knows nothing of losses: the runner refuses a trace that has any.
"""

import collections
import json
import sys

EOWNERDEAD, ETIMEDOUT, EBUSY, EDEADLK, EPERM, ENOTRECOVERABLE = 130, 110, 16, 35, 1, 131
problems = []


def problem(record, text):
    problems.append(f"{record['time']} {record['pid']}/{record['tid']} {record['event']} {record['fields']}: {text}")


def blocks(records):
    """A block is handed out once, and let go once. One that was never seen was there before the trace."""
    live, dead, ahead = {}, set(), {}

    def take(record, key):
        if not key[1]:
            return
        if key in live:
            # Another thread's realloc has let go of it and is about to say so.
            ahead[key] = record
        live[key] = record
        dead.discard(key)

    def let_go(record, key):
        if not key[1]:
            return
        if key in ahead and record["event"] == "libc:realloc" and record["tid"] != ahead[key]["tid"]:
            del ahead[key]
            return
        if key in dead:
            problem(record, "this block was let go before")
        live.pop(key, None)
        dead.add(key)

    for record in records:
        provider, _, name = record["event"].partition(":")
        fields = record["fields"]
        if provider != "libc":
            continue
        if name == "free":
            let_go(record, (record["pid"], fields["ptr"]))
        elif name == "realloc":
            moved = fields["in_ptr"] != fields["ptr"]
            if fields["in_ptr"] and (fields["ptr"] or not fields["size"]):
                # What is resized in place stays what it was.
                if moved:
                    let_go(record, (record["pid"], fields["in_ptr"]))
            if moved or not fields["in_ptr"]:
                take(record, (record["pid"], fields["ptr"]))
        else:
            take(record, (record["pid"], fields["ptr"]))
            if name == "memalign" and fields["ptr"] % fields["alignment"]:
                problem(record, "not aligned")
    for record in ahead.values():
        problem(record, "this block was handed out before")


def holds(records):
    """Yields (record that takes, record that lets go) of mutexes, and complains when two threads hold one."""
    owners = {}
    for record in records:
        provider, _, name = record["event"].partition(":")
        fields = record["fields"]
        if provider != "pthread" or "mutex" not in fields:
            continue
        key = record["pid"], fields["mutex"]
        taken = owners.get(key)
        if name in ("mutex_lock", "mutex_trylock", "cond_wake"):
            if name != "cond_wake" and fields["result"] not in (0, EOWNERDEAD):
                continue
            if taken and taken[0]["tid"] != record["tid"]:
                problem(record, f"held by thread {taken[0]['tid']} since {taken[0]['time']}")
            if taken and taken[0]["tid"] == record["tid"]:
                taken[1] += 1
            else:
                owners[key] = [record, 1]
        elif name in ("mutex_unlock", "cond_wait") and taken:
            if taken[0]["tid"] != record["tid"]:
                problem(record, f"let go while thread {taken[0]['tid']} holds it since {taken[0]['time']}")
            taken[1] -= 1
            if not taken[1] or taken[0]["tid"] != record["tid"]:
                del owners[key]
                yield taken[0], record


def exclusion(records):
    """No mutex has two owners at a time."""
    count = sum(1 for _ in holds(records))
    if not count:
        problems.append("no mutex was held")


def waits(records):
    """A wait record is followed by its thread's lock record, and waited_ns is the time between."""
    waiting = {}
    for record in records:
        fields = record["fields"]
        key = record["pid"], record["tid"], fields.get("mutex")
        if record["event"] == "pthread:mutex_wait":
            waiting[key] = record
        elif record["event"] == "pthread:mutex_lock" and key in waiting:
            between = record["time"] - waiting.pop(key)["time"]
            if not -1000 <= between - fields["waited_ns"] <= 1_000_000_000:  # whoever had the CPU in between
                problem(record, f"{between} ns after its wait record")
    for record in waiting.values():
        problem(record, "never got it")


def hold_20_ms(records):
    """hold.c: ten holds of 20 ms; the other thread asks 5 ms into each."""
    long = [(a, b) for a, b in holds(records) if b["time"] - a["time"] > 10_000_000]
    waited = [r for r in records if r["event"] == "pthread:mutex_lock" and r["fields"]["waited_ns"] > 5_000_000]
    locks = {r["fields"]["mutex"] for r in records if "mutex" in r["fields"]}
    if len(locks) != 1:
        problems.append(f"{len(locks)} mutexes, of which one is the program's")
    if len(long) != 10 or len(waited) < 9:
        problems.append(f"{len(long)} long holds and {len(waited)} long waits, not 10 and 10")
    for taken, let_go in long:
        if not 20_000_000 <= let_go["time"] - taken["time"] < 60_000_000:
            problem(let_go, f"held for {let_go['time'] - taken['time']} ns")
    for record in waited:
        if record["fields"]["waited_ns"] > 55_000_000:
            problem(record, "waited too long")


def stuck(records):
    """hold.c stuck: the last word of the thread that was killed while it waited is a wait record."""
    last = {}
    for record in records:
        last[record["tid"]] = record
    if [r["event"] for r in last.values()].count("pthread:mutex_wait") != 1:
        problems.append(f"last records: {[r['event'] for r in last.values()]}")


def results(records):
    """locks.c: each result that tells the kinds of locks apart is there, and the time-outs took 20 ms: most of them, since a
    thread that is away between looking at the clock and the call waits for less."""
    seen = collections.Counter((r["event"].partition(":")[2], r["fields"].get("result")) for r in records)
    for wanted in (("mutex_lock", EDEADLK), ("mutex_lock", EOWNERDEAD), ("mutex_lock", ENOTRECOVERABLE),
                   ("mutex_lock", ETIMEDOUT), ("mutex_trylock", EBUSY), ("mutex_trylock", EOWNERDEAD),
                   ("unlock_failed", EPERM), ("rwlock_rdlock", 0), ("rwlock_rdlock", ETIMEDOUT),
                   ("rwlock_wrlock", 0), ("rwlock_wrlock", EDEADLK), ("rwlock_wrlock", ETIMEDOUT),
                   ("rwlock_tryrdlock", EBUSY), ("rwlock_trywrlock", EBUSY), ("rwlock_trywrlock", 0),
                   ("rwlock_wait", None), ("cond_wait", None), ("cond_wake", 0), ("cond_wake", ETIMEDOUT),
                   ("cond_signal", None), ("cond_broadcast", None)):
        if not seen[wanted]:
            problems.append(f"no {wanted[0]} with result {wanted[1]}")
    waited = sorted(r["fields"]["waited_ns"] for r in records if r["fields"].get("result") == ETIMEDOUT)
    if waited and not 15e6 < waited[len(waited) // 2] < 100e6:
        problems.append(f"timed out after other times than 20 ms: {waited}")


def all_enabled(records):
    """What is behind the first record of each event: in a running program they are enabled one after the other."""
    for event in ("libc:malloc", "libc:free", "pthread:mutex_lock", "pthread:mutex_unlock"):
        first = next((at for at, record in enumerate(records) if record["event"] == event), len(records))
        records = records[first:]
    return records


CHECKS = {check.__name__: check for check in (blocks, exclusion, waits, hold_20_ms, stuck, results)}


def main():
    records = [json.loads(line) for line in sys.stdin]
    records = [record for record in records if "event" in record]
    checks = sys.argv[1:]
    if checks[:1] == ["late"]:
        checks, records = checks[1:], all_enabled(records)
    counts = collections.Counter(record["event"] for record in records)
    for name in checks:
        event, is_count, least = name.partition(">=")
        if not is_count:
            CHECKS[name](records)
        elif counts[event] < int(least):
            problems.append(f"{counts[event]} records of {event}, not {least} at least")
    for text in problems[:10]:
        print(text)
    if len(problems) > 10:
        print(f"and {len(problems) - 10} more")
    sys.exit(bool(problems))


main()
