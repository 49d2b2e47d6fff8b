// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows that were drawn once are moved and scaled, and drawn anew little by little.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Painter } from '../src/draw/draw.js';
import { type TileFrame, type TileLine, type TileWindow, Tiles, needOf, ordered, shift } from '../src/draw/tiles.js';
import type { Row } from '../src/layout/layout.js';

const window = (from: number, to: number, width = 100): TileWindow => ({ from: BigInt(from), to: BigInt(to), width });
const row = (key: string, height = 34): Row => ({ key, title: key, detail: '', tid: null, height, pieces: [], late: [] });

test('a tile is put where its part of time lies now, as far as that is to be seen', () => {
  const tile = window(0, 1000);
  assert.deepEqual(shift(tile, tile), { from: 0, to: 100, x: 0, width: 100 });
  // Later: it moves to the left, and its left part is gone.
  assert.deepEqual(shift(tile, window(200, 1200)), { from: 20, to: 100, x: 0, width: 80 });
  assert.deepEqual(shift(tile, window(-200, 800)), { from: 0, to: 80, x: 20, width: 80 });
  // Twice as near: its middle is all of the screen. Twice as far: half of the screen.
  assert.deepEqual(shift(tile, window(250, 750)), { from: 25, to: 75, x: 0, width: 100 });
  assert.deepEqual(shift(tile, window(-500, 1500)), { from: 0, to: 100, x: 25, width: 50 });
  assert.equal(shift(tile, window(1000, 2000)), null);
});

test('a row is drawn anew for other pieces, for another window, and for another size', () => {
  const [of, other] = [row('a'), row('a')];
  const tile = { row: of, window: window(0, 1000) };
  assert.equal(needOf(undefined, of, tile.window), 'all');
  assert.equal(needOf(tile, of, tile.window), 'nothing');
  assert.equal(needOf(tile, of, window(0, 1000)), 'nothing', 'the same window is the same');
  assert.equal(needOf(tile, other, tile.window), 'pieces');
  assert.equal(needOf(tile, of, window(1, 1001)), 'window');
  assert.equal(needOf(tile, of, window(0, 1000, 90)), 'all');
  assert.equal(needOf(tile, row('a', 60), tile.window), 'all');
});

test('what was never drawn is drawn first, and what only moves when it stands still', () => {
  const all = (['window', 'pieces', 'nothing', 'all', 'pieces'] as const).map((need, at) => ({ need, at }));
  assert.deepEqual(ordered(all, false).map(({ at }) => at), [3, 1, 4, 0]);
  assert.deepEqual(ordered(all, true).map(({ at }) => at), [3, 1, 4]);
});

/** Tiles on a screen that notes what is done with it. A row takes a millisecond to be drawn. */
function screen() {
  let [ms, canvases] = [0, 0];
  const put: { x: number; y: number; w: number }[] = [];
  const drawn: string[] = [];
  const context = { setTransform: () => {}, clearRect: () => {}, drawImage: (...[, , , , , x, y, w]: number[]) => put.push({ x: x ?? 0, y: y ?? 0, w: w ?? 0 }) };
  const makes = { createElement: () => (canvases++, { width: 0, height: 0, getContext: () => context }) };
  Object.assign(globalThis, { document: makes });
  const painter = { aim: () => {}, row: ({ title }: Row) => (drawn.push(title), ms++) } as unknown as Painter;
  const tiles = new Tiles(() => ms);
  const frame = (rows: readonly Row[], more: Partial<TileFrame>): { isWhole: boolean; drawn: string[]; put: typeof put } => {
    [put.length, drawn.length] = [0, 0];
    const lines = rows.map((row, at): TileLine => ({ row, top: 34 * at, place: () => ({ a: 1, b: 0, left: 0, right: 100 }) }));
    const isWhole = tiles.draw(context as unknown as CanvasRenderingContext2D, lines, { window: window(0, 1000), isMoving: false, most_ms: 3, ...more }, painter);
    return { isWhole, drawn: [...drawn], put: [...put] };
  };
  return { frame, canvases: () => canvases };
}

test('a frame draws for its time, and the next one goes on until all is as it should be', () => {
  const { frame } = screen();
  const rows = Array.from({ length: 7 }, (_, i) => row(`${i}`));
  const frames = [0, 1, 2].map(() => frame(rows, {}));
  assert.deepEqual(frames.map(({ drawn }) => drawn), [['0', '1', '2'], ['3', '4', '5'], ['6']]);
  assert.deepEqual(frames.map(({ isWhole }) => isWhole), [false, false, true]);
  assert.deepEqual(frame(rows, { most_ms: 0 }), { isWhole: true, drawn: [], put: rows.map((_, at) => ({ x: 0, y: 34 * at, w: 100 })) });
});

test('while the window moves the last picture is moved; what is new in it is drawn', () => {
  const { frame } = screen();
  const rows = [row('a'), row('b'), row('c')];
  assert.ok(frame(rows, {}).isWhole);
  const moved = frame(rows, { window: window(-100, 900), isMoving: true });
  assert.deepEqual([moved.drawn, moved.isWhole, moved.put.map(({ x, w }) => [x, w])], [[], true, [[10, 90], [10, 90], [10, 90]]]);
  const fresh = { ...row('b'), title: 'b again' };
  const [a, , c] = rows;
  assert.ok(a && c);
  const more = frame([a, fresh, c], { window: window(-100, 900), isMoving: true });
  assert.deepEqual([more.drawn, more.put.map(({ x, w }) => [x, w])], [['b again'], [[10, 90], [0, 100], [10, 90]]]);
  assert.deepEqual(frame([a, fresh, c], { window: window(-100, 900) }).drawn, ['a', 'c']);
});

test('one row is drawn in any case, and an old one stays in its place until then', () => {
  const { frame } = screen();
  const rows = [row('a'), row('b')];
  assert.ok(frame(rows, {}).isWhole);
  const other = rows.map(({ key }) => ({ ...row(key), title: `${key} again` }));
  const first = frame(other, { most_ms: 0 });
  assert.deepEqual([first.drawn, first.isWhole, first.put.length], [['a again'], false, 2]);
  assert.deepEqual(frame(other, { most_ms: 0 }).drawn, ['b again']);
});

test('of rows that are not to be seen nothing is kept', () => {
  const { frame, canvases } = screen();
  for (let first = 0; first < 50; first++) assert.ok(frame([row(`${first}`), row(`${first + 1}`)], {}).isWhole);
  assert.ok(canvases() <= 4, `${canvases()} canvases for two rows`);
});
