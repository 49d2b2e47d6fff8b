// SPDX-License-Identifier: MIT OR Apache-2.0
// From the steps of a critical path to a line over the rows of threads. Pure.

import type { Answer } from '../query/columns.js';

/** A step of a critical path. Times are ns after the trace's first record. */
export interface PathStep {
  from: bigint;
  to: bigint;
  tid: number;
}

/** A straight part of the line. */
export interface PathLine {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
  /** Between two threads of which one has no row, or steps that are left out lie: where it goes is not shown. */
  isBroken: boolean;
}

/** The number of a step, as in the panel. */
export interface PathMark {
  x: number;
  y: number;
  number: number;
}

export interface PathPicture {
  lines: PathLine[];
  marks: PathMark[];
}

/** Circles of numbers are at least so far apart, pixels. */
const MARKS_APART = 20;

/** The steps of an answer to `critical`. */
export function steps(answer: Answer): PathStep[] {
  const of = answer.table('steps');
  return Array.from({ length: of.rows }, (_, row) => ({ from: of.big('from', row) ?? 0n, to: of.big('to', row) ?? 0n, tid: of.number('tid', row) ?? 0 }));
}

/**
 * The line: along the row of each thread while it is on the path, and from row to row where the path changes over. `y`: where
 * the row of a thread is; null: it has none.
 */
export function pathPicture(path: readonly PathStep[], x: (at: bigint) => number, y: (tid: number) => number | null, width: number): PathPicture {
  const picture: PathPicture = { lines: [], marks: [] };
  let before: { to: bigint; y: number; isNext: boolean } | null = null;
  let mark: PathMark | null = null;
  path.forEach((step, at) => {
    const row = y(step.tid);
    if (row === null) {
      if (before) before.isNext = false;
      return;
    }
    const [x0, x1] = [x(step.from), x(step.to)];
    const isInside = x1 >= 0 && x0 <= width;
    if (before) jump(picture, before, step, row, x, width);
    if (isInside) {
      picture.lines.push({ x0: Math.max(0, x0), y0: row, x1: Math.min(width, Math.max(x1, x0 + 1)), y1: row, isBroken: false });
      const place = { x: Math.max(8, x0), y: row, number: at + 1 };
      if (!mark || Math.abs(place.x - mark.x) >= MARKS_APART || Math.abs(place.y - mark.y) >= MARKS_APART) {
        picture.marks.push(place);
        mark = place;
      }
    }
    before = { to: step.to, y: row, isNext: true };
  });
  return picture;
}

function jump(picture: PathPicture, before: { to: bigint; y: number; isNext: boolean }, step: PathStep, row: number, x: (at: bigint) => number, width: number): void {
  const [x0, x1] = [x(before.to), x(step.from)];
  if (Math.max(x0, x1) < 0 || Math.min(x0, x1) > width) return;
  const isBroken = !before.isNext || before.to !== step.from;
  if (isBroken || before.y !== row) picture.lines.push({ x0: Math.max(0, x0), y0: before.y, x1: Math.min(width, x1), y1: row, isBroken });
}
