// SPDX-License-Identifier: MIT OR Apache-2.0
// From the frames of a flame graph to boxes, and what the address says of spans. Pure.

import type { Answer } from '../query/columns.js';

/** Narrower frames are not drawn, share of the width. */
const LEAST = 0.0005;

/** A frame, from left to right in shares of the width. */
export interface FlameBox {
  row: number;
  left: number;
  width: number;
  depth: number;
}

/** Where frames lie: the widest first, within what they lie in. */
export function flameBoxes(answer: Answer): { boxes: FlameBox[]; total: number } {
  const of = answer.table('frames');
  const totals = of.offsets('total_ns');
  const within = new Map<number, number[]>();
  for (let row = 0; row < of.rows; row++) {
    const parent = of.number('parent', row) ?? -1;
    within.set(parent, [...(within.get(parent) ?? []), row]);
  }
  const total = (within.get(-1) ?? []).reduce((sum, row) => sum + (totals[row] ?? 0), 0);
  const boxes: FlameBox[] = [];
  // Spans of one thread may overlap each other: what lies within is never wider than what it lies in.
  const place = (parent: number, left: number, width: number, depth: number): void => {
    const own = [...(within.get(parent) ?? [])].sort((a, b) => (totals[b] ?? 0) - (totals[a] ?? 0));
    const sum = own.reduce((sum, row) => sum + (totals[row] ?? 0), 0);
    const all = Math.max(sum, parent < 0 ? total : (totals[parent] ?? 0), 1);
    let at = left;
    for (const row of own) {
      const share = ((totals[row] ?? 0) / all) * width;
      if (share >= LEAST) {
        boxes.push({ row, left: at, width: share, depth });
        place(row, at, share, depth + 1);
      }
      at += share;
    }
  };
  place(-1, 0, 1, 0);
  return { boxes, total };
}

/** The spans that the address chooses. */
export function spansOf(text: string): string[] {
  return text.split('|').filter(Boolean);
}

/** Whether a pair of events is paired by something else than the thread. */
export function hasKey(span: string): boolean {
  const by = /by=(.*)$/.exec(span)?.[1]?.trim();
  return by !== undefined && by !== '$tid';
}
