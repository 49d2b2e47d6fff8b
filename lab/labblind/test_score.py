# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is right, doubtful and wrong; and that a seed gives the same traces again."""
import sys
import unittest
from dataclasses import dataclass
from pathlib import Path

from . import draw, score

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "labfaults"))
import told  # noqa: E402


@dataclass
class Kind:
    name: str
    drawn: tuple = (10, 20)
    is_pinned: bool = False


INNER = "v-inner[7] (rt 50) held the lock, and ran"
OUTER = "v-outer[6] (rt 60) held the lock, and ran"


def part(kind, text, ns=9, tid=7, seen=True, doubt=(), key="text"):
    """A slice of a budget, as `explain` has it; with key="part" as `critical` has it."""
    return {"kind": kind, key: text, "ns": ns, "tid": tid, "seen": seen, "doubt": list(doubt)}


def answer(parts, rest=""):
    """An answer as text, with something else in it behind the budget."""
    lines = "".join(f"  {part['ns']}ms 90.0 %  ####  {told.said(part)}\n" for part in parts)
    return f"who waited so long\n\nwhere the time went:\n{lines}\nwhat happened:\n  {rest}\n"


class Score(unittest.TestCase):
    def check(self, wanted, parts, expect, text=None, rest=""):
        found = told.largest({"budget": parts})
        text = answer(parts, rest) if text is None else text
        self.assertEqual(score.of_answer(wanted, found, text)[0], expect, (parts, text))

    def test_answers(self):
        wanted = told.Wanted("lock_owner", r"^v-inner\[")
        self.check(wanted, [part("lock_owner", INNER)], score.RIGHT)
        self.check(wanted, [part("lock_owner", INNER, seen=False)], score.RIGHT)
        self.check(wanted, [part("lock_owner", INNER, key="part")], score.RIGHT)
        # The first owner instead of the last one, or another cause: wrong, unless it is marked.
        self.check(wanted, [part("lock_owner", OUTER)], score.WRONG)
        self.check(wanted, [part("waker", INNER)], score.WRONG)
        self.check(wanted, [part("waker", INNER, doubt=["lost"])], score.DOUBTFUL)
        self.check(wanted, [part("waker", INNER, seen=False)], score.DOUBTFUL)
        self.check(wanted, [part("waker", INNER, doubt=["lost"]), part("waker", INNER)], score.WRONG)
        self.check(wanted, [part("remainder", "not known")], score.DOUBTFUL)
        self.assertEqual(score.of_answer(wanted, None, "")[0], score.DOUBTFUL)

    def test_the_right_word_elsewhere_is_no_answer(self):
        wanted = told.Wanted("lock_owner", r"^v-inner\[")
        outer = part("lock_owner", OUTER, tid=6)
        # In the time line, in a smaller part, or as the one that somebody else waited behind.
        self.check(wanted, [outer], score.WRONG, rest="switch from v-inner[7] to v-outer[6]")
        self.check(wanted, [outer, part("lock_owner", INNER, ns=2)], score.WRONG)
        behind = "v-outer[6] (rt 60) held the lock, and waited while v-inner[7] had cpu 0"
        self.check(wanted, [part("lock_owner", behind, tid=6)], score.WRONG)
        # JSON is right, but the text says another thing.
        self.check(wanted, [part("lock_owner", INNER)], score.WRONG, text=answer([outer], rest=INNER))

    def test_every_kind_is_told_from_its_neighbours(self):
        """For each kind of lab/faults an answer that is right, and others with the same cause or the same words."""
        throttled = "throttled by {}, while v-normal[9] (nice 0) had cpu 0"
        server, rt = "the fair server or real-time throttling", "real-time throttling"
        quota, group = "the CPU quota of its control group", "real-time throttling of its control group"
        cases = {
            "SIGSTOP": (["stopped by faults[5], by a signal", "stopped by python3[5] (inferred), by a signal"],
                        ["stopped, by a signal", "stopped by gdb[5], under a debugger", "stopped by victim[7], by a signal"]),
            "ptrace stop": (["stopped by faults[5] (inferred), under a debugger", "stopped, under a debugger"],
                            ["stopped by faults[5], by a signal"]),
            "hog of a higher priority": (["fault-hog[8] (rt 95) had cpu 1"], ["kworker[8] (rt 95) had cpu 1, before fault-hog[8]"]),
            "CPU quota of a group": ([throttled.format(quota), "throttled (inferred) by the CPU quota of its control group, while cpu 0 idled"],
                                     [throttled.format(rt), throttled.format(server), "v-normal[9] had cpu 0 (inferred: a CPU quota)"]),
            "fair server": ([throttled.format(server)], [throttled.format(rt), throttled.format(group), throttled.format(quota)]),
            "real-time throttling of a group": ([throttled.format(group), throttled.format(rt)], [throttled.format(quota)]),
            "real-time throttling of the CPU": ([throttled.format(rt), throttled.format(server)], [throttled.format(quota)]),
            "chain of three pipes": (["v-first[2] (nice 0) ran, and had not woken it yet"],
                                     ["v-third[4] (nice 0) had not woken it yet, and slept", "thread 9 ran after v-first[2]"]),
            "own computation": (["running"], ["running (something)"]),
            "lock with inheritance": (["v-owner[3] (rt 80) held the lock, and ran"], ["v-middle[4] (rt 40) held the lock, and ran"]),
            "interrupts off": (["swapper[0] had cpu 1, with interrupts off"], ["victim[7] had cpu 1"]),
            "preemption off": (["a[3] had cpu 1, with preemption off"], ["a[3] had cpu 1, with interrupts off"]),
        }
        kinds = {kind.name: kind.wanted for kind in told.KINDS}
        for name, (right, wrong) in cases.items():
            wanted = kinds[name]
            for text in right:
                self.check(wanted, [part(wanted.kind, text)], score.RIGHT)
            for text in wrong:
                self.check(wanted, [part(wanted.kind, text)], score.WRONG, rest=right[0])

    def test_the_limit_of_most_of_the_time_counts(self):
        wanted = told.Wanted("throttled", "^throttled.* by the CPU quota ")
        quota = "throttled by the CPU quota of its control group, while {} had cpu 0"
        rt = part("throttled", "throttled by real-time throttling, while cpu 0 idled", ns=9)
        self.check(wanted, [rt, part("throttled", quota.format("a[1]"), ns=8)], score.WRONG)
        self.check(wanted, [rt, part("throttled", quota.format("a[1]"), ns=8), part("throttled", quota.format("b[2]"), ns=7)], score.RIGHT)

    def test_the_worst_answer_counts(self):
        self.assertEqual(score.together([score.RIGHT, score.WRONG, score.DOUBTFUL]), score.WRONG)
        self.assertEqual(score.together([score.RIGHT, score.DOUBTFUL]), score.DOUBTFUL)
        self.assertEqual(score.together([score.RIGHT, score.RIGHT]), score.RIGHT)

    def test_bars(self):
        def met(right, doubtful, wrong, failed=0):
            scores = [score.RIGHT] * right + [score.DOUBTFUL] * doubtful + [score.WRONG] * wrong + [score.FAILED] * failed
            return score.bars(scores)[1]

        self.assertTrue(met(57, 3, 0))
        self.assertFalse(met(56, 4, 0))
        self.assertFalse(met(59, 0, 1))
        self.assertTrue(met(6, 0, 0))
        self.assertFalse(met(5, 1, 0))
        self.assertFalse(met(0, 0, 0))
        # A trace that could not be made counts as one that is not right.
        self.assertTrue(met(57, 1, 0, failed=2))
        self.assertFalse(met(56, 0, 0, failed=4))


class Draw(unittest.TestCase):
    KINDS = [Kind("a"), Kind("b", is_pinned=True), Kind("c")]

    def traces(self, seed):
        return [draw.drawn(seed, number, self.KINDS, [0, 1], draw.LOADS) for number in range(200)]

    def test_a_seed_repeats(self):
        self.assertEqual(self.traces(7), self.traces(7))
        self.assertNotEqual(self.traces(7), self.traces(8))

    def test_everything_comes(self):
        traces = self.traces(1)
        self.assertEqual({trace.kind for trace in traces}, {0, 1, 2})
        self.assertEqual({trace.load for trace in traces}, set(draw.LOADS))
        self.assertEqual({trace.cpu for trace in traces}, {None, 0, 1})
        self.assertTrue(all(trace.cpu is not None for trace in traces if trace.kind == 1))
        self.assertTrue(all(10 <= trace.ms <= 20 for trace in traces))


if __name__ == "__main__":
    unittest.main()
