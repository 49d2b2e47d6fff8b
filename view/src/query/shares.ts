// SPDX-License-Identifier: MIT OR Apache-2.0
// Shares of pixels in which a thread did several things: an answer has those only that there are [spec/view.md 4.6]. Pure.

import { STEP_ROWS, type Steps } from '../common/steps.js';
import type { Answer, Table } from './columns.js';

/** The shares of an answer to `states`, as they came. */
export interface Shares {
  /** Of each row of `mixed`: its states, a bit each; and where the first of its shares is. */
  states: ArrayLike<number>;
  firsts: Uint32Array;
  values: ArrayLike<number>;
}

function countOf(bits: number): number {
  let count = 0;
  for (; bits; bits &= bits - 1) count++;
  return count;
}

export function sharesOf(answer: Answer): Shares {
  const states = answer.table('mixed').numbers('states');
  const firsts = new Uint32Array(states.length);
  for (let row = 1; row < states.length; row++) firsts[row] = (firsts[row - 1] ?? 0) + countOf(states[row - 1] ?? 0);
  return { states, firsts, values: answer.table('shares').numbers('share') };
}

/** The shares of one pixel. */
export function eachShare({ states, firsts, values }: Shares, row: number, take: (state: number, share: number) => void): void {
  let at = firsts[row] ?? 0;
  for (let bits = states[row] ?? 0; bits; bits &= bits - 1) take(31 - Math.clz32(bits & -bits), values[at++] ?? 0);
}

/** As columns by state, for states of which any pixel has a share. */
export function* shareColumns(shares: Shares): Steps<Map<number, Float32Array>> {
  const rows = shares.states.length;
  const columns = new Map<number, Float32Array>();
  for (let row = 0; row < rows; row++) {
    if (row % (8 * STEP_ROWS) === 0) yield;
    eachShare(shares, row, (state, share) => {
      let column = columns.get(state);
      if (!column) columns.set(state, (column = new Float32Array(rows)));
      column[row] = share;
    });
  }
  return columns;
}

/** The shares of some rows of `mixed`, in that order. */
export function pickShares(answer: Answer, rows: readonly number[]): Table {
  const { states, firsts } = sharesOf(answer);
  return answer.table('shares').pick(rows.flatMap((row) => Array.from({ length: countOf(states[row] ?? 0) }, (_, at) => (firsts[row] ?? 0) + at)));
}
