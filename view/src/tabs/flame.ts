// SPDX-License-Identifier: MIT OR Apache-2.0
// The spans of the window as a flame graph: spans that lie within the same ones are summed up, of all threads together.

import type { App } from '../app/app.js';
import { around } from '../app/view.js';
import { el, link } from '../common/dom.js';
import { identity } from '../common/palette.js';
import { duration, grouped } from '../common/time.js';
import { type FlameBox, flameBoxes, hasKey, spansOf } from '../layout/flame.js';
import { spanName } from '../layout/spans.js';
import type { Answer } from '../query/columns.js';
import { Panel } from './panels.js';

const LEVEL = 17;

export class Flame extends Panel {
  private pairs: string[] | null = null;

  constructor(app: App) {
    super(app, 'flame');
  }

  protected async ask(): Promise<Answer | null> {
    this.pairs ??= await this.named();
    return this.app.client.ask('flame', 'flame', { ...this.window, span: spansOf(this.app.view.spans) });
  }

  /** Pairs that the names of events tell. */
  private async named(): Promise<string[]> {
    try {
      const pairs = (await this.app.client.ask('pairs', 'schema', {}))?.table('pairs');
      return pairs ? Array.from({ length: pairs.rows }, (_, row) => pairs.text('span', row) ?? '') : [];
    } catch {
      // A saved page has no schema: what it has is shown, and nothing else.
      return [];
    }
  }

  /** Which spans are shown, here and in the rows: those that names tell, and any two events. */
  private choices(): HTMLElement {
    const { app } = this;
    const chosen = spansOf(app.view.spans);
    const named = this.pairs ?? [];
    const go = (spans: readonly string[]): void => app.go({ ...app.view, spans: spans.join('|') });
    const made = el('div', 'apart', 'Spans:');
    for (const span of [...named, ...chosen.filter((own) => !named.includes(own))]) {
      const box = el('input');
      box.type = 'checkbox';
      box.value = span;
      box.checked = !chosen.length || chosen.includes(span);
      const shown = chosen.length ? chosen : named;
      box.addEventListener('change', () => go(box.checked ? [...shown, span] : shown.filter((other) => other !== span)));
      made.append(el('label', '', box, named.includes(span) ? spanName(span) : span));
    }
    const own = el('input');
    own.size = 40;
    own.name = 'span';
    own.placeholder = 'BEGIN, END or BEGIN, END, by=FIELD';
    own.setAttribute('aria-label', 'Two events that begin and end a span');
    own.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && own.value.trim()) go([...chosen, own.value.trim()]);
    });
    made.append(own);
    if (chosen.length) made.append(link('those that names tell', () => go([])));
    if (chosen.some(hasKey)) made.append(this.rows());
    return made;
  }

  /** Whether the rows of the time line are those of threads or of keys. */
  private rows(): HTMLElement {
    const { app } = this;
    const made = el('select');
    made.name = 'rows';
    made.setAttribute('aria-label', 'Rows of spans');
    for (const [value, says] of [['', 'a row for each thread'], ['key', 'a row for each key']] as const) {
      const option = el('option', '', says);
      option.value = value;
      made.append(option);
    }
    made.value = app.view.rows === 'key' ? 'key' : '';
    made.addEventListener('change', () => app.go({ ...app.view, rows: made.value }));
    return made;
  }

  /** A pair that is none is said with the choice above it, so that it can be changed. */
  protected override failed(message: HTMLElement): void {
    this.box.replaceChildren(this.choices(), message);
  }

  protected show(answer: Answer): void {
    const of = answer.table('frames');
    const spans = (answer.head.info['spans'] as string[] | undefined) ?? [];
    const { boxes, total } = flameBoxes(answer);
    const notes = [...answer.head.notes];
    const left = Number(answer.head.info['frames_left_out'] ?? 0);
    if (left) notes.push(`${grouped(left)} spans are left out.`);
    const plot = el('div', 'flames');
    plot.style.height = `${LEVEL * (1 + Math.max(0, ...boxes.map(({ depth }) => depth)))}px`;
    for (const box of boxes) plot.append(this.frame(answer, box, spans, total));
    const head = el('p', 'note', of.rows ? `${duration(total)} in spans, of all threads together. Click: the longest of them.` : 'No span ends in this window. Spans are pairs of events such as x:begin and x:end.');
    this.box.replaceChildren(this.choices(), head, plot, ...notes.map((note) => el('p', 'note', note)));
  }

  private frame(answer: Answer, { row, left, width, depth }: FlameBox, spans: readonly string[], total: number): HTMLElement {
    const of = answer.table('frames');
    const name = spanName(spans[of.number('span', row) ?? -1] ?? '?');
    const [all, own, count] = [of.number('total_ns', row) ?? 0, of.number('self_ns', row) ?? 0, of.number('count', row) ?? 0];
    const [from, to, tid] = [of.big('longest_from', row), of.big('longest_to', row), of.number('longest_tid', row)];
    const made = el('button', `h${identity(name)}`, name);
    made.type = 'button';
    made.style.left = `${100 * left}%`;
    made.style.width = `${100 * width}%`;
    made.style.top = `${LEVEL * depth}px`;
    const longest = from !== null && to !== null ? `, longest ${duration(Number(to - from))}` : '';
    const says = `${name}: ${duration(all)} (${((100 * all) / Math.max(1, total)).toFixed(1)} %), itself ${duration(own)}, ${grouped(count)} times${longest}`;
    made.setAttribute('aria-label', says);
    made.addEventListener('pointerenter', () => this.app.say(says));
    made.addEventListener('focus', () => this.app.say(says));
    made.addEventListener('click', () => {
      if (from !== null && to !== null) this.app.go({ ...around(this.app.view, from, to, this.app.whole), tid, at: to, a: from, b: to });
    });
    return made;
  }
}
