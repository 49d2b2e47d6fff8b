# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Which runs of npt are made again, and how losses are told that a tracer does not know. Run by tests/tests/lab_table.rs; by hand:
cd lab && python3 -m unittest labtable.test_npt
"""

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from labtable.npt import ATTEMPTS, Npt, Variant  # noqa: E402


class Told(Npt):
    """A table of one variant, whose runs say that they lost what `answers` has."""

    def __init__(self, answers):
        self.every, self.failed, self.rounds, self.throttling = [Variant("kymo", "kymo", "kymo-probe", "none")], {}, 0, None
        self.answers, self.runs = list(answers), 0

    def _one(self, ctx, one, number):
        one.lost[number] = self.answers[self.runs]
        self.runs += 1


def lost(answers, rounds):
    """What is told of so many rounds, and how many runs they took."""
    table = Told(answers)
    table.run(SimpleNamespace(rounds=rounds, is_late=lambda: False), SimpleNamespace(say=lambda _: None))
    return table._lost("kymo"), table.runs


class Lost(unittest.TestCase):
    def test_a_run_that_lost_nothing_is_made_once(self):
        self.assertEqual(lost([0, 0, 0], 3), ("0", 3))

    def test_a_run_that_lost_records_or_does_not_know_is_made_again(self):
        self.assertEqual(lost([7, 0, None, 0], 2), ("0", 4))

    def test_what_the_last_attempt_lost_stays(self):
        self.assertEqual(lost([9] * (ATTEMPTS - 1) + [1200], 1), ("1,200", ATTEMPTS))

    def test_what_is_not_known_is_no_zero(self):
        answers = [None] * ATTEMPTS + [0] + [5] * ATTEMPTS
        self.assertEqual(lost(answers, 3), ("5, unknown in 1 of 3 rounds", 2 * ATTEMPTS + 1))


if __name__ == "__main__":
    unittest.main()
