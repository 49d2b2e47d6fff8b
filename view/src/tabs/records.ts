// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of records: pages are asked for as they come into sight, so a trace of any length can be scrolled.

import type { App, Part } from '../app/app.js';
import { type View, looking } from '../app/view.js';
import { Pending, add, byId, clean, el, later, turns } from '../common/dom.js';
import { type Steps, inParts } from '../common/steps.js';
import { duration, grouped } from '../common/time.js';
import type { Answer } from '../query/columns.js';

const PAGE = 200;
/** Of a new window: what can be seen, and some more. While the window moves a table is thrown away again and again. */
const FIRST_PAGE = 60;
/** px below what is seen: rows that are nearer are asked for. */
const NEAR = 400;
/** Rows are made for so long in a frame, ms, so many at a time. */
const ROWS_MS = 2;
const STEP_ROWS = 10;

/** Columns, by their names in the address. */
export const COLUMNS = {
  time: { head: 'Time [s]', classes: 'num' },
  delta: { head: 'Δ previous', classes: 'num i2' },
  cursor: { head: 'Δ cursor A', classes: 'num i2' },
  cpu: { head: 'CPU', classes: 'num' },
  thread: { head: 'Thread', classes: '' },
  event: { head: 'Event', classes: '' },
  fields: { head: 'Fields', classes: 'i2 fields' },
} as const;
export type ColumnName = keyof typeof COLUMNS;
const NAMES = Object.keys(COLUMNS) as ColumnName[];

/** The columns that a view shows, in their order: all where it names none. */
export function columnsOf(columns: string): ColumnName[] {
  const wanted = columns.split(',');
  const shown = NAMES.filter((name) => wanted.includes(name));
  return shown.length ? shown : NAMES;
}

/** The choice with one column more or less. The last one stays: a table without columns has nothing to be chosen by. */
export function toggled(columns: string, name: ColumnName): string {
  const shown = columnsOf(columns);
  const next = NAMES.filter((one) => (one === name ? !shown.includes(one) : shown.includes(one)));
  return next.length === NAMES.length || !next.length ? (next.length ? '' : columns) : next.join(',');
}

export class Records implements Part {
  private readonly box = byId('records');
  private readonly pending = new Pending(this.box);
  private readonly body = el('tbody');
  private readonly note = el('div', 'note');
  private readonly head = el('tr');
  private readonly choice = el('div', 'choice-of-columns');
  private rows = 0;
  private hasMore = false;
  private isLoading = false;
  /** How many were asked for. */
  private requests = 0;
  private last: bigint | null = null;
  /** The rows that are there are of another window: they stay until there are new ones. */
  private isFresh = false;
  private readonly reload = later(120, () => void this.restart());
  /** Looks where the end is when the browser has laid out the page: to ask for it makes the browser do that at once. */
  private readonly end: IntersectionObserver;

  constructor(private readonly app: App) {
    const choose = el('details', 'columns', el('summary', '', 'Columns'), this.choice);
    for (const name of NAMES) {
      const box = el('input');
      [box.type, box.name] = ['checkbox', name];
      box.addEventListener('change', () => app.go({ ...app.view, columns: toggled(app.view.columns, name) }));
      add(this.choice, el('label', '', box, COLUMNS[name].head));
    }
    this.box.append(choose, el('table', 'rec', el('thead', '', this.head), this.body), this.note);
    this.end = new IntersectionObserver((seen) => this.moreIfNear(seen.at(-1)?.isIntersecting === true), { root: this.box, rootMargin: `0px 0px ${NEAR}px 0px` });
    this.body.addEventListener('keydown', (event) => this.press(event));
    this.body.addEventListener('focusin', (event) => event.target instanceof HTMLTableRowElement && this.reach(event.target));
  }

  changed(view: View, before: View | null): void {
    if (view.page !== 'timeline' || view.tab !== 'records') return;
    const same = before && before.page === view.page && before.tab === view.tab;
    const isSame = same && before.from === view.from && before.to === view.to && before.filter === view.filter && before.at === view.at && before.columns === view.columns;
    this.title(columnsOf(view.columns));
    if (!isSame || before.a !== view.a || before.format !== view.format) this.reload();
  }

  private title(columns: readonly ColumnName[]): void {
    for (const box of this.choice.querySelectorAll('input')) box.checked = columns.includes(box.name as ColumnName);
  }

  /** By keyboard alone: one row is in the order of Tab, and arrows, pages and ends lead from there to the others. */
  private press(event: KeyboardEvent): void {
    const row = event.target;
    if (!(row instanceof HTMLTableRowElement) || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / Math.max(1, row.offsetHeight)) - 2);
    const rows = this.body.rows;
    const at = row.sectionRowIndex;
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 };
    if (event.key === 'Enter') row.click();
    else {
      const to = steps[event.key];
      if (to === undefined) return;
      rows[Math.max(0, Math.min(rows.length - 1, to))]?.focus();
    }
    // Of the whole page these keys move and zoom the time line.
    event.preventDefault();
    event.stopPropagation();
  }

  /** This row is the one that Tab comes back to. */
  private reach(row: HTMLTableRowElement): void {
    for (const other of this.body.querySelectorAll('[tabindex="0"]')) if (other !== row) (other as HTMLElement).tabIndex = -1;
    row.tabIndex = 0;
  }

  private moreIfNear(isNear: boolean): void {
    if (isNear && this.hasMore && !this.isLoading) void this.more();
  }

  /** The observer tells where the end is now, and when that changes: who has scrolled while an answer was on its way is there already. */
  private watch(): void {
    this.end.unobserve(this.note);
    this.end.observe(this.note);
  }

  private async restart(): Promise<void> {
    this.isFresh = true;
    [this.rows, this.last, this.hasMore] = [0, null, false];
    const done = this.app.isFollowing ? () => this.pending.end() : this.pending.begin();
    await this.more();
    done();
  }

  private async more(): Promise<void> {
    const { app } = this;
    const { from, to, at, filter } = app.view;
    const isInside = at !== null && at >= from && at < to;
    // From the moment that is looked at; what is before it is reached by moving the window.
    const begin = isInside ? at : from;
    const request = ++this.requests;
    let isShown = false;
    this.isLoading = true;
    try {
      const answer = await app.client.ask('records', 'records', { from: app.at(begin), to: app.at(to), row: this.rows, limit: this.rows ? PAGE : FIRST_PAGE, filter: filter || null });
      const goOn = async (): Promise<boolean> => {
        await turns.take();
        // A newer one was asked for meanwhile.
        return request === this.requests;
      };
      if (answer && (await inParts(this.show(answer), { goOn, clock: () => performance.now(), most_ms: ROWS_MS })) === null) return;
      isShown = answer !== null && answer.table('records').rows > 0;
    } catch (error) {
      this.note.textContent = error instanceof Error ? error.message : String(error);
      this.note.className = 'note wrong';
    } finally {
      // A newer one may be on its way, for which this one was given up.
      if (request === this.requests) this.isLoading = false;
      if (isShown) this.watch();
    }
  }

  /** Makes rows little by little, and shows them all at once: until then those of before stay. */
  private *show(answer: Answer): Steps<true> {
    const [records, losses] = [answer.table('records'), answer.table('losses')];
    const columns = columnsOf(this.app.view.columns);
    const made: HTMLElement[] = [];
    let loss = 0;
    for (let i = 0; i <= records.rows; i++) {
      if (i % STEP_ROWS === STEP_ROWS - 1) yield;
      for (; loss < losses.rows && (losses.number('before', loss) ?? 0) <= i; loss++) made.push(lossRow(answer, loss, columns.length));
      if (i < records.rows) made.push(this.row(answer, i, columns));
    }
    if (this.isFresh) this.begin(made, columns);
    else this.body.append(...made);
    this.rows += records.rows;
    this.hasMore = answer.head.info['has_more'] === true;
    this.note.className = 'note';
    this.note.textContent = this.rows ? (this.hasMore ? '' : `${grouped(this.rows)} records to the end of the window`) : 'no record in this window';
    return true;
  }

  /** The first rows of another window, instead of those that are there. */
  private begin(made: readonly HTMLElement[], columns: readonly ColumnName[]): void {
    const focused = document.activeElement instanceof HTMLTableRowElement && this.body.contains(document.activeElement) ? document.activeElement : null;
    const place = focused?.sectionRowIndex ?? 0;
    this.body.replaceChildren(...made);
    this.head.replaceChildren(...columns.map((name) => el('th', COLUMNS[name].classes, COLUMNS[name].head)));
    this.isFresh = false;
    const again = focused ? sameRecord([...this.body.rows], place, focused.dataset['time']) : undefined;
    const row = again ?? this.body.rows[0];
    if (!row) return;
    row.tabIndex = 0;
    if (focused) row.focus({ preventScroll: true });
  }

  private row(answer: Answer, i: number, columns: readonly ColumnName[]): HTMLElement {
    const { app } = this;
    const records = answer.table('records');
    const time = records.big('time', i) ?? 0n;
    const delta = this.last === null ? '' : duration(Number(time - this.last));
    this.last = time;
    const { a } = app.view;
    const [tid, name] = [records.number('tid', i), records.text('name', i)];
    const thread = name ?? (tid === null ? '' : tid === 0 ? 'idle' : '');
    const cells: Record<ColumnName, () => HTMLElement | string | number | null> = {
      time: () => app.times.text(time).replace(/ s$/, ''),
      delta: () => delta,
      cursor: () => (a === null ? '' : duration(Number(time - a))),
      cpu: () => records.number('cpu', i),
      thread: () => el('span', '', thread, tid === null ? '' : el('span', 'i3', `[${tid}]`)),
      event: () => records.text('event', i),
      fields: () => fields(records.text('fields', i) ?? ''),
    };
    const line = el('tr', 'can', ...columns.map((name) => el('td', COLUMNS[name].classes, cells[name]())));
    line.tabIndex = -1;
    line.dataset['time'] = String(time);
    line.addEventListener('click', () => {
      const { view, whole } = app;
      const isSeen = time >= view.from && time < view.to;
      const there = isSeen ? view : looking(view, time - (view.to - view.from) / 2n, time + (view.to - view.from) / 2n, whole);
      app.go({ ...there, b: time, tid: tid ?? view.tid });
    });
    return line;
  }
}

/** The row of a record of that time: at the same place, where the rows are the same again, else the first one. */
export function sameRecord<T extends { dataset: DOMStringMap }>(rows: readonly T[], place: number, time: string | undefined): T | undefined {
  if (time === undefined) return undefined;
  return [rows[place], ...rows].find((row) => row?.dataset['time'] === time);
}

function lossRow(answer: Answer, i: number, columns: number): HTMLElement {
  const losses = answer.table('losses');
  const cpu = losses.number('cpu', i);
  const [records, packets] = [losses.number('records', i) ?? 0, losses.number('packets', i) ?? 0];
  const length = duration((losses.number('to', i) ?? 0) - (losses.number('from', i) ?? 0));
  const what = packets > 0 ? `${grouped(records)} records and ${grouped(packets)} packets` : `${grouped(records)} records`;
  const text = `${what} lost here${cpu === null ? '' : ` on CPU ${cpu}`}, in ${length}. What happened there is not known.`;
  const cell = el('td', '', el('span', '', text));
  cell.colSpan = columns;
  const line = el('tr', 'lost', cell);
  line.tabIndex = -1;
  return line;
}

/** `{"prev_comm":"a","n":3}` as `prev_comm=a n=3`. */
export function fields(json: string): string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch {
    return clean(json);
  }
  if (parsed === null || typeof parsed !== 'object') return clean(json);
  const shown = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
  return clean(Object.entries(parsed).map(([name, value]) => `${name}=${shown(value)}`).join(' '));
}
