// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts, rates and times of the window by event, thread, process or CPU: the largest first, and what the rest comes to.
// The numbers are those of `kymo stats` and `kymo top`.

import type { App } from '../app/app.js';
import type { View } from '../app/view.js';
import { type ColumnOf, el, link, table } from '../common/dom.js';
import { duration, grouped } from '../common/time.js';
import { doubts } from '../layout/layout.js';
import type { Answer, Table } from '../query/columns.js';
import { Panel } from './panels.js';

/** Rows that are asked for. */
const ROWS = 200;

const GROUPS = { event: 'Event', thread: 'Thread', process: 'Process', cpu: 'CPU' } as const;
const SORTS = { records: 'records', time: 'time', name: 'name' } as const;
export type Group = keyof typeof GROUPS;

/** What a view groups and sorts by; the server chooses an order where the view has none. */
export function groupOf(view: Pick<View, 'stats'>): { by: Group; sort: string | null } {
  const [group = '', order = ''] = view.stats.split('.');
  const by = group in GROUPS ? (group as Group) : 'event';
  const isOrder = order in SORTS && !(by === 'event' && order === 'time');
  return { by, sort: isOrder ? order : null };
}

/** One row of the answer, or what the others come to. */
export interface StatRow {
  of: Table;
  row: number;
  isOthers: boolean;
}

/** The rows of an answer, then the others. Pure. */
export function statRows(answer: Answer): StatRow[] {
  const rows = (name: string, isOthers: boolean): StatRow[] => {
    const of = answer.table(name);
    return Array.from({ length: of.rows }, (_, row) => ({ of, row, isOthers }));
  };
  return [...rows('rows', false), ...rows('others', true)];
}

/** What a row is called. */
export function labelOf(by: Group, { of, row, isOthers }: StatRow): string {
  if (isOthers) return `${grouped(of.number('rows', row) ?? 0)} others`;
  const name = of.text('name', row) ?? '';
  if (by === 'event') return name;
  const number = of.number(by === 'thread' ? 'tid' : by, row);
  if (number === null) return by === 'cpu' ? 'not known' : 'idle, or not known';
  return by === 'cpu' ? `CPU ${number}` : `${name}[${number}]`;
}

/** A time, which is not 0 where nobody knows it. */
function timeOf({ of, row }: StatRow, name: string): string {
  const ns = of.number(name, row);
  return ns === null ? 'not known' : duration(ns);
}

function rate(perSecond: number | null): string {
  if (perSecond === null) return '';
  return `${perSecond < 10 ? perSecond.toFixed(1) : grouped(Math.round(perSecond))} /s`;
}

/** ns as a share of the time that is known, of one CPU. */
export function percent(answer: Answer, ns: number | null): string {
  const [from, to] = [answer.head.info['times_from'], answer.head.info['times_to']];
  if (ns === null || typeof from !== 'number' || typeof to !== 'number' || to <= from) return '';
  return `${((100 * ns) / (to - from)).toFixed(1)} %`;
}

/** The columns of a group. `time`: a moment as text. */
export function columnsOf(by: Group, answer: Answer, time: (at: bigint) => string): ColumnOf<StatRow>[] {
  const count = (name: string) => (one: StatRow) => {
    const number = one.of.number(name, one.row);
    return number === null ? 'not known' : grouped(number);
  };
  const moment = (name: string) => (one: StatRow) => {
    const at = one.of.big(name, one.row);
    return at === null ? '' : time(at);
  };
  const numbers = (head: string, cell: (one: StatRow) => string): ColumnOf<StatRow> => ({ head, isNumber: true, cell });
  const spent = (head: string, name: string): ColumnOf<StatRow> => numbers(head, (one) => timeOf(one, name));
  const share = (one: StatRow): string => percent(answer, one.of.number('busy_ns', one.row));
  const columns: ColumnOf<StatRow>[] = [
    { head: GROUPS[by], cell: (one) => labelOf(by, one) },
    numbers('Records', count('records')),
    numbers('Rate', (one) => rate(one.of.number('per_s', one.row))),
  ];
  if (by === 'event') {
    const whose = (one: StatRow): string => (one.isOthers ? '' : one.of.number('is_kernel', one.row) ? 'kernel' : 'program');
    return [...columns, { head: 'Of', cell: whose }, numbers('First', moment('first')), numbers('Last', moment('last'))];
  }
  if (by === 'cpu') {
    columns.push(spent('Busy', 'busy_ns'), numbers('Busy, share', share), spent('In interrupts', 'interrupt_ns'));
    columns.push(spent('Idle', 'idle_ns'), spent('Unknown', 'unknown_ns'), numbers('Runs', count('runs')));
    return columns;
  }
  columns.push(spent('CPU time', 'busy_ns'), numbers('Of one CPU', share), spent('In interrupts', 'interrupt_ns'));
  columns.push(numbers('Runs', count('runs')), spent('Longest run', 'longest_ns'));
  return [...columns, { head: 'Doubt', cell: ({ of, row }) => doubts(answer, of.number('doubt', row) ?? 0) }];
}

/** How long the threads of an answer to `threads` ran, those that ran; the columns have the names of those of statistics. Pure. */
export function timesOf(answer: Answer): { rows: number[]; columns: ColumnOf<number>[] } {
  const of = answer.table('threads');
  const ran = (row: number): number => of.number('running_ns', row) ?? 0;
  const length = Math.max(1, answer.head.to - answer.head.from);
  const columns: ColumnOf<number>[] = [
    { head: GROUPS.thread, cell: (row) => `${of.text('name', row) ?? ''}[${of.number('tid', row) ?? ''}]` },
    { head: 'CPU time', isNumber: true, cell: (row) => duration(ran(row)) },
    { head: 'Of one CPU', isNumber: true, cell: (row) => `${((100 * ran(row)) / length).toFixed(1)} %` },
  ];
  return { rows: Array.from({ length: of.rows }, (_, row) => row).filter((row) => ran(row) > 0), columns };
}

/** What is of all rows. */
export function totals(answer: Answer): string {
  const number = (name: string): number => Number(answer.head.info[name] ?? 0);
  const [records, selected] = [number('records'), number('selected')];
  const of = selected < records ? `${grouped(selected)} of ${grouped(records)} records` : `${grouped(records)} records`;
  const { lost } = answer.head;
  const missing = lost.places ? ` ${lost.records ? `${grouped(lost.records)} records` : 'Records'} were lost in it: counts and times are lower bounds.` : '';
  return `${of} in this window, ${duration(number('last') - number('first'))} from the first to the last: rates are of that time.${missing}`;
}

export class Statistics extends Panel {
  private readonly groups = el('span', 'seg');
  private readonly sorts = el('span', 'seg');
  private readonly head = el('div', 'choose', 'By', this.groups, 'sorted by', this.sorts);
  private readonly body = el('div');
  /** Which question is the newest, and which was shown last. */
  private asked = 0;
  private shown = 0;

  constructor(app: App) {
    super(app, 'statistics');
    for (const group of Object.keys(GROUPS) as Group[]) this.groups.append(this.choice(GROUPS[group], 'group', group));
    for (const sort of Object.keys(SORTS)) this.sorts.append(this.choice(sort, 'sort', sort));
  }

  /** A button. It stays where it is when the table changes, so that it keeps the focus. */
  private choice(text: string, what: 'group' | 'sort', value: string): HTMLButtonElement {
    const made = link(text, () => {
      const { by } = groupOf(this.app.view);
      this.app.go({ ...this.app.view, stats: what === 'group' ? value : `${by}.${value}` });
    });
    made.dataset[what] = value;
    return made;
  }

  protected ask(): Promise<Answer | null> {
    this.asked++;
    // What was chosen is seen to be chosen, however long the answer takes.
    this.frame();
    const { by, sort } = groupOf(this.app.view);
    if (by === 'thread' && (sort ?? 'time') === 'time' && !this.window.filter && !this.app.isFollowing) void this.times();
    return this.app.client.ask('statistics', 'statistics', { ...this.window, ...groupOf(this.app.view), limit: ROWS });
  }

  /** How long threads ran is in the index: that is shown while their records are counted. */
  private async times(): Promise<void> {
    const own = this.asked;
    const { from, to } = this.window;
    const answer = await this.app.client.ask('times', 'threads', { from, to, by: 'running', limit: ROWS }).catch(() => null);
    if (answer?.head.info['source'] !== 'index' || own !== this.asked || own === this.shown) return;
    const { rows, columns } = timesOf(answer);
    const choose = (row: number): void => this.app.go({ ...this.app.view, tid: answer.table('threads').number('tid', row) });
    this.body.replaceChildren(el('p', 'note', 'How long threads ran, by the index. Their records, interrupts and runs are being counted.'), table(columns, rows, choose));
    this.pending.end();
  }

  /** What is above the table. */
  private frame(): void {
    const { by, sort } = groupOf(this.app.view);
    const isBy = (one: HTMLElement): boolean => one.dataset['group'] === by || (sort !== null && one.dataset['sort'] === sort);
    for (const one of [...this.groups.children, ...this.sorts.children] as HTMLElement[]) {
      one.classList.toggle('on', isBy(one));
      one.setAttribute('aria-pressed', String(isBy(one)));
      one.hidden = by === 'event' && one.dataset['sort'] === 'time';
    }
    if (!this.body.isConnected) this.box.replaceChildren(this.head, this.body);
  }

  protected show(answer: Answer): void {
    this.shown = this.asked;
    const { by } = groupOf(this.app.view);
    const rows = statRows(answer);
    const columns = columnsOf(by, answer, (at) => this.app.times.text(at));
    const notes = [totals(answer), ...answer.head.notes].map((note) => el('p', 'note', note));
    this.body.replaceChildren(...notes, table(columns, rows, (row) => this.choose(by, row)));
  }

  /** Shows what a row is of: a thread is selected, and records of the others are filtered. */
  private choose(by: Group, { of, row, isOthers }: StatRow): void {
    if (isOthers) return;
    const { app } = this;
    const number = by === 'event' ? null : of.number(by === 'thread' ? 'tid' : by, row);
    if (by === 'event') app.go({ ...app.view, tab: 'records', filter: `$event == ${JSON.stringify(of.text('name', row) ?? '')}` });
    else if (number === null) return;
    else if (by === 'thread') app.go({ ...app.view, tid: number });
    else app.go({ ...app.view, tab: 'records', filter: by === 'cpu' ? `$cpu == ${number}` : `$pid == ${number}` });
  }
}
