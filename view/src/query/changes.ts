// SPDX-License-Identifier: MIT OR Apache-2.0
// Where a thread begins to do something else: the next or the previous change of its state. Windows are asked for that
// grow until there is one, then single pixels of them, until the time is exact.

import type { Answer } from './columns.js';

export type Direction = 'next' | 'previous';

/** A part of time. */
export interface Stretch {
  from: bigint;
  to: bigint;
}

const PIXELS = 1000;
/** Questions for one change at most. */
const TRIES = 40;

/**
 * The change that is nearest to `at` on that side, of an answer to `states` for one thread; the pixel that has it, where
 * several states lie in one; null where there is none.
 */
export function changeIn(answer: Answer, pixels: number, at: bigint, direction: Direction): bigint | Stretch | null {
  const isNext = direction === 'next';
  const isBeyond = (time: bigint): boolean => (isNext ? time > at : time < at);
  const times: (bigint | null)[] = [];
  const spans = answer.table('spans');
  for (let i = 0; i < spans.rows; i++) {
    times.push(spans.big('from', i));
    if (!spans.number('open', i)) times.push(spans.big('to', i));
  }
  const [from, length] = [BigInt(answer.head.from), BigInt(answer.head.to) - BigInt(answer.head.from)];
  const edge = (pixel: number): bigint => from + (BigInt(pixel) * length) / BigInt(pixels);
  let mixed: Stretch | null = null;
  const table = answer.table('mixed');
  for (let i = 0; i < table.rows; i++) {
    const pixel = table.number('pixel', i) ?? 0;
    const [begin, end] = [edge(pixel), edge(pixel + 1)];
    if (end - begin <= 1n) times.push(begin);
    else if (isNext && end > at + 1n && (mixed === null || begin < mixed.from)) mixed = { from: begin > at ? begin : at, to: end };
    else if (!isNext && begin < at && (mixed === null || end > mixed.to)) mixed = { from: begin, to: end < at ? end : at };
  }
  const exact = times.reduce((best, time) => {
    if (time === null || !isBeyond(time)) return best;
    return best === null || (isNext ? time < best : time > best) ? time : best;
  }, null);
  if (mixed === null) return exact;
  const isFirst = exact === null || (isNext ? mixed.from <= exact : mixed.to >= exact);
  return isFirst ? mixed : exact;
}

/**
 * Finds it. `ask`: the states of the thread in a window; null: nobody wants the answer any more. `length`: of the first
 * window. Null where there is no change up to the end of `whole`; undefined where nobody wants to know.
 */
export async function findChange(
  ask: (window: Stretch, pixels: number) => Promise<Answer | null>,
  whole: Stretch,
  at: bigint,
  direction: Direction,
  length: bigint,
): Promise<bigint | null | undefined> {
  const isNext = direction === 'next';
  let window: Stretch = isNext ? { from: at, to: at + length } : { from: at - length, to: at };
  for (let tries = 0; tries < TRIES; tries++) {
    const from = window.from > whole.from ? window.from : whole.from;
    const to = window.to < whole.to ? window.to : whole.to;
    if (from >= to) return null;
    const answer = await ask({ from, to }, PIXELS);
    if (!answer) return undefined;
    // A saved answer has as many pixels as it was saved with.
    const found = changeIn(answer, Number(answer.head.info['pixels'] ?? PIXELS), at, direction);
    if (typeof found === 'bigint') return found;
    if (found) {
      // A saved page knows no better.
      if (found.to - found.from >= to - from) return isNext && found.from <= at ? found.to : found.from;
      window = found;
      continue;
    }
    length *= 4n;
    window = isNext ? { from: to, to: to + length } : { from: from - length, to: from };
  }
  return null;
}
