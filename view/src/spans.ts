// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows of spans: slices that nest, and blocks of shorter ones. Pure.

import type { Answer } from './columns.js';
import { type Row, SPAN_LEVEL, type Window, doubts, holes, kind, named, window } from './layout.js';
import { Losses } from './losses.js';

/** px at the end of a span that has not ended. */
const OPEN_MARK = 8;

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
    const isOpen = slices.number('open', i) === 1;
    const text = `${of.title}: ${label}${isOpen ? ', has not ended in this window' : ''}${doubt && `, doubtful: ${doubt}`}`;
    const process = slices.number('process', i);
    if (process !== null) processes.set(tid, process);
    const box = { x0: scale.x(begin), x1: scale.x(end), y: 3 + SPAN_LEVEL * level, h: SPAN_LEVEL - 1 };
    of.pieces.push({ ...box, fill: null, name: kind(label), label: isOpen ? `${label} …` : label, ink: 'ink', tip: { text, from: begin, to: end, tid } });
    // Its end is not where the picture ends.
    if (isOpen) of.pieces.push({ ...box, x0: Math.max(box.x0, box.x1 - OPEN_MARK), fill: null, look: 'dots' });
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
