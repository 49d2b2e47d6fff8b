// SPDX-License-Identifier: MIT OR Apache-2.0
// Statistics: what is asked for, what rows are called, and that a time nobody knows is not shown as 0.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fromFragment, toFragment, whole } from '../src/app/view.js';
import { type Answer, decode } from '../src/query/columns.js';
import { columnsOf, type Group, groupOf, percent, statRows, timesOf, totals } from '../src/tabs/statistics.js';
import { type Columns, frame } from './frame.js';

const HUGE = 2n ** 63n;

function rows(count: number, own: Columns): Columns {
  const none = Array.from({ length: count }, () => null);
  const ints: Columns = Object.fromEntries(['process', 'tid'].map((name) => [name, ['i32', none]]));
  const longs = ['busy_ns', 'interrupt_ns', 'runs', 'longest_ns', 'idle_ns', 'unknown_ns', 'rows'].map((name) => [name, ['u64', none]]);
  return { name: ['text', none], ...ints, cpu: ['u32', none], is_kernel: ['u8', none], per_s: ['f64', none], doubt: ['u16', none], ...Object.fromEntries(longs), ...own };
}

function cells(answer: Answer, by: Group): string[][] {
  const columns = columnsOf(by, answer, (at) => `@${at}`);
  return statRows(answer).map((row) => columns.map(({ cell }) => String(cell(row))));
}

test('the address says what statistics are grouped and sorted by', () => {
  const all = whole(1_000_000n);
  assert.deepEqual(groupOf(all), { by: 'event', sort: null });
  for (const [stats, by, sort] of [['thread', 'thread', null], ['cpu.name', 'cpu', 'name'], ['event.time', 'event', null], ['nothing.time', 'event', null], ['thread.<b>', 'thread', null]] as const) {
    const back = fromFragment(toFragment({ ...all, stats }), all);
    assert.deepEqual(groupOf(back), { by, sort }, stats);
  }
});

test('threads: times that are not known are not 0, and the others are one row', () => {
  const answer = decode(
    frame(
      {
        rows: rows(3, {
          name: ['text', [0, 0, null]],
          tid: ['i32', [7, 8, null]],
          records: ['u64', [1_234_567n, 2n, 1n]],
          per_s: ['f64', [2_469_134, 4, null]],
          busy_ns: ['u64', [250_000n, 0n, null]],
          interrupt_ns: ['u64', [1000n, 0n, null]],
          runs: ['u64', [3n, 0n, null]],
          longest_ns: ['u64', [200_000n, 0n, null]],
          doubt: ['u16', [2, 0, 0]],
        }),
        others: rows(1, { rows: ['u64', [12n]], records: ['u64', [HUGE]], busy_ns: ['u64', [0n]], interrupt_ns: ['u64', [0n]], runs: ['u64', [0n]], longest_ns: ['u64', [0n]] }),
      },
      { texts: ['<b>'], info: { times_from: 0, times_to: 500_000, doubts: ['lost', 'start'], records: 99, selected: 9, first: 0, last: 1000 }, lost: { records: 5, packets: 0, places: 1 } },
    ),
  );
  const [first, second, third, others] = cells(answer, 'thread');
  assert.deepEqual(first?.slice(0, 8), ['<b>[7]', '1 234 567', '2 469 134 /s', '250 µs', '50.0 %', '1.00 µs', '3', '200 µs']);
  assert.equal(first?.[8], 'start');
  assert.deepEqual(second?.slice(0, 5), ['<b>[8]', '2', '4.0 /s', '0 ns', '0.0 %']);
  assert.deepEqual(third?.slice(0, 8), ['idle, or not known', '1', '', 'not known', '', 'not known', 'not known', 'not known']);
  assert.equal(others?.[0], '12 others');
  assert.equal(percent(answer, null), '');
  assert.match(totals(answer), /^9 of 99 records in this window, 1\.00 µs .* 5 records were lost in it: counts and times are lower bounds\.$/);
});

test('CPUs and events', () => {
  const cpus = decode(frame({ rows: rows(2, { cpu: ['u32', [3, null]], records: ['u64', [5n, 6n]], busy_ns: ['u64', [10n, null]], idle_ns: ['u64', [20n, null]], unknown_ns: ['u64', [70n, 100n]] }), others: rows(0, { records: ['u64', []] }) }, { info: { times_from: null, times_to: null } }));
  assert.deepEqual(cells(cpus, 'cpu').map((row) => row.slice(0, 8)), [
    ['CPU 3', '5', '', '10 ns', '', 'not known', '20 ns', '70 ns'],
    ['not known', '6', '', 'not known', '', 'not known', 'not known', '100 ns'],
  ]);
  const events = decode(frame({ rows: rows(1, { name: ['text', [0]], is_kernel: ['u8', [1]], records: ['u64', [5n]], first: ['i64', [-3n]], last: ['i64', [9n]] }), others: rows(0, { records: ['u64', []] }) }, { texts: ['sched_switch'] }));
  assert.deepEqual(cells(events, 'event'), [['sched_switch', '5', '', 'kernel', '@-3', '@9']]);
});

test('how long threads ran, of those that ran', () => {
  const of: Columns = { tid: ['i32', [7, 8, 9]], name: ['text', [0, null, 0]], running_ns: ['u64', [250_000n, 0n, 1000n]] };
  const answer = decode(frame({ threads: of }, { texts: ['<b>'], info: { source: 'index' } }));
  const { rows, columns } = timesOf(answer);
  assert.deepEqual(rows, [0, 2]);
  assert.deepEqual(columns.map(({ head }) => head), ['Thread', 'CPU time', 'Of one CPU']);
  const length = answer.head.to - answer.head.from;
  assert.deepEqual(columns.map(({ cell }) => cell(0)), ['<b>[7]', '250 µs', `${((100 * 250_000) / length).toFixed(1)} %`]);
});
