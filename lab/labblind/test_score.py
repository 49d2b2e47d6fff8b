# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is right, doubtful and wrong; and that a seed gives the same traces again."""
import unittest
from dataclasses import dataclass

from . import draw, score


@dataclass
class Wanted:
    kind: str
    words: list


@dataclass
class Kind:
    name: str
    drawn: tuple = (10, 20)
    is_pinned: bool = False


def slices(*pairs):
    return [{"ns": 1, "seen": seen, "doubt": doubt} for seen, doubt in pairs]


class Score(unittest.TestCase):
    def check(self, largest, text, expect):
        wanted = Wanted("lock_owner", ["v-inner"])
        self.assertEqual(score.of_answer(wanted, largest, text)[0], expect, (largest, text))

    def test_answers(self):
        sure, marked, inferred = slices((True, [])), slices((True, ["lost"])), slices((False, []))
        self.check(("lock_owner", sure), "waited for v-inner", score.RIGHT)
        self.check(("lock_owner", inferred), "waited for v-inner", score.RIGHT)
        # The first owner instead of the last one, or another cause: wrong, unless it is marked.
        self.check(("lock_owner", sure), "waited for v-outer", score.WRONG)
        self.check(("waker", sure), "waited for v-inner", score.WRONG)
        self.check(("waker", marked), "", score.DOUBTFUL)
        self.check(("waker", inferred), "", score.DOUBTFUL)
        self.check(("waker", marked + sure), "", score.WRONG)
        self.check(("remainder", sure), "", score.DOUBTFUL)
        self.check(None, "", score.DOUBTFUL)

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
