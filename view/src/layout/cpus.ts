// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows of CPUs: who ran, interrupts below, idle states and the frequency where they are recorded. Pure.

import { identity } from '../common/palette.js';
import { STEP_ROWS, type Steps, finished } from '../common/steps.js';
import type { Answer, Table } from '../query/columns.js';
import { type Stack, rowsBy } from './cells.js';
import { CPU_ROW, FREQUENCY_BAND, REAL_TIME, type Row, type Window, cellPiece, dotted, doubtfulPixels, doubts, holes, kind, named, window } from './layout.js';
import { Losses } from './losses.js';

/** Rows of CPUs, from an answer to `cpus`. */
export function cpuRows(answer: Answer, pixels: number): Row[] {
  return finished(cpuSteps(answer, pixels));
}

/** The same, little by little. */
export function* cpuSteps(answer: Answer, pixels: number): Steps<Row[]> {
  const rows = new Map<number, Row>();
  const all = answer.table('rows');
  for (let i = 0; i < all.rows; i++) {
    const cpu = all.number('cpu', i) ?? 0;
    const busy = (all.number('thread_ns', i) ?? 0) / Math.max(1, answer.head.to - answer.head.from);
    const detail = `${(busy * 100).toFixed(busy < 0.1 ? 1 : 0)} %`;
    rows.set(cpu, { key: `cpu${cpu}`, title: `CPU ${cpu}`, detail, tid: null, height: CPU_ROW, pieces: [], late: [] });
  }
  const at = window(answer, pixels);
  idleStates(answer.table('idle'), rows, at);
  frequencies(answer.table('frequency'), rows, at);
  cpuMixed(answer.table('mixed'), rows, pixels);
  yield;
  yield* doubtfulPixels(answer, 'mixed', (i) => rows.get(answer.table('mixed').number('cpu', i) ?? -1), at, [2, 16]);
  yield* cpuSpans(answer, answer.table('spans'), rows, at);
  interruptsMixed(answer.table('interrupts_mixed'), rows, pixels);
  yield* interrupts(answer, answer.table('interrupts'), rows, at);
  const losses = new Losses(answer);
  for (const [cpu, row] of rows) holes(row, losses.ofCpu(cpu), at, 'what happened here is not known');
  return [...rows.values()];
}

/** A value of a CPU, as long as it holds; null where it has none. */
interface Held {
  row: Row;
  from: number;
  to: number;
  value: number | null;
}

/** From changes to stretches: each holds until the next one of its CPU, the last until the end of the window. */
function held(table: Table, column: string, rows: Map<number, Row>, { from, scale }: Window): Held[] {
  const [ats, last] = [table.offsets('at', from), new Map<Row, Held>()];
  const end = scale.offset(scale.pixels);
  const out: Held[] = [];
  for (let i = 0; i < table.rows; i++) {
    const [row, at = 0] = [rows.get(table.number('cpu', i) ?? -1), ats[i]];
    if (!row) continue;
    const before = last.get(row);
    if (before) before.to = at;
    const one = { row, from: at, to: end, value: table.number(column, i) };
    last.set(row, one);
    out.push(one);
  }
  return out;
}

/** Which of the processor's idle states it is in: a line below, with its number. Drawn first: what ran lies over it. */
function idleStates(table: Table, rows: Map<number, Row>, at: Window): void {
  for (const { row, from, to, value } of held(table, 'state', rows, at)) {
    const [x0, x1] = [at.scale.x(from), at.scale.x(to)];
    if (value === null || x1 - x0 < 1) continue;
    const says = `idle state ${value}`;
    row.pieces.push({ x0, x1, y: 17, h: 1, fill: 'sleep', label: says, ink: 'ink2', tip: { text: `${row.title}: ${says}`, from, to, tid: null } });
  }
}

/** A band below the interrupts, as high as the frequency is beside the highest of all CPUs in the window. */
function frequencies(table: Table, rows: Map<number, Row>, at: Window): void {
  const all = held(table, 'khz', rows, at);
  const highest = all.reduce((most, { value }) => Math.max(most, value ?? 0), 1);
  for (const { row, from, to, value } of all) {
    if (value === null) continue;
    row.height = CPU_ROW + FREQUENCY_BAND;
    const [h, says] = [Math.max(1, Math.round((value / highest) * (FREQUENCY_BAND - 1))), frequency(value)];
    row.pieces.push({ x0: at.scale.x(from), x1: at.scale.x(to), y: CPU_ROW + FREQUENCY_BAND - 1 - h, h, fill: 'bar', label: says, ink: 'ink', tip: { text: `${row.title}: ${says}`, from, to, tid: null } });
  }
}

function frequency(khz: number): string {
  return khz >= 1_000_000 ? `${(khz / 1_000_000).toFixed(2)} GHz` : `${Math.round(khz / 1000)} MHz`;
}

function* cpuSpans(answer: Answer, spans: Table, rows: Map<number, Row>, { from, scale }: Window): Steps<void> {
  const [begins, ends] = [spans.offsets('from', from), spans.offsets('to', from)];
  for (let i = 0; i < spans.rows; i++) {
    if (i % STEP_ROWS === 0) yield;
    const row = rows.get(spans.number('cpu', i) ?? -1);
    const [begin = 0, end = 0, state] = [begins[i], ends[i], spans.number('state', i)];
    if (!row || state === 1) continue;
    const [x0, x1] = [scale.x(begin), scale.x(end)];
    const doubt = doubts(answer, spans.number('doubt', i) ?? 0);
    if (state === 0) {
      row.pieces.push({ x0, x1, y: 2, h: 16, fill: null, look: 'dots', tip: { text: `${row.title}: not known`, from: begin, to: end, tid: null } });
      continue;
    }
    const [tid, name, prio] = [spans.number('tid', i), spans.text('name', i), spans.number('prio', i)];
    const text = `${row.title}: ${named(name, tid)}${prio !== null && prio < REAL_TIME ? ` rt ${99 - prio}` : ''}${doubt && `, doubtful: ${doubt}`}`;
    const isRealTime = prio !== null && prio < REAL_TIME;
    row.pieces.push({ x0, x1, y: 2, h: 16, fill: null, name: kind(name ?? '?'), isRealTime, label: named(name, tid), ink: 'ink', tip: { text, from: begin, to: end, tid } });
    if (doubt) row.pieces.push({ x0, x1, y: 2, h: 16, fill: null, look: 'hatch' });
  }
}

function cpuMixed(mixed: Table, rows: Map<number, Row>, pixels: number): void {
  const places = mixed.numbers('pixel');
  const names = new Map<string | null, number>();
  const fill = new Uint8Array(mixed.rows);
  for (let i = 0; i < mixed.rows; i++) {
    const name = mixed.text('name', i);
    const known = names.get(name) ?? identity(kind(name ?? '?'));
    names.set(name, known);
    fill[i] = known;
  }
  const stack: Stack = { y: 18, h: 16, isHanging: false, least: 0, layers: [{ shares: mixed.numbers('thread'), fill }] };
  for (const [cpu, list] of rowsBy(mixed.numbers('cpu'), places)) {
    const row = rows.get(cpu);
    if (!row) continue;
    row.pieces.push(cellPiece({ rows: list, pixels: places, stacks: [stack] }, pixels, row));
    dotted(row, list, places, mixed.numbers('unknown'), [2, 16]);
  }
}

const INTERRUPT_KINDS = ['interrupt', 'softirq', 'timer call'];

function* interrupts(answer: Answer, table: Table, rows: Map<number, Row>, { from, scale }: Window): Steps<void> {
  const [begins, ends] = [table.offsets('from', from), table.offsets('to', from)];
  for (let i = 0; i < table.rows; i++) {
    if (i % STEP_ROWS === 0) yield;
    const row = rows.get(table.number('cpu', i) ?? -1);
    if (!row) continue;
    const [begin = 0, end = 0, which = 0] = [begins[i], ends[i], table.number('kind', i) ?? 0];
    const doubt = doubts(answer, table.number('doubt', i) ?? 0);
    const text = `${row.title}: ${INTERRUPT_KINDS[which] ?? 'interrupt'} ${table.text('name', i) ?? ''}${doubt && `, doubtful: ${doubt}`}`;
    const isHard = which === 0;
    const box = { x0: scale.x(begin), x1: scale.x(end), y: isHard ? 18 : 24, h: isHard ? 6 : 4 };
    row.pieces.push({ ...box, fill: isHard ? 'irq' : 'soft', tip: { text, from: begin, to: end, tid: null } });
    if (doubt) row.pieces.push({ ...box, fill: null, look: 'hatch' });
  }
}

function interruptsMixed(table: Table, rows: Map<number, Row>, pixels: number): void {
  const places = table.numbers('pixel');
  const below = (y: number, h: number, shares: string, fill: 'irq' | 'soft'): Stack => ({ y, h, isHanging: true, least: 1, layers: [{ shares: table.numbers(shares), fill }] });
  const stacks = [below(18, 6, 'irq', 'irq'), below(24, 4, 'softirq', 'soft')];
  for (const [cpu, list] of rowsBy(table.numbers('cpu'), places)) {
    const row = rows.get(cpu);
    row?.pieces.push(cellPiece({ rows: list, pixels: places, stacks }, pixels, row));
  }
}
