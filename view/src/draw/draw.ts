// SPDX-License-Identifier: MIT OR Apache-2.0
// Pieces onto a canvas.

import { type Palette, edgeOf, fillOf, words } from '../common/palette.js';
import { type CellRange, type Words, Rasteriser } from '../layout/cells.js';
import { type Piece, type Row, rangeOf } from '../layout/layout.js';

/** Where pixels of an answer lie on the canvas: x = a * pixel + b. */
export interface Place {
  a: number;
  b: number;
  /** Left and right end of what may be drawn. */
  left: number;
  right: number;
}

export type Patterns = Record<'stripes' | 'dots' | 'hatch' | 'hole', CanvasPattern | string>;

/** What fills a piece beside its colour. */
export function patterns(to: CanvasRenderingContext2D, colours: Palette): Patterns {
  return {
    stripes: tile(to, 5, (tile) => fill(tile, colours.thr, 0, 0, 5, 5, colours.bg, 0, 0, 2, 5)),
    dots: tile(to, 4, (tile) => fill(tile, colours.ink3, 1.5, 1.5, 1, 1)),
    hatch: tile(to, 6, (tile) => {
      tile.strokeStyle = colours.ink;
      tile.globalAlpha = 0.6;
      tile.beginPath();
      for (const at of [-6, 0, 6]) {
        tile.moveTo(at, 6);
        tile.lineTo(at + 6, 0);
      }
      tile.stroke();
    }),
    hole: tile(to, 9, (tile) => fill(tile, colours.hole, 0, 0, 9, 9, colours.lossbg, 0, 0, 4.5, 9)),
  };
}

/** Draws rows. Made again when the theme changes. */
export class Painter {
  private readonly patterns: Patterns;
  private readonly widths = new Map<string, number>();
  private readonly raster = new Rasteriser();
  private readonly inks: Words;
  /** Where pixels of several states are put together, of one row at a time. */
  private sheet: { canvas: HTMLCanvasElement; context: CanvasRenderingContext2D; image: ImageData; words: Uint32Array } | null = null;

  constructor(
    private to: CanvasRenderingContext2D,
    readonly colours: Palette,
    readonly family: string,
  ) {
    this.patterns = patterns(to, colours);
    this.inks = words(to, colours);
  }

  /** Draws there from now on. */
  aim(to: CanvasRenderingContext2D): void {
    this.to = to;
  }

  /** One row, whose top is at `top`. */
  row(row: Row, top: number, place: Place): void {
    for (const piece of row.pieces) {
      const range = rangeOf(piece);
      if (range) this.cells(range, top, row.height, place);
      else this.piece(piece, top, place);
    }
    this.to.fillStyle = this.colours.pre;
    for (const pixel of row.late) this.triangle(place.a * pixel + place.b, top, place);
  }

  /** Pixels of several states: an image of its own, as sharp as the screen, laid over what is there. */
  private cells(range: CellRange, top: number, height: number, { a, b, right }: Place): void {
    const unit = globalThis.devicePixelRatio || 1;
    const [w, h] = [Math.round(right * unit), Math.round(height * unit)];
    const sheet = this.sheetOf(w, h);
    if (!sheet) return;
    sheet.words.fill(0);
    this.raster.draw(range, { a: a * unit, b: b * unit, unit }, this.inks, { words: sheet.words, width: w, height: h });
    sheet.context.putImageData(sheet.image, 0, 0);
    this.to.imageSmoothingEnabled = false;
    this.to.drawImage(sheet.canvas, 0, 0, w, h, 0, top, w / unit, h / unit);
    // Patterns are drawn behind it, which are scaled.
    this.to.imageSmoothingEnabled = true;
  }

  private sheetOf(w: number, h: number): Painter['sheet'] {
    if (this.sheet?.image.width === w && this.sheet.image.height === h) return this.sheet;
    const canvas = this.sheet?.canvas ?? document.createElement('canvas');
    [canvas.width, canvas.height] = [w, h];
    const context = canvas.getContext('2d');
    if (!context) return null;
    const image = context.createImageData(w, h);
    this.sheet = { canvas, context, image, words: new Uint32Array(image.data.buffer) };
    return this.sheet;
  }

  private triangle(x: number, top: number, { left, right }: Place): void {
    if (x < left || x > right) return;
    this.to.beginPath();
    this.to.moveTo(x - 3, top);
    this.to.lineTo(x + 3, top);
    this.to.lineTo(x, top + 4);
    this.to.fill();
  }

  private piece(piece: Piece, top: number, { a, b, left, right }: Place): void {
    const x0 = Math.max(left, a * piece.x0 + b);
    const x1 = Math.min(right, a * piece.x1 + b);
    if (x1 <= left || x0 >= right || x1 <= x0) return;
    const { to, colours } = this;
    const [y, w, h] = [top + piece.y, Math.max(x1 - x0, 0.5), Math.max(piece.h, 1)];
    const colour = piece.fill ? colours[piece.fill] : piece.name !== undefined ? fillOf(colours, piece.name) : null;
    if (piece.look === 'hole') to.clearRect(x0, y, w, h);
    if (colour) {
      to.fillStyle = colour;
      to.fillRect(x0, y, w, h);
    }
    if (piece.look === 'outline') {
      to.strokeStyle = colours.wok;
      if (w > 2) to.strokeRect(x0 + 0.5, y + 0.5, w - 1, h - 1);
      else fill(to, colours.wok, x0, y, w, h);
    } else if (piece.look) {
      to.fillStyle = this.patterns[piece.look];
      to.fillRect(x0, y, w, h);
    }
    if (piece.look === 'hole') dashed(to, colours.loss, x0, y, w, h);
    if (piece.isRealTime && piece.name !== undefined) fill(to, edgeOf(colours, piece.name), x0, y, w, 3);
    if (piece.label && w > 22) this.label(piece, x0, y, w, h);
  }

  private label(piece: Piece, x: number, y: number, w: number, h: number): void {
    const { to } = this;
    const size = h <= 10 ? 10 : 10.5;
    to.font = `${size}px ${this.family}`;
    const shown = this.fitted(piece.label ?? '', w - 8, size);
    if (!shown) return;
    to.fillStyle = this.colours[piece.ink ?? 'ink'];
    // Blocked: above the bar, which is too low for a text.
    const base = h < 9 ? y - 2 : y + h / 2 + size * 0.36;
    to.fillText(shown, x + 4, base);
  }

  /** A line of text that belongs to no piece. */
  words(text: string, x: number, y: number, width: number): void {
    if (!text) return;
    this.to.font = `10.5px ${this.family}`;
    this.to.fillStyle = this.colours.ink2;
    this.to.fillText(this.fitted(text, width, 10.5), x, y);
  }

  /** A text that is no wider, with `…` where it is cut; empty where fewer than three characters fit. */
  fitted(text: string, width: number, size: number): string {
    if (this.width(text, size) <= width) return text;
    const each = this.width(text, size) / Math.max(1, text.length);
    const count = Math.floor((width - this.width('…', size)) / Math.max(1, each));
    return count < 3 ? '' : `${[...text].slice(0, count).join('')}…`;
  }

  private width(text: string, size: number): number {
    const key = `${size} ${text}`;
    const known = this.widths.get(key);
    if (known !== undefined) return known;
    if (this.widths.size > 20000) this.widths.clear();
    this.to.font = `${size}px ${this.family}`;
    const width = this.to.measureText(text).width;
    this.widths.set(key, width);
    return width;
  }
}

function tile(to: CanvasRenderingContext2D, size: number, paint: (tile: CanvasRenderingContext2D) => void): CanvasPattern | string {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = size;
  const context = canvas.getContext('2d');
  if (!context) return 'transparent';
  paint(context);
  return to.createPattern(canvas, 'repeat') ?? 'transparent';
}

/** The border of a hole. */
export function dashed(to: CanvasRenderingContext2D, colour: string, x: number, y: number, w: number, h: number): void {
  to.save();
  to.setLineDash([3, 2]);
  to.strokeStyle = colour;
  to.strokeRect(x + 0.5, y + 0.5, Math.max(2, w - 1), h - 1);
  to.restore();
}

type Box = readonly [string, number, number, number, number];

function fill(to: CanvasRenderingContext2D, ...boxes: [...Box] | [...Box, ...Box]): void {
  for (let i = 0; i < boxes.length; i += 5) {
    const [colour, x, y, w, h] = boxes.slice(i, i + 5) as unknown as Box;
    to.fillStyle = colour;
    to.fillRect(x, y, w, h);
  }
}

/** Makes a canvas as sharp as the screen, and gives its context in CSS pixels. */
export function sharpen(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = globalThis.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const { style } = canvas;
  if (style.width !== `${width}px`) style.width = `${width}px`;
  if (style.height !== `${height}px`) style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
