// SPDX-License-Identifier: MIT OR Apache-2.0
// Distributions of two traces, and windows that are tied.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Distribution, difference, distributionOf, range, shares, tail } from '../src/layout/distribution.js';
import { decode } from '../src/query/columns.js';
import { tiedWindow } from '../src/several/beside.js';
import { frame } from './frame.js';

const NONE = { p50_ns: null, p90_ns: null, p99_ns: null, p999_ns: null, p9999_ns: null, max_ns: null };
const of = (...buckets: [low: number, high: number, count: number][]): Distribution => ({
  buckets: buckets.map(([low, high, count]) => ({ low, high, count })),
  count: buckets.reduce((sum, [, , count]) => sum + count, 0),
  doubtful: 0,
  quantiles: NONE,
});

test('a distribution is that of its series', () => {
  const quantile = ['u64', [1500, 7]] as const;
  const answer = decode(
    frame(
      {
        series: { what: ['text', [0, 0]], of: ['text', [1, null]], count: ['u64', [3, 9]], doubtful: ['u64', [1, 0]], p50_ns: quantile, p90_ns: quantile, p99_ns: ['u64', [null, 8]], p999_ns: quantile, p9999_ns: quantile, max_ns: quantile },
        histogram: { series: ['u32', [1, 0, 0]], low_ns: ['u64', [1, 2000, 1000]], high_ns: ['u64', [1, 2047, 1023]], count: ['u64', [9, 1, 2]] },
      },
      { texts: ['futex', '0x7f'] },
    ),
  );
  const found = distributionOf(answer, 'futex 0x7f');
  assert.deepEqual(found?.buckets, [{ low: 1000, high: 1023, count: 2 }, { low: 2000, high: 2047, count: 1 }]);
  assert.deepEqual([found?.count, found?.doubtful, found?.quantiles.p50_ns, found?.quantiles.p99_ns], [3, 1, 1500, null]);
  assert.equal(distributionOf(answer, 'futex')?.count, 9);
  assert.equal(distributionOf(answer, 'wakeup'), null);
});

test('a tail begins at all, never rises, and ends at the longest', () => {
  const points = tail(of([10, 19, 6], [20, 39, 3], [100, 199, 1]));
  assert.deepEqual(points, [{ ns: 10, share: 1 }, { ns: 20, share: 0.4 }, { ns: 100, share: 0.1 }, { ns: 199, share: 0.1 }]);
  assert.deepEqual(tail(of()), []);
});

test('shares of a scale are together all samples', () => {
  const found = shares(of([1, 1, 5], [1000, 1007, 10], [1008, 1015, 10], [4096, 4127, 25]), 4);
  const sum = [...found.values()].reduce((all, share) => all + share, 0);
  assert.ok(Math.abs(sum - 1) < 1e-12);
  assert.equal(found.get(0), 0.1);
  assert.equal(found.get(48), 0.5);
});

test('a scale holds both, and a difference says which is longer', () => {
  assert.deepEqual(range([of([1000, 1007, 1]), of([50, 51, 1])]), [50, 1007]);
  assert.deepEqual(range([null, of()]), [1, 2]);
  const cases: [number | null, number | null, string][] = [[100, 112, '+12 %'], [100, 50, '−50 %'], [100, 210, '2.1 times'], [5, 5, 'the same'], [null, 5, ''], [0, 5, 'longer'], [1000, 1001, '+<1 %']];
  for (const [a, b, expect] of cases) assert.equal(difference(a, b), expect, `${a} ${b}`);
});

test('tied windows keep their distance', () => {
  assert.deepEqual(tiedWindow({ from: 100n, to: 300n }, 50n), { from: 150n, to: 350n });
  const back = tiedWindow(tiedWindow({ from: 100n, to: 300n }, 50n), -50n);
  assert.deepEqual(back, { from: 100n, to: 300n });
});
