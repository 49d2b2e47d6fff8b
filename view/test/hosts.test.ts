// SPDX-License-Identifier: MIT OR Apache-2.0
// Several hosts: which one an address chooses, and the time that all of them have.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { othersOf } from '../src/app/others.js';
import { whole } from '../src/app/view.js';
import { Times } from '../src/common/time.js';
import { hostOf, movedBy, wholeOf } from '../src/several/hosts.js';
import { Axis } from '../src/timeline/axis.js';

const answer = (base: string, from: number, to: number): Parameters<typeof wholeOf>[0] => ({ head: { base, from, to } }) as Parameters<typeof wholeOf>[0];

test('an address chooses a host by its number, and otherwise the first', () => {
  assert.equal(hostOf('#page=timeline&host=12'), 12);
  for (const hash of ['', '#host=', '#host=-1', '#host=01', '#host=x', '#host=1000', '#host=1.5']) assert.equal(hostOf(hash), 0, hash);
});

test('the time of all hosts is from the first record of any to the last one, after the base of the chosen one', () => {
  const early = answer('-50', 0, 30);
  const late = answer('1795286761893319620', 0, 100);
  const empty = answer('0', 0, 0);
  const by = 1795286761893319670n;
  assert.deepEqual(wholeOf(late, [early]), { from: -by, to: 100n });
  assert.deepEqual(wholeOf(early, [late]), { from: 0n, to: by + 100n });
  assert.deepEqual(wholeOf(late, [empty]), { from: 0n, to: 100n });
});

test('all times of a view move, and what is not set stays so', () => {
  const view = { ...whole(100n), a: 5n, tid: 7 };
  assert.deepEqual(movedBy(view, -20n), { ...view, from: -20n, to: 80n, a: -15n, b: null, at: null });
  assert.deepEqual(movedBy(movedBy(view, 3n), -3n), view);
});

test('the axis of another host has its ticks where that of the page has them, with the same words', () => {
  const by = 20_000_007n;
  const view = { ...whole(1_000_000_000n), from: 3n, to: 700_000_003n };
  const own = new Axis(view, new Times(by, 'trace', 0n), 900).ticks();
  const other = new Axis(movedBy(view, by), new Times(0n, 'trace', 0n, by), 900).ticks();
  assert.ok(own.length > 3);
  assert.deepEqual(other, own);
});

test('what the server says of others is checked', () => {
  assert.deepEqual(othersOf({ relation: 'hosts', names: ['a', 'b'] }), { relation: 'hosts', names: ['a', 'b'] });
  for (const wrong of [null, {}, { relation: null, names: [] }, { relation: 'hosts', names: ['a'] }, { relation: 'hosts', names: 'ab' }, { relation: 'x', names: ['a', 'b'] }, { relation: 'beside', names: ['a', 1] }]) {
    assert.equal(othersOf(wrong).relation, null, JSON.stringify(wrong));
  }
});
