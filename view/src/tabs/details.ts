// SPDX-License-Identifier: MIT OR Apache-2.0
// What is known of the thread that is selected, in the window and at the moment that was chosen.

import type { App, Part } from '../app/app.js';
import { type View, around } from '../app/view.js';
import { Pending, add, byId, el, later, link, table } from '../common/dom.js';
import { duration, grouped } from '../common/time.js';
import { STATES, STATE_LOOKS, type State, doubts } from '../layout/layout.js';
import type { Answer, Table } from '../query/columns.js';

const STEPS = 12;

export class Details implements Part {
  private readonly box = byId('details');
  private readonly pending = new Pending(this.box);
  private readonly reload = later(120, () => void this.load());

  constructor(private readonly app: App) {}

  changed(view: View, before: View | null): void {
    if (view.page !== 'timeline') return;
    const isSame = before && before.page === view.page && before.tid === view.tid && before.at === view.at && before.from === view.from && before.to === view.to;
    if (view.tid === null) this.box.replaceChildren(el('p', 'note', 'Select a thread or a slice: what it did, what it waited for and who woke it is shown here.'));
    else if (!isSame || before.format !== view.format) this.reload();
  }

  private async load(): Promise<void> {
    const { app } = this;
    const { from, to, tid } = app.view;
    if (tid === null) return;
    const window = { from: app.at(from), to: app.at(to) };
    const done = this.pending.begin();
    try {
      const [list, states] = await Promise.all([
        app.client.ask('details', 'threads', { ...window, match: String(tid), limit: 50 }),
        app.client.ask('moment', 'states', { ...window, pixels: 8192, tids: [tid], calls: 1, late: 0 }),
      ]);
      if (list && states) this.show(tid, list, states);
    } catch (error) {
      this.box.replaceChildren(el('p', 'note wrong', error instanceof Error ? error.message : String(error)));
    } finally {
      done();
    }
  }

  private show(tid: number, list: Answer, states: Answer): void {
    const threads = list.table('threads');
    const row = Array.from({ length: threads.rows }, (_, row) => row).find((row) => threads.number('tid', row) === tid);
    const rows = states.table('rows');
    const name = rows.rows ? rows.text('name', 0) : null;
    this.box.replaceChildren(el('h2', '', `${name ?? (tid === 0 ? 'idle' : '')}[${tid}]`));
    if (row !== undefined) this.times(threads, row);
    this.moment(states);
    this.late(states);
    for (const note of states.head.notes) add(this.box, el('p', 'note', note));
  }

  private times(threads: Table, row: number): void {
    const { from, to } = this.app.view;
    const length = Math.max(1, Number(to - from));
    const shown = STATES.filter((state) => state !== 'absent').map((state) => ({ state, ns: threads.number(`${state}_ns`, row) ?? 0 }));
    const used = shown.filter(({ ns }) => ns > 0).sort((a, b) => b.ns - a.ns);
    const bar = el('div', 'budget');
    for (const { state, ns } of used) {
      const part = el('i', `c-${STATE_LOOKS[state].fill ?? 'sleep'}`);
      part.style.width = `${(100 * ns) / length}%`;
      part.title = STATE_LOOKS[state].says;
      bar.append(part);
    }
    const [process, processName] = [threads.number('process', row), threads.text('process_name', row)];
    const facts = [process === null ? '' : `process ${processName ?? ''}[${process}]`, `${grouped(threads.number('wakeups', row) ?? 0)} wake-ups`, `${grouped(threads.number('migrations', row) ?? 0)} moves between CPUs`];
    add(
      this.box,
      el('p', 'i2', facts.filter(Boolean).join(' · ')),
      el('h3', '', 'Where the time of the window went'),
      bar,
      table<{ state: State; ns: number }>(
        [
          { head: '', cell: ({ state }) => el('i', `sw c-${STATE_LOOKS[state].fill ?? 'sleep'}`) },
          { head: 'State', cell: ({ state }) => STATE_LOOKS[state].says },
          { head: 'Time', isNumber: true, cell: ({ ns }) => duration(ns) },
          { head: '%', isNumber: true, cell: ({ ns }) => ((100 * ns) / length).toFixed(1) },
        ],
        used,
      ),
    );
    const [worst, at] = [threads.number('worst_ns', row), threads.big('worst_at', row)];
    if (worst !== null && at !== null) {
      add(this.box, el('p', '', `Longest wait for a CPU: ${duration(worst)}. `, link('Go there', () => this.app.go({ ...around(this.app.view, at, at + BigInt(Math.round(worst)), this.app.whole), a: at, b: at + BigInt(Math.round(worst)) }))));
    }
  }

  /** What it did around the moment that was chosen. */
  private moment(states: Answer): void {
    const { at } = this.app.view;
    const spans = states.table('spans');
    if (!spans.rows) return;
    const begins = spans.offsets('from');
    const order = Array.from({ length: spans.rows }, (_, row) => row).sort((a, b) => (begins[a] ?? 0) - (begins[b] ?? 0));
    const when = at === null ? -Infinity : Number(at);
    const found = order.findIndex((row) => (spans.number('to', row) ?? 0) > when);
    const first = Math.max(0, (found < 0 ? order.length : found) - STEPS / 2);
    const list = el('ol', 'steps');
    for (const row of order.slice(first, first + STEPS)) add(list, this.step(states, spans, row, when));
    add(this.box, el('h3', '', 'What it did'), list);
  }

  private step(states: Answer, spans: Table, row: number, when: number): HTMLElement {
    const state = STATES[spans.number('state', row) ?? 0] ?? 'unknown';
    const [from, to] = [spans.big('from', row) ?? 0n, spans.big('to', row) ?? 0n];
    const [by, byName, call, cpu] = [spans.number('by', row), spans.text('by_name', row), spans.text('call', row), spans.number('cpu', row)];
    const doubt = doubts(states, spans.number('doubt', row) ?? 0);
    const line = el('li', Number(from) <= when && when < Number(to) ? 'now' : '', el('span', 'tm', duration(Number(to - from))), el('i', `sw c-${STATE_LOOKS[state].fill ?? 'sleep'}`));
    const says = el('span', '', STATE_LOOKS[state].says, cpu !== null && state === 'running' ? ` on CPU ${cpu}` : '', call ? ` in ${call}` : '');
    if (by !== null && by !== 0) add(says, ', by ', link(`${byName ?? ''}[${by}]`, () => this.app.go({ ...this.app.view, tid: by, at: from })));
    else if (byName) add(says, `, by ${byName}`);
    if (doubt) add(says, el('span', 'i3', ` (doubtful: ${doubt})`));
    add(line, says, link('zoom', () => this.app.go({ ...around(this.app.view, from, to, this.app.whole), at: from }), 'Zoom to it'));
    return line;
  }

  private late(states: Answer): void {
    const late = states.table('late');
    if (!late.rows) return;
    const lengths = Array.from({ length: late.rows }, (_, row) => ({ row, ns: (late.number('to', row) ?? 0) - (late.number('from', row) ?? 0) }));
    const worst = lengths.sort((a, b) => b.ns - a.ns).slice(0, 5);
    const list = table<{ row: number; ns: number }>(
      [
        { head: 'Waited for a CPU', isNumber: true, cell: ({ ns }) => duration(ns) },
        { head: 'From', isNumber: true, cell: ({ row }) => this.app.times.text(late.big('from', row) ?? 0n) },
      ],
      worst,
      ({ row }) => {
        const [from, to] = [late.big('from', row) ?? 0n, late.big('to', row) ?? 0n];
        this.app.go({ ...around(this.app.view, from, to, this.app.whole), at: to, a: from, b: to });
      },
    );
    add(this.box, el('h3', '', 'Its longest waits in the window'), list);
  }
}
