// SPDX-License-Identifier: MIT OR Apache-2.0
// Pixels of several states, from the shares of an answer to pixels of a screen.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type CellRange, type Cells, type Raster, type Stack, type Words, Rasteriser, boxesOf, cut, rowsBy } from '../src/layout/cells.js';

const COLOURS = { run: 1, pre: 2, lock: 3, sys: 4, irq: 5, h0: 10, h1: 11, h2: 12 } as unknown as Words;

/** A stack of 4 px on the line at 5: `run`, and `pre` above it. */
function stack(run: readonly number[], pre: readonly number[], more: Partial<Stack> = {}): Stack {
  return { y: 5, h: 4, isHanging: false, least: 0, layers: [{ shares: run, fill: 'run' }, { shares: pre, fill: 'pre' }], ...more };
}

function cells(pixels: readonly number[], ...stacks: Stack[]): Cells {
  return { rows: Uint32Array.from(pixels.keys()), pixels, stacks };
}

/** All of them, a pixel of the picture each. */
function all(of: Cells, to: number, from = 0): CellRange {
  return { x0: from, x1: to, cells: of, first: from, last: to };
}

/** Each column of the screen from top to bottom, a digit for each pixel; `.` where nothing is drawn. */
function columns(range: CellRange, a: number, b: number, width: number, unit = 1): string[] {
  const height = 9 * unit;
  const into: Raster = { words: new Uint32Array(width * height), width, height };
  new Rasteriser().draw(range, { a, b, unit }, COLOURS, into);
  const word = (x: number, y: number): string => ((into.words[y * width + x] ?? 0) & 0xff).toString(36);
  return Array.from({ length: width }, (_, x) => Array.from({ length: height }, (_, y) => word(x, y).replace('0', '.')).join(''));
}

test('shares of a pixel are stacked from the line up, and what has no share is not drawn', () => {
  const range = all(cells([1, 3], stack([0.5, 0], [0.25, 1])), 4);
  assert.deepEqual(columns(range, 1, 0, 4), ['.........', '..211....', '.........', '.2222....']);
  assert.deepEqual(boxesOf(range).map(({ x0, x1, y, h, fill }) => [x0, x1, y, h, fill]), [[1, 2, 3, 2, 'run'], [1, 2, 2, 1, 'pre'], [3, 4, 1, 4, 'pre']]);
});

test('what hangs grows down, and is seen however little it is', () => {
  const hanging: Stack = { y: 5, h: 4, isHanging: true, least: 1, layers: [{ shares: [0.001, 1, 0], fill: 'irq' }] };
  const range = all(cells([0, 1, 2], hanging), 3);
  assert.deepEqual(columns(range, 1, 0, 3), ['.....5...', '.....5555', '.........']);
  assert.deepEqual(boxesOf(range).map(({ y, h }) => [y, h]), [[5, 1], [5, 4]]);
});

test('a column of the screen has the shares of all the time that it stands for', () => {
  // Two pixels are one column: a half of it runs, and a quarter is preempted.
  const range = all(cells([0, 1], stack([1, 0], [0, 0.5])), 2);
  assert.deepEqual(columns(range, 0.5, 0, 1), ['..211....']);
  // One and a half columns a pixel: the column between them has half of each.
  assert.deepEqual(columns(all(cells([0, 1], stack([1, 0], [0, 1])), 2), 1.5, 0, 3), ['.1111....', '.2211....', '.2222....']);
});

test('no pixel is lost where pixels are smaller than columns, and none beside them is touched', () => {
  const pixels = Array.from({ length: 90 }, (_, i) => i);
  const only = (wanted: number): readonly number[] => pixels.map((pixel) => (pixel === wanted ? 1 : 0));
  for (const a of [0.3, 0.67, 0.7, 1, 1.43]) {
    for (const wanted of pixels) {
      const drawn = columns(all(cells([wanted], stack([1], [0])), 90), a, 0.4, 140).flatMap((column, x) => (column === '.........' ? [] : [x]));
      assert.ok(drawn.length >= 1 && drawn.length <= 1 + Math.ceil(a), `${a} ${wanted}: ${drawn.join()}`);
      for (const x of drawn) assert.ok(x + 1 > wanted * a + 0.4 && x < (wanted + 1) * a + 0.4, `${a} ${wanted}: ${x}`);
    }
    // Among others, too, it is seen: more than half of what lies in its column.
    if (a >= 1) for (const wanted of [0, 44, 89]) assert.ok(columns(all(cells(pixels, stack(only(wanted), [])), 90), a, 0.4, 140).some((column) => column.includes('1')), `${a} ${wanted}`);
  }
  // An edge that is off by an error of rounding is on the edge.
  assert.deepEqual(columns(all(cells([0], stack([1], [0])), 1), 1, 1e-7, 3).map((column) => column !== '.........'), [true, false, false]);
});

test('a column that is covered in part is drawn in part, but a pixel that is narrower than a column in full', () => {
  const opacities = (a: number, b: number): number[] => {
    const into: Raster = { words: new Uint32Array(4 * 9), width: 4, height: 9 };
    new Rasteriser().draw(all(cells([0], stack([1], [0])), 1), { a, b, unit: 1 }, COLOURS, into);
    return Array.from(into.words.slice(4 * 4, 5 * 4), (word) => Math.round((word >>> 24) / 2.55));
  };
  assert.deepEqual(opacities(1, 1), [0, 100, 0, 0]);
  assert.deepEqual(opacities(1.5, 0.75), [25, 100, 25, 0]);
  assert.deepEqual(opacities(0.5, 1.25), [0, 100, 0, 0]);
  assert.deepEqual(opacities(0.75, 0.5), [100, 25, 0, 0]);
});

test('shares are rounded to pixels of the screen, which are finer than those of the layout', () => {
  assert.deepEqual(columns(all(cells([0], stack([0.625], [0])), 1), 2, 0, 2, 2), ['.....11111........', '.....11111........']);
});

test('a colour of identity is that of the pixel with most of the column', () => {
  const named: Stack = { y: 5, h: 4, isHanging: false, least: 0, layers: [{ shares: [1, 1], fill: Uint8Array.of(1, 2) }] };
  assert.deepEqual(columns(all(cells([0, 1], named), 2), 0.7, 0, 2).map((column) => column.slice(1, 2)), ['b', 'c']);
  assert.deepEqual(boxesOf(all(cells([0, 1], named), 2)).map(({ fill }) => fill), ['h1', 'h2']);
});

test('a part is drawn where it lies, moved, scaled and cut', () => {
  const of = cells([0, 1, 2, 3], stack([1, 0, 1, 0], [0, 1, 0, 1]));
  // Pixels 1 to 3 lie from 10 to 14, two px each.
  assert.deepEqual(boxesOf({ x0: 10, x1: 14, cells: of, first: 1, last: 3 }).map(({ x0, x1, fill }) => [x0, x1, fill]), [[10, 12, 'pre'], [12, 14, 'run']]);
  const half = cut({ x0: 10, x1: 14, cells: of, first: 1, last: 3 }, 11, 13);
  assert.deepEqual([half.first, half.last], [1.5, 2.5]);
  assert.deepEqual(columns({ x0: 11, x1: 13, ...half }, 1, -10, 4), ['.........', '.2222....', '.1111....', '.........']);
  // What lies outside of the screen is cut.
  assert.deepEqual(columns(all(of, 4), 2, -3, 3), ['.2222....', '.1111....', '.1111....']);
});

test('a wide screen after a narrow one, and stacks of any number of layers, leave nothing behind', () => {
  const raster = new Rasteriser();
  const draw = (of: Cells, width: number): string => {
    const into: Raster = { words: new Uint32Array(width * 9), width, height: 9 };
    raster.draw(all(of, width), { a: 1, b: 0, unit: 1 }, COLOURS, into);
    return Array.from(into.words.slice(width, 2 * width), (word) => String(word & 0xff)).join('');
  };
  const one = cells([0, 1], stack([1, 1], []));
  assert.equal(draw(one, 2), '11');
  assert.equal(draw(cells([4], stack([0], [0], { layers: [{ shares: [1], fill: 'sys' }] })), 6), '000040');
  for (let again = 0; again < 2; again++) assert.equal(draw(one, 2), '11');
});

test('rows of a table by what they are of, in the order of pixels', () => {
  const lists = rowsBy([7, 8, 7, 8, 7], [0, 5, 1, 2, 9]);
  assert.deepEqual([...lists].map(([key, rows]) => [key, [...rows]]), [[7, [0, 2, 4]], [8, [3, 1]]]);
  assert.equal(rowsBy([], []).size, 0);
});
