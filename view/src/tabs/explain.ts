// SPDX-License-Identifier: MIT OR Apache-2.0
// Why it took so long: the story of `kymo explain` for what is selected, with each thread, CPU and time in it a link.

import type { App, Part } from '../app/app.js';
import { type View, around, looking, marked, sampleOf } from '../app/view.js';
import { Pending, add, byId, clean, el, later, link } from '../common/dom.js';
import { duration, grouped } from '../common/time.js';
import { doubts } from '../layout/layout.js';
import type { Parameters } from '../query/api.js';
import type { Answer, Table } from '../query/columns.js';

/** Parts of a budget that are listed. */
const PARTS = 7;

/** The colour of a cause [spec/analyze.md 6]: that of the state that it makes. */
const COLOURS: Record<string, string> = {
  own: 'run', thread: 'run', higher_priority: 'pre', run_queue: 'pre', preemption_off: 'pre', irqs_off: 'irq', irq: 'irq', nmi: 'irq', softirq: 'soft',
  lock_owner: 'lock', page_fault: 'fault', throttled: 'thr', stopped: 'thr', blocked: 'wait', waker: 'wait', idle_exit: 'wokfill', switching: 'wokfill',
  timer_slack: 'sleep', idle: 'sleep', frequency: 'kern', firmware: 'kern', steal: 'kern', remainder: 'unknown',
};

/** The class of the colour of a cause. */
export function causeClass(kind: string): string {
  return `c-${COLOURS[kind] ?? 'unknown'}`;
}

/** What a view asks to be explained: a sample of a latency, the stretch between the cursors, or what the thread did at the moment. */
export function subject(view: View): Parameters | null {
  const { tid, at } = view;
  const stretch = marked(view);
  if (stretch) {
    const what = view.sample.split('~')[0] ?? '';
    const isSample = what !== '' && view.sample === sampleOf(what, tid, stretch.from, stretch.to);
    const ends = { from: `@${stretch.from}`, to: `@${stretch.to}` };
    // The idle thread is none: then it is of its CPU.
    if (isSample) return { what, tid: tid || null, ...ends };
    if (tid && stretch.from < stretch.to) return { tid, ...ends };
  }
  return tid && at !== null ? { tid, at: `@${at}` } : null;
}

/** A part of a text that may be a link. */
export interface TextPiece {
  text: string;
  tid: number | null;
  cpu: number | null;
}

/** The texts of an answer by table and row: what `piecesOf(answer)('budget', 0)` gives, joined, is the text of that row. */
export function piecesOf(answer: Answer): (table: string, row: number) => TextPiece[] {
  const of = answer.table('pieces');
  const byRow = new Map<string, TextPiece[]>();
  for (let i = 0; i < of.rows; i++) {
    const key = `${of.text('table', i)} ${of.number('row', i)}`;
    const piece = { text: of.text('text', i) ?? '', tid: of.number('tid', i), cpu: of.number('cpu', i) };
    byRow.set(key, [...(byRow.get(key) ?? []), piece]);
  }
  return (table, row) => byRow.get(`${table} ${row}`) ?? [];
}

/** A text with its links: to a thread, at the moment `at`; to the row of a CPU. */
export function linked(app: App, pieces: readonly TextPiece[], at: bigint | null): HTMLElement {
  const box = el('span');
  for (const { text, tid, cpu } of pieces) {
    if (tid !== null) add(box, link(text, () => app.go({ ...app.view, tid, at: at ?? app.view.at }), `Select thread ${tid}`));
    else if (cpu !== null) add(box, link(text, () => revealCpu(cpu), `Show CPU ${cpu}`));
    else add(box, text);
  }
  return box;
}

/** Brings the row of a CPU into sight. */
function revealCpu(cpu: number): void {
  const label = document.querySelector<HTMLElement>(`#labels [data-key="cpu${cpu}"]`);
  label?.scrollIntoView({ block: 'nearest' });
  label?.focus();
}

/** A link to a moment: the cursor goes there, and the window, too, where it does not show it. */
export function timeLink(app: App, at: bigint, text: string): HTMLElement {
  return link(
    text,
    () => {
      const { view, whole } = app;
      const half = (view.to - view.from) / 2n;
      const isSeen = at >= view.from && at < view.to;
      app.go({ ...(isSeen ? view : looking(view, at - half, at + half, whole)), at });
    },
    app.times.text(at),
  );
}

/** The parts of a budget: a bar, and a list with the largest. */
export function budget(app: App, answer: Answer, whole: number, at: bigint): HTMLElement {
  const of = answer.table('budget');
  const texts = piecesOf(answer);
  const [bar, list] = [el('div', 'budget'), el('ul', 'parts')];
  let [left, rest] = [0, 0];
  for (let row = 0; row < of.rows; row++) {
    const [ns, kind, count] = [of.number('ns', row) ?? 0, of.text('kind', row) ?? '', of.number('pieces', row) ?? 1];
    const share = (100 * ns) / Math.max(1, whole);
    const part = el('i', causeClass(kind));
    part.style.width = `${share}%`;
    part.title = texts('budget', row).map(({ text }) => text).join('');
    bar.append(part);
    if (row >= PARTS) {
      [left, rest] = [left + 1, rest + ns];
      continue;
    }
    const doubt = doubts(answer, of.number('doubt', row) ?? 0);
    const says = el('span', '', linked(app, texts('budget', row), at), count > 1 ? ` (${grouped(count)} times)` : '', doubt ? el('span', 'i3', `doubtful: ${doubt}`) : '');
    list.append(el('li', '', el('i', `sw ${causeClass(kind)}`), says, el('span', 'num', duration(ns)), el('span', 'num i2', `${share.toFixed(1)} %`)));
  }
  if (left) list.append(el('li', '', el('i', 'sw'), `${left} more parts`, el('span', 'num', duration(rest)), ''));
  return el('div', '', bar, list);
}

/** The explanation beside the time line. */
export class Explain implements Part {
  private readonly box = byId('explain');
  private readonly pending = new Pending(this.box);
  private asked = '';
  private readonly reload = later(150, () => void this.load());

  constructor(private readonly app: App) {}

  changed(view: View, before: View | null): void {
    const asked = view.page === 'timeline' && view.explain !== 'off' ? subject(view) : null;
    this.box.hidden = asked === null;
    if (!asked) {
      this.asked = '';
      return;
    }
    const key = JSON.stringify(asked);
    if (key === this.asked && before?.format === view.format && before.page === view.page) return;
    this.asked = key;
    this.pending.begin();
    this.reload();
  }

  private async load(): Promise<void> {
    const { app } = this;
    const asked = subject(app.view);
    if (!asked || app.view.explain === 'off') return;
    const done = this.pending.begin();
    try {
      const answer = await app.client.ask('explain', 'explain', asked);
      if (!answer) return;
      this.show(answer);
    } catch (error) {
      const hint = (error as { hint?: string | null }).hint;
      const text = error instanceof Error ? error.message : String(error);
      this.box.replaceChildren(el('h2', '', 'Why'), el('p', 'note', hint ? `${text}: ${hint}` : text));
    } finally {
      done();
    }
  }

  private show(answer: Answer): void {
    const { app } = this;
    const [from, to] = [BigInt(answer.head.from), BigInt(answer.head.to)];
    const head = el('h2', '', 'Why');
    add(head, link('hide', () => app.go({ ...app.view, explain: 'off' }), 'Hide the explanation (e)'));
    this.box.replaceChildren(head);
    const sentences = answer.table('sentences');
    const texts = piecesOf(answer);
    const kinds = Array.from({ length: sentences.rows }, (_, row) => ({ row, kind: sentences.text('kind', row) ?? '' }));
    const says = (row: number): HTMLElement => linked(app, texts('sentences', row), from);
    for (const { row } of kinds.filter(({ kind }) => kind === 'headline')) add(this.box, el('p', 'headline', says(row)));
    this.when(from, to, answer);
    const cpus = kinds.filter(({ kind }) => kind === 'cpu');
    if (cpus.length) add(this.box, el('ul', 'said', ...cpus.map(({ row }) => el('li', '', says(row)))));
    if (answer.table('budget').rows) add(this.box, el('h3', '', 'Where the time went'), budget(app, answer, Number(to - from), from));
    this.chain(answer, texts);
    this.records(answer, texts, from);
    for (const [kind, title] of [['doubt', 'Doubtful'], ['blind', 'Not in the trace']] as const) {
      const rows = kinds.filter((one) => one.kind === kind);
      if (rows.length) add(this.box, el('h3', '', title), el('ul', 'said', ...rows.map(({ row }) => el('li', '', says(row)))));
    }
    const advice = kinds.filter(({ kind }) => kind === 'try');
    if (advice.length) add(this.box, el('h3', '', 'What to try'), el('ul', 'said', ...advice.map(({ row }) => el('li', '', says(row), el('div', 'i2', 'because: ', linked(app, texts('sentences', row - 1), from))))));
    for (const note of answer.head.notes) add(this.box, el('p', 'note', note));
  }

  private when(from: bigint, to: bigint, answer: Answer): void {
    const { app } = this;
    const line = el('p', 'i2', timeLink(app, from, app.times.text(from)));
    if (to > from) {
      add(line, ' to ', timeLink(app, to, app.times.text(to)), ` · ${duration(Number(to - from))} · `);
      add(line, link('mark it', () => app.go({ ...around(app.view, from, to, app.whole), a: from, b: to }), 'Set the cursors at its ends, and show it'));
    }
    const { records, packets } = answer.head.lost;
    add(this.box, line);
    if (records || packets) add(this.box, el('p', 'lost', `${grouped(records)} records${packets ? ` and ${grouped(packets)} packets` : ''} were lost in it.`));
  }

  /** Who was waited for, one for the other. */
  private chain(answer: Answer, texts: ReturnType<typeof piecesOf>): void {
    const of = answer.table('chain');
    if (!of.rows) return;
    const list = el('ol', 'chain');
    for (let row = 0; row < of.rows; row++) {
      const [from, to] = [of.big('from', row) ?? 0n, of.big('to', row) ?? 0n];
      const doubt = doubts(answer, of.number('doubt', row) ?? 0);
      const line = el('li', '', el('span', '', linked(this.app, texts('chain', row), from), doubt ? el('span', 'i3', `doubtful: ${doubt}`) : ''), timeLink(this.app, from, duration(Number(to - from))));
      line.style.paddingLeft = `${Math.min(5, of.number('depth', row) ?? 0) * 10}px`;
      list.append(line);
    }
    const left = Number(answer.head.info['chain_left_out'] ?? 0);
    add(this.box, el('h3', '', 'Who was waited for'), list);
    if (left) add(this.box, el('p', 'i2', `${left} shorter links are not listed.`));
    add(this.box, el('p', '', link('Draw the critical path', () => this.app.go({ ...this.app.view, critical: 'on', tab: 'critical' }), 'c')));
  }

  /** The time line in words. */
  private records(answer: Answer, texts: ReturnType<typeof piecesOf>, from: bigint): void {
    const of = answer.table('records');
    if (!of.rows) return;
    const list = el('ol', 'what');
    for (let row = 0; row < of.rows; row++) list.append(this.record(of, texts, row, from));
    add(this.box, el('h3', '', 'What happened, after its begin'), list);
  }

  private record(of: Table, texts: ReturnType<typeof piecesOf>, row: number, begin: bigint): HTMLElement {
    const { app } = this;
    const [kind, from, to, cpu] = [of.text('kind', row), of.big('from', row), of.big('to', row), of.number('cpu', row)];
    if (kind === 'skipped' || from === null) return el('li', 'i2 skipped', `${grouped(of.number('left_out', row) ?? 0)} records are left out`);
    const says = linked(app, texts('records', row), from);
    if (kind === 'gap') return el('li', 'gap', timeLink(app, from, duration(Number((to ?? from) - from))), ': ', says);
    const [tid, who, stack] = [of.number('tid', row), of.text('who', row), of.text('stack', row)];
    const line = el('li', '', timeLink(app, from, offset(from - begin)), el('span', 'i2', cpu === null ? '' : String(cpu)), el('span', '', who && tid !== null ? link(who, () => app.go({ ...app.view, tid, at: from })) : (who ?? ''), ' ', says));
    if (stack) {
      const shown = el('pre', 'stack i2');
      shown.textContent = stack.split('\n').map(clean).join('\n');
      add(line, shown);
    }
    return line;
  }
}

/** `+12.3 µs`, `−7 ns`. */
function offset(ns: bigint): string {
  return `${ns < 0n ? '' : '+'}${duration(Number(ns))}`;
}
