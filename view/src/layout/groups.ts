// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads of one process are a group: a head above them, which folds. A folded group is one row of shares: of its threads
// together, stacked as those of one thread. Pure.

import { grouped } from '../common/time.js';
import type { Answer } from '../query/columns.js';
import { eachShare, sharesOf } from '../query/shares.js';
import { BASELINE, type Row, STACKED, STATES, THREAD_ROW, TOP, frame, named } from './layout.js';
import { stack } from './threads.js';

export const GROUP_ROW = 20;

/** Whose a thread is. */
export interface Member {
  process: number | null;
  name: string | null;
  /** Threads of that process in the window, with those that have no row. */
  of: number;
}

/** A group, or a thread by itself (`process` is null): in the order of rows. */
export interface Group {
  process: number | null;
  tids: number[];
}

/** Threads of one process stand together, where the first of them would stand. One alone is no group. */
export function groupsOf(tids: readonly number[], members: ReadonlyMap<number, Member>): Group[] {
  const groups: Group[] = [];
  const known = new Map<number, Group>();
  for (const tid of tids) {
    const member = members.get(tid);
    const process = member && member.of > 1 ? member.process : null;
    const there = process === null ? undefined : known.get(process);
    if (there) there.tids.push(tid);
    else groups.push({ process, tids: [tid] });
    const made = groups.at(-1);
    if (process !== null && !there && made) known.set(process, made);
  }
  return groups;
}

/** The processes that the address says are folded. */
export function foldedOf(text: string): Set<number> {
  return new Set(text.split(',').filter(Boolean).map(Number).filter(Number.isInteger));
}

/** The same with one more, or one less. */
export function toggled(text: string, process: number): string {
  const all = foldedOf(text);
  if (!all.delete(process)) all.add(process);
  return [...all].join(',');
}

/** The head of a group. Folded it has the shares of its threads, from an answer to `states`. */
export function groupRow(group: Group, members: ReadonlyMap<number, Member>, folded: { answer: Answer; pixels: number } | null): Row {
  const { process, tids } = group;
  const member = members.get(tids[0] ?? -1);
  const all = Math.max(member?.of ?? 0, tids.length);
  const detail = all > tids.length ? `${tids.length} of ${grouped(all)} threads` : `${tids.length} threads`;
  const row: Row = { key: `group${process}`, title: named(member?.name ?? null, process), detail, tid: null, height: folded ? THREAD_ROW : GROUP_ROW, pieces: [], late: [] };
  if (folded) shares(row, folded.answer, folded.pixels, new Set(tids));
  return row;
}

/** What all of them did, pixel by pixel. Neighbours that look the same are one piece. */
function shares(row: Row, answer: Answer, pixels: number, tids: ReadonlySet<number>): void {
  const sums = STATES.map(() => new Float32Array(pixels));
  addSpans(answer, pixels, tids, sums);
  addMixed(answer, pixels, tids, sums);
  const absent = STATES.indexOf('absent');
  const numbers = STACKED.map((state) => STATES.indexOf(state));
  // A pixel's heights as a text: with it a piece ends where something changes.
  const look = (x: number): number[] => {
    const there = Math.max(1, tids.size - Math.round(sums[absent]?.[x] ?? 0));
    return [...numbers.map((number) => (sums[number]?.[x] ?? 0) / there), (sums[0]?.[x] ?? 0) / there];
  };
  let [from, last] = [0, look(0)];
  for (let x = 1; x <= pixels; x++) {
    const now = x < pixels ? look(x) : null;
    if (now && now.every((share, at) => Math.abs(share - (last[at] ?? 0)) < 0.005)) continue;
    put(row, from, x, last);
    if (now) [from, last] = [x, now];
  }
}

function put(row: Row, x0: number, x1: number, all: readonly number[]): void {
  stack(row, x0, x1, all);
  if ((all[STACKED.length] ?? 0) > 0.5) row.pieces.push({ x0, x1, y: TOP, h: BASELINE - TOP, fill: null, look: 'dots' });
}

/** Pixels that lie within one stretch as a whole; the others are in `mixed`. */
function addSpans(answer: Answer, pixels: number, tids: ReadonlySet<number>, sums: readonly Float32Array[]): void {
  const spans = answer.table('spans');
  const [begin, end] = frame(answer);
  const from = BigInt(begin);
  const perNs = pixels / Math.max(1, end - begin);
  const [begins, ends] = [spans.offsets('from', from), spans.offsets('to', from)];
  for (let i = 0; i < spans.rows; i++) {
    const sum = sums[spans.number('state', i) ?? 0];
    if (!sum || !tids.has(spans.number('tid', i) ?? -1)) continue;
    // The edges of pixels are whole ns, rounded down: half a pixel is far more than that.
    const first = Math.max(0, Math.ceil((begins[i] ?? 0) * perNs - 1e-6));
    const last = Math.min(pixels, Math.floor((ends[i] ?? 0) * perNs + 1e-6));
    for (let x = first; x < last; x++) sum[x] = (sum[x] ?? 0) + 1;
  }
}

function addMixed(answer: Answer, pixels: number, tids: ReadonlySet<number>, sums: readonly Float32Array[]): void {
  const mixed = answer.table('mixed');
  const [places, tidOf, shares] = [mixed.numbers('pixel'), mixed.numbers('tid'), sharesOf(answer)];
  for (let i = 0; i < mixed.rows; i++) {
    const x = places[i] ?? 0;
    if (x >= pixels || !tids.has(tidOf[i] ?? -1)) continue;
    eachShare(shares, i, (state, share) => {
      const sum = sums[state];
      if (sum) sum[x] = (sum[x] ?? 0) + share;
    });
  }
}
