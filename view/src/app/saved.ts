// SPDX-License-Identifier: MIT OR Apache-2.0
// A page that was saved: it has answers instead of a server [spec/view.md 9]. A window gets the finest answer that holds
// all of it. What is not in the page is said, never guessed.

import { byId, clean, el } from '../common/dom.js';
import { duration } from '../common/time.js';
import { Client, type Parameters, Refused } from '../query/api.js';
import { type Answer, type Table, decode } from '../query/columns.js';
import { pickShares } from '../query/shares.js';
import type { App } from './app.js';

/** One answer of the file. Times in ns after the base. */
export interface Entry {
  question: string;
  /** Of gzip, in base64; empty where the question has no answer. */
  data: string;
  error?: { kind: string; message: string; parameter: string | null; hint: string | null };
  level?: number;
  from?: number;
  to?: number;
  pixels?: number;
  /** Finer answers would show the same. */
  exact?: boolean;
  /** Of records: the number of the first. */
  row?: number;
  /** Of statistics: what they are grouped by. */
  by?: string;
}

interface Document {
  version: number;
  name: string;
  from: number;
  to: number;
  is_exact: boolean;
  left_out: string[];
  entries: Entry[];
}

/** The finest entry that holds a window, of all that there is of it in the page. */
export function finest<T extends Entry>(entries: readonly T[], from: number, to: number): T | null {
  const all = entries.filter((entry) => (entry.level ?? 0) === 0);
  const whole = all[0] ?? null;
  const [first, last] = [Math.max(from, whole?.from ?? from), Math.min(to, whole?.to ?? to)];
  const length = (entry: T): number => (entry.to ?? Infinity) - (entry.from ?? -Infinity);
  const holds = entries.filter((entry) => (entry.from ?? -Infinity) <= first && last <= (entry.to ?? Infinity));
  return holds.reduce<T | null>((best, entry) => (!best || length(entry) < length(best) ? entry : best), null) ?? whole;
}

const WAITING = ['preempted_ns', 'woken_ns', 'gave_way_ns', 'lock_ns', 'uninterruptible_ns', 'page_fault_ns', 'waiting_ns', 'sleeping_ns', 'stopped_ns'];

/** Rows of threads as a question asks for them: those that match, in their order. */
export function threadOrder(threads: Table, by: string, match: string): number[] {
  const number = (name: string, row: number): number => threads.number(name, row) ?? -1;
  const text = (row: number): string => threads.text('name', row) ?? '';
  const longest: Record<string, (row: number) => number> = {
    worst: (row) => number('worst_ns', row),
    running: (row) => number('running_ns', row),
    waiting: (row) => WAITING.reduce((sum, name) => sum + number(name, row), 0),
    wakeups: (row) => number('wakeups', row),
  };
  const most = longest[by];
  const compare = (a: number, b: number): number => {
    if (most) return most(b) - most(a);
    if (by === 'name') return text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0;
    return by === 'process' ? number('process', a) - number('process', b) : 0;
  };
  const rows = Array.from({ length: threads.rows }, (_, row) => row);
  const wanted = rows.filter((row) => !match || text(row).includes(match) || String(threads.number('tid', row)) === match);
  return wanted.sort((a, b) => compare(a, b) || number('tid', a) - number('tid', b));
}

/** Rows of all tables that are of these threads; those of `rows` in their order. */
export function ofThreads(answer: Answer, tids: readonly number[]): Answer {
  const wanted = new Set(tids);
  const picked = answer.tables().filter((table) => table.has('tid')).flatMap((table) => {
    const rows = Array.from({ length: table.rows }, (_, row) => row).filter((row) => wanted.has(table.number('tid', row) ?? -1));
    if (table.name === 'rows') rows.sort((a, b) => tids.indexOf(table.number('tid', a) ?? -1) - tids.indexOf(table.number('tid', b) ?? -1));
    return table.has('states') ? [table.pick(rows), pickShares(answer, rows)] : [table.pick(rows)];
  });
  return answer.derived({}, picked);
}

/** A page of records from the saved ones. `pages`: in the order of time, each with the number of its first record. */
export function recordsFrom(pages: readonly Answer[], from: bigint, to: bigint, row: number, limit: number): Answer | null {
  const times = pages.map((page) => page.table('records'));
  let first = -1;
  let at = 0;
  for (const table of times) {
    let low = 0;
    for (let high = table.rows; low < high; ) {
      const middle = (low + high) >> 1;
      if ((table.big('time', middle) ?? 0n) < from) low = middle + 1;
      else high = middle;
    }
    if (low < table.rows) {
      first = at + low;
      break;
    }
    at += table.rows;
  }
  const total = times.reduce((sum, table) => sum + table.rows, 0);
  const wanted = (first < 0 ? total : first) + row;
  let before = 0;
  for (const [index, table] of times.entries()) {
    const page = pages[index];
    const begin = wanted - before;
    before += table.rows;
    if (!page || begin >= table.rows) continue;
    const rows: number[] = [];
    for (let i = begin; i < table.rows && rows.length < limit && (table.big('time', i) ?? 0n) < to; i++) rows.push(i);
    const end = begin + rows.length;
    const isOver = end < table.rows && rows.length < limit;
    const losses = page.table('losses');
    const place = (loss: number): number => losses.number('before', loss) ?? 0;
    const kept = Array.from({ length: losses.rows }, (_, loss) => loss).filter((loss) => place(loss) >= begin && place(loss) < Math.max(end, begin + 1));
    const moved = { name: 'before', values: kept.map((loss) => place(loss) - begin) };
    const info = { ...page.head.info, has_more: !isOver && before - table.rows + end < total };
    return page.derived({ info }, [table.pick(rows), losses.pick(kept, moved)]);
  }
  return null;
}

/** The saved part of a trace. */
export class SavedPage {
  readonly from: bigint;
  readonly to: bigint;
  private readonly decoded = new Map<Entry, Promise<Answer>>();

  constructor(readonly document: Document) {
    this.from = BigInt(document.from);
    this.to = BigInt(document.to);
  }

  entries(question: string): Entry[] {
    return this.document.entries.filter((entry) => entry.question === question);
  }

  /** The answer of an entry; kept while it is looked at. */
  async answer(entry: Entry): Promise<Answer> {
    if (entry.error) {
      const { kind, message, parameter, hint } = entry.error;
      throw new Refused(kind, message, parameter, hint);
    }
    let found = this.decoded.get(entry);
    if (!found) {
      found = unpack(entry.data).then(decode);
      if (this.decoded.size > 200) this.decoded.clear();
      this.decoded.set(entry, found);
    }
    return found;
  }

  /** Says what this is. */
  tell(app: App): void {
    const { name, is_exact, left_out } = this.document;
    const length = duration(Number(this.to - this.from));
    const exact = is_exact ? 'Its pictures are exact at every zoom.' : 'Where it is dense, zooming ends at what was saved.';
    const missing = left_out.length ? ` Not in it: ${left_out.join('; ')}.` : '';
    const note = el('p', 'saved-note', `A saved part of ${clean(name)}: ${length}, without the trace itself. ${exact}${clean(missing)}`);
    note.id = 'saved-note';
    byId('top').after(note);
    app.say('this page needs no kymo and no network');
  }
}

async function unpack(data: string): Promise<ArrayBuffer> {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

/** The saved answers, if this page has some. */
export async function savedPage(): Promise<SavedPage | null> {
  const found = document.getElementById('saved');
  if (!found) return null;
  if (typeof DecompressionStream === 'undefined') throw new Error('this browser cannot unpack gzip: open the page in one of 2023 or later');
  return new SavedPage(JSON.parse(found.textContent ?? '') as Document);
}

/** Answers from a saved page. */
export class SavedClient extends Client {
  constructor(private readonly page: SavedPage) {
    super();
  }

  protected override async fetch(question: string, parameters: Parameters, signal: AbortSignal): Promise<Answer> {
    // What is asked again at once is asked once.
    await Promise.resolve();
    if (signal.aborted) throw new DOMException('aborted', 'AbortError');
    const { from, to } = this.window(parameters);
    if (hasFilter(parameters)) throw missing('a filter');
    if (question === 'records') return this.records(parameters, from, to);
    const entries = this.page.entries(question).filter(({ by }) => by === undefined || by === parameters['by']);
    const entry = finest(entries, Number(from), Number(to));
    if (!entry) throw missing(`the question ${question}`);
    const answer = await this.page.answer(entry);
    if (entry.level !== undefined) return this.picture(entry, answer, parameters, Number(to - from));
    const isPart = question !== 'summary' && question !== 'schema' && (from > this.page.from || to < this.page.to);
    const notes = isPart ? [...answer.head.notes, 'Of the whole saved stretch.'] : answer.head.notes;
    if (question !== 'threads') return answer.derived({ notes });
    return threads(answer, parameters, notes);
  }

  private window(parameters: Parameters): { from: bigint; to: bigint } {
    const time = (value: unknown): bigint | null => (typeof value === 'string' && /^@-?\d+$/.test(value) ? BigInt(value.slice(1)) : null);
    return { from: time(parameters['from']) ?? this.page.from, to: time(parameters['to']) ?? this.page.to };
  }

  private picture(entry: Entry, answer: Answer, parameters: Parameters, length: number): Answer {
    const { tids, pixels } = parameters;
    const info = { ...answer.head.info, pixels: entry.pixels };
    const own = ((entry.to ?? 0) - (entry.from ?? 0)) / (entry.pixels ?? 1);
    const wanted = length / Number(pixels ?? 1000);
    const isCoarse = !entry.exact && own > 1.5 * wanted;
    const notes = isCoarse ? [...answer.head.notes, `Saved at ${duration(Math.ceil(own))} a pixel.`] : answer.head.notes;
    const found = answer.derived({ info, notes });
    return Array.isArray(tids) ? ofThreads(found, tids.map(Number)) : found;
  }

  private async records(parameters: Parameters, from: bigint, to: bigint): Promise<Answer> {
    const entries = this.page.entries('records').sort((a, b) => (a.row ?? 0) - (b.row ?? 0));
    const pages = await Promise.all(entries.map((entry) => this.page.answer(entry)));
    const found = recordsFrom(pages, from, to, Number(parameters['row'] ?? 0), Number(parameters['limit'] ?? 200));
    if (!found) throw missing('what is behind the last saved record');
    return found;
  }
}

function threads(answer: Answer, parameters: Parameters, notes: string[]): Answer {
  const { by, match, limit } = parameters;
  const table = answer.table('threads');
  const order = threadOrder(table, String(by ?? 'worst'), String(match ?? ''));
  const shown = order.slice(0, Number(limit ?? 100));
  return answer.derived({ notes, info: { ...answer.head.info, total: order.length } }, [table.pick(shown)]);
}

function hasFilter(parameters: Parameters): boolean {
  const { filter } = parameters;
  return filter !== undefined && filter !== null && filter !== '' && !(Array.isArray(filter) && !filter.length);
}

function missing(what: string): Refused {
  return new Refused('saved', `This saved page has no answer to ${what}`, null, 'kymo view opens the trace itself');
}
