// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows beyond the states: frequencies and idle states of CPUs, groups of threads, and the arrows of wake-ups.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { cpuRows } from '../src/layout/cpus.js';
import { type Member, foldedOf, groupRow, groupsOf, toggled } from '../src/layout/groups.js';
import { decode } from '../src/query/columns.js';
import { type Wake, arrowAt, arrowLines, howMany, wakes } from '../src/timeline/arrows.js';
import { type Columns, frame } from './frame.js';

const NO_LOSSES: Columns = { from: ['i64', []], to: ['i64', []], cpu: ['u32', []], records: ['u64', []], packets: ['u64', []], process: ['u32', []], count: ['u32', []] };

function cpus(more: Record<string, Columns>): ReturnType<typeof decode> {
  return decode(
    frame({
      rows: { cpu: ['u32', [0, 1]], thread_ns: ['u64', [0, 0]] },
      spans: { cpu: ['u32', []], from: ['i64', []], to: ['i64', []], state: ['u8', []], tid: ['i32', []], name: ['text', []], prio: ['i32', []], doubt: ['u16', []] },
      mixed: { cpu: ['u32', []], pixel: ['u32', []], thread: ['f32', []], unknown: ['f32', []], name: ['text', []], doubt: ['u16', []] },
      interrupts: { cpu: ['u32', []], from: ['i64', []], to: ['i64', []], kind: ['u8', []], name: ['text', []], doubt: ['u16', []] },
      interrupts_mixed: { cpu: ['u32', []], pixel: ['u32', []], irq: ['f32', []], softirq: ['f32', []] },
      losses: NO_LOSSES,
      ...more,
    }),
  );
}

test('a frequency holds until the next one of its CPU, and is as high as it is beside the highest', () => {
  const answer = cpus({
    frequency: { cpu: ['u32', [0, 1, 0]], at: ['i64', [0n, 100n, 500n]], khz: ['u32', [2_400_000, 1_200_000, 600_000]] },
    idle: { cpu: ['u32', []], at: ['i64', []], state: ['u32', []] },
  });
  const [first, second] = cpuRows(answer, 100);
  assert.ok(first && second);
  assert.deepEqual(first.pieces.map(({ x0, x1, y, h, label }) => [x0, x1, y, h, label]), [[0, 50, 29, 11, '2.40 GHz'], [50, 100, 37, 3, '600 MHz']]);
  assert.deepEqual(second.pieces.map(({ x0, x1, h, label }) => [x0, x1, h, label]), [[10, 100, 6, '1.20 GHz']]);
  assert.deepEqual([first.height, second.height], [41, 41]);
});

test('idle states have their number and end when the CPU leaves them; where nothing is recorded the row stays as it was', () => {
  const idle: Columns = { cpu: ['u32', [0, 0, 0]], at: ['i64', [100n, 300n, 800n]], state: ['u32', [2, null, 0]] };
  const [first, second] = cpuRows(cpus({ frequency: { cpu: ['u32', []], at: ['i64', []], khz: ['u32', []] }, idle }), 100);
  assert.ok(first && second);
  assert.deepEqual(first.pieces.map(({ x0, x1, label, tip }) => [x0, x1, label, tip?.to]), [[10, 30, 'idle state 2', 300], [80, 100, 'idle state 0', 1000]]);
  assert.deepEqual([first.height, second.height, second.pieces.length], [29, 29, 0]);
});

const MEMBERS = new Map<number, Member>([
  [10, { process: 10, name: 'app', of: 5 }],
  [11, { process: 10, name: 'app', of: 5 }],
  [20, { process: 20, name: 'alone', of: 1 }],
  [30, { process: null, name: null, of: 1 }],
]);

test('threads of one process stand where the first of them stood; one alone is no group', () => {
  assert.deepEqual(groupsOf([11, 20, 10, 30], MEMBERS), [{ process: 10, tids: [11, 10] }, { process: null, tids: [20] }, { process: null, tids: [30] }]);
  assert.deepEqual([...foldedOf('7,x,,9')], [7, 9]);
  assert.equal(toggled(toggled('7', 10), 7), '10');
});

/** Thread 10 runs all the time; 11 runs for a half of pixel 0, is preempted in the rest of it, and blocked from then on. */
function states(): ReturnType<typeof decode> {
  return decode(
    frame({
      spans: { tid: ['i32', [10, 11, 99]], from: ['i64', [-50n, 100n, 0n]], to: ['i64', [1000n, 1000n, 1000n]], state: ['u8', [1, 5, 1]] },
      mixed: { tid: ['i32', [11]], pixel: ['u32', [0]], states: ['u16', [0b110]] },
      shares: { share: ['f32', [0.5, 0.5]] },
    }),
  );
}

test('a folded group is one row of the shares of its threads, and tells how many have no row', () => {
  const group = { process: 10, tids: [10, 11] };
  const open = groupRow(group, MEMBERS, null);
  assert.deepEqual([open.title, open.detail, open.pieces.length], ['app[10]', '2 of 5 threads', 0]);
  const { pieces, height } = groupRow(group, MEMBERS, { answer: states(), pixels: 10 });
  assert.ok(height > open.height);
  // From the baseline at 20 up; 18 px are both threads.
  assert.deepEqual(
    pieces.map(({ x0, x1, y, h, fill }) => [x0, x1, y, h, fill]),
    [[0, 1, 6, 14, 'run'], [0, 1, 2, 4, 'pre'], [1, 10, 11, 9, 'run'], [1, 10, 2, 9, 'lock']],
  );
});

test('threads that do not exist have no share', () => {
  const answer = decode(frame({ spans: { tid: ['i32', [10, 11]], from: ['i64', [0n, 0n]], to: ['i64', [1000n, 1000n]], state: ['u8', [1, 10]] }, mixed: { tid: ['i32', []], pixel: ['u32', []], states: ['u16', []] }, shares: { share: ['f32', []] } }));
  const { pieces } = groupRow({ process: 10, tids: [10, 11] }, MEMBERS, { answer, pixels: 10 });
  assert.deepEqual(pieces.map(({ x0, x1, h, fill }) => [x0, x1, h, fill]), [[0, 10, 18, 'run']]);
});

const ARROWS: Columns = {
  at: ['i64', [100n, 200n, 300n]],
  from_cpu: ['u32', [0, 1, null]],
  from_tid: ['i32', [7, null, null]],
  from_name: ['text', [0, 1, null]],
  tid: ['i32', [8, 8, 9]],
  name: ['text', [2, 2, null]],
  runs_at: ['i64', [150n, 250n, null]],
  cpu: ['u32', [1, 1, null]],
  wait_ns: ['u64', [50, 50, 700]],
};

test('an arrow goes from who wakes, or from the CPU of an interrupt, to who is woken', () => {
  const all = wakes(decode(frame({ arrows: ARROWS }, { texts: ['servo', 'irq 131', 'fieldbus'] })));
  assert.equal(all[0]?.text, 'servo[7] on CPU 0 wakes fieldbus[8], which runs 50 ns later on CPU 1');
  assert.equal(all[1]?.text, 'irq 131 on CPU 1 wakes fieldbus[8], which runs 50 ns later on CPU 1');
  assert.match(all[2]?.text ?? '', /^what is not known wakes \[9\], which does not run in this window/);
  const rows: Record<string, number> = { 7: 200, 8: 300 };
  const on = { x: (at: bigint) => Number(at), y: (tid: number) => rows[tid] ?? null, cpu: (cpu: number) => 10 + 29 * cpu, width: 1000 };
  const lines = arrowLines(all, on);
  // The third has neither a row nor a CPU.
  assert.deepEqual(lines.map(({ x0, y0, x1, y1 }) => [x0, y0, x1, y1]), [[100, 209, 100, 300], [200, 48, 200, 300]]);
  assert.equal(arrowAt(lines, 102, 250)?.wake, all[0]);
  assert.equal(arrowAt(lines, 130, 250), null);
  assert.equal(arrowAt(lines, 100, 320), null);
});

test('how many wake-ups there are is told as far as it is known', () => {
  assert.equal(howMany(300, 900), 'the 300 of 900 with the longest waits');
  assert.equal(howMany(12, 12), '12');
  assert.equal(howMany(12, null), '12');
  assert.equal(howMany(300, null), 'the 300 with the longest waits');
});

test('whose row is folded is woken on its CPU, when it runs there; arrows that cover each other are one', () => {
  const wake: Wake = { at: 100n, runsAt: 150n, cpu: 1, tid: 8, from: 7, fromCpu: 0, text: '' };
  const on = { x: (at: bigint) => Number(at), y: (tid: number) => (tid === 7 ? 200 : null), cpu: (cpu: number) => 10 + 29 * cpu, width: 120 };
  const lines = arrowLines([wake, { ...wake }, { ...wake, at: 121n }], on);
  assert.deepEqual(lines.map(({ x0, y0, x1, y1 }) => [x0, y0, x1, y1]), [[100, 209, 150, 57]]);
});
