// SPDX-License-Identifier: MIT OR Apache-2.0
// What is drawn where records are missing, and where an answer is doubtful.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { cpuRows } from '../src/layout/cpus.js';
import { type Row, pieceAt } from '../src/layout/layout.js';
import { Losses, within } from '../src/layout/losses.js';
import { spanRows } from '../src/layout/spans.js';
import { threadRows } from '../src/layout/threads.js';
import { type Answer, decode } from '../src/query/columns.js';
import { type Columns, frame } from './frame.js';

/** Of CPU 1 twice, overlapping; of a CPU that is not known; of a program. The window is 1000 ns, and has 100 pixels. */
const LOSSES: Columns = {
  from: ['i64', [200n, 250n, 800n, 500n]],
  to: ['i64', [300n, 350n, 810n, 600n]],
  cpu: ['u32', [1, 1, null, 1]],
  records: ['u64', [10, 5, 1, 7]],
  packets: ['u64', [0, 2, 0, 0]],
  process: ['u32', [null, null, null, 42]],
  count: ['u32', [1, 1, 1, 1]],
};
const DOUBTS = { info: { doubts: ['lost', 'start'], spans: ['axis:begin,axis:end'] }, texts: ['servo'] };
const of = (tables: Record<string, Columns>): Answer => decode(frame({ ...tables, losses: LOSSES }, DOUBTS));
const looks = (row: Row | undefined, look: string): [number, number][] => (row?.pieces ?? []).filter((piece) => piece.look === look).map(({ x0, x1 }) => [x0, x1]);

function threads(spans: Columns, mixed: Columns): Row[] {
  const none = { tid: ['i32', []], pixel: ['u32', []], share: ['f32', []], count: ['u32', []] } as const;
  const late = { tid: ['i32', []], from: ['i64', []], to: ['i64', []], state: ['u8', []] } as const;
  const calls = { ...late, name: ['text', []], value: ['i64', []], blocked: ['u8', []], open: ['u8', []], doubt: ['u16', []] } as const;
  const rows = { tid: ['i32', [7, 8]], name: ['text', [0, 0]], process: ['i32', [42, 42]], prio: ['i32', [120, 120]] } as const;
  const shares = { share: ['f32', Array.from({ length: mixed['pixel']?.[1].length ?? 0 }, () => 1)] } as const;
  return threadRows(of({ rows, spans, mixed, shares, late, calls, calls_mixed: none }), 100, () => '');
}
function spansOf(list: readonly { tid: number; from: bigint; to: bigint; state: number; cpu: number | null; doubt: number }[]): Columns {
  const column = <T>(of: (one: (typeof list)[number]) => T): T[] => list.map(of);
  const null_ = column(() => null);
  return {
    tid: ['i32', column((one) => one.tid)],
    from: ['i64', column((one) => one.from)],
    to: ['i64', column((one) => one.to)],
    state: ['u8', column((one) => one.state)],
    cpu: ['u32', column((one) => one.cpu)],
    by: ['i32', null_],
    by_name: ['text', null_],
    letter: ['u8', null_],
    call: ['text', null_],
    open: ['u8', column(() => 0)],
    doubt: ['u16', column((one) => one.doubt)],
  };
}
function mixedOf(tid: number, pixels: readonly number[], doubt: readonly number[]): Columns {
  return { tid: ['i32', pixels.map(() => tid)], pixel: ['u32', pixels], state: ['u8', pixels.map(() => 1)], count: ['u32', pixels.map(() => 2)], doubt: ['u16', doubt], states: ['u16', pixels.map(() => 2)] };
}

test('losses that overlap are one hole, of the CPU, of all CPUs, or of a program', () => {
  const losses = new Losses(of({}));
  assert.deepEqual(losses.ofCpu(1).map(({ from, to, records, packets }) => [from, to, records, packets]), [[200, 350, 15, 2], [800, 810, 1, 0]]);
  assert.deepEqual(losses.ofCpu(0).map(({ from }) => from), [800], 'of which no CPU is known: all of them');
  assert.deepEqual(losses.ofProcess(42).map(({ from, records }) => [from, records]), [[500, 7]]);
  assert.deepEqual([losses.ofProcess(43), losses.processes()], [[], [42]]);
  assert.deepEqual(losses.all().map(({ from }) => from), [200, 500, 800]);
  assert.deepEqual(within(losses.ofCpu(1), 250, 300).map(({ from, to }) => [from, to]), [[250, 300]]);
  assert.deepEqual(within(losses.ofCpu(1), 300, 805).map(({ from, to }) => [from, to]), [[300, 350], [800, 805]]);
  assert.deepEqual(within(losses.ofCpu(1), 360, 800), []);
});

test('a thread has a hole where it ran on the CPU that lost records, and a hatch where the server doubts', () => {
  const [ran, slept] = threads(
    spansOf([
      { tid: 7, from: 100n, to: 300n, state: 1, cpu: 1, doubt: 1 },
      { tid: 7, from: 300n, to: 400n, state: 1, cpu: 0, doubt: 0 },
      { tid: 8, from: 0n, to: 1000n, state: 5, cpu: null, doubt: 1 },
    ]),
    mixedOf(7, [], []),
  );
  assert.ok(ran && slept);
  assert.deepEqual(looks(ran, 'hole'), [[20, 30]], 'only where it ran there');
  assert.deepEqual(looks(ran, 'hatch'), [[10, 30]]);
  assert.match(pieceAt(ran, 25, 10)?.tip?.text ?? '', /15 records and 2 packets lost on CPU 1, where it ran: what it did is not known/);
  assert.deepEqual([looks(slept, 'hole'), looks(slept, 'hatch')], [[], [[0, 100]]], 'another thread may have been woken there: doubt');
});

test('pixels of several states are hatched where one is doubtful, side by side as one piece', () => {
  const [row] = threads(spansOf([]), mixedOf(7, [3, 4, 5, 6, 9], [1, 1, 2, 0, 2]));
  assert.ok(row);
  assert.deepEqual(looks(row, 'hatch'), [[3, 5], [5, 6], [9, 10]]);
  const tip = pieceAt(row, 4.5, 10)?.tip;
  assert.deepEqual([tip?.text, tip?.from, tip?.to], ['servo[7]: several states, doubtful: lost', 30, 50]);
});

test('rows of CPUs have hatches in mixed pixels and interrupts, too', () => {
  const answer = of({
    rows: { cpu: ['u32', [0, 1]], thread_ns: ['u64', [0, 0]], idle_ns: ['u64', [0, 0]], unknown_ns: ['u64', [0, 0]], irq_ns: ['u64', [0, 0]], softirq_ns: ['u64', [0, 0]], longest_irq_ns: ['u64', [null, null]] },
    spans: { cpu: ['u32', []], from: ['i64', []], to: ['i64', []], state: ['u8', []], tid: ['i32', []], name: ['text', []], process: ['i32', []], prio: ['i32', []], open: ['u8', []], doubt: ['u16', []] },
    mixed: { cpu: ['u32', [0, 0]], pixel: ['u32', [4, 5]], state: ['u8', [2, 2]], tid: ['i32', [7, 7]], name: ['text', [0, 0]], process: ['i32', [7, 7]], thread: ['f32', [1, 1]], idle: ['f32', [0, 0]], unknown: ['f32', [0, 0]], count: ['u32', [3, 3]], doubt: ['u16', [1, 1]] },
    interrupts: { cpu: ['u32', [0]], from: ['i64', [700n]], to: ['i64', [720n]], kind: ['u8', [0]], level: ['u8', [0]], name: ['text', [0]], away_ns: ['u64', [0]], open: ['u8', [0]], doubt: ['u16', [1]] },
    interrupts_mixed: { cpu: ['u32', []], pixel: ['u32', []], irq: ['f32', []], softirq: ['f32', []], count: ['u32', []] },
        frequency: { cpu: ['u32', []], at: ['i64', []], khz: ['u32', []] },
        idle: { cpu: ['u32', []], at: ['i64', []], state: ['u32', []] },
  });
  const [zero, one] = cpuRows(answer, 100);
  assert.deepEqual(looks(zero, 'hatch'), [[4, 6], [70, 72]]);
  assert.deepEqual(looks(zero, 'hole'), [[80, 83]], 'at least 3 px');
  assert.deepEqual(looks(one, 'hole'), [[20, 35], [80, 83]], 'not that of a program');
});

test('spans have a hole where their program lost records, and so has a program without spans', () => {
  const slices = (process: number | null): Columns => ({ span: ['u16', [0]], tid: ['i32', [7]], name: ['text', [0]], by_key: ['u8', [0]], key: ['text', [null]], process: ['i32', [process]], level: ['u16', [0]], from: ['i64', [100n]], to: ['i64', [900n]], cpu: ['u32', [0]], open: ['u8', [0]], doubt: ['u16', [1]] });
  const merged: Columns = { tid: ['i32', []], span: ['u16', []], key: ['text', []], level: ['u16', []], pixel: ['u32', []], pixels: ['u32', []], count: ['u32', []], longest_ns: ['u64', []], longest_at: ['i64', []], longest_pixel: ['u32', []] };
  const [own] = spanRows(of({ slices: slices(42), merged }), 100);
  assert.deepEqual([looks(own, 'hole'), looks(own, 'hatch')], [[[50, 60]], [[10, 90]]]);
  assert.match(own?.pieces.at(-1)?.tip?.text ?? '', /7 lost: here a span may have begun or ended/);
  const [other, lost] = spanRows(of({ slices: slices(43), merged }), 100);
  assert.deepEqual([looks(other, 'hole'), lost?.title, looks(lost, 'hole')], [[], 'process 42', [[50, 60]]]);
});
