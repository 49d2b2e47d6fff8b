// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of the page that need no browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { History, around, fromFragment, looking, moved, pinched, toFragment, whole, zoomed } from '../src/app/view.js';
import { Pending } from '../src/common/dom.js';
import { identity } from '../src/common/palette.js';
import { Times, duration, grouped, niceStep, seconds, ticks } from '../src/common/time.js';
import { type Box, boxesOf } from '../src/layout/cells.js';
import { cpuRows } from '../src/layout/cpus.js';
import { hasKey } from '../src/layout/flame.js';
import { type Row, pieceAt, rangeOf } from '../src/layout/layout.js';
import { spanName, spanRows } from '../src/layout/spans.js';
import { threadRows } from '../src/layout/threads.js';
import { address } from '../src/query/api.js';
import { decode } from '../src/query/columns.js';
import { frame } from './frame.js';

test('a frame gives back what was put in, and null where there is nothing', () => {
  const answer = decode(
    frame(
      {
        t: {
          at: ['i64', [5n, -(2n ** 40n), null]],
          ns: ['u64', [2n ** 60n, 1, null]],
          share: ['f32', [0.5, 0, null]],
          tid: ['i32', [7, -1, null]],
          cpu: ['u32', [3, 0, null]],
          level: ['u16', [9, 0, null]],
          state: ['u8', [1, 0, null]],
          name: ['text', [0, 1, null]],
        },
        empty: { at: ['i64', []] },
      },
      { texts: ['<b>servo', 'ü'] },
    ),
  );
  const table = answer.table('t');
  assert.deepEqual([table.big('at', 0), table.big('at', 1), table.big('at', 2)], [5n, -(2n ** 40n), null]);
  assert.deepEqual([table.big('ns', 0), table.number('ns', 1), table.number('ns', 2)], [2n ** 60n, 1, null]);
  for (const name of ['share', 'tid', 'cpu', 'level', 'state']) assert.equal(table.number(name, 2), null, name);
  assert.deepEqual([table.number('tid', 1), table.number('cpu', 0), table.number('level', 0), table.number('share', 0)], [-1, 3, 9, 0.5]);
  assert.deepEqual([table.text('name', 0), table.text('name', 1), table.text('name', 2)], ['<b>servo', 'ü', null]);
  assert.deepEqual([...table.offsets('at', 5n)].slice(0, 2), [0, -(2 ** 40) - 5]);
  assert.ok(Number.isNaN(table.offsets('at')[2]));
  assert.equal(answer.table('empty').rows, 0);
  assert.throws(() => answer.table('other'), /another kymo/);
  assert.throws(() => table.number('other', 0), /another kymo/);
});

test('what is no frame is refused', () => {
  const good = frame({ t: { at: ['i64', [1n]] } });
  assert.throws(() => decode(new ArrayBuffer(0)), /something else/);
  assert.throws(() => decode(good.slice(0, 20)), /cut short|JSON|Unexpected/);
  assert.throws(() => decode(frame({}, { version: 2 })), /load it again/);
});

test('durations, times and scales', () => {
  assert.deepEqual([0, 999, 1500, 45_600, 456_000, 1_315_000, 2e9].map(duration), ['0 ns', '999 ns', '1.50 µs', '45.6 µs', '456 µs', '1.315 ms', '2.000 s']);
  assert.equal(duration(NaN), '?');
  assert.equal(grouped(1234567), '1 234 567');
  assert.equal(seconds(9_387_496_012n), '9.387 496 012');
  assert.equal(seconds(-1n), '−0.000 000 001');
  const base = 1_700_000_000_000_000_000n;
  assert.equal(new Times(base, 'utc', 0n).text(5n), '2023-11-14 22:13:20.000 000 005');
  assert.equal(new Times(-1n, 'utc', 0n).text(0n), '1969-12-31 23:59:59.999 999 999');
  assert.equal(new Times(base, 'mark', 10n).text(5n), '−0.000 000 005 s');
  assert.equal(new Times(base, 'trace', 0n).tick(1_500_000n, 500_000), '0.001 5');
  assert.deepEqual([1, 3, 7, 120].map(niceStep), [1, 5, 10, 200]);
  const scale = ticks(95n, 1005n, 1000, 100);
  assert.deepEqual([scale.step, scale.at[0], scale.at.at(-1)], [100, 100n, 1000n]);
  assert.deepEqual(ticks(0n, 10n, 10, 10).at, [0n]);
});

test('a view is its address', () => {
  const all = whole(1_000_000n);
  const view = { ...all, page: 'timeline' as const, from: 10n, to: 5000n, filter: 'a & b == "#"', tid: 7, a: 20n, format: 'utc' as const };
  assert.deepEqual(fromFragment(toFragment(view), all), view);
  assert.deepEqual(fromFragment('#page=x&from=9&to=3&tid=z&tab=constructor', all), all);
  assert.deepEqual(fromFragment('#from=99999999999999999999999&to=1', all), all);
});

test('zooming keeps the place under the pointer, and stays at the trace', () => {
  const all = whole(1_000_000n);
  const near = zoomed(all, 0.5, 0.25, all);
  assert.deepEqual([near.from, near.to], [125_000n, 625_000n]);
  assert.equal(zoomed(all, 1e-9, 0.5, all).to - zoomed(all, 1e-9, 0.5, all).from, 100n);
  assert.deepEqual([zoomed(near, 100, 0.5, all).from, zoomed(near, 100, 0.5, all).to], [-125_000n, 875_000n]);
  assert.equal(moved(near, -10, all).from, -250_000n);
  const stretch = around(all, 500n, 700n, all);
  assert.deepEqual([stretch.page, stretch.from, stretch.to], ['timeline', 400n, 800n]);
  assert.equal(looking(all, 5n, 5n, all).to - looking(all, 5n, 5n, all).from, 100n);
});

test('what is below two fingers stays there, and fingers that have crossed change nothing', () => {
  const all = whole(1_000_000n);
  const view = pinched(all, [400_000n, 600_000n], [0.3, 0.7], all);
  assert.deepEqual([view.from, view.to], [250_000n, 750_000n]);
  for (const places of [[0.5, 0.5], [0.7, 0.3]] as const) assert.equal(pinched(view, [400_000n, 600_000n], places, all), view);
  const out = pinched(view, [400_000n, 600_000n], [0.49, 0.5], all);
  assert.equal(out.to - out.from, 1_000_000n, 'no longer than the trace');
});

test('undo joins small moves and goes back and forth', () => {
  let time = 0;
  const history = new History(() => time);
  const all = whole(1_000_000n);
  const views = [1n, 2n, 3n, 4n].map((from) => ({ ...all, from }));
  const [one, two, three, four] = views as [typeof all, typeof all, typeof all, typeof all];
  history.leave(one, true);
  time = 100;
  history.leave(two, true);
  time = 5000;
  history.leave(three, false);
  assert.equal(history.undo(four), three);
  assert.equal(history.undo(three), one);
  assert.equal(history.undo(one), null);
  assert.equal(history.redo(one), three);
});

test('addresses of questions', () => {
  assert.equal(address('summary', {}), 'q/summary');
  assert.equal(address('states', { from: '@-5', tids: [1, 2], calls: 1, filter: null }), 'q/states?from=%40-5&tids=1%2C2&calls=1');
  assert.equal(address('slices', { span: ['a,b', 'c,d'] }), 'q/slices?span=a%2Cb&span=c%2Cd');
});

/** What is drawn of pixels of several states. */
const boxes = (row: Row): Box[] => row.pieces.flatMap((piece) => {
  const range = rangeOf(piece);
  return range ? boxesOf(range) : [];
});

const LOSSES = { from: ['i64', [600n]], to: ['i64', [700n]], cpu: ['u32', [0]], records: ['u64', [12]], packets: ['u64', [0]], process: ['u32', [null]], count: ['u32', [1]] } as const;

test('rows of CPUs have threads, holes and doubts where they are', () => {
  const answer = decode(
    frame(
      {
        rows: { cpu: ['u32', [0, 1]], thread_ns: ['u64', [500, 0]], idle_ns: ['u64', [500, 1000]], unknown_ns: ['u64', [0, 0]], irq_ns: ['u64', [0, 0]], softirq_ns: ['u64', [0, 0]], longest_irq_ns: ['u64', [null, null]] },
        spans: { cpu: ['u32', [0, 0]], from: ['i64', [-100n, 250n]], to: ['i64', [250n, 500n]], state: ['u8', [2, 1]], tid: ['i32', [815, null]], name: ['text', [0, null]], process: ['i32', [815, null]], prio: ['i32', [19, null]], open: ['u8', [0, 0]], doubt: ['u16', [1, 0]] },
        mixed: { cpu: ['u32', [1]], pixel: ['u32', [40]], state: ['u8', [2]], tid: ['i32', [7]], name: ['text', [1]], process: ['i32', [7]], thread: ['f32', [0.5]], idle: ['f32', [0.5]], unknown: ['f32', [0]], count: ['u32', [3]], doubt: ['u16', [0]] },
        interrupts: { cpu: ['u32', [0]], from: ['i64', [100n]], to: ['i64', [120n]], kind: ['u8', [0]], level: ['u8', [0]], name: ['text', [2]], away_ns: ['u64', [0]], open: ['u8', [0]], doubt: ['u16', [0]] },
        interrupts_mixed: { cpu: ['u32', []], pixel: ['u32', []], irq: ['f32', []], softirq: ['f32', []], count: ['u32', []] },
        frequency: { cpu: ['u32', []], at: ['i64', []], khz: ['u32', []] },
        idle: { cpu: ['u32', []], at: ['i64', []], state: ['u32', []] },
        losses: LOSSES,
      },
      { texts: ['servo', 'other', 'eth0'], info: { doubts: ['lost', 'start'] } },
    ),
  );
  const [first, second] = cpuRows(answer, 100);
  assert.ok(first && second);
  assert.equal(first.detail, '50 %');
  const servo = pieceAt(first, 5, 8);
  assert.ok(servo?.isRealTime && servo.tip?.text.includes('servo[815] rt 80') && servo.tip.text.includes('doubtful: lost'), servo?.tip?.text);
  assert.deepEqual([servo.x0, servo.x1], [0, 25]);
  assert.ok(pieceAt(first, 11, 20)?.tip?.text.includes('interrupt eth0'));
  assert.equal(pieceAt(first, 30, 8), null, 'idle is empty');
  const hole = pieceAt(first, 65, 10);
  assert.ok(hole?.look === 'hole' && hole.tip?.text.includes('12 lost'));
  assert.deepEqual(boxes(second).map(({ x0, x1, y, h, fill }) => [x0, x1, y, h, fill]), [[40, 41, 10, 8, `h${identity('other')}`]]);
});

test('rows of threads show height and reason, and shares add up', () => {
  const none = { tid: ['i32', []], pixel: ['u32', []], share: ['f32', []], count: ['u32', []] } as const;
  const answer = decode(
    frame(
      {
        rows: { tid: ['i32', [7]], name: ['text', [0]], process: ['i32', [7]], prio: ['i32', [19]] },
        spans: { tid: ['i32', [7, 7]], from: ['i64', [0n, 500n]], to: ['i64', [500n, 990n]], state: ['u8', [2, 10]], cpu: ['u32', [1, null]], by: ['i32', [9, null]], by_name: ['text', [1, null]], letter: ['u8', [null, null]], call: ['text', [null, null]], open: ['u8', [0, 0]], doubt: ['u16', [0, 0]] },
        mixed: { tid: ['i32', [7]], pixel: ['u32', [99]], state: ['u8', [1]], count: ['u32', [2]], doubt: ['u16', [0]], states: ['u16', [0b110]] },
        shares: { share: ['f32', [0.5, 0.5]] },
        late: { tid: ['i32', [7]], from: ['i64', [0n]], to: ['i64', [500n]], state: ['u8', [2]] },
        calls: { tid: ['i32', [7]], from: ['i64', [100n]], to: ['i64', [200n]], name: ['text', [2]], value: ['i64', [-11n]], blocked: ['u8', [0]], open: ['u8', [0]], doubt: ['u16', [0]] },
        calls_mixed: none,
        losses: LOSSES,
      },
      { texts: ['servo', 'vision', 'read'], info: { doubts: [] } },
    ),
  );
  const [row] = threadRows(answer, 100, () => 'rt 80');
  assert.ok(row);
  assert.equal(pieceAt(row, 10, 12)?.tip?.text, 'servo[7]: preempted by vision[9]');
  assert.ok(pieceAt(row, 15, 25)?.tip?.text.includes('read returned -11'));
  assert.deepEqual(row.late, [0]);
  assert.deepEqual(boxes(row).map(({ x0, x1, y, h, fill }) => [x0, x1, y, h, fill]), [[99, 100, 11, 9, 'run'], [99, 100, 2, 9, 'pre']]);
  assert.equal(pieceAt(row, 70, 12), null, 'a thread that does not exist is not drawn');
});

test('spans nest, and short ones merge with their count', () => {
  const answer = decode(
    frame(
      {
        slices: { span: ['u16', [0, 0]], tid: ['i32', [7, 7]], name: ['text', [0, 0]], by_key: ['u8', [0, 0]], key: ['text', [null, null]], process: ['i32', [7, 7]], level: ['u16', [0, 1]], from: ['i64', [0n, 100n]], to: ['i64', [900n, 300n]], cpu: ['u32', [0, 0]], open: ['u8', [1, 0]], doubt: ['u16', [0, 0]] },
        merged: { tid: ['i32', [7]], span: ['u16', [null]], key: ['text', [null]], level: ['u16', [1]], pixel: ['u32', [50]], pixels: ['u32', [3]], count: ['u32', [17]], longest_ns: ['u64', [4]], longest_at: ['i64', [0n]], longest_pixel: ['u32', [50]] },
        losses: LOSSES,
      },
      { texts: ['servo'], info: { doubts: [], spans: ['motor:cycle_begin,motor:cycle_end'] } },
    ),
  );
  const [row] = spanRows(answer, 100);
  assert.ok(row);
  assert.equal(row.height, 36);
  assert.equal(pieceAt(row, 20, 25)?.label, 'motor:cycle');
  const outer = pieceAt(row, 80, 8);
  assert.deepEqual([outer?.label, outer?.tip?.text], ['motor:cycle …', 'servo[7]: motor:cycle, has not ended in this window']);
  assert.deepEqual(row.pieces.filter(({ look }) => look === 'dots').map(({ x0, x1 }) => [x0, x1]), [[82, 90]]);
  assert.equal(row.pieces.at(-1)?.label, '17 spans');
  assert.equal(spanName('app:load:begin,app:load:end'), 'app:load');
});

test('spans that are paired by a field have a row for each of its values', () => {
  const answer = decode(
    frame(
      {
        slices: { span: ['u16', [0, 0, 0]], tid: ['i32', [7, 8, 7]], name: ['text', [0, 1, 0]], by_key: ['u8', [1, 1, 1]], key: ['text', [2, 3, null]], process: ['i32', [7, 8, 7]], level: ['u16', [0, 0, 0]], from: ['i64', [0n, 100n, 0n]], to: ['i64', [900n, 300n, 50n]], cpu: ['u32', [0, 0, 0]], open: ['u8', [0, 0, 0]], doubt: ['u16', [0, 0, 0]] },
        merged: { tid: ['i32', [null]], span: ['u16', [0]], key: ['text', [3]], level: ['u16', [0]], pixel: ['u32', [50]], pixels: ['u32', [3]], count: ['u32', [17]], longest_ns: ['u64', [4]], longest_at: ['i64', [0n]], longest_pixel: ['u32', [50]] },
        losses: LOSSES,
      },
      { texts: ['servo', 'other', '10', '9'], info: { doubts: [], spans: ['req:begin, req:end, by=id'] } },
    ),
  );
  const rows = spanRows(answer, 100);
  assert.deepEqual(rows.map(({ title, tid }) => [title, tid]), [['req (other keys)', null], ['req 9', null], ['req 10', null]]);
  const nine = rows[1];
  assert.ok(nine);
  assert.deepEqual([pieceAt(nine, 20, 8)?.tip?.text, nine.pieces.at(-1)?.label], ['req 9, other[8]', '17 spans']);
  assert.deepEqual([hasKey('a, b'), hasKey('a, b, by=$tid'), hasKey('a, b, by=id')], [false, false, true]);
});

test('a part waits until its newest question is answered', () => {
  const set = new Map<string, string>();
  const box = { setAttribute: (name: string, value: string) => set.set(name, value), removeAttribute: (name: string) => set.delete(name) };
  const pending = new Pending(box as unknown as HTMLElement);
  const [first, second] = [pending.begin(), pending.begin()];
  first();
  assert.equal(set.get('aria-busy'), 'true', 'an older one says nothing');
  second();
  assert.equal(set.size, 0);
  const third = pending.begin();
  pending.end();
  assert.equal(set.size, 0);
  third();
  assert.equal(set.size, 0);
});
