// SPDX-License-Identifier: MIT OR Apache-2.0
// Explanations, critical paths, values and results: what of them needs no browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fromFragment, marked, sampleOf, toFragment, whole } from '../src/app/view.js';
import { flameBoxes } from '../src/layout/flame.js';
import { curves, density, logScale, tail } from '../src/layout/histograms.js';
import { pathPicture, steps } from '../src/layout/path.js';
import { decode } from '../src/query/columns.js';
import { stretchOf } from '../src/tabs/critical.js';
import { causeClass, piecesOf, subject } from '../src/tabs/explain.js';
import { drawnOf } from '../src/tabs/laboratory.js';
import { columnsOf, sameRecord, toggled } from '../src/tabs/records.js';
import { band, binTime, fieldsOf, numericFields, shown } from '../src/timeline/values.js';
import { frame } from './frame.js';

const all = whole(1_000_000n);
const view = { ...all, page: 'timeline' as const, tid: 7 };

test('what is explained: a sample, a stretch, or a moment', () => {
  assert.equal(subject(view), null, 'a thread alone is no question');
  assert.deepEqual(subject({ ...view, at: 5n }), { tid: 7, at: '@5' });
  const between = { ...view, a: 90n, b: 20n };
  assert.deepEqual(subject(between), { tid: 7, from: '@20', to: '@90' });
  assert.deepEqual(subject({ ...between, at: 90n }), { tid: 7, from: '@20', to: '@90' });
  assert.deepEqual(subject({ ...between, at: 91n }), { tid: 7, at: '@91' }, 'outside of the cursors it is the moment that counts');
  const sample = sampleOf('wakeup', 7, 20n, 90n);
  assert.deepEqual(subject({ ...between, sample }), { what: 'wakeup', tid: 7, from: '@20', to: '@90' });
  assert.deepEqual(subject({ ...between, tid: 8, sample }), { tid: 8, from: '@20', to: '@90' }, 'another thread: not that sample');
  assert.deepEqual(subject({ ...between, b: 21n, sample }), { tid: 7, from: '@21', to: '@90' });
  const irq = { ...between, tid: null, sample: sampleOf('irq', null, 20n, 90n) };
  assert.deepEqual(subject(irq), { what: 'irq', tid: null, from: '@20', to: '@90' });
  assert.deepEqual(subject({ ...between, tid: 0, sample: sampleOf('irq', 0, 20n, 90n) }), { what: 'irq', tid: null, from: '@20', to: '@90' });
  assert.equal(subject({ ...irq, sample: '' }), null);
  assert.equal(subject({ ...view, tid: 0, at: 5n }), null, 'the idle thread');
  assert.equal(marked({ ...view, a: 1n }), null);
  const back = fromFragment(toFragment({ ...between, sample, critical: 'on', explain: 'off', values: 'a.b|c.$d', series: '0,3' }), all);
  assert.deepEqual([back.sample, back.critical, back.explain, back.values, back.series], [sample, 'on', 'off', 'a.b|c.$d', '0,3']);
});

test('texts are put together again, and every cause has a colour', () => {
  const answer = decode(
    frame(
      { pieces: { table: ['text', [0, 0, 0, 1]], row: ['u32', [0, 0, 1, 0]], text: ['text', [2, 3, 4, 5]], tid: ['i32', [9, null, null, null]], cpu: ['u32', [null, null, 1, null]] } },
      { texts: ['budget', 'chain', 'hog[9]', ' had ', 'cpu 1', '<b>'] },
    ),
  );
  const of = piecesOf(answer);
  assert.deepEqual(of('budget', 0), [{ text: 'hog[9]', tid: 9, cpu: null }, { text: ' had ', tid: null, cpu: null }]);
  assert.deepEqual(of('budget', 1), [{ text: 'cpu 1', tid: null, cpu: 1 }]);
  assert.deepEqual(of('chain', 0).map(({ text }) => text), ['<b>']);
  assert.deepEqual(of('chain', 1), []);
  assert.equal(causeClass('own'), 'c-run');
  assert.equal(causeClass('higher_priority'), 'c-pre');
  assert.equal(causeClass('a word of tomorrow'), 'c-unknown');
});

test('the critical path is asked of the stretch between the cursors, else of the window', () => {
  assert.equal(stretchOf(view), null);
  const on = { ...view, critical: 'on' };
  assert.deepEqual(stretchOf(on), { tid: 7, from: 0n, to: 1_000_000n });
  assert.deepEqual(stretchOf({ ...on, a: 5n, b: 2n }), { tid: 7, from: 2n, to: 5n });
  assert.deepEqual(stretchOf({ ...view, tab: 'critical' as const }), { tid: 7, from: 0n, to: 1_000_000n });
  assert.equal(stretchOf({ ...on, tid: null }), null);
  assert.equal(stretchOf({ ...on, page: 'start' as const }), null);
});

test('the line of a critical path follows the rows, and is broken where one is missing', () => {
  const answer = decode(
    frame({ steps: { from: ['i64', [0n, 40n, 60n, 80n]], to: ['i64', [40n, 60n, 80n, 200n]], tid: ['i32', [1, 2, 3, 1]] } }),
  );
  const path = steps(answer);
  assert.deepEqual(path[1], { from: 40n, to: 60n, tid: 2 });
  const x = (at: bigint): number => Number(at);
  const rows = new Map([[1, 10], [2, 44]]);
  const { lines, marks } = pathPicture(path, x, (tid) => rows.get(tid) ?? null, 100);
  assert.deepEqual(lines, [
    { x0: 0, y0: 10, x1: 40, y1: 10, isBroken: false },
    { x0: 40, y0: 10, x1: 40, y1: 44, isBroken: false },
    { x0: 40, y0: 44, x1: 60, y1: 44, isBroken: false },
    // Thread 3 has no row: where the line was meanwhile is not shown.
    { x0: 60, y0: 44, x1: 80, y1: 10, isBroken: true },
    { x0: 80, y0: 10, x1: 100, y1: 10, isBroken: false },
  ]);
  assert.deepEqual(marks.map(({ number, y }) => [number, y]), [[1, 10], [2, 44], [4, 10]]);
  // Numbers that would cover each other are left out; nothing is drawn outside.
  const near = pathPicture(path, (at) => Number(at) / 100, () => 10, 100);
  assert.deepEqual(near.marks.map(({ number }) => number), [1]);
  assert.deepEqual(pathPicture(path, (at) => Number(at) + 500, () => 10, 100), { lines: [], marks: [] });
});

const BINS = { count: ['u64', [1, 2, 1]], mean: ['f64', [0, 0, 0]], first: ['f64', [0, 0, 0]] } as const;

/** Of a CPU, and at the same time of a program. */
const LOSSES = { from: ['i64', [20n, 25n]], to: ['i64', [30n, 28n]], cpu: ['u32', [0, 1]], records: ['u64', [3, 2]], packets: ['u64', [0, 0]], process: ['u32', [null, 7]], count: ['u32', [1, 1]] } as const;
test('no peak of a value vanishes', () => {
  const answer = decode(frame({ bins: { bin: ['u32', [0, 4, 9]], min: ['f64', [1, -3, 2]], max: ['f64', [1, 97, 2]], last: ['f64', [1, 5, 2]], ...BINS }, losses: LOSSES }));
  const drawn = band(answer, 46);
  assert.deepEqual([drawn.least, drawn.most], [-3, 97]);
  const peak = drawn.bins[1];
  assert.ok(peak && peak.top === 2 && peak.bottom === 44 && peak.last > peak.top && peak.last < peak.bottom);
  assert.deepEqual(drawn.bins.map(({ x }) => x), [0, 4, 9]);
  const flat = band(decode(frame({ bins: { bin: ['u32', [3, 4, 5]], min: ['f64', [7, 7, 7]], max: ['f64', [7, 7, 7]], last: ['f64', [7, 7, 7]], ...BINS }, losses: LOSSES })), 46);
  assert.deepEqual(flat.bins.map(({ top, bottom }) => [top, bottom]), [[23, 23], [23, 23], [23, 23]]);
  const endless = band(decode(frame({ bins: { bin: ['u32', [0, 1, 2]], min: ['f64', [1, -Infinity, 2]], max: ['f64', [1, Infinity, 2]], last: ['f64', [1, Infinity, 2]], ...BINS }, losses: LOSSES })), 46);
  assert.deepEqual([endless.least, endless.most, endless.bins[1]?.top, endless.bins[1]?.bottom], [1, 2, 1, 45]);
  assert.deepEqual(drawn.holes.map(({ from, to, records }) => [from, to, records]), [[20, 30, 5]], 'where records are missing a peak may be, too');
  const gridded = decode(frame({ losses: LOSSES }, { info: { bins: 4, frame: [-8, 56] } }));
  assert.deepEqual([0, 1, 4].map(binTime(gridded, 1000)), [-8, 8, 56], 'bins on a grid reach beyond the window');
  const plain = binTime(answer, 10);
  assert.deepEqual([0, 5, 10].map(plain), [answer.head.from, (answer.head.from + answer.head.to) / 2, answer.head.to]);
  assert.deepEqual([shown(1234567), shown(-12), shown(0.1 + 0.2), shown(null)], ['1 234 567', '−12', '0.3', 'NaN']);
});

test('fields to draw come from the schema, contexts with a dollar sign', () => {
  const answer = decode(
    frame(
      {
        events: { name: ['text', [0, 1]], is_kernel: ['u8', [0, 1]] },
        fields: { event: ['u32', [0, 0, 1]], name: ['text', [2, 3, 3]], kind: ['text', [4, 5, 5]] },
        recorded_contexts: { event: ['u32', [0, 1]], name: ['text', [6, 6]] },
      },
      { texts: ['motor:step', 'sched_switch', 'position', 'note', 'float', 'text', 'cycles'] },
    ),
  );
  assert.deepEqual([...numericFields(answer)], [['motor:step', ['position', '$cycles']], ['sched_switch', ['$cycles']]]);
  assert.deepEqual(fieldsOf({ ...view, values: 'a.b||a.b|c.$d' }), ['a.b', 'c.$d']);
  assert.equal(fieldsOf({ ...view, values: Array.from({ length: 40 }, (_, i) => `e.f${i}`).join('|') }).length, 12);
});

test('histograms and tails of results', () => {
  const none = ['u64', [null, null]] as const;
  const answer = decode(
    frame(
      {
        series: { run: ['u32', [0, 1]], name: ['text', [0, 0]], cpu: ['u32', [2, null]], count: ['u64', [101, 0]], lost: ['u64', [1, 0]], beyond: ['u64', [10, null]], beyond_ns: ['u64', [5000, null]], bucket_ns: none },
        buckets: { series: ['u32', [0, 0]], low_ns: ['u64', [1000, 100]], high_ns: ['u64', [1999, 199]], count: ['u64', [30, 60]] },
      },
      { texts: ['wakeup'] },
    ),
  );
  const [curve, empty] = curves(answer);
  assert.ok(curve && empty);
  assert.deepEqual([curve.name, curve.known, empty.name, empty.known], ['wakeup, CPU 2', 100, 'wakeup', 0]);
  // The tail does not end at 0: ten samples lie beyond the histogram of the tool.
  assert.deepEqual(tail(curve), [{ ns: 200, share: 0.4 }, { ns: 2000, share: 0.1 }]);
  assert.deepEqual(tail(empty), []);
  // Both buckets have one width on this scale: the shares are as the counts.
  const [low, high] = density(curve);
  assert.ok(low && high && Math.abs(low.share / high.share - 2) < 1e-9);
  const scale = logScale(150, 9000, 0, 100);
  assert.deepEqual(scale.ticks, [100, 1000, 10000]);
  assert.deepEqual([100, 1000, 10000, 0].map((ns) => Math.round(scale.at(ns))), [0, 50, 100, 0]);
  assert.deepEqual(logScale(10, 10, 0, 100).ticks, [10, 100]);
  assert.deepEqual(drawnOf(all, 2), [0, 1]);
  assert.deepEqual(drawnOf({ ...all, series: '1,9,1,x' }, 2), [1]);
  assert.deepEqual(drawnOf({ ...all, series: '-' }, 2), []);
});

test('frames of a flame graph lie within each other, the widest first', () => {
  const answer = decode(
    frame({
      frames: {
        parent: ['u32', [null, 0, null, 0, 2]], span: ['u16', [0, 1, 1, 2, 2]], depth: ['u16', [0, 1, 0, 1, 1]], total_ns: ['u64', [25, 5, 75, 10, 150]],
        self_ns: ['u64', [10, 5, 0, 10, 150]], count: ['u64', [1, 1, 1, 1, 2]], longest_from: ['i64', [0n, 0n, 0n, 0n, 0n]], longest_to: ['i64', [1n, 1n, 1n, 1n, 1n]], longest_tid: ['i32', [7, 7, 7, 7, 7]],
      },
    }),
  );
  const { boxes, total } = flameBoxes(answer);
  assert.equal(total, 100);
  const at = (row: number): number[] => {
    const box = boxes.find((box) => box.row === row);
    return box ? [box.left, box.width, box.depth].map((value) => Math.round(value * 1000) / 1000) : [];
  };
  assert.deepEqual([at(2), at(0)], [[0, 0.75, 0], [0.75, 0.25, 0]]);
  assert.deepEqual([at(3), at(1)], [[0.75, 0.1, 1], [0.85, 0.05, 1]]);
  // Spans that overlap each other are together longer than what they lie in: they stay within it.
  assert.deepEqual(at(4), [0, 0.75, 1]);
});

test('columns of the table of records are chosen, and kept in the address', () => {
  const names = ['time', 'delta', 'cursor', 'cpu', 'thread', 'event', 'fields'];
  assert.deepEqual(columnsOf(''), names);
  assert.deepEqual(columnsOf('event,time,<b>'), ['time', 'event'], 'in their own order');
  assert.deepEqual(columnsOf('nothing'), names);
  assert.equal(toggled('', 'delta'), 'time,cursor,cpu,thread,event,fields');
  assert.equal(toggled('time,cursor,cpu,thread,event,fields', 'delta'), '', 'all');
  assert.equal(toggled('event', 'event'), 'event', 'the last one stays');
  assert.equal(fromFragment(toFragment({ ...view, columns: 'time,event' }), all).columns, 'time,event');
});

test('the row that has the focus is the one of the same record when rows are made again', () => {
  const rows = ['5', '7', '7', '9', undefined].map((time, place) => ({ dataset: time === undefined ? {} : { time }, place }));
  const found = (place: number, time: string | undefined): number | undefined => sameRecord(rows, place, time)?.place;
  assert.deepEqual([found(1, '7'), found(2, '7'), found(40, '7')], [1, 2, 1]);
  assert.deepEqual([found(0, '9'), found(0, '8'), found(4, undefined)], [3, undefined, undefined]);
});
