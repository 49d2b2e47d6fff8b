// SPDX-License-Identifier: MIT OR Apache-2.0
// Pictures of rows, as they were drawn last. A frame puts them on the screen, moved and scaled while the window moves, and
// draws some of them anew: so a frame costs no more with many pieces than with few. Nothing is drawn wrong: a row that is
// not drawn anew yet shows what was known, at its place in time.

import type { Row } from '../layout/layout.js';
import type { Painter, Place } from './draw.js';

/** A row that is to be seen. `place` is for who draws it anew. */
export interface TileLine {
  row: Row;
  top: number;
  place: () => Place;
}

/** A part of time, and how wide it is on the screen. */
export interface TileWindow {
  from: bigint;
  to: bigint;
  width: number;
}

/** One frame: rows are drawn anew for so many ms at most, but one row at least. */
export interface TileFrame {
  window: TileWindow;
  isMoving: boolean;
  most_ms: number;
}

interface Tile {
  canvas: HTMLCanvasElement;
  context: CanvasRenderingContext2D;
  row: Row;
  window: TileWindow;
}

/** What a tile shows of a window: from where to where in the tile, and where that lies on the screen. */
export interface Shift {
  from: number;
  to: number;
  x: number;
  width: number;
}

/** How a tile of one window is put into another one; null: nothing of it is there. */
export function shift(tile: TileWindow, now: TileWindow): Shift | null {
  const perNs = now.width / Number(now.to - now.from);
  const scale = (Number(tile.to - tile.from) * perNs) / tile.width;
  const begin = Number(tile.from - now.from) * perNs;
  const [x, end] = [Math.max(0, begin), Math.min(now.width, begin + tile.width * scale)];
  return end > x ? { from: (x - begin) / scale, to: (end - begin) / scale, x, width: end - x } : null;
}

/** What a row needs: it was never drawn; it has other pieces now; the window has moved since. */
export type Need = 'all' | 'pieces' | 'window' | 'nothing';

export function needOf(tile: { row: Row; window: TileWindow } | undefined, row: Row, now: TileWindow): Need {
  if (!tile || tile.window.width !== now.width || tile.row.height !== row.height) return 'all';
  if (tile.row !== row) return 'pieces';
  return tile.window.from === now.from && tile.window.to === now.to ? 'nothing' : 'window';
}

/** Which of these to draw anew, in this order. Of a window that moves: not those that would be the same, but for labels. */
export function ordered<T extends { need: Need }>(all: readonly T[], isMoving: boolean): T[] {
  const wanted: readonly Need[] = isMoving ? ['all', 'pieces'] : ['all', 'pieces', 'window'];
  return wanted.flatMap((need) => all.filter((one) => one.need === need));
}

export class Tiles {
  private tiles = new Map<string, Tile>();
  private readonly free: HTMLCanvasElement[] = [];
  private ratio = 1;

  /** `clock`: milliseconds. */
  constructor(private readonly clock: () => number = () => performance.now()) {}

  /** All are drawn anew, at once or later. */
  forget(): void {
    this.tiles.clear();
  }

  /** Puts rows onto the screen. Whether they are all as they should be; while the window moves, but for their labels. */
  draw(to: CanvasRenderingContext2D, lines: readonly TileLine[], { window: now, isMoving, most_ms }: TileFrame, painter: Painter): boolean {
    const until = this.clock() + most_ms;
    const ratio = globalThis.devicePixelRatio || 1;
    if (ratio !== this.ratio) this.forget();
    this.ratio = ratio;
    const all = lines.map((line) => ({ line, need: needOf(this.tiles.get(line.row.key), line.row, now) }));
    const wanted = ordered(all, isMoving);
    let left = wanted.length;
    for (const { line, need } of wanted) {
      this.renew(line, now, painter, need);
      left--;
      if (this.clock() >= until) break;
    }
    this.keep(lines);
    for (const { row, top } of lines) this.put(to, row, top, now);
    to.imageSmoothingEnabled = true;
    return left === 0;
  }

  private renew({ row, place }: TileLine, now: TileWindow, painter: Painter, need: Need): void {
    const tile = this.tiles.get(row.key) ?? this.made(row, now);
    if (!tile) return;
    const { canvas, context } = tile;
    const [w, h] = [Math.round(now.width * this.ratio), Math.round(row.height * this.ratio)];
    if (need === 'all' && (canvas.width !== w || canvas.height !== h)) [canvas.width, canvas.height] = [w, h];
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, now.width, row.height);
    painter.aim(context);
    painter.row(row, 0, place());
    [tile.row, tile.window] = [row, now];
  }

  private made(row: Row, window: TileWindow): Tile | null {
    const canvas = this.free.pop() ?? document.createElement('canvas');
    const context = canvas.getContext('2d');
    if (!context) return null;
    const tile = { canvas, context, row, window };
    this.tiles.set(row.key, tile);
    return tile;
  }

  /** Of rows that are not to be seen there is no picture: it would be as large as the screen some times over. */
  private keep(lines: readonly TileLine[]): void {
    const kept = new Map<string, Tile>();
    for (const { row } of lines) {
      const tile = this.tiles.get(row.key);
      if (tile) kept.set(row.key, tile);
    }
    for (const [key, { canvas }] of this.tiles) if (!kept.has(key) && this.free.length < kept.size) this.free.push(canvas);
    this.free.length = Math.min(this.free.length, kept.size);
    this.tiles = kept;
  }

  private put(to: CanvasRenderingContext2D, row: Row, top: number, now: TileWindow): void {
    const tile = this.tiles.get(row.key);
    const at = tile && shift(tile.window, now);
    if (!tile || !at) return;
    const height = tile.canvas.height / this.ratio;
    const isScaled = Math.abs(at.width - (at.to - at.from)) > 0.01;
    to.imageSmoothingEnabled = isScaled;
    // Moved only, it stays sharp: by whole pixels of the screen.
    const x = isScaled ? at.x : Math.round(at.x * this.ratio) / this.ratio;
    to.drawImage(tile.canvas, at.from * this.ratio, 0, (at.to - at.from) * this.ratio, tile.canvas.height, x, top, at.width, height);
  }
}
