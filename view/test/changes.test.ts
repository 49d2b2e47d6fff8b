// SPDX-License-Identifier: MIT OR Apache-2.0
// The keys n and p: to the next and the previous change of a thread.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { KEYS } from '../src/app/keys.js';
import { type Stretch, changeIn, findChange } from '../src/query/changes.js';
import { type Answer, decode } from '../src/query/columns.js';
import { frame } from './frame.js';

/** What a server answers to `states` of a thread that does something else at each of `changes`. */
function states(changes: readonly bigint[], { from, to }: Stretch, pixels: number): Answer {
  const length = to - from;
  const edge = (pixel: number): bigint => from + (BigInt(pixel) * length) / BigInt(pixels);
  const covers = (begin: bigint, end: bigint): boolean => {
    for (let pixel = 0; pixel < pixels; pixel++) if (edge(pixel) >= begin && edge(pixel + 1) <= end && edge(pixel + 1) > edge(pixel)) return true;
    return false;
  };
  const [begins, ends, opens, mixed]: [bigint[], bigint[], number[], number[]] = [[], [], [], []];
  const edges = [0n, ...changes, 1n << 60n];
  for (let i = 0; i + 1 < edges.length; i++) {
    const [begin = 0n, end = 0n] = [edges[i], edges[i + 1]];
    if (end <= from || begin >= to || !covers(begin, end)) continue;
    begins.push(begin);
    ends.push(end < to ? end : to);
    opens.push(end > to ? 1 : 0);
  }
  for (let pixel = 0; pixel < pixels; pixel++) if (changes.some((at) => at > edge(pixel) && at < edge(pixel + 1))) mixed.push(pixel);
  return decode(
    frame(
      { spans: { from: ['i64', begins], to: ['i64', ends], open: ['u8', opens] }, mixed: { pixel: ['u32', mixed] } },
      { from: Number(from), to: Number(to) },
    ),
  );
}

test('a change is where a stretch begins or ends, and in a pixel of several it is looked for nearer', () => {
  const changes = [100n, 200n, 550n, 560n];
  const answer = states(changes, { from: 0n, to: 1000n }, 10);
  assert.equal(changeIn(answer, 10, 0n, 'next'), 100n);
  assert.equal(changeIn(answer, 10, 100n, 'next'), 200n);
  assert.deepEqual(changeIn(answer, 10, 250n, 'next'), { from: 500n, to: 600n });
  assert.deepEqual(changeIn(answer, 10, 520n, 'next'), { from: 520n, to: 600n });
  assert.equal(changeIn(answer, 10, 600n, 'next'), null, 'it goes on behind the window: that is no change');
  assert.deepEqual(changeIn(answer, 10, 1000n, 'previous'), { from: 500n, to: 600n });
  assert.equal(changeIn(answer, 10, 400n, 'previous'), 200n);
  assert.equal(changeIn(answer, 10, 100n, 'previous'), 0n, 'where it is first known');
});

test('each change is found from the one before, both ways, however far and near they are', async () => {
  const changes = [5n, 6n, 7n, 400_000n, 400_001n, 2_000_000_017n, 2_000_000_900n, 7_000_000_000n];
  const whole = { from: 0n, to: 9_000_000_000n };
  let asked = 0;
  const ask = (window: Stretch, pixels: number): Promise<Answer> => {
    asked++;
    assert.ok(window.from >= whole.from && window.to <= whole.to && window.from < window.to);
    return Promise.resolve(states(changes, window, pixels));
  };
  const walk = async (at: bigint, direction: 'next' | 'previous'): Promise<bigint[]> => {
    const seen: bigint[] = [];
    for (;;) {
      const found = await findChange(ask, whole, at, direction, 10_000n);
      if (typeof found !== 'bigint') return seen;
      seen.push((at = found));
    }
  };
  assert.deepEqual(await walk(0n, 'next'), changes);
  assert.deepEqual(await walk(whole.to, 'previous'), [...changes].reverse().concat(0n));
  assert.ok(asked < 30 * changes.length, `${asked} questions`);
  assert.equal(await findChange(() => Promise.resolve(null), whole, 0n, 'next', 10n), undefined, 'another question came');
});

test('the help tells of the keys', () => {
  assert.ok(KEYS.some(([keys]) => keys === 'n p'));
});
