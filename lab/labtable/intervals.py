# SPDX-License-Identifier: MIT OR Apache-2.0
"""Intervals of 95 % for what the table states: medians of rounds, shares of trials, quantiles of histograms. Pure functions."""

import math

LEVEL = 0.95


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    if not values:
        return math.nan
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _binomial_below(n, p, k):
    """Probability of at most k successes."""
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


def at_least(found, trials, p):
    """Probability of so many successes or more."""
    return 1 - _binomial_below(trials, p, found - 1) if found else 1.0


def of_median(values):
    """Order statistics that hold the median with 95 %; None where there are fewer than six values."""
    values = sorted(values)
    n = len(values)
    best = None
    for k in range(n // 2):  # values[k] .. values[n - 1 - k]
        if 1 - 2 * _binomial_below(n, 0.5, k) >= LEVEL:
            best = (values[k], values[n - 1 - k])
    return best


def of_share(found, trials):
    """Clopper and Pearson's interval of a share."""
    if not trials:
        return (0.0, 1.0)
    tail = (1 - LEVEL) / 2

    def solve(too_low):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if too_low(middle) else (low, middle)
        return (low + high) / 2

    # The bounds are the shares with which so many, or so few, would have been found in 2.5 % of such experiments.
    below = 0.0 if found == 0 else solve(lambda p: 1 - _binomial_below(trials, p, found - 1) < tail)
    above = 1.0 if found == trials else solve(lambda p: _binomial_below(trials, p, found) > tail)
    return below, above


def value_of(index):
    """The smallest value of a bucket of spec/lab.md 4."""
    if index < 256:
        return index
    octave, step = divmod(index - 256, 128)
    return (128 + step) << (octave + 1)


def quantile(histogram, q):
    """
    (value, low, high) of the quantile q of a histogram {index: count}; the interval is of ranks (binomial, normal approximation). None
    where fewer than five samples lie beyond q.
    """
    total = sum(histogram.values())
    if total * (1 - q) < 5 or total * q < 5:
        return None
    wide = 1.96 * math.sqrt(total * q * (1 - q))
    ranks = [min(max(math.ceil(total * q + shift), 1), total) for shift in (0, -wide, wide)]
    found, seen = {}, 0
    for index in sorted(histogram):
        seen += histogram[index]
        for rank in ranks:
            if rank not in found and seen >= rank:
                found[rank] = value_of(index)
    return tuple(found[rank] for rank in ranks)
