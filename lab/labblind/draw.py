# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What a trace of the blind test has: a cause, its length, a CPU, and a load beside it. All follows from the seed and the number of the trace,
so that one trace can be repeated alone.
"""
import random
from dataclasses import dataclass

# Loads of `kymo load`; those of stress-ng only where it is there.
LOADS = ["none", "hackbench", "net", "compile"]
STRESS_NG = ["memory", "io", "timer"]


@dataclass(frozen=True)
class Drawn:
    """One trace, before it is made."""
    number: int
    kind: int
    ms: int
    cpu: int | None
    load: str
    workers: int

    def text(self, kinds):
        where = "any CPU" if self.cpu is None else f"CPU {self.cpu}"
        beside = "nothing beside it" if self.load == "none" else f"{self.load} x {self.workers} beside it"
        return f"{kinds[self.kind].name}, {self.ms} ms, {where}, {beside}"


def drawn(seed, number, kinds, cpus, loads):
    """The trace with this number. `kinds` are those that this machine can inject (told.Kind)."""
    chance = random.Random(f"{seed} {number}")
    kind = chance.randrange(len(kinds))
    ms = chance.randint(*kinds[kind].drawn)
    cpu = chance.choice([None, *cpus])
    if cpu is None and kinds[kind].is_pinned:
        cpu = chance.choice(cpus)
    return Drawn(number, kind, ms, cpu, chance.choice(loads), chance.choice([1, 1, 2]))
