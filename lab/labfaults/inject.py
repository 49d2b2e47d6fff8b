#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Injects faults that a latency test must feel, and says when: a line `FROM TO` (ns since 1970) for each.

    inject.py hog CPU PRIORITY MS COUNT GAP_S    a SCHED_FIFO thread keeps the CPU busy
    inject.py stop PID MS COUNT GAP_S            SIGSTOP, and SIGCONT after that time
    inject.py packets SOCKETS COUNT GAP_S        a packet on loopback that so many sockets get: a softirq that takes long. Says
                                                 `ready`, and waits for a line with the CPU. A packet for which the sender waited for
                                                 its CPU is no line: who had that would be asked about
"""
import ctypes
import os
import resource
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG = 1
# Times that a fault is tried for each that is wanted.
TRIES = 4
# A sender that waits for its CPU for more than this share of its call was kept from sending.
WAITED_MAX = 0.2


def hog(cpu, priority, ms):
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))

    def once():
        end = time.monotonic() + ms / 1e3
        while time.monotonic() < end:
            pass

    return once


def stop(pid, ms):
    def once():
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(ms / 1e3)
        finally:
            os.kill(pid, signal.SIGCONT)

    return once


def receivers(count, port):
    """So many sockets of one port (0: any), which is returned, too."""
    found = []
    for _ in range(count):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("", port))
        port = one.getsockname()[1]
        found.append(one)
    return found, port


def packets(count):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    own, port = receivers(min(count, most // 2), 0)
    left = count - len(own)
    while left > 0:
        # More than one process may have open: others have the rest, until this one ends.
        ready, wait = os.pipe()
        if os.fork() == 0:
            os.close(ready)
            for one in own:
                one.close()
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            own, _ = receivers(min(left, most // 2), port)
            os.write(wait, b"x")
            signal.pause()
        os.close(wait)
        os.read(ready, 1)
        left -= most // 2

    print("ready", flush=True)
    cpu = sys.stdin.readline()
    if not cpu:
        sys.exit("nobody wants the packets")
    os.sched_setaffinity(0, {int(cpu)})
    # The call is to be the packet's way alone: no thread of a normal class comes in between.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))

    def once():
        waited, begin = waited_ns(), time.monotonic_ns()
        # A broadcast goes to each of them, one after the other, in one softirq on this CPU.
        sender.sendto(b"kymo", ("127.255.255.255", port))
        return bool(own) and waited_ns() - waited <= WAITED_MAX * (time.monotonic_ns() - begin)

    return once


def waited_ns():
    """How long this thread could have run and did not, as the kernel itself counts; always 0 if it does not count."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0


def main(words):
    if words[0] == "hog":
        # Its name in the kernel's records.
        with open("/proc/self/comm", "w") as comm:
            comm.write("fault-hog")
        once, rest = hog(int(words[1]), int(words[2]), float(words[3])), words[4:]
    elif words[0] == "stop":
        once, rest = stop(int(words[1]), float(words[2])), words[3:]
    elif words[0] == "packets":
        once, rest = packets(int(words[1])), words[2:]
    else:
        sys.exit(__doc__)
    count, gap = int(rest[0]), float(rest[1])
    done = 0
    for _ in range(TRIES * count):
        time.sleep(gap)
        begin = time.time_ns()
        took_hold = once() is not False
        end = time.time_ns()
        if took_hold:
            print(begin, end, flush=True)
            done += 1
        if done == count:
            break


if __name__ == "__main__":
    main(sys.argv[1:])
