// SPDX-License-Identifier: MIT OR Apache-2.0
// What is looked at: it is the address of the page, and what undo goes back to. Pure, but for the class History.

import { TIME_FORMATS, type TimeFormat } from '../common/time.js';

export const PAGES = ['start', 'timeline', 'laboratory'] as const;
export const TABS = ['records', 'latencies', 'worst', 'statistics', 'critical', 'values', 'flame'] as const;
export type Page = (typeof PAGES)[number];
export type Tab = (typeof TABS)[number];

/** All that the page shows. Times are ns after the trace's first record. */
export interface View {
  page: Page;
  from: bigint;
  to: bigint;
  tab: Tab;
  filter: string;
  /** Threads whose name or number this is. */
  match: string;
  by: string;
  /** Which latency, in its tabs. */
  what: string;
  /** Statistics: what they are grouped by and, behind a point, sorted by. */
  stats: string;
  /** Cursors. */
  a: bigint | null;
  b: bigint | null;
  /** The thread that is selected, and the moment. */
  tid: number | null;
  at: bigint | null;
  format: TimeFormat;
  /** `off`: no explanation beside the time line. */
  explain: string;
  /** `on`: the critical path is drawn. */
  critical: string;
  /** `on`: wake-ups are drawn, of the selected thread and of the one under the pointer. */
  arrows: string;
  /** `off`: threads are not grouped by process. */
  groups: string;
  /** Processes whose threads are one row, with commas. */
  folded: string;
  /** Only latencies between these lengths, ns: `LOW-HIGH`. */
  lengths: string;
  /** What latencies are kept apart by, beside what they are of. */
  apart: string;
  /** Spans that are shown, with `|` between them; empty: those that names tell. */
  spans: string;
  /** `key`: spans that are paired by a field have a row for each of its values, not for each thread. */
  rows: string;
  /** Fields that are drawn over time, with `|` between them. */
  values: string;
  /** The latency of which cursors and thread are a sample, as `sampleOf` writes it. */
  sample: string;
  /** Series of results that are drawn, by number, with commas. */
  series: string;
  /** Columns of the table of records, with commas; empty: all. */
  columns: string;
}

export const MIN_LENGTH = 100n;
/** Beside a sample that a link leads to, ns at least. */
const LINK_MARGIN = 50_000n;

/** The view of a whole trace that ends there. */
export function whole(to: bigint, from = 0n): View {
  return {
    page: 'start',
    from,
    to: to - from > MIN_LENGTH ? to : from + MIN_LENGTH,
    tab: 'records',
    filter: '',
    match: '',
    by: 'worst',
    what: '',
    stats: '',
    a: null,
    b: null,
    tid: null,
    at: null,
    format: 'trace',
    explain: '',
    critical: '',
    arrows: '',
    groups: '',
    folded: '',
    lengths: '',
    apart: '',
    spans: '',
    rows: '',
    values: '',
    sample: '',
    series: '',
    columns: '',
  };
}

const TEXTS = [
  'filter', 'match', 'by', 'what', 'stats', 'explain', 'critical', 'values', 'sample', 'series', 'columns',
  'arrows', 'groups', 'folded', 'lengths', 'apart', 'spans', 'rows',
] as const;

/** Says of which latency a stretch is a sample. It holds as long as the cursors and the thread are those of it. */
export function sampleOf(what: string, tid: number | null, from: bigint, to: bigint): string {
  return [what, tid ?? '', from, to].join('~');
}

/** The stretch between the cursors, where both are set and the selected moment is not outside of it. */
export function marked(view: View): { from: bigint; to: bigint } | null {
  const { a, b, at } = view;
  if (a === null || b === null) return null;
  const [from, to] = a < b ? [a, b] : [b, a];
  return at === null || (at >= from && at <= to) ? { from, to } : null;
}

/** The fragment of the address. */
export function toFragment(view: View): string {
  const parts = new URLSearchParams({ page: view.page, from: String(view.from), to: String(view.to), tab: view.tab });
  for (const name of TEXTS) if (view[name]) parts.set(name, view[name]);
  for (const name of ['a', 'b', 'tid', 'at'] as const) if (view[name] !== null) parts.set(name, String(view[name]));
  if (view.format !== 'trace') parts.set('time', view.format);
  return `#${parts.toString()}`;
}

/** The view of an address. What makes no sense there is as in `whole`. */
export function fromFragment(fragment: string, whole: View): View {
  const parts = new URLSearchParams(fragment.replace(/^#/, ''));
  const big = (name: string): bigint | null => {
    const text = parts.get(name);
    return text !== null && /^-?\d{1,18}$/.test(text) ? BigInt(text) : null;
  };
  const one = <T extends string>(name: string, of: readonly T[], other: T): T => of.find((known) => known === parts.get(name)) ?? other;
  const view: View = { ...whole };
  view.page = one('page', PAGES, whole.page);
  view.tab = one('tab', TABS, whole.tab);
  view.format = one('time', TIME_FORMATS, whole.format);
  for (const name of TEXTS) view[name] = parts.get(name) ?? whole[name];
  view.a = big('a');
  view.b = big('b');
  view.at = big('at');
  const tid = big('tid');
  view.tid = tid === null ? null : Number(tid);
  const [from, to] = [big('from'), big('to')];
  return from !== null && to !== null && from < to ? looking(view, from, to, whole) : view;
}

/** The view at another window: at least MIN_LENGTH long, and not far outside of the trace. */
export function looking(view: View, from: bigint, to: bigint, whole: View): View {
  const all = whole.to - whole.from;
  let length = to - from;
  if (length < MIN_LENGTH) {
    from -= (MIN_LENGTH - length) / 2n;
    length = MIN_LENGTH;
  }
  if (length > all) length = all;
  const first = whole.from - length / 2n;
  const last = whole.to - length / 2n;
  if (from < first) from = first;
  if (from > last) from = last;
  return { ...view, from, to: from + length };
}

/** Zooms by a factor (below 1: nearer) around a place between 0 (left) and 1 (right). */
export function zoomed(view: View, factor: number, place: number, whole: View): View {
  const length = Number(view.to - view.from);
  const now = Math.min(Number(whole.to - whole.from), Math.max(Number(MIN_LENGTH), length * factor));
  const from = view.from + BigInt(Math.round((length - now) * place));
  return looking(view, from, from + BigInt(Math.round(now)), whole);
}

/** The view in which two times are at two places between 0 (left) and 1 (right): where two fingers are. */
export function pinched(view: View, times: readonly [bigint, bigint], places: readonly [number, number], whole: View): View {
  const [time, place] = [times[0], places[0]];
  const length = Number(times[1] - time) / (places[1] - place);
  // Fingers that are at one place, or have crossed, say nothing.
  if (!Number.isFinite(length) || length <= 0) return view;
  const all = Math.min(length, Number(whole.to - whole.from));
  const from = time - BigInt(Math.round(place * all));
  return looking(view, from, from + BigInt(Math.round(all)), whole);
}

/** Moves by a part of the window. */
export function moved(view: View, part: number, whole: View): View {
  const by = BigInt(Math.round(Number(view.to - view.from) * part));
  return looking(view, view.from + by, view.to + by, whole);
}

/** Around a stretch, with as much again on both sides. */
export function around(view: View, from: bigint, to: bigint, whole: View): View {
  const margin = to > from ? (to - from) / 2n : MIN_LENGTH;
  return looking({ ...view, page: 'timeline' }, from - margin, to + margin, whole);
}

/**
 * A fragment with ns since 1970 as one of this trace: `#window=FROM~TO` of the command line, or `#wall=FROM~TO&what=..&tid=..`
 * of a lake, which leads to a sample.
 */
export function fromWall(fragment: string, base: bigint): string {
  const parts = new URLSearchParams(fragment.replace(/^#/, ''));
  const found = /^(-?\d{1,19})~(-?\d{1,19})$/.exec(parts.get('wall') ?? parts.get('window') ?? '');
  if (!found) return fragment;
  const [from, to] = [BigInt(found[1] ?? 0) - base, BigInt(found[2] ?? 0) - base];
  if (!parts.has('wall')) return `#${new URLSearchParams({ page: 'timeline', from: String(from), to: String(to) }).toString()}`;
  const margin = to - from > 2n * LINK_MARGIN ? (to - from) / 2n : LINK_MARGIN;
  const own = new URLSearchParams({ page: 'timeline', from: String(from - margin), to: String(to + margin), a: String(from), b: String(to), at: String(to) });
  const tid = /^\d{1,9}$/.test(parts.get('tid') ?? '') ? Number(parts.get('tid')) : null;
  if (tid !== null) own.set('tid', String(tid));
  const what = parts.get('what');
  if (what) own.set('sample', sampleOf(what, tid, from, to));
  return `#${own.toString()}`;
}

/** Views that were, for undo. Many small moves are one step. */
export class History {
  private readonly past: View[] = [];
  private future: View[] = [];
  private lastPush = -Infinity;

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Remembers the view that is left. Moves within 600 ms of one another are one. */
  leave(view: View, isSmall: boolean): void {
    const time = this.now();
    const joins = isSmall && time - this.lastPush < 600;
    this.lastPush = isSmall ? time : -Infinity;
    this.future = [];
    if (!joins) this.past.push(view);
    if (this.past.length > 200) this.past.shift();
  }

  undo(current: View): View | null {
    const view = this.past.pop();
    if (view) this.future.push(current);
    this.lastPush = -Infinity;
    return view ?? null;
  }

  redo(current: View): View | null {
    const view = this.future.pop();
    if (view) this.past.push(current);
    return view ?? null;
  }
}
