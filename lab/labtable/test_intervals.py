# SPDX-License-Identifier: MIT OR Apache-2.0
"""Intervals against values from tables. Run by tests/tests/lab_table.rs; by hand: cd lab && python3 -m unittest labtable.test_intervals"""

import unittest

from labtable import intervals


class Intervals(unittest.TestCase):
    def test_median_takes_second_and_ninth_of_ten(self):
        self.assertEqual(intervals.of_median(list(range(10, 0, -1))), (2, 9))

    def test_median_of_five_has_no_interval(self):
        self.assertIsNone(intervals.of_median([1, 2, 3, 4, 5]))
        self.assertEqual(intervals.of_median([1, 2, 3, 4, 5, 6]), (1, 6))

    def test_so_many_or_more(self):
        self.assertEqual(intervals.at_least(0, 10, 0.5), 1.0)
        self.assertAlmostEqual(intervals.at_least(8, 10, 0.5), 0.0547, 4)
        self.assertAlmostEqual(intervals.at_least(1, 20, 1 / 42), 0.3824, 4)

    def test_shares_are_those_of_clopper_and_pearson(self):
        for found, trials, low, high in ((20, 20, 0.8316, 1.0), (19, 20, 0.7513, 0.9987), (0, 10, 0.0, 0.3085), (5, 10, 0.1871, 0.8129)):
            below, above = intervals.of_share(found, trials)
            self.assertAlmostEqual(below, low, 4)
            self.assertAlmostEqual(above, high, 4)

    def test_buckets_are_those_of_the_spec(self):
        for value in (0, 255, 256, 258, 511, 512, 1000, 123456, 1 << 40):
            exponent = max(value, 1).bit_length() - 1
            index = value if value < 256 else 256 + (exponent - 8) * 128 + (value >> (exponent - 7)) - 128
            low = intervals.value_of(index)
            self.assertTrue(low <= value < intervals.value_of(index + 1), value)

    def test_quantile_and_when_there_is_none(self):
        histogram = {10: 500_000, 20: 499_000, 100: 1_000}
        self.assertEqual(intervals.quantile(histogram, 0.25)[0], 10)
        self.assertEqual(intervals.quantile(histogram, 0.9995)[0], 100)
        value, low, high = intervals.quantile(histogram, 0.999)
        self.assertTrue(low == 20 and high == 100 and value in (20, 100))
        self.assertIsNone(intervals.quantile(histogram, 0.999999))


if __name__ == "__main__":
    unittest.main()
