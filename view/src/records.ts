// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of records: pages are asked for as they come into sight, so a trace of any length can be scrolled.

import type { App, Part } from './app.js';
import type { Answer } from './columns.js';
import { byId, clean, el, later } from './dom.js';
import { duration, grouped } from './time.js';
import { type View, looking } from './view.js';

const PAGE = 200;

export class Records implements Part {
  private readonly box = byId('records');
  private readonly body = el('tbody');
  private readonly note = el('div', 'note');
  private rows = 0;
  private hasMore = false;
  private isLoading = false;
  /** How many were asked for. */
  private requests = 0;
  private last: bigint | null = null;
  /** The rows that are there are of another window: they stay until there are new ones. */
  private isFresh = false;
  private readonly reload = later(120, () => void this.restart());

  constructor(private readonly app: App) {
    const head = el('tr');
    for (const [name, classes] of [['Time [s]', 'num'], ['Δ previous', 'num'], ['Δ cursor A', 'num'], ['CPU', 'num'], ['Thread', ''], ['Event', ''], ['Fields', '']] as const) {
      head.append(el('th', classes, name));
    }
    this.box.append(el('table', 'rec', el('thead', '', head), this.body), this.note);
    this.box.addEventListener('scroll', () => this.moreIfNear());
  }

  changed(view: View, before: View | null): void {
    if (view.page !== 'timeline' || view.tab !== 'records') return;
    const same = before && before.page === view.page && before.tab === view.tab;
    const isSame = same && before.from === view.from && before.to === view.to && before.filter === view.filter && before.at === view.at;
    if (!isSame || before.a !== view.a || before.format !== view.format) this.reload();
  }

  /** Also behind an answer: who scrolls while it is on its way is at the end already, and no event follows. */
  private moreIfNear(): void {
    const { clientHeight, scrollHeight, scrollTop } = this.box;
    const isNear = clientHeight > 0 && scrollTop + clientHeight > scrollHeight - 400;
    if (isNear && this.hasMore && !this.isLoading) void this.more();
  }

  private async restart(): Promise<void> {
    this.isFresh = true;
    [this.rows, this.last, this.hasMore] = [0, null, false];
    await this.more();
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
      const answer = await app.client.ask('records', 'records', { from: app.at(begin), to: app.at(to), row: this.rows, limit: PAGE, filter: filter || null });
      if (answer) this.show(answer);
      isShown = answer !== null && answer.table('records').rows > 0;
    } catch (error) {
      this.note.textContent = error instanceof Error ? error.message : String(error);
      this.note.className = 'note wrong';
    } finally {
      // A newer one may be on its way, for which this one was given up.
      if (request === this.requests) this.isLoading = false;
      if (isShown) this.moreIfNear();
    }
  }

  private show(answer: Answer): void {
    const [records, losses] = [answer.table('records'), answer.table('losses')];
    if (this.isFresh) this.body.replaceChildren();
    this.isFresh = false;
    let loss = 0;
    for (let i = 0; i <= records.rows; i++) {
      for (; loss < losses.rows && (losses.number('before', loss) ?? 0) <= i; loss++) this.body.append(lossRow(answer, loss));
      if (i < records.rows) this.body.append(this.row(answer, i));
    }
    this.rows += records.rows;
    this.hasMore = answer.head.info['has_more'] === true;
    this.note.className = 'note';
    this.note.textContent = this.rows ? (this.hasMore ? '' : `${grouped(this.rows)} records to the end of the window`) : 'no record in this window';
  }

  private row(answer: Answer, i: number): HTMLElement {
    const { app } = this;
    const records = answer.table('records');
    const time = records.big('time', i) ?? 0n;
    const delta = this.last === null ? '' : duration(Number(time - this.last));
    this.last = time;
    const { a } = app.view;
    const [tid, name] = [records.number('tid', i), records.text('name', i)];
    const thread = name ?? (tid === null ? '' : tid === 0 ? 'idle' : '');
    const line = el(
      'tr',
      'can',
      el('td', 'num', app.times.text(time).replace(/ s$/, '')),
      el('td', 'num i2', delta),
      el('td', 'num i2', a === null ? '' : duration(Number(time - a))),
      el('td', 'num', records.number('cpu', i)),
      el('td', '', thread, tid === null ? '' : el('span', 'i3', `[${tid}]`)),
      el('td', '', records.text('event', i)),
      el('td', 'i2 fields', fields(records.text('fields', i) ?? '')),
    );
    line.addEventListener('click', () => {
      const { view, whole } = app;
      const isSeen = time >= view.from && time < view.to;
      const there = isSeen ? view : looking(view, time - (view.to - view.from) / 2n, time + (view.to - view.from) / 2n, whole);
      app.go({ ...there, b: time, tid: tid ?? view.tid });
    });
    return line;
  }
}

function lossRow(answer: Answer, i: number): HTMLElement {
  const losses = answer.table('losses');
  const cpu = losses.number('cpu', i);
  const [records, packets] = [losses.number('records', i) ?? 0, losses.number('packets', i) ?? 0];
  const length = duration((losses.number('to', i) ?? 0) - (losses.number('from', i) ?? 0));
  const what = packets > 0 ? `${grouped(records)} records and ${grouped(packets)} packets` : `${grouped(records)} records`;
  const text = `${what} lost here${cpu === null ? '' : ` on CPU ${cpu}`}, in ${length}. What happened there is not known.`;
  const cell = el('td', '', el('span', '', text));
  cell.colSpan = 7;
  return el('tr', 'lost', cell);
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
