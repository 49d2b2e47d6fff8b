// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows of threads: what they did and why, and system calls below. Pure.

import type { ColourName } from '../common/palette.js';
import { STEP_ROWS, type Steps, finished } from '../common/steps.js';
import type { Answer, Table } from '../query/columns.js';
import { shareColumns, sharesOf } from '../query/shares.js';
import { type Stack, rowsBy } from './cells.js';
import { BASELINE, type Piece, type Row, STACKED, STATES, STATE_LOOKS, type State, THREAD_ROW, TOP, type Window, cellPiece, doubtfulPixels, doubts, dotted, holes, named, window } from './layout.js';
import { Losses, within } from './losses.js';

/** Rows of threads, from an answer to `states`. `detail` says what stands behind a name. */
export function threadRows(answer: Answer, pixels: number, detail: (tid: number) => string): Row[] {
  return finished(threadSteps(answer, pixels, detail));
}

/** The same, little by little. */
export function* threadSteps(answer: Answer, pixels: number, detail: (tid: number) => string): Steps<Row[]> {
  const rows = new Map<number, Row>();
  const all = answer.table('rows');
  for (let i = 0; i < all.rows; i++) {
    const tid = all.number('tid', i) ?? 0;
    rows.set(tid, { key: `tid${tid}`, title: named(all.text('name', i), tid), detail: detail(tid), tid, height: THREAD_ROW, pieces: [], late: [] });
  }
  const at = window(answer, pixels);
  yield* stateMixed(answer, rows, pixels);
  yield* doubtfulPixels(answer, 'mixed', (i) => rows.get(answer.table('mixed').number('tid', i) ?? -1), at, [TOP, 18]);
  yield* stateSpans(answer, rows, at);
  yield* calls(answer, rows, at, pixels);
  const late = answer.table('late');
  const begins = late.offsets('from', at.from);
  for (let i = 0; i < late.rows; i++) rows.get(late.number('tid', i) ?? -1)?.late.push(at.scale.x(begins[i] ?? 0));
  return [...rows.values()];
}

function* stateSpans(answer: Answer, rows: Map<number, Row>, { from, scale }: Window): Steps<void> {
  const [spans, losses] = [answer.table('spans'), new Losses(answer)];
  const [begins, ends] = [spans.offsets('from', from), spans.offsets('to', from)];
  for (let i = 0; i < spans.rows; i++) {
    if (i % STEP_ROWS === 0) yield;
    const tid = spans.number('tid', i) ?? -1;
    const state = STATES[spans.number('state', i) ?? 0] ?? 'unknown';
    const row = rows.get(tid);
    if (!row || state === 'absent') continue;
    const [begin = 0, end = 0, look] = [begins[i], ends[i], STATE_LOOKS[state]];
    const doubt = doubts(answer, spans.number('doubt', i) ?? 0);
    const why = because(spans, i, state);
    const text = `${row.title}: ${look.says}${why && ` ${why}`}${doubt && `, doubtful: ${doubt}`}`;
    const piece: Piece = { x0: scale.x(begin), x1: scale.x(end), y: BASELINE - look.h, h: look.h, fill: look.fill, ink: look.ink, tip: { text, from: begin, to: end, tid } };
    if (look.look) piece.look = look.look;
    const label = state === 'running' ? cpuOf(spans, i) : why;
    if (label) piece.label = label;
    row.pieces.push(piece);
    if (doubt) row.pieces.push({ x0: piece.x0, x1: piece.x1, y: TOP, h: 18, fill: null, look: 'hatch' });
    const cpu = spans.number('cpu', i);
    // It ran there when they were lost: whether it went on is not known.
    if (state === 'running' && cpu !== null) holes(row, within(losses.ofCpu(cpu), begin, end), { from, scale }, `on CPU ${cpu}, where it ran: what it did is not known`);
  }
}

function cpuOf(spans: Table, i: number): string {
  const cpu = spans.number('cpu', i);
  return cpu === null ? '' : `CPU ${cpu}`;
}

function because(spans: Table, i: number, state: State): string {
  const by = spans.number('by', i);
  const name = spans.text('by_name', i);
  const who = by === null ? (name ?? '') : named(name, by);
  const call = spans.text('call', i);
  switch (state) {
    case 'running':
      return cpuOf(spans, i) && `on ${cpuOf(spans, i)}`;
    case 'preempted':
      return who && `by ${who}`;
    case 'woken':
      return who && `by ${who}`;
    case 'gave_way':
      return who && `to ${who}`;
    case 'lock':
    case 'waiting':
    case 'uninterruptible':
    case 'page_fault':
    case 'sleeping':
      return call ? `in ${call}` : '';
    default:
      return '';
  }
}

/** What a state looks like among others in a pixel. */
function stackFill(state: State): ColourName | null {
  return state === 'woken' ? 'wok' : STATE_LOOKS[state].fill;
}

/** Shares of states, in the order of `STACKED`, from the baseline up. */
export function stack(row: Row, x0: number, x1: number, shares: readonly number[]): void {
  let sum = 0;
  STACKED.forEach((state, number) => {
    const share = shares[number] ?? 0;
    const [bottom, top] = [Math.round(sum * 18), Math.round((sum + share) * 18)];
    sum += share;
    if (top > bottom) row.pieces.push({ x0, x1, y: BASELINE - top, h: top - bottom, fill: stackFill(state) });
  });
}

function* stateMixed(answer: Answer, rows: Map<number, Row>, pixels: number): Steps<void> {
  const mixed = answer.table('mixed');
  const places = mixed.numbers('pixel');
  const columns = yield* shareColumns(sharesOf(answer));
  const layers = STACKED.flatMap((state) => {
    const shares = columns.get(STATES.indexOf(state));
    return shares ? [{ shares, fill: stackFill(state) ?? 'ink3' }] : [];
  });
  const stack: Stack = { y: BASELINE, h: 18, isHanging: false, least: 0, layers };
  const unknown = columns.get(STATES.indexOf('unknown')) ?? [];
  for (const [tid, list] of rowsBy(mixed.numbers('tid'), places)) {
    const row = rows.get(tid);
    if (!row) continue;
    row.pieces.push(cellPiece({ rows: list, pixels: places, stacks: [stack] }, pixels, row));
    dotted(row, list, places, unknown, [TOP, 18]);
  }
  yield;
}

function* calls(answer: Answer, rows: Map<number, Row>, { from, scale }: Window, pixels: number): Steps<void> {
  const mixed = answer.table('calls_mixed');
  const places = mixed.numbers('pixel');
  const stack: Stack = { y: BASELINE + 11, h: 10, isHanging: false, least: 1, layers: [{ shares: mixed.numbers('share'), fill: 'sys' }] };
  for (const [tid, list] of rowsBy(mixed.numbers('tid'), places)) {
    const row = rows.get(tid);
    row?.pieces.push(cellPiece({ rows: list, pixels: places, stacks: [stack] }, pixels, row));
  }
  const table = answer.table('calls');
  const [begins, ends] = [table.offsets('from', from), table.offsets('to', from)];
  for (let i = 0; i < table.rows; i++) {
    if (i % STEP_ROWS === 0) yield;
    const tid = table.number('tid', i) ?? -1;
    const row = rows.get(tid);
    if (!row) continue;
    const [begin = 0, end = 0, name = '?'] = [begins[i], ends[i], table.text('name', i) ?? '?'];
    const value = table.big('value', i);
    const text = `${row.title}: system call ${name}${value === null ? '' : ` returned ${value}`}`;
    const doubt = doubts(answer, table.number('doubt', i) ?? 0);
    const box = { x0: scale.x(begin), x1: scale.x(end), y: BASELINE + 1, h: 10 };
    row.pieces.push({ ...box, fill: 'sys', label: name, ink: 'sysink', tip: { text: `${text}${doubt && `, doubtful: ${doubt}`}`, from: begin, to: end, tid } });
    if (doubt) row.pieces.push({ ...box, fill: null, look: 'hatch' });
  }
}
