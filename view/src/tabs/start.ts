// SPDX-License-Identifier: MIT OR Apache-2.0
// The first page: what is in the trace, what was lost, and where it is worth to look first.

import type { App, Part } from '../app/app.js';
import { type View, around, sampleOf } from '../app/view.js';
import { add, byId, clean, el, link, table } from '../common/dom.js';
import { duration, grouped } from '../common/time.js';
import { doubts } from '../layout/layout.js';
import type { Answer, Table } from '../query/columns.js';

interface Ability {
  question: string;
  can: boolean;
  record_with: string;
}

export class Start implements Part {
  private readonly box = byId('start');
  private readonly places = el('div', 'cards');
  private isLoaded = false;

  constructor(private readonly app: App) {
    const { head } = app.summary;
    const { info } = head;
    const records = Number(info['records'] ?? 0);
    const length = duration(head.to - head.from);
    add(
      this.box,
      el('h1', '', clean(String(info['name'] ?? 'Trace'))),
      el('p', 'lead', records ? `${grouped(records)} records in ${length}.` : 'This trace has no records.'),
      this.losses(),
      records ? el('h2', '', 'Where to look first') : this.empty(),
      this.places,
      el('p', '', link('Open the time line', () => app.go({ ...app.view, page: 'timeline' }))),
      this.caveats(info['caveats']),
      this.abilities(info['answers'] as Ability[] | undefined),
      el('h2', '', 'What was recorded'),
      this.events(),
      this.environment(info['traces'] as { name: string; env: Record<string, unknown> }[] | undefined),
    );
  }

  changed(view: View): void {
    if (view.page !== 'start' || this.isLoaded) return;
    this.isLoaded = true;
    void this.look().catch((error: unknown) => this.places.append(el('p', 'note', error instanceof Error ? error.message : String(error))));
  }

  /** What the index has is there at once; spans may have to be read. */
  private async look(): Promise<void> {
    const first = await this.app.client.ask('places', 'places', { spans: 0 });
    if (first) this.show(first);
    if (!first?.head.info['has_spans']) return;
    const all = await this.app.client.ask('places', 'places', {});
    if (all) this.show(all);
  }

  private empty(): HTMLElement {
    return el('p', 'note', 'Nothing matched while it was recorded, or nothing ran. ', el('code', '', "kymo record -k 'sched:*' -- COMMAND"), ' records what the CPUs did.');
  }

  private losses(): HTMLElement {
    const { records, packets, places } = this.app.summary.head.lost;
    if (!places) return el('p', 'good', 'Nothing was lost.');
    const what = packets > 0 ? `${grouped(records)} records and ${grouped(packets)} packets, of which nobody knows how many records were in them,` : `${grouped(records)} records`;
    const box = el('p', 'lost', `${what} were lost, in ${grouped(places)} places. `);
    const losses = this.app.summary.table('losses');
    let largest = -1;
    for (let i = 0; i < losses.rows; i++) if (largest < 0 || (losses.number('records', i) ?? 0) > (losses.number('records', largest) ?? 0)) largest = i;
    const [from, to] = largest < 0 ? [null, null] : [losses.big('from', largest), losses.big('to', largest)];
    if (from !== null && to !== null) add(box, link('Show the largest', () => this.app.go(around(this.app.view, from, to, this.app.whole))));
    return box;
  }

  private caveats(list: unknown): HTMLElement | null {
    if (!Array.isArray(list) || !list.length) return null;
    const box = el('ul', 'caveats');
    for (const text of list) add(box, el('li', '', clean(String(text))));
    return el('div', '', el('h2', '', 'What is wrong with the trace'), box);
  }

  private abilities(list: Ability[] | undefined): HTMLElement | null {
    const missing = (list ?? []).filter((one) => !one.can);
    if (!missing.length) return null;
    const box = el('ul', 'caveats');
    for (const { question, record_with } of missing) add(box, el('li', '', `${question}: record with `, el('code', '', record_with)));
    return el('div', '', el('h2', '', 'What this trace cannot answer'), box);
  }

  private events(): HTMLElement {
    const events = this.app.summary.table('events');
    const rows = Array.from({ length: Math.min(events.rows, 20) }, (_, row) => row);
    return table<number>(
      [
        { head: 'Event', cell: (row) => events.text('name', row) },
        { head: 'Records', isNumber: true, cell: (row) => grouped(events.number('records', row) ?? 0) },
        { head: 'Of', cell: (row) => (events.number('is_kernel', row) ? 'kernel' : 'program') },
      ],
      rows,
      (row) => {
        const filter = `$event == ${JSON.stringify(events.text('name', row) ?? '')}`;
        this.app.go({ ...this.app.view, page: 'timeline', tab: 'records', filter });
      },
    );
  }

  private environment(traces: { name: string; env: Record<string, unknown> }[] | undefined): HTMLElement {
    const box = el('details', 'env', el('summary', '', 'Environment'));
    for (const { name, env } of traces ?? []) {
      const rows = Object.entries(env);
      add(box, el('h3', '', clean(name)), table([{ head: 'Name', cell: ([name]: [string, unknown]) => name }, { head: 'Value', cell: ([, value]) => String(value) }], rows));
    }
    return box;
  }

  private show(answer: Answer): void {
    const places = answer.table('places');
    this.places.replaceChildren();
    for (let i = 0; i < places.rows; i++) {
      const [from, to, tid] = [places.big('from', i), places.big('to', i), places.number('tid', i)];
      const doubt = doubts(answer, places.number('doubt', i) ?? 0);
      const card = el(
        'button',
        'card',
        el('span', 'i2', places.text('title', i)),
        el('span', 'big', duration(places.number('value_ns', i) ?? 0)),
        el('span', '', whose(places, i)),
        el('span', 'i3', `the longest of ${grouped(places.number('samples', i) ?? 0)}${doubt ? `; doubtful: ${doubt}` : ''}`),
      );
      card.type = 'button';
      card.addEventListener('click', () => {
        if (from !== null && to !== null) this.app.go({ ...around(this.app.view, from, to, this.app.whole), tid, at: to, a: from, b: to, sample: sampleOf(places.text('kind', i) ?? '', tid, from, to) });
      });
      this.places.append(card);
    }
    if (!places.rows) this.places.append(el('p', 'note', 'The trace has no wake-ups, locks or spans to measure.'));
  }
}

/** Whose a place is: `motor[815], rt 80, on CPU 2: irq 36`. */
function whose(places: Table, row: number): string {
  const [tid, name, prio, cpu, of] = [places.number('tid', row), places.text('name', row), places.number('prio', row), places.number('cpu', row), places.text('of', row)];
  const parts = [tid === null ? '' : `${name ?? ''}[${tid}]`, prio !== null && prio < 100 ? `rt ${99 - prio}` : '', cpu === null ? '' : `CPU ${cpu}`, of ?? ''];
  return parts.filter(Boolean).join(', ');
}
