// SPDX-License-Identifier: MIT OR Apache-2.0
// The picture of a running session, put together of stretches.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { boxesOf } from '../src/layout/cells.js';
import { type Piece, type Row, cellPiece, rangeOf } from '../src/layout/layout.js';
import { type Picture, extended, renewalLength, stripLength, stripPixels } from '../src/layout/strips.js';

/** A row of pieces: from, to in pixels, and what it was since when, ns after the picture's begin. */
function row(key: string, ...pieces: [x0: number, x1: number, since: number][]): Row {
  const made = pieces.map(([x0, x1, since]): Piece => ({ x0, x1, y: 2, h: 18, fill: 'run', tip: { text: 'runs', from: since, to: x1, tid: 7 } }));
  return { key, title: key, detail: '', tid: 7, height: 34, pieces: made, late: [] };
}

/** A ns is a pixel, unless said otherwise. */
function picture(from: number, to: number, rows: Row[], pixels = to - from): Picture {
  return { rows, from: BigInt(from), to: BigInt(to), pixels };
}

const places = (of: Picture, key = 'a'): number[][] => (of.rows.find((row) => row.key === key)?.pieces ?? []).map(({ x0, x1 }) => [x0, x1]);

test('what is new is put behind the picture, in its pixels', () => {
  const old = picture(1000, 1100, [row('a', [0, 40, 0], [40, 90, 40])]);
  // Two ns are a pixel.
  const more = extended(old, 1100n, picture(1100, 1120, [row('a', [2, 5, 4])], 10), false);
  assert.deepEqual(places(more), [[0, 40], [40, 90], [104, 110]]);
  assert.deepEqual([more.from, more.to, more.pixels], [1000n, 1120n, 120]);
  assert.deepEqual(more.rows[0]?.pieces[2]?.tip, { text: 'runs', from: 104, to: 105, tid: 7 });
  assert.deepEqual(places(old), [[0, 40], [40, 90]], 'the old picture stays as it is');
});

test('a stretch that grows takes its own place', () => {
  const old = picture(0, 100, [row('a', [0, 60, 0])]);
  const first = extended(old, 100n, picture(100, 110, [row('a', [3, 8, 3])]), false);
  assert.deepEqual(places(first), [[0, 60], [103, 108]]);
  const second = extended(first, 100n, picture(100, 130, [row('a', [3, 8, 3], [20, 30, 20])]), false);
  assert.deepEqual(places(second), [[0, 60], [103, 108], [120, 130]]);
  assert.deepEqual([second.to, second.pixels], [130n, 130]);
});

test('what goes on over the seam is one piece, and what only touches it is two', () => {
  const old = picture(0, 100, [row('a', [70, 100, 70]), row('b', [70, 100, 70])]);
  // Of a: since 70, which is 30 before the stretch begins. Of b: since its begin.
  const more = extended(old, 100n, picture(100, 120, [row('a', [0, 15, -30]), row('b', [0, 15, 0])]), false);
  assert.deepEqual(places(more, 'a'), [[70, 115]]);
  assert.deepEqual(more.rows[0]?.pieces[0]?.tip?.to, 115);
  assert.deepEqual(places(more, 'b'), [[70, 100], [100, 115]]);
});

test('what is cut at the seam is put together again by the next, longer stretch', () => {
  const old = picture(0, 100, [row('a', [70, 100, 70])]);
  const first = extended(old, 100n, picture(100, 120, [row('a', [0, 20, -30])]), false);
  const second = extended(first, 100n, picture(100, 140, [row('a', [0, 33, -30])]), false);
  assert.deepEqual(places(second), [[70, 133]]);
});

test('a whole picture keeps what is newer than it, and its rows', () => {
  const old = picture(0, 150, [row('gone', [0, 150, 0]), row('a', [90, 120, 90], [130, 140, 130])]);
  const fresh = picture(10, 110, [row('a', [80, 100, 80])]);
  const both = extended(fresh, 110n, old, false);
  assert.deepEqual(both.rows.map(({ key }) => key), ['a']);
  // The first goes on over the end of the fresh one: it began at 90, too.
  assert.deepEqual(places(both), [[80, 110], [120, 130]]);
  assert.deepEqual([both.to, both.pixels], [150n, 140]);
  assert.deepEqual(extended(fresh, 110n, old, true).rows.map(({ key }) => key), ['a', 'gone']);
});

test('what would leave a gap, or is not newer, changes nothing', () => {
  const old = picture(0, 100, [row('a', [0, 60, 0])]);
  for (const [begin, newer] of [
    [110n, picture(110, 120, [])],
    [90n, picture(90, 100, [])],
    [50n, picture(60, 120, [])],
    [-5n, picture(-5, 120, [])],
  ] as const) {
    assert.equal(extended(old, begin, newer, true), old);
  }
});

test('marks of late waits stay once, and a row is as high as its highest part', () => {
  const old = picture(0, 100, [{ ...row('a'), late: [5, 99] }]);
  const newer = picture(90, 120, [{ ...row('a'), late: [2, 9, 20], height: 50 }]);
  const [both] = extended(old, 95n, newer, false).rows;
  assert.deepEqual([both?.late, both?.height], [[5, 99, 110], 50]);
});

test('pixels of several states are cut at the seam, and go on behind it', () => {
  /** Each pixel that is named runs for all of its time. */
  const mixed = (pixels: number[], all: number): Row => {
    const of = row('a');
    const stack = { y: 20, h: 18, isHanging: false, least: 0, layers: [{ shares: pixels.map(() => 1), fill: 'run' as const }] };
    of.pieces.push(cellPiece({ rows: Uint32Array.from(pixels.keys()), pixels, stacks: [stack] }, all, of));
    return of;
  };
  const boxes = (of: Picture): number[][] => (of.rows[0]?.pieces ?? []).flatMap((piece) => {
    const range = rangeOf(piece);
    return range ? boxesOf(range).map(({ x0, x1 }) => [x0, x1]) : [];
  });
  const old = picture(0, 100, [mixed([3, 98], 100)]);
  // It begins before the seam, at 98: its second pixel goes over that.
  const first = extended(old, 99n, picture(97, 107, [mixed([0, 1, 4], 5)], 5), false);
  assert.deepEqual(boxes(first), [[3, 4], [98, 99], [99, 101], [105, 107]]);
  const second = extended(first, 99n, picture(99, 119, [mixed([9], 10)], 10), false);
  assert.deepEqual(boxes(second), [[3, 4], [98, 99], [117, 119]]);
});

test('stretches are short beside their window, and it is renewed before there are many', () => {
  assert.deepEqual([stripLength(5_000_000_000n), renewalLength(5_000_000_000n)], [250_000_000n, 1_250_000_000n]);
  assert.deepEqual([stripLength(3600_000_000_000n), renewalLength(3600_000_000_000n)], [1_000_000_000n, 30_000_000_000n]);
  assert.deepEqual([stripPixels(250n, 5000n, 1400), stripPixels(1n, 5000n, 1400), stripPixels(9n, 5n, 8000)], [70, 1, 8192]);
});
