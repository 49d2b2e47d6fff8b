// SPDX-License-Identifier: MIT OR Apache-2.0
// From columns to pieces of a picture. Pure. Pieces lie on a row, in pixels of the answer's window, so that a picture can
// be drawn moved and scaled until the next answer is there.

import type { Answer, Table } from './columns.js';
import { type Holes, Losses, countOf, within } from './losses.js';
import type { ColourName } from './palette.js';

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
  height: number;
  pieces: Piece[];
  /** Waits that are longer than their limit: pixel of the answer. */
  late: number[];
}

/** Names of the states of threads, by number [spec/view.md 4.6]. */
export const STATES = [
  'unknown', 'running', 'preempted', 'woken', 'gave_way', 'lock', 'uninterruptible', 'waiting', 'sleeping', 'stopped', 'absent',
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
  uninterruptible: { h: 5, fill: 'io', ink: 'ink', says: 'blocked in the kernel: disk, page fault or kernel lock' },
  waiting: { h: 5, fill: 'wait', ink: 'ink', says: 'waits' },
  sleeping: { h: 1, fill: 'sleep', ink: 'ink2', says: 'sleeps' },
  stopped: { h: 5, fill: 'thr', ink: 'ink', look: 'stripes', says: 'stopped' },
  absent: { h: 0, fill: null, ink: 'ink2', says: 'does not exist' },
};

/** From the baseline up. */
const STACKED: readonly State[] = ['running', 'preempted', 'woken', 'gave_way', 'stopped', 'lock', 'uninterruptible', 'waiting'];

export const CPU_ROW = 29;
export const THREAD_ROW = 34;
export const SPAN_LEVEL = 15;
const BASELINE = 20;
const TOP = BASELINE - 18;
const REAL_TIME = 100;

/** From ns after `from` to pixels of the answer. */
class Scale {
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

function named(name: string | null, tid: number | null): string {
  return name ? `${name}[${tid ?? '?'}]` : tid === 0 ? 'idle' : `[${tid ?? '?'}]`;
}

/** The bits of `doubt` as words. */
export function doubts(answer: Answer, bits: number): string {
  const names = answer.head.info['doubts'];
  if (!Array.isArray(names) || !bits) return '';
  return names.filter((_, bit) => bits & (1 << bit)).join(', ');
}

interface Window {
  from: bigint;
  scale: Scale;
}

function window(answer: Answer, pixels: number): Window {
  return { from: BigInt(answer.head.from), scale: new Scale(answer.head.to - answer.head.from, pixels) };
}

/** Rows of CPUs, from an answer to `cpus`. */
export function cpuRows(answer: Answer, pixels: number): Row[] {
  const rows = new Map<number, Row>();
  const all = answer.table('rows');
  for (let i = 0; i < all.rows; i++) {
    const cpu = all.number('cpu', i) ?? 0;
    const busy = (all.number('thread_ns', i) ?? 0) / Math.max(1, answer.head.to - answer.head.from);
    const detail = `${(busy * 100).toFixed(busy < 0.1 ? 1 : 0)} %`;
    rows.set(cpu, { key: `cpu${cpu}`, title: `CPU ${cpu}`, detail, tid: null, height: CPU_ROW, pieces: [], late: [] });
  }
  const at = window(answer, pixels);
  cpuMixed(answer.table('mixed'), rows);
  doubtfulPixels(answer, 'mixed', (i) => rows.get(answer.table('mixed').number('cpu', i) ?? -1), at, [2, 16]);
  cpuSpans(answer, answer.table('spans'), rows, at);
  interrupts(answer, answer.table('interrupts'), rows, at);
  interruptsMixed(answer.table('interrupts_mixed'), rows);
  const losses = new Losses(answer);
  for (const [cpu, row] of rows) holes(row, losses.ofCpu(cpu), at, 'what happened here is not known');
  return [...rows.values()];
}

function cpuSpans(answer: Answer, spans: Table, rows: Map<number, Row>, { from, scale }: Window): void {
  const [begins, ends] = [spans.offsets('from', from), spans.offsets('to', from)];
  for (let i = 0; i < spans.rows; i++) {
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

function cpuMixed(mixed: Table, rows: Map<number, Row>): void {
  const [pixels, threads, unknown] = [mixed.numbers('pixel'), mixed.numbers('thread'), mixed.numbers('unknown')];
  for (let i = 0; i < mixed.rows; i++) {
    const row = rows.get(mixed.number('cpu', i) ?? -1);
    if (!row) continue;
    const x0 = pixels[i] ?? 0;
    const h = Math.round((threads[i] ?? 0) * 16);
    if (h > 0) row.pieces.push({ x0, x1: x0 + 1, y: 18 - h, h, fill: null, name: kind(mixed.text('name', i) ?? '?') });
    if ((unknown[i] ?? 0) > 0.5) row.pieces.push({ x0, x1: x0 + 1, y: 2, h: 16, fill: null, look: 'dots' });
  }
}

const INTERRUPT_KINDS = ['interrupt', 'softirq', 'timer call'];

function interrupts(answer: Answer, table: Table, rows: Map<number, Row>, { from, scale }: Window): void {
  const [begins, ends] = [table.offsets('from', from), table.offsets('to', from)];
  for (let i = 0; i < table.rows; i++) {
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

function interruptsMixed(table: Table, rows: Map<number, Row>): void {
  const [pixels, hard, soft] = [table.numbers('pixel'), table.numbers('irq'), table.numbers('softirq')];
  for (let i = 0; i < table.rows; i++) {
    const row = rows.get(table.number('cpu', i) ?? -1);
    const x0 = pixels[i] ?? 0;
    const [irq = 0, softirq = 0] = [hard[i], soft[i]];
    if (irq > 0) row?.pieces.push({ x0, x1: x0 + 1, y: 18, h: Math.max(1, Math.round(irq * 6)), fill: 'irq' });
    if (softirq > 0) row?.pieces.push({ x0, x1: x0 + 1, y: 24, h: Math.max(1, Math.round(softirq * 4)), fill: 'soft' });
  }
}

/** Rows of threads, from an answer to `states`. `detail` says what stands behind a name. */
export function threadRows(answer: Answer, pixels: number, detail: (tid: number) => string): Row[] {
  const rows = new Map<number, Row>();
  const all = answer.table('rows');
  for (let i = 0; i < all.rows; i++) {
    const tid = all.number('tid', i) ?? 0;
    rows.set(tid, { key: `tid${tid}`, title: named(all.text('name', i), tid), detail: detail(tid), tid, height: THREAD_ROW, pieces: [], late: [] });
  }
  const at = window(answer, pixels);
  stateMixed(answer.table('mixed'), rows);
  doubtfulPixels(answer, 'mixed', (i) => rows.get(answer.table('mixed').number('tid', i) ?? -1), at, [TOP, 18]);
  stateSpans(answer, rows, at);
  calls(answer, rows, at);
  const late = answer.table('late');
  const begins = late.offsets('from', at.from);
  for (let i = 0; i < late.rows; i++) rows.get(late.number('tid', i) ?? -1)?.late.push(at.scale.x(begins[i] ?? 0));
  return [...rows.values()];
}

function stateSpans(answer: Answer, rows: Map<number, Row>, { from, scale }: Window): void {
  const [spans, losses] = [answer.table('spans'), new Losses(answer)];
  const [begins, ends] = [spans.offsets('from', from), spans.offsets('to', from)];
  for (let i = 0; i < spans.rows; i++) {
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
    case 'sleeping':
      return call ? `in ${call}` : '';
    default:
      return '';
  }
}

function stateMixed(mixed: Table, rows: Map<number, Row>): void {
  const pixels = mixed.numbers('pixel');
  const shares = STACKED.map((state) => mixed.numbers(state));
  const unknown = mixed.numbers('unknown');
  for (let i = 0; i < mixed.rows; i++) {
    const row = rows.get(mixed.number('tid', i) ?? -1);
    if (!row) continue;
    const x0 = pixels[i] ?? 0;
    let sum = 0;
    STACKED.forEach((state, number) => {
      const share = shares[number]?.[i] ?? 0;
      const [bottom, top] = [Math.round(sum * 18), Math.round((sum + share) * 18)];
      sum += share;
      if (top > bottom) row.pieces.push({ x0, x1: x0 + 1, y: BASELINE - top, h: top - bottom, fill: state === 'woken' ? 'wok' : STATE_LOOKS[state].fill });
    });
    if ((unknown[i] ?? 0) > 0.5) row.pieces.push({ x0, x1: x0 + 1, y: TOP, h: 18, fill: null, look: 'dots' });
  }
}

function calls(answer: Answer, rows: Map<number, Row>, { from, scale }: Window): void {
  const table = answer.table('calls');
  const [begins, ends] = [table.offsets('from', from), table.offsets('to', from)];
  for (let i = 0; i < table.rows; i++) {
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
  const mixed = answer.table('calls_mixed');
  const [pixels, shares] = [mixed.numbers('pixel'), mixed.numbers('share')];
  for (let i = 0; i < mixed.rows; i++) {
    const x0 = pixels[i] ?? 0;
    const h = Math.max(1, Math.round((shares[i] ?? 0) * 10));
    rows.get(mixed.number('tid', i) ?? -1)?.pieces.push({ x0, x1: x0 + 1, y: BASELINE + 11 - h, h, fill: 'sys' });
  }
}

/** Rows of spans, from an answer to `slices`: one for each thread. */
export function spanRows(answer: Answer, pixels: number): Row[] {
  const rows = new Map<number, Row>();
  /** Whose threads they are, as far as that is known. */
  const processes = new Map<number, number>();
  const spans = (answer.head.info['spans'] as string[] | undefined) ?? [];
  const row = (tid: number, name: string | null): Row => {
    const known = rows.get(tid) ?? { key: `span${tid}`, title: named(name, tid), detail: 'spans', tid, height: SPAN_LEVEL + 6, pieces: [], late: [] };
    rows.set(tid, known);
    return known;
  };
  const { from, scale } = window(answer, pixels);
  const slices = answer.table('slices');
  const [begins, ends] = [slices.offsets('from', from), slices.offsets('to', from)];
  for (let i = 0; i < slices.rows; i++) {
    const tid = slices.number('tid', i) ?? -1;
    const of = row(tid, slices.text('name', i));
    const [begin = 0, end = 0, level] = [begins[i], ends[i], slices.number('level', i) ?? 0];
    const label = spanName(spans[slices.number('span', i) ?? 0] ?? '?');
    const doubt = doubts(answer, slices.number('doubt', i) ?? 0);
    of.height = Math.max(of.height, SPAN_LEVEL * (level + 1) + 6);
    const text = `${of.title}: ${label}${doubt && `, doubtful: ${doubt}`}`;
    const process = slices.number('process', i);
    if (process !== null) processes.set(tid, process);
    const box = { x0: scale.x(begin), x1: scale.x(end), y: 3 + SPAN_LEVEL * level, h: SPAN_LEVEL - 1 };
    of.pieces.push({ ...box, fill: null, name: kind(label), label, ink: 'ink', tip: { text, from: begin, to: end, tid } });
    if (doubt) of.pieces.push({ ...box, fill: null, look: 'hatch' });
  }
  const merged = answer.table('merged');
  const widths = merged.numbers('pixels');
  for (let i = 0; i < merged.rows; i++) {
    const tid = merged.number('tid', i) ?? -1;
    const of = row(tid, null);
    const [x0, level, count] = [merged.number('pixel', i) ?? 0, merged.number('level', i) ?? 0, merged.number('count', i) ?? 0];
    of.height = Math.max(of.height, SPAN_LEVEL * (level + 1) + 6);
    const x1 = x0 + (widths[i] ?? 1);
    of.pieces.push({ x0, x1, y: 3 + SPAN_LEVEL * level, h: SPAN_LEVEL - 1, fill: 'bar', label: `${count} spans`, ink: 'ink' });
  }
  if (spans.length) lostSpans(new Losses(answer), rows, processes, { from, scale });
  return [...rows.values()];
}

/** Of a thread whose process is not known (all of its spans are merged) no hole is drawn. A program without a row gets one. */
function lostSpans(losses: Losses, rows: Map<number, Row>, processes: ReadonlyMap<number, number>, at: Window): void {
  const says = 'here a span may have begun or ended';
  const drawn = new Set<number>();
  for (const [tid, process] of processes) {
    const of = rows.get(tid);
    drawn.add(process);
    if (of) holes(of, losses.ofProcess(process), at, says);
  }
  for (const process of losses.processes()) {
    if (drawn.has(process)) continue;
    const row: Row = { key: `lost${process}`, title: `process ${process}`, detail: 'spans', tid: null, height: SPAN_LEVEL + 6, pieces: [], late: [] };
    holes(row, losses.ofProcess(process), at, says);
    // Keys of threads are positive.
    rows.set(-2 - process, row);
  }
}

/** What a span is called: the name that its two events have in common. */
export function spanName(span: string): string {
  const [begin = span] = span.split(',');
  return begin.replace(/[:_.](begin|start|entry|enter|in)$/, '');
}

/** Nothing is known where records are missing. `says`: what of it. */
function holes(row: Row, list: Holes, { scale }: Window, says: string): void {
  for (const hole of list) {
    const [x0, x1] = [scale.x(hole.from), scale.x(hole.to)];
    const count = countOf(hole);
    row.pieces.push({ x0, x1: Math.max(x1, x0 + 3), y: 0, h: row.height - 1, fill: null, look: 'hole', label: count, ink: 'loss', tip: { text: `${row.title}: ${count}${says.startsWith('on ') ? ' ' : ': '}${says}`, from: hole.from, to: hole.to, tid: row.tid } });
  }
}

/** A hatch over the pixels of several states of which one is doubtful; `y` and `h` of it. Pixels side by side are one piece. */
function doubtfulPixels(answer: Answer, name: string, rowOf: (i: number) => Row | undefined, { scale }: Window, [y, h]: readonly [number, number]): void {
  const table = answer.table(name);
  const [pixels, bits] = [table.numbers('pixel'), table.numbers('doubt')];
  let last: { row: Row; piece: Piece & { tip: Tip }; bits: number } | null = null;
  for (let i = 0; i < table.rows; i++) {
    const [row, pixel, doubt] = [rowOf(i), pixels[i] ?? 0, bits[i] ?? 0];
    if (!row || !doubt) continue;
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

/** The piece under a place of a row, the one drawn last first. */
export function pieceAt(row: Row, x: number, y: number): Piece | null {
  for (let i = row.pieces.length - 1; i >= 0; i--) {
    const piece = row.pieces[i];
    if (piece?.tip && x >= piece.x0 && x < piece.x1 && y >= piece.y - 2 && y < piece.y + Math.max(piece.h, 5) + 2) return piece;
  }
  return null;
}
