// SPDX-License-Identifier: MIT OR Apache-2.0
// Pixels of several states of one row: the shares of an answer as they came, no object for each. From there to the pixels
// of a screen, or to boxes for a picture that is made of shapes. Pure.

import type { ColourName } from '../common/palette.js';

/** A part of each pixel. `fill`: a colour; or for each row of the table, which of the colours of identity. */
export interface Layer {
  shares: ArrayLike<number>;
  fill: ColourName | Uint8Array;
}

/** Layers on one line: from it up, or, where they hang, down. */
export interface Stack {
  /** The line, and how high a share of 1 is. */
  y: number;
  h: number;
  isHanging: boolean;
  /** What is there at all is at least so high. */
  least: number;
  layers: readonly Layer[];
}

/** Pixels of one row, in the order of time. */
export interface Cells {
  /** Where each of them is in the answer's table, and with that its pixel of the answer. */
  rows: Uint32Array;
  pixels: ArrayLike<number>;
  stacks: readonly Stack[];
}

/** Those from pixel `first` to pixel `last`. */
export interface CellPart {
  cells: Cells;
  first: number;
  last: number;
}

/** They lie from `x0` to `x1`, in pixels of the picture. */
export interface CellRange extends CellPart {
  x0: number;
  x1: number;
}

/** The rows of a table by what they are of, each list in the order of pixels. */
export function rowsBy(keys: ArrayLike<number>, pixels: ArrayLike<number>): Map<number, Uint32Array> {
  const counts = new Map<number, number>();
  for (let i = 0; i < keys.length; i++) counts.set(keys[i] ?? 0, (counts.get(keys[i] ?? 0) ?? 0) + 1);
  const lists = new Map([...counts].map(([key, count]) => [key, { rows: new Uint32Array(count), used: 0, isInOrder: true }]));
  for (let i = 0; i < keys.length; i++) {
    const list = lists.get(keys[i] ?? 0);
    if (!list) continue;
    const before = list.rows[list.used - 1];
    if (before !== undefined && (pixels[before] ?? 0) > (pixels[i] ?? 0)) list.isInOrder = false;
    list.rows[list.used++] = i;
  }
  const inOrder = (rows: Uint32Array): Uint32Array => rows.sort((a, b) => (pixels[a] ?? 0) - (pixels[b] ?? 0));
  return new Map([...lists].map(([key, { rows, isInOrder }]) => [key, isInOrder ? rows : inOrder(rows)]));
}

/** The part of a range between two places of the picture. */
export function cut(range: CellRange, x0: number, x1: number): CellPart {
  const each = (range.last - range.first) / Math.max(1e-9, range.x1 - range.x0);
  const at = (x: number): number => range.first + (x - range.x0) * each;
  return { cells: range.cells, first: at(x0), last: at(x1) };
}

/** A share in a stack: from the line, in steps of one pixel of the screen. */
interface Band {
  low: number;
  high: number;
}

/** From shares to whole pixels: `sum` is of the layers before, `unit` px are one. */
function band(stack: Stack, sum: number, share: number, unit: number): Band {
  const full = stack.h * unit;
  const [low, high] = [Math.round(sum * full), Math.round((sum + share) * full)];
  return high - low < stack.least && share > 0 ? { low, high: low + stack.least } : { low, high };
}

/** A rectangle of one colour. */
export interface Box {
  x0: number;
  x1: number;
  y: number;
  h: number;
  fill: ColourName;
}

/** All of a range as boxes, in pixels of the picture. */
export function boxesOf(range: CellRange): Box[] {
  const { cells, first, last } = range;
  const each = (range.x1 - range.x0) / (last - first);
  const out: Box[] = [];
  for (const row of cells.rows) {
    const pixel = cells.pixels[row] ?? 0;
    const [from, to] = [Math.max(first, pixel), Math.min(last, pixel + 1)];
    if (to <= from) continue;
    const [x0, x1] = [range.x0 + (from - first) * each, range.x0 + (to - first) * each];
    for (const stack of cells.stacks) {
      let sum = 0;
      for (const { shares, fill } of stack.layers) {
        const share = shares[row] ?? 0;
        const { low, high } = band(stack, sum, share, 1);
        sum += share;
        if (high > low) out.push({ x0, x1, y: stack.isHanging ? stack.y + low : stack.y - high, h: high - low, fill: typeof fill === 'string' ? fill : identityColour(fill[row] ?? 0) });
      }
    }
  }
  return out;
}

const IDENTITIES: readonly ColourName[] = ['h0', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'h7'];

function identityColour(number: number): ColourName {
  return IDENTITIES[number] ?? 'h0';
}

/** Where a picture lies on a screen: x = a * pixel + b, in pixels of the screen; `unit` of these are one of the layout. */
export interface Screen {
  a: number;
  b: number;
  unit: number;
}

/** Pixels of a screen, a word each. */
export interface Raster {
  words: Uint32Array;
  width: number;
  height: number;
}

/** The word of a colour, its opacity in the upper byte. */
export type Words = Record<ColourName, number>;

/** What lies below each column of the screen. Made once, for the widest screen. */
export class Rasteriser {
  private weights = new Float32Array(0);
  private nearest = new Float32Array(0);
  private rows = new Uint32Array(0);
  private sums: Float32Array[] = [];
  /** Drawn in full, though not all of the column is covered: a pixel narrower than a column is seen. */
  private solid = new Uint8Array(0);

  /** Draws a range: each column of the screen has the shares of the time that it stands for. */
  draw(range: CellRange, screen: Screen, colours: Words, into: Raster): void {
    for (const stack of range.cells.stacks) {
      this.add(range, stack, screen, into.width);
      this.put(stack, screen.unit, colours, into);
    }
  }

  private clear(width: number, layers: number): void {
    if (this.weights.length < width) {
      [this.weights, this.nearest, this.rows] = [new Float32Array(width), new Float32Array(width), new Uint32Array(width)];
      this.solid = new Uint8Array(width);
      this.sums = [];
    }
    while (this.sums.length < layers) this.sums.push(new Float32Array(this.weights.length));
    this.weights.fill(0, 0, width);
    this.nearest.fill(0, 0, width);
    this.solid.fill(0, 0, width);
    for (let layer = 0; layer < layers; layer++) this.sums[layer]?.fill(0, 0, width);
  }

  /** Adds up the shares of each column, by how much of it they cover. */
  private add({ x0, x1, cells, first, last }: CellRange, { layers }: Stack, { a, b }: Screen, width: number): void {
    this.clear(width, layers.length);
    const { weights, nearest, rows, sums, solid } = this;
    const scale = (a * (x1 - x0)) / (last - first);
    const shift = a * x0 + b - first * scale;
    // What sticks out into a column by so little is an error of rounding.
    const sliver = Math.min(0.05, scale / 4);
    for (const row of cells.rows) {
      const pixel = cells.pixels[row] ?? 0;
      const [from, to] = [Math.max(0, Math.max(first, pixel) * scale + shift), Math.min(width, Math.min(last, pixel + 1) * scale + shift)];
      let [most, widest] = [0, -1];
      for (let x = Math.floor(from); x < to; x++) {
        const weight = Math.min(x + 1, to) - Math.max(x, from);
        if (weight < sliver) continue;
        weights[x] = (weights[x] ?? 0) + weight;
        if (weight > most) [most, widest] = [weight, x];
        if (weight > (nearest[x] ?? 0)) [nearest[x], rows[x]] = [weight, row];
        for (let layer = 0; layer < layers.length; layer++) {
          const sum = sums[layer];
          if (sum) sum[x] = (sum[x] ?? 0) + weight * (layers[layer]?.shares[row] ?? 0);
        }
      }
      if (scale < 1 && widest >= 0) solid[widest] = 1;
    }
  }

  private put(stack: Stack, unit: number, colours: Words, { words, width, height }: Raster): void {
    const base = Math.round(stack.y * unit);
    for (let x = 0; x < width; x++) {
      const weight = this.weights[x] ?? 0;
      if (weight <= 0) continue;
      const opacity = this.solid[x] ? 255 : Math.min(255, Math.round(weight * 255));
      let sum = 0;
      for (let layer = 0; layer < stack.layers.length; layer++) {
        const share = (this.sums[layer]?.[x] ?? 0) / weight;
        if (share <= 0) continue;
        const { low, high } = band(stack, sum, share, unit);
        sum += share;
        const fill = stack.layers[layer]?.fill ?? 'ink';
        const colour = colours[typeof fill === 'string' ? fill : identityColour(fill[this.rows[x] ?? 0] ?? 0)];
        const word = ((colour & 0xffffff) | (opacity << 24)) >>> 0;
        const top = stack.isHanging ? base + low : base - high;
        for (let y = Math.max(0, top); y < Math.min(height, top + high - low); y++) words[y * width + x] = word;
      }
    }
  }
}
