# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measure h: the kernel's rings read by copies (trace_pipe_raw) and where they are mapped (Linux 6.10), interleaved. First the
readers alone: src/kernel_rings.c reads the rings of a stopped instance by one way and by the other, after the same load each
time. Then whole sessions of kymo with $KYMO_KERNEL_RINGS, under `find`: the CPU time of the thread that reads the rings.
Every reading is printed.
"""

import subprocess
import time

from . import kernel, kernel_load, stats
from .report import Row

WAYS = ("copied", "mapped")
EVENTS = ("raw_syscalls", "sched")
RING_BYTES = 32 << 20   # of each CPU: what one round records must fit
SUBBUF_KIB = 16         # as kymo has them
TRIPS = 8000
NOT_MAPPED = 3          # kernel_rings' exit code


class Session(kernel.Kymo):
    """A session of kymo that reads its rings in one way."""

    def __init__(self, ctx, way):
        super().__init__(ctx, options=("--state", "none"))
        self.env = {"KYMO_KERNEL_RINGS": way}


class Rings:
    """Measure h."""

    name = "rings"
    about = "the kernel's rings copied, and read where they are mapped (h)"

    def __init__(self):
        self.alone = {way: {} for way in WAYS}     # way: {round: dict}
        self.sessions = {way: {} for way in WAYS}  # way: {round: dict}

    def run(self, ctx):
        self._alone(ctx)
        for turn in range(3 if ctx.quick else 10):
            for way in WAYS[::1 if turn % 2 else -1]:
                self.sessions[way][turn] = self._session(ctx, way)
                print(f"session {turn} {way} " + " ".join(f"{name}={value}" for name, value in self.sessions[way][turn].items()),
                      flush=True)

    def _alone(self, ctx):
        with kernel.Instance(ctx.tracefs, ctx.ring_bytes) as instance:
            subbuf = instance.path / "buffer_subbuf_size_kb"
            if subbuf.exists():
                subbuf.write_text(str(SUBBUF_KIB), encoding="ascii")
            (instance.path / "buffer_size_kb").write_text(str(RING_BYTES // 1024), encoding="ascii")
            instance.enable(EVENTS)
            command = [str(ctx.programs / "kernel_rings"), str(instance.path), str(ctx.writer_cpu), str(ctx.collector_cpu),
                       "5" if ctx.quick else "25", str(TRIPS)]
            done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                  preexec_fn=kernel.raised)
        print("round way events pages cpu_ns call_ns call_ns_max\n" + done.stdout, end="", flush=True)
        (ctx.out / "raw" / "kernel-rings.txt").write_text(done.stdout, encoding="ascii")
        if done.returncode:
            raise kernel.KernelError(done.stderr.strip() if done.returncode == NOT_MAPPED else f"kernel_rings: {done.stderr}")
        for line in done.stdout.splitlines():
            turn, way, *numbers = line.split()
            if int(turn) >= 0:  # the first one warms up
                self.alone[way][int(turn)] = dict(zip(("events", "pages", "cpu_ns", "call_ns", "call_ns_max"), map(int, numbers)))

    def _session(self, ctx, way):
        with Session(ctx, way) as session:
            with kernel_load.Load(ctx, "find"):
                time.sleep(1 if ctx.quick else 4)
        one = session.summary()["kernel"]
        session.remove()
        if (one["mapped_rings"] > 0) != (way == "mapped"):
            raise kernel.KernelError(f"{way}: {one['mapped_rings']} rings were mapped: {one['caveats']}")
        return {"records": one["records"], "pages": one["pages"], "cpu_s": one["cpu_s"], "lost": sum(one["lost"].values()),
                "damage": len(one["damage"])}

    def rows(self, ctx):
        alone = {way: {turn: one["cpu_ns"] / one["events"] for turn, one in self.alone[way].items()} for way in WAYS}
        whole = {way: {turn: one["cpu_s"] * 1e9 / one["records"] for turn, one in self.sessions[way].items()} for way in WAYS}
        rows = [self._row("h reading a stopped ring: mapped / copied", alone), self._row("h kymo's thread under find: mapped / copied", whole)]
        rows[0].note = self._calls()
        rows[1].note = "; ".join(f"{way}: {stats.median(one['records'] for one in self.sessions[way].values()):,.0f} records, lost "
                                 f"{sum(one['lost'] for one in self.sessions[way].values()):,}" for way in WAYS)
        return rows

    @staticmethod
    def _row(name, ns):
        spread = stats.spread(stats.paired(ns["mapped"], ns["copied"], lambda x, y: x / y))
        mapped, copied = (f"{stats.median(ns[way].values()):.2f} ms/M" for way in ("mapped", "copied"))
        return Row(name, kymo=mapped, peer=copied, ratio=spread["median"], spread=spread)

    def _calls(self):
        """What the calls take of it, and the longest: a mapped ring's call walks all records with interrupts off."""
        texts = []
        for way in WAYS:
            runs = self.alone[way].values()
            each = stats.median(one["call_ns"] / one["pages"] for one in runs) / 1000
            longest = stats.median(one["call_ns_max"] for one in runs) / 1000
            texts.append(f"{way}: {each:.1f} us a call, longest {longest:.0f} us (median of rounds), "
                         f"{stats.median(one['events'] / one['pages'] for one in runs):.0f} events a call")
        return "; ".join(texts)
