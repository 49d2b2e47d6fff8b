// SPDX-License-Identifier: MIT OR Apache-2.0
// Several hosts: a time line for each, below one another on one axis. Overview, tabs and explanation are those of one of
// them, the chosen one; its times are those of the page.

import type { App, Part } from '../app/app.js';
import { OtherApp, type Others, timelineParts } from '../app/others.js';
import { type View, toFragment } from '../app/view.js';
import { byId, clean, el, link } from '../common/dom.js';
import type { Answer } from '../query/columns.js';
import { Timeline } from '../timeline/timeline.js';

/** The number of the host that an address has chosen. */
export function hostOf(fragment: string): number {
  const text = new URLSearchParams(fragment.replace(/^#/, '')).get('host') ?? '';
  return /^[1-9]\d{0,2}$/.test(text) ? Number(text) : 0;
}

/** From the first record of all hosts to the last one, ns after the base of one of them. */
export function wholeOf(own: Pick<Answer, 'head'>, others: readonly Pick<Answer, 'head'>[]): { from: bigint; to: bigint } {
  const base = BigInt(own.head.base);
  let [from, to] = [0n, BigInt(own.head.to)];
  for (const { head } of others) {
    // Without a record there is no time of it.
    if (head.to <= head.from) continue;
    const by = BigInt(head.base) - base;
    if (by < from) from = by;
    if (by + BigInt(head.to) > to) to = by + BigInt(head.to);
  }
  return { from, to };
}

/** The view of one host at the time of another: all its times are `by` ns later. */
export function movedBy(view: View, by: bigint): View {
  const later = (time: bigint | null): bigint | null => (time === null ? null : time + by);
  return { ...view, from: view.from + by, to: view.to + by, a: later(view.a), b: later(view.b), at: later(view.at) };
}

interface Host {
  number: number;
  app: OtherApp;
  rows: HTMLElement;
}

export class Hosts implements Part {
  private readonly hosts: Host[] = [];
  /** One of them moves the others. */
  private isMoving = false;

  constructor(
    private readonly first: App,
    private readonly found: Others,
    private readonly chosen: number,
    others: readonly { number: number; app: OtherApp }[],
  ) {
    document.body.classList.add('hosts');
    if (chosen) first.extra.set('host', String(chosen));
    this.select();
    this.bar(chosen, byId('rows'));
    for (const { number, app } of others) {
      const { ruler, rows } = timelineParts(`o${number}-`, this.name(number));
      const left = byId('left');
      left.append(ruler, rows);
      this.bar(number, rows);
      const host: Host = { number, app, rows };
      this.hosts.push(host);
      app.say = (text, isWrong) => first.say(text ? `${this.name(number)}: ${text}` : text, isWrong);
      app.client.onReachable = first.client.onReachable;
      app.origin = first.base - app.base;
      app.show(this.viewOf(host, first.view));
      app.add(new Timeline(app, `o${number}-`));
      app.add({ changed: (view, before) => this.moved(host, view, before) });
    }
    first.add(this);
  }

  private name(number: number): string {
    return clean(this.found.names[number] ?? `host ${number}`);
  }

  /** Which host the page is of, on all of its pages. */
  private select(): void {
    const made = el('select');
    made.id = 'host';
    this.found.names.forEach((_, number) => {
      const option = el('option', '', this.name(number));
      option.value = String(number);
      option.selected = number === this.chosen;
      made.append(option);
    });
    made.addEventListener('change', () => this.choose(Number(made.value), this.first.view));
    byId('name').parentElement?.before(el('label', 'box', 'Host ', made));
  }

  /** The name above the rows: chooses the host, and folds its rows. */
  private bar(number: number, rows: HTMLElement): void {
    const isChosen = number === this.chosen;
    const name = link(this.name(number), () => this.choose(number, this.first.view), 'Overview, tabs and explanation of this host');
    name.setAttribute('aria-pressed', String(isChosen));
    const fold = link('▾', () => {
      rows.hidden = !rows.hidden;
      fold.textContent = rows.hidden ? '▸' : '▾';
      fold.setAttribute('aria-expanded', String(!rows.hidden));
      const host = this.hosts.find((host) => host.number === number);
      if (host && !rows.hidden) host.app.show(this.viewOf(host, this.first.view));
    }, `Rows of ${this.name(number)}`);
    fold.setAttribute('aria-expanded', 'true');
    const bar = el('div', 't-bar', fold, name, el('span', 'i2', isChosen ? 'overview, tabs and explanation are of this host' : ''));
    bar.dataset['host'] = String(number);
    bar.style.order = String(10 + 2 * number);
    rows.style.order = String(11 + 2 * number);
    byId('left').append(bar);
  }

  /** Makes the page anew, of another host: `view` is of the one that was chosen. */
  private choose(number: number, view: View): void {
    const host = this.hosts.find((host) => host.number === number);
    if (!host) return;
    // What belongs to threads, spans and fields of this host means nothing of the other one.
    const { page, tab, by, format, explain, groups, arrows } = view;
    const kept = { ...host.app.whole, page, tab, by, format, explain, groups, arrows };
    const { from, to, a, b, at } = movedBy(view, this.first.base - host.app.base);
    this.open(number, { ...kept, from, to, a, b, at });
  }

  private open(number: number, view: View): void {
    history.replaceState(null, '', `${toFragment(view)}&host=${number}`);
    location.reload();
  }

  /** What another host shows of the page's view. */
  private viewOf({ app }: Host, view: View): View {
    const { from, to, a, b, at } = movedBy(view, this.first.base - app.base);
    const { page, by, match, format, groups, arrows } = view;
    return { ...app.view, page, by, match, format, groups, arrows, from, to, a, b, at };
  }

  /** The page was moved. */
  changed(view: View): void {
    if (this.isMoving) return;
    this.isMoving = true;
    for (const host of this.hosts) if (!host.rows.hidden) host.app.show(this.viewOf(host, view));
    this.isMoving = false;
  }

  /** The rows of another host were moved, or something was selected there. */
  private moved(host: Host, view: View, before: View | null): void {
    if (this.isMoving || !before) return;
    const { base, extra } = this.first;
    if (view.tid !== null && view.tid !== before.tid) {
      extra.delete('host');
      return this.open(host.number, { ...view, tab: this.first.view.tab, explain: this.first.view.explain });
    }
    const { from, to, a, b, at } = movedBy(view, host.app.base - base);
    const { groups, arrows } = view;
    this.first.go({ ...this.first.view, from, to, a, b, at, groups, arrows }, true);
  }
}
