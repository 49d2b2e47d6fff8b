// SPDX-License-Identifier: MIT OR Apache-2.0
// Pieces of a picture, and what all rows share on the way from columns to them (cpus.ts, threads.ts, spans.ts). Pure. Pieces
// lie on a row, in pixels of the answer's window, so that a picture can be drawn moved and scaled until the next answer is there.

import type { ColourName } from '../common/palette.js';
import { STEP_ROWS, type Steps } from '../common/steps.js';
import type { Answer } from '../query/columns.js';
import { type CellPart, type CellRange, type Cells, cut } from './cells.js';
import { type Holes, countOf } from './losses.js';

/** Something that is drawn. */
export interface Piece {
  /** From and to, in pixels of the answer. */
  x0: number;
  x1: number;
  /** From the top of the row. */
  y: number;
  h: number;
  /** A colour; or a name, whose identity decides. */
  fill: ColourName | null;
  name?: string;
  /** How it is drawn beside its colour. */
  look?: 'outline' | 'stripes' | 'dots' | 'hatch' | 'hole';
  /** A line of 3 px on top: real time. */
  isRealTime?: boolean;
  label?: string;
  ink?: ColourName;
  /** What the status line says, and where it belongs to. */
  tip?: Tip;
  /** Pixels of several states, which are drawn in its place. */
  part?: CellPart;
}

/** What is known of a piece. Times are ns after the answer's `from`. */
export interface Tip {
  text: string;
  from: number;
  to: number;
  tid: number | null;
}

/** A row of the time line. */
export interface Row {
  key: string;
  title: string;
  detail: string;
  tid: number | null;
  /** The process whose head it stands below. */
  group?: number;
  height: number;
  pieces: Piece[];
  /** Waits that are longer than their limit: pixel of the answer. */
  late: number[];
}

/** Names of the states of threads, by number [spec/view.md 4.6]. */
export const STATES = [
  'unknown', 'running', 'preempted', 'woken', 'gave_way', 'lock', 'uninterruptible', 'waiting', 'sleeping', 'stopped', 'absent', 'page_fault',
] as const;
export type State = (typeof STATES)[number];

interface StateLook {
  h: number;
  fill: ColourName | null;
  ink: ColourName;
  look?: NonNullable<Piece['look']>;
  says: string;
}

/** Height says whether a thread can run, colour says why. */
export const STATE_LOOKS: Record<State, StateLook> = {
  unknown: { h: 18, fill: null, ink: 'ink2', look: 'dots', says: 'not known' },
  running: { h: 18, fill: 'run', ink: 'onrun', says: 'runs' },
  preempted: { h: 13, fill: 'pre', ink: 'onpre', says: 'preempted' },
  woken: { h: 13, fill: 'wokfill', ink: 'onwok', look: 'outline', says: 'woken, waits for a CPU' },
  gave_way: { h: 13, fill: 'kern', ink: 'ink', says: 'gave way, can run' },
  lock: { h: 5, fill: 'lock', ink: 'ink', says: 'waits for a lock' },
  uninterruptible: { h: 5, fill: 'io', ink: 'ink', says: 'blocked in the kernel: disk, kernel lock, or a page fault that no record tells of' },
  waiting: { h: 5, fill: 'wait', ink: 'ink', says: 'waits' },
  sleeping: { h: 1, fill: 'sleep', ink: 'ink2', says: 'sleeps' },
  stopped: { h: 5, fill: 'thr', ink: 'ink', look: 'stripes', says: 'stopped' },
  absent: { h: 0, fill: null, ink: 'ink2', says: 'does not exist' },
  page_fault: { h: 5, fill: 'fault', ink: 'ink', says: 'blocked in a page fault' },
};

/** From the baseline up. */
export const STACKED: readonly State[] = ['running', 'preempted', 'woken', 'gave_way', 'stopped', 'lock', 'uninterruptible', 'page_fault', 'waiting'];

export const CPU_ROW = 29;
/** Below a CPU whose frequency is recorded. */
export const FREQUENCY_BAND = 12;
export const THREAD_ROW = 34;
export const SPAN_LEVEL = 15;
export const BASELINE = 20;
export const TOP = BASELINE - 18;
export const REAL_TIME = 100;

/** From ns after `from` to pixels of the answer. */
export class Scale {
  private readonly perNs: number;
  constructor(
    length: number,
    readonly pixels: number,
  ) {
    this.perNs = pixels / Math.max(1, length);
  }

  x(offset: number): number {
    return Math.max(0, Math.min(this.pixels, offset * this.perNs));
  }

  /** ns after `from` of a pixel. */
  offset(pixel: number): number {
    return pixel / this.perNs;
  }
}

/** A name without its number: workers of one kind have one colour. */
export function kind(name: string): string {
  return name.replace(/[0-9]+/g, '');
}

export function named(name: string | null, tid: number | null): string {
  return name ? `${name}[${tid ?? '?'}]` : tid === 0 ? 'idle' : `[${tid ?? '?'}]`;
}

const saidDoubts = new WeakMap<Answer, Map<number, string>>();

/** The bits of `doubt` as words. */
export function doubts(answer: Answer, bits: number): string {
  if (!bits) return '';
  const said = saidDoubts.get(answer) ?? new Map<number, string>();
  saidDoubts.set(answer, said);
  let text = said.get(bits);
  if (text === undefined) {
    const names = answer.head.info['doubts'];
    text = Array.isArray(names) ? names.filter((_, bit) => bits & (1 << bit)).join(', ') : '';
    said.set(bits, text);
  }
  return text;
}

export interface Window {
  from: bigint;
  scale: Scale;
}

/** Where the first pixel of an answer begins and its last one ends: beyond the window, where that ends with the trace and pixels are on a grid. */
export function frame(answer: Answer): [from: number, to: number] {
  const [from = answer.head.from, to = answer.head.to] = (answer.head.info['frame'] as number[] | undefined) ?? [];
  return [from, to];
}

export function window(answer: Answer, pixels: number): Window {
  const [from, to] = frame(answer);
  return { from: BigInt(from), scale: new Scale(to - from, pixels) };
}

/** Nothing is known where records are missing. `says`: what of it. */
export function holes(row: Row, list: Holes, { scale }: Window, says: string): void {
  for (const hole of list) {
    const [x0, x1] = [scale.x(hole.from), scale.x(hole.to)];
    const count = countOf(hole);
    row.pieces.push({ x0, x1: Math.max(x1, x0 + 3), y: 0, h: row.height - 1, fill: null, look: 'hole', label: count, ink: 'loss', tip: { text: `${row.title}: ${count}${says.startsWith('on ') ? ' ' : ': '}${says}`, from: hole.from, to: hole.to, tid: row.tid } });
  }
}

/** A hatch over the pixels of several states of which one is doubtful; `y` and `h` of it. Pixels side by side are one piece. */
export function* doubtfulPixels(answer: Answer, name: string, rowOf: (i: number) => Row | undefined, { scale }: Window, [y, h]: readonly [number, number]): Steps<void> {
  const table = answer.table(name);
  const [pixels, bits] = [table.numbers('pixel'), table.numbers('doubt')];
  let last: { row: Row; piece: Piece & { tip: Tip }; bits: number } | null = null;
  for (let i = 0; i < table.rows; i++) {
    if (i % STEP_ROWS === 0) yield;
    const [pixel, doubt] = [pixels[i] ?? 0, bits[i] ?? 0];
    const row = doubt ? rowOf(i) : undefined;
    if (!row) continue;
    if (last && last.row === row && last.bits === doubt && last.piece.x1 === pixel) {
      last.piece.x1 = pixel + 1;
      last.piece.tip.to = scale.offset(pixel + 1);
      continue;
    }
    const tip = { text: `${row.title}: several states, doubtful: ${doubts(answer, doubt)}`, from: scale.offset(pixel), to: scale.offset(pixel + 1), tid: row.tid };
    const piece: Piece & { tip: Tip } = { x0: pixel, x1: pixel + 1, y, h, fill: null, look: 'hatch', tip };
    row.pieces.push(piece);
    last = { row, piece, bits: doubt };
  }
}

/** Pixels of several states as a piece: all that a row has of them. */
export function cellPiece(cells: Cells, pixels: number, { height }: Row): Piece {
  return { x0: 0, x1: pixels, y: 0, h: height, fill: null, part: { cells, first: 0, last: pixels } };
}

/** The pixels of a piece, and where they lie. */
export function rangeOf({ x0, x1, part }: Piece): CellRange | null {
  return part && x1 > x0 && part.last > part.first ? { x0, x1, ...part } : null;
}

/** A piece cut to a part of it. */
export function trimmed(piece: Piece, x0: number, x1: number): Piece {
  const range = rangeOf(piece);
  return range ? { ...piece, x0, x1, part: cut(range, x0, x1) } : { ...piece, x0, x1 };
}

/** Dots where most of a pixel is not known; pixels side by side are one piece. `y` and `h` of it. */
export function dotted(row: Row, list: Uint32Array, pixels: ArrayLike<number>, unknown: ArrayLike<number>, [y, h]: readonly [number, number]): void {
  let last = null as Piece | null;
  for (const i of list) {
    if (!((unknown[i] ?? 0) > 0.5)) continue;
    const x0 = pixels[i] ?? 0;
    if (last?.x1 === x0) {
      last.x1 = x0 + 1;
      continue;
    }
    last = { x0, x1: x0 + 1, y, h, fill: null, look: 'dots' };
    row.pieces.push(last);
  }
}

/** The piece under a place of a row, the one drawn last first. */
export function pieceAt(row: Row, x: number, y: number): Piece | null {
  for (let i = row.pieces.length - 1; i >= 0; i--) {
    const piece = row.pieces[i];
    if (piece?.tip && x >= piece.x0 && x < piece.x1 && y >= piece.y - 2 && y < piece.y + Math.max(piece.h, 5) + 2) return piece;
  }
  return null;
}
