// SPDX-License-Identifier: MIT OR Apache-2.0
// Which latency is chosen, and which lengths: the address, the question, and the scale of the picture.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { allSeries, choice, chosenBy, lengthsOf, lengthsText, typed } from '../src/app/series.js';
import { whole } from '../src/app/view.js';
import { decode } from '../src/query/columns.js';
import { logScale } from '../src/tabs/latencies.js';
import { frame } from './frame.js';

test('the key of a series chooses that series, whatever it is kept apart by', () => {
  const none = ['u64', [null, null, null]] as const;
  const answer = decode(
    frame(
      {
        series: {
          what: ['text', [0, 1, 1]], of: ['text', [null, 2, 2]], process: ['i32', [null, null, 7]], tid: ['i32', [null, null, 8]], prio: ['i32', [null, 98, null]], cpu: ['u32', [null, 3, null]],
          name: ['text', [null, null, 3]], count: ['u64', [1, 2, 3]], doubtful: ['u64', [0, 0, 0]], p50_ns: none, p99_ns: none, p999_ns: none, max_ns: none,
        },
      },
      { texts: ['wakeup', 'span', 'axis:begin, axis:end', 'servo'] },
    ),
  );
  const [plain, second, third] = allSeries(answer);
  assert.deepEqual([plain?.key, second?.key, third?.key], ['wakeup', 'span axis:begin, axis:end~r98~c3', 'span axis:begin, axis:end~p7~t8']);
  assert.deepEqual([second?.whose, third?.whose], ['prio 98 CPU 3', 'servo[7] servo[8]']);
  assert.deepEqual(choice(plain?.key ?? ''), { kind: 'wakeup', of: '' });
  assert.deepEqual(choice(second?.key ?? ''), { kind: 'span', of: 'axis:begin, axis:end', prio: '98', cpu: '3' });
  assert.deepEqual(choice(third?.key ?? ''), { kind: 'span', of: 'axis:begin, axis:end', process: '7', tid: '8' });
  assert.deepEqual(choice(''), {});
});

test('lengths of the address are those of the question; what is none chooses all', () => {
  assert.deepEqual(chosenBy({ ...whole(9n), what: 'wakeup', lengths: lengthsText(2000.4, 10), apart: 'cpu' }), { kind: 'wakeup', of: '', by: 'cpu', low: 10, high: 2000 });
  assert.equal(lengthsText(-5, 3), '0-3');
  for (const text of ['', '5', '9-3', 'a-b', '-1-2']) assert.equal(lengthsOf(text), null, text);
  assert.deepEqual(['12 us', '1.5ms', '7', '2 s', '3 µs', '', 'x', '1 h'].map(typed), [12_000, 1_500_000, 7, 2e9, 3000, null, null, null]);
});

test('a place on the scale is the length that is drawn there', () => {
  const answer = decode(frame({ histogram: { series: ['u32', [0, 0, 1]], low_ns: ['u64', [100, 90_000, 1]], high_ns: ['u64', [110, 99_999, 9e9]], count: ['u64', [1, 1, 1]] } }));
  const scale = logScale(answer, 0, 200);
  for (const ns of [100, 5000, 99_999]) assert.ok(Math.abs(scale.ns(scale.y(ns)) / ns - 1) < 1e-9, `${ns}`);
  assert.ok(scale.y(100) <= 192 && scale.y(99_999) >= 8, 'all of it is in the picture, and the other series does not count');
  assert.deepEqual(scale.ticks, [100, 1000, 10_000, 100_000]);
});
