// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows of spans: slices that nest, and blocks of shorter ones. Pure.

import { STEP_ROWS, type Steps, finished } from '../common/steps.js';
import type { Answer } from '../query/columns.js';
import { type Row, SPAN_LEVEL, type Window, doubts, holes, kind, named, window } from './layout.js';
import { Losses } from './losses.js';

/** px at the end of a span that has not ended. */
const OPEN_MARK = 8;

/** Rows as they are found, by key, and the processes whose spans are in them, as far as these are known. */
interface Known {
  rows: Map<string, Row>;
  processes: Map<string, Set<number>>;
}

/** Rows of spans, from an answer to `slices`: one for each thread; of spans by key one for each key. */
export function spanRows(answer: Answer, pixels: number): Row[] {
  return finished(spanSteps(answer, pixels));
}

/** The same, little by little. */
export function* spanSteps(answer: Answer, pixels: number): Steps<Row[]> {
  const known: Known = { rows: new Map(), processes: new Map() };
  const spans = (answer.head.info['spans'] as string[] | undefined) ?? [];
  const nameOf = (span: number | null): string => spanName(spans[span ?? 0] ?? '?');
  const row = (key: string, title: string, tid: number | null): Row => {
    const of = known.rows.get(key) ?? { key, title, detail: 'spans', tid, height: SPAN_LEVEL + 6, pieces: [], late: [] };
    known.rows.set(key, of);
    return of;
  };
  const ofThread = (tid: number, name: string | null): Row => row(`span${tid}`, named(name, tid), tid);
  const ofKey = (span: number | null, key: string | null): Row => row(`key${span} ${key ?? ''}`, `${nameOf(span)} ${key ?? '(other keys)'}`, null);
  const { from, scale } = window(answer, pixels);
  const slices = answer.table('slices');
  const [begins, ends] = [slices.offsets('from', from), slices.offsets('to', from)];
  for (let i = 0; i < slices.rows; i++) {
    if (i % STEP_ROWS === 0) yield;
    const [tid, span] = [slices.number('tid', i) ?? -1, slices.number('span', i)];
    const of = slices.number('by_key', i) === 1 ? ofKey(span, slices.text('key', i)) : ofThread(tid, slices.text('name', i));
    const [begin = 0, end = 0, level] = [begins[i], ends[i], slices.number('level', i) ?? 0];
    const label = nameOf(span);
    const doubt = doubts(answer, slices.number('doubt', i) ?? 0);
    of.height = Math.max(of.height, SPAN_LEVEL * (level + 1) + 6);
    const isOpen = slices.number('open', i) === 1;
    const who = of.tid === null ? `${of.title}, ${named(slices.text('name', i), tid)}` : `${of.title}: ${label}`;
    const text = `${who}${isOpen ? ', has not ended in this window' : ''}${doubt && `, doubtful: ${doubt}`}`;
    const process = slices.number('process', i);
    if (process !== null) known.processes.set(of.key, (known.processes.get(of.key) ?? new Set()).add(process));
    const box = { x0: scale.x(begin), x1: scale.x(end), y: 3 + SPAN_LEVEL * level, h: SPAN_LEVEL - 1 };
    of.pieces.push({ ...box, fill: null, name: kind(label), label: isOpen ? `${label} …` : label, ink: 'ink', tip: { text, from: begin, to: end, tid } });
    // Its end is not where the picture ends.
    if (isOpen) of.pieces.push({ ...box, x0: Math.max(box.x0, box.x1 - OPEN_MARK), fill: null, look: 'dots' });
    if (doubt) of.pieces.push({ ...box, fill: null, look: 'hatch' });
  }
  const merged = answer.table('merged');
  const widths = merged.numbers('pixels');
  for (let i = 0; i < merged.rows; i++) {
    if (i % STEP_ROWS === 0) yield;
    const span = merged.number('span', i);
    const of = span === null ? ofThread(merged.number('tid', i) ?? -1, null) : ofKey(span, merged.text('key', i));
    const [x0, level, count] = [merged.number('pixel', i) ?? 0, merged.number('level', i) ?? 0, merged.number('count', i) ?? 0];
    of.height = Math.max(of.height, SPAN_LEVEL * (level + 1) + 6);
    const x1 = x0 + (widths[i] ?? 1);
    of.pieces.push({ x0, x1, y: 3 + SPAN_LEVEL * level, h: SPAN_LEVEL - 1, fill: 'bar', label: `${count} spans`, ink: 'ink' });
  }
  if (spans.length) lostSpans(new Losses(answer), known, { from, scale });
  const byKey = new Intl.Collator('en', { numeric: true });
  const rows = [...known.rows.values()];
  return [...rows.filter((of) => !of.key.startsWith('key')), ...rows.filter((of) => of.key.startsWith('key')).sort((a, b) => byKey.compare(a.title, b.title))];
}

/** Of a row whose process is not known (all of its spans are merged) no hole is drawn. A program without a row gets one. */
function lostSpans(losses: Losses, { rows, processes }: Known, at: Window): void {
  const says = 'here a span may have begun or ended';
  const drawn = new Set<number>();
  for (const [key, own] of processes) {
    const of = rows.get(key);
    for (const process of own) {
      drawn.add(process);
      if (of) holes(of, losses.ofProcess(process), at, says);
    }
  }
  for (const process of losses.processes()) {
    if (drawn.has(process)) continue;
    const key = `lost${process}`;
    const row: Row = { key, title: `process ${process}`, detail: 'spans', tid: null, height: SPAN_LEVEL + 6, pieces: [], late: [] };
    holes(row, losses.ofProcess(process), at, says);
    rows.set(key, row);
  }
}

/** What a span is called: the name that its two events have in common. */
export function spanName(span: string): string {
  const [begin = span] = span.split(',');
  return begin.replace(/[:_.](begin|start|entry|enter|in)$/, '');
}
