// SPDX-License-Identifier: MIT OR Apache-2.0
// The tabs below the time line: what they share, and the worst latencies.

import type { App, Part } from '../app/app.js';
import { allSeries, chosenBy, lengthsSaid, seriesName } from '../app/series.js';
import { type View, around, sampleOf } from '../app/view.js';
import { Pending, add, byId, clean, el, later, link, table } from '../common/dom.js';
import { duration } from '../common/time.js';
import { doubts } from '../layout/layout.js';
import type { Parameters } from '../query/api.js';
import type { Answer, Table } from '../query/columns.js';
import { piecesOf } from './explain.js';

const WORST = 50;
/** Causes are found for so many of the worst. */
const CAUSES = 20;

export const time = (ns: number | null): string => (ns === null ? 'too few' : duration(ns));

/** What the answers of tabs depend on, beside the window. */
const CHOICES = ['filter', 'what', 'stats', 'format', 'lengths', 'apart', 'spans', 'rows'] as const;

/** A tab that asks again when the window, the filter or its own choice changes. */
export abstract class Panel implements Part {
  protected readonly box: HTMLElement;
  private readonly reload = later(150, () => void this.load());
  protected readonly pending: Pending;
  private isLoading = false;

  constructor(
    protected readonly app: App,
    private readonly tab: View['tab'],
  ) {
    this.box = byId(tab);
    this.pending = new Pending(this.box);
  }

  changed(view: View, before: View | null): void {
    if (view.page !== 'timeline' || view.tab !== this.tab) return;
    const isSame = before && before.page === view.page && before.tab === view.tab && before.from === view.from && before.to === view.to;
    if (isSame && !CHOICES.some((name) => before[name] !== view[name])) return;
    if (!this.app.isFollowing) this.pending.begin();
    this.reload();
  }

  private async load(): Promise<void> {
    // While the picture moves a question may take longer than the pause between two: it is not given up for the next.
    if (this.app.isFollowing && this.isLoading) return this.reload();
    this.isLoading = true;
    // What is followed is always of a moment ago.
    const done = this.app.isFollowing ? () => this.pending.end() : this.pending.begin();
    try {
      const answer = await this.ask();
      if (answer) this.show(answer);
    } catch (error) {
      const hint = (error as { hint?: string | null }).hint;
      const text = error instanceof Error ? error.message : String(error);
      this.failed(el('pre', 'note wrong', hint ? `${text}\n${hint}` : text));
    } finally {
      this.isLoading = false;
      done();
    }
  }

  /** There is no answer; `message` says why. */
  protected failed(message: HTMLElement): void {
    this.box.replaceChildren(message);
  }

  protected abstract ask(): Promise<Answer | null>;
  protected abstract show(answer: Answer): void;

  protected get window(): { from: string; to: string; filter: string | null } {
    const { from, to, filter } = this.app.view;
    return { from: this.app.at(from), to: this.app.at(to), filter: filter || null };
  }

  /** Shows a sample; `what`: of which latency it is. */
  protected go(points: Table, row: number, what: string): void {
    const [from, to] = [points.big('from', row), points.big('to', row)];
    if (from === null || to === null) return;
    const tid = points.number('tid', row);
    this.app.go({ ...around(this.app.view, from, to, this.app.whole), tid, at: to, a: from, b: to, sample: sampleOf(what, tid, from, to) });
  }
}

/** The longest ones, with whose they were. */
export class Worst extends Panel {
  constructor(app: App) {
    super(app, 'worst');
  }

  private get asked(): Parameters {
    const chosen = chosenBy(this.app.view);
    return { ...this.window, ...chosen, limit: WORST, what: chosen['kind'] };
  }

  protected ask(): Promise<Answer | null> {
    return this.app.client.ask('worst', 'worst', this.asked);
  }

  protected show(answer: Answer): void {
    const [points, series] = [answer.table('points'), allSeries(answer)];
    const rows = Array.from({ length: points.rows }, (_, row) => row);
    const causes = rows.map((row) => el('span', 'cause', row < CAUSES ? '…' : ''));
    const whatOf = (row: number): string => series[points.number('series', row) ?? -1]?.what ?? '';
    const who = (tid: string, name: string, row: number): string => {
      const number = points.number(tid, row);
      return number === null ? '' : `${points.text(name, row) ?? ''}[${number}]`;
    };
    const list = table<number>(
      [
        { head: '#', isNumber: true, cell: (row) => row + 1 },
        { head: 'Lasted', isNumber: true, cell: (row) => time(points.number('value_ns', row)) },
        { head: 'Latency', cell: (row) => seriesName(series[points.number('series', row) ?? 0]) },
        { head: 'Begin', isNumber: true, cell: (row) => this.app.times.text(points.big('from', row) ?? 0n) },
        { head: 'Thread', cell: (row) => who('tid', 'name', row) },
        { head: 'Priority', cell: (row) => priority(points.number('prio', row)) },
        { head: 'CPU', isNumber: true, cell: (row) => points.number('cpu', row) },
        { head: 'Woken by', cell: (row) => who('waker', 'waker_name', row) },
        { head: 'Cause', cell: (row) => causes[row] },
        { head: 'Doubt', cell: (row) => doubts(answer, points.number('doubt', row) ?? 0) },
      ],
      rows,
      (row) => this.go(points, row, whatOf(row)),
    );
    const { view } = this.app;
    const only = [view.what.replace(/~.*/, ''), lengthsSaid(view)].filter(Boolean).join(', ');
    const all = link('all latencies', () => this.app.go({ ...view, what: '', lengths: '' }));
    this.box.replaceChildren(only ? el('p', 'note', `Only ${only}. `, all) : '', rows.length ? list : el('p', 'note', 'No latency was found in this window.'));
    if (rows.length) void this.explain(causes);
  }

  /** Causes take a second pass over what is around each of them: they come later. */
  private async explain(cells: readonly HTMLElement[]): Promise<void> {
    let texts: (row: number) => string = () => '';
    try {
      const answer = await this.app.client.ask('causes', 'worst', { ...this.asked, causes: CAUSES });
      if (!answer) return;
      const pieces: ReturnType<typeof piecesOf> = answer.table('causes').rows ? piecesOf(answer) : () => [];
      const points = answer.table('causes');
      const rowOf = new Map(Array.from({ length: points.rows }, (_, row) => [points.number('point', row), row]));
      if (cells[0]?.isConnected) for (const note of answer.head.notes) add(this.box, el('p', 'note', note));
      texts = (point) => {
        const row = rowOf.get(point);
        return row === undefined ? '' : pieces('causes', row).map(({ text }) => text).join('');
      };
    } catch (error) {
      this.app.failed(error);
    }
    cells.forEach((cell, row) => {
      const text = texts(row);
      cell.replaceChildren(clean(text));
      cell.title = clean(text);
    });
  }
}

function priority(prio: number | null): string {
  return prio === null ? '' : prio < 100 ? `rt ${99 - prio}` : `nice ${prio - 120}`;
}
