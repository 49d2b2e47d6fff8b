# SPDX-License-Identifier: MIT OR Apache-2.0
"""Quantiles, ratios of interleaved rounds, and their spread. Pure functions."""

import math
import random


def quantile(sorted_values, q):
    """The smallest value that at least the fraction q of the samples does not exceed (no interpolation)."""
    if not sorted_values:
        return math.nan
    return sorted_values[max(0, math.ceil(q * len(sorted_values)) - 1)]


def median(values):
    values = sorted(values)
    n = len(values)
    if n == 0:
        return math.nan
    return values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2


def spread(values):
    """min, p10, median, p90, max and how many there are."""
    values = sorted(values)
    return {
        "rounds": len(values),
        "min": values[0] if values else math.nan,
        "p10": quantile(values, 0.10),
        "median": median(values),
        "p90": quantile(values, 0.90),
        "max": values[-1] if values else math.nan,
    }


def per_round(blocks, kind):
    """{round: median ns per execution} over the good blocks of one kind; blocks are (round, kind, ns)."""
    rounds = {}
    for block_round, block_kind, ns in blocks:
        if block_kind == kind:
            rounds.setdefault(block_round, []).append(ns)
    return {number: median(values) for number, values in rounds.items()}


def paired(a, b, combine):
    """combine(a[round], b[round]) for the rounds that both have."""
    return [combine(a[number], b[number]) for number in sorted(a.keys() & b.keys())]


def tail_ratio(rounds_a, rounds_b, q, draws=60, seed=1):
    """
    Ratio of the pooled quantile q of two series of rounds (lists of lists), with p10 and p90 of the same ratio over
    resampled rounds: a tail quantile of a single round has too few samples behind it to be compared by itself.
    """
    def pooled(rounds):
        return quantile(sorted(value for one in rounds for value in one), q)

    rounds_a, rounds_b = [sorted(one) for one in rounds_a], [sorted(one) for one in rounds_b]  # runs: sorts fast
    count = min(len(rounds_a), len(rounds_b))
    chance = random.Random(seed)
    ratios = []
    for _ in range(draws if count > 1 else 0):
        picks = [chance.randrange(count) for _ in range(count)]
        ratios.append(pooled([rounds_a[i] for i in picks]) / pooled([rounds_b[i] for i in picks]))
    ratios.sort()
    value = pooled(rounds_a) / pooled(rounds_b)
    return {"rounds": count, "median": value, "min": ratios[0] if ratios else value,
            "p10": quantile(ratios, 0.1) if ratios else value, "p90": quantile(ratios, 0.9) if ratios else value,
            "max": ratios[-1] if ratios else value}
