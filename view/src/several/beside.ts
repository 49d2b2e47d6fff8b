// SPDX-License-Identifier: MIT OR Apache-2.0
// Two traces: the second one below the first, each with its own axis, tied or free, and the distributions of one latency
// over each other.

import type { App, Part } from '../app/app.js';
import { OtherApp, timelineParts } from '../app/others.js';
import type { View } from '../app/view.js';
import { add, byId, clean, el, link, table } from '../common/dom.js';
import { type Palette, palette } from '../common/palette.js';
import { duration, grouped } from '../common/time.js';
import { sharpen } from '../draw/draw.js';
import { type Distribution, QUANTILES, type Quantile, difference, distributionOf, range, shares, tail } from '../layout/distribution.js';
import type { Answer } from '../query/columns.js';
import { Timeline } from '../timeline/timeline.js';

const PARTS = 4;
const NAMES: Record<Quantile, string> = { p50_ns: 'p50', p90_ns: 'p90', p99_ns: 'p99', p999_ns: 'p99.9', p9999_ns: 'p99.99', max_ns: 'longest' };

/** The window of the second trace that belongs to one of the first. */
export function tiedWindow(first: Pick<View, 'from' | 'to'>, offset: bigint): { from: bigint; to: bigint } {
  return { from: first.from + offset, to: first.to + offset };
}

export class Beside implements Part {
  private readonly tie: HTMLButtonElement;
  private readonly place = el('span', 'i2');
  private isTied = true;
  /** How much later the window of the second trace is, each from its own begin, ns. */
  private offset = 0n;
  /** One of the two moves the other. */
  private isTying = false;
  private asked = 0;

  /** The trace beside. */
  static async of(app: App): Promise<Beside | null> {
    const second = await OtherApp.of(1);
    return second && new Beside(app, second);
  }

  private constructor(
    private readonly first: App,
    private readonly second: OtherApp,
  ) {
    const name = (of: App): string => clean(String(of.summary.head.info['name'] ?? 'trace'));
    this.tie = link('', () => this.toggle(), 'Move both, or each by itself (x)');
    const left = byId('left');
    const { ruler, rows } = timelineParts('b-', 'the second trace');
    const title = el('div', '', el('span', 'run-a', 'A'), name(first));
    title.id = 'a-name';
    left.prepend(title);
    add(left, el('div', 't-bar', el('span', 'run-b', 'B'), name(second), this.tie, this.place), ruler, rows);
    document.body.classList.add('beside');
    this.read();
    second.say = (text, isWrong) => first.say(text ? `B: ${text}` : text, isWrong);
    second.onNote = () => this.note();
    second.client.onReachable = first.client.onReachable;
    first.onLatencies = (answer, what, box) => void this.latencies(answer, what, box);
    second.add(new Timeline(second, 'b-'));
    second.add({ changed: (view, before) => this.secondChanged(view, before) });
    first.add(this);
    this.label();
  }

  /** The window of the address. */
  private read(): void {
    const parts = new URLSearchParams(location.hash.slice(1));
    const big = (name: string): bigint | null => {
      const text = parts.get(name);
      return text !== null && /^-?\d{1,18}$/.test(text) ? BigInt(text) : null;
    };
    this.isTied = parts.get('free') !== '1';
    const [from, to] = [big('bfrom'), big('bto')];
    const { view } = this.first;
    if (from !== null && to !== null && from < to) {
      this.offset = from - view.from;
      this.second.show({ ...this.second.view, page: view.page, from, to });
    } else {
      this.second.show({ ...this.second.view, page: view.page, ...tiedWindow(view, this.offset) });
    }
  }

  private note(): void {
    const { extra } = this.first;
    extra.set('bfrom', String(this.second.view.from));
    extra.set('bto', String(this.second.view.to));
    if (this.isTied) extra.delete('free');
    else extra.set('free', '1');
    this.first.note();
  }

  toggle(): void {
    this.isTied = !this.isTied;
    const [a, b] = [this.first.view, this.second.view];
    this.offset = b.from - a.from;
    // One scale: lengths can be compared by eye.
    if (this.isTied) this.moveSecond(a);
    this.label();
    this.note();
  }

  private label(): void {
    this.tie.textContent = this.isTied ? 'tied' : 'free';
    this.tie.setAttribute('aria-pressed', String(this.isTied));
    const { view, times } = this.second;
    const later = this.offset === 0n ? 'from its begin, as A' : `${duration(Math.abs(Number(this.offset)))} ${this.offset > 0n ? 'later' : 'earlier'} than A`;
    this.place.textContent = `${times.text(view.from)} to ${times.text(view.to)}${this.isTied ? ` · ${later}` : ''}`;
  }

  private moveSecond(view: View): void {
    this.isTying = true;
    this.second.show({ ...this.second.view, page: view.page, by: view.by, match: view.match, format: view.format, ...tiedWindow(view, this.offset) });
    this.isTying = false;
    this.label();
  }

  /** The first trace was moved. */
  changed(view: View, before: View | null): void {
    if (this.isTying) return;
    const isMoved = !before || before.from !== view.from || before.to !== view.to;
    const isOther = !before || before.page !== view.page || before.by !== view.by || before.match !== view.match || before.format !== view.format;
    if (this.isTied && (isMoved || isOther)) this.moveSecond(view);
    else if (isOther) this.second.show({ ...this.second.view, page: view.page, by: view.by, match: view.match, format: view.format });
  }

  private secondChanged(view: View, before: View | null): void {
    this.label();
    if (this.isTying || !this.isTied || !before || (before.from === view.from && before.to === view.to)) return;
    this.isTying = true;
    this.first.go({ ...this.first.view, ...tiedWindow(view, -this.offset) }, true);
    this.isTying = false;
  }

  /** The same latency of both windows. */
  private async latencies(answer: Answer, what: string | null, box: HTMLElement): Promise<void> {
    const asked = ++this.asked;
    const { view } = this.second;
    const { filter } = this.first.view;
    const own = el('div', 'over');
    box.append(own);
    if (!what) return;
    try {
      const kind = what.split(' ')[0] ?? null;
      const other = await this.second.client.ask('over', 'latencies', { from: this.second.at(view.from), to: this.second.at(view.to), filter: filter || null, what: kind, bins: 1, limit: 1 });
      if (!other || asked !== this.asked) return;
      this.over(own, what, [distributionOf(answer, what), distributionOf(other, what)]);
    } catch (error) {
      own.replaceChildren(el('p', 'note wrong', `B: ${error instanceof Error ? error.message : String(error)}`));
    }
  }

  private over(box: HTMLElement, what: string, both: [Distribution | null, Distribution | null]): void {
    const [a, b] = both;
    const shown = (ns: number | null | undefined): string => (ns === null || ns === undefined ? 'too few' : duration(ns));
    const rows: (Quantile | 'count')[] = ['count', ...QUANTILES];
    const value = (of: Distribution | null, row: Quantile | 'count'): string => {
      if (!of) return 'none';
      return row === 'count' ? `${grouped(of.count)}${of.doubtful ? ` (${grouped(of.doubtful)} doubtful)` : ''}` : shown(of.quantiles[row]);
    };
    const list = table<Quantile | 'count'>(
      [
        { head: what, cell: (row) => (row === 'count' ? 'samples' : NAMES[row]) },
        { head: 'A', isNumber: true, cell: (row) => value(a, row) },
        { head: 'B', isNumber: true, cell: (row) => value(b, row) },
        { head: 'B against A', isNumber: true, cell: (row) => (row === 'count' ? '' : difference(a?.quantiles[row] ?? null, b?.quantiles[row] ?? null)) },
      ],
      rows,
    );
    list.id = 'over-table';
    const plot = el('canvas');
    plot.id = 'over-plot';
    plot.setAttribute('role', 'img');
    plot.setAttribute('aria-label', `${what} of both traces: how often each length occurs, and how many are longer`);
    box.replaceChildren(el('div', 'list', list, el('p', 'note', 'A solid, B dashed. Above: share of samples by length; below: share that is at least as long, on a logarithmic scale.')), plot);
    draw(plot, Math.max(200, box.clientWidth - 560), both);
  }
}

function draw(canvas: HTMLCanvasElement, width: number, both: readonly (Distribution | null)[]): void {
  const height = 220;
  const to = sharpen(canvas, width, height);
  if (!to) return;
  const colours = palette();
  const [low, high] = range(both).map(Math.log10) as [number, number];
  const x = (ns: number): number => 8 + ((Math.log10(Math.max(1, ns)) - low) / Math.max(0.1, high - low)) * (width - 60);
  const middle = height / 2 - 8;
  to.font = `10.5px ${getComputedStyle(document.body).fontFamily}`;
  for (let power = Math.ceil(low); power <= high; power++) {
    to.fillStyle = colours.line;
    to.fillRect(Math.round(x(10 ** power)), 0, 1, height - 14);
    to.fillStyle = colours.ink2;
    to.fillText(duration(10 ** power).replace(/\.0+ /, ' '), x(10 ** power) + 3, height - 2);
  }
  const parts = both.map((of) => (of ? shares(of, PARTS) : new Map<number, number>()));
  const most = Math.max(1e-9, ...parts.flatMap((part) => [...part.values()]));
  const depth = Math.min(-1, Math.log10(Math.min(...both.map((of) => (of?.count ? 1 / of.count : 1)))));
  both.forEach((of, which) => {
    if (!of) return;
    style(to, colours, which);
    to.beginPath();
    for (const [part, share] of [...(parts[which] ?? [])].sort(([a], [b]) => a - b)) {
      const [x0, x1, top] = [x(2 ** (part / PARTS)), x(2 ** ((part + 1) / PARTS)), middle - (share / most) * (middle - 6)];
      to.moveTo(x0, middle);
      to.lineTo(x0, top);
      to.lineTo(x1, top);
      to.lineTo(x1, middle);
    }
    to.stroke();
    to.beginPath();
    const y = (share: number): number => middle + 12 + (Math.max(depth, Math.log10(Math.max(share, 1e-18))) / depth) * (height - middle - 30);
    let at: number | null = null;
    for (const { ns, share } of tail(of)) {
      // A step: the share stays until the next length.
      if (at === null) to.moveTo(x(ns), y(share));
      else to.lineTo(x(ns), at);
      at = y(share);
      to.lineTo(x(ns), at);
    }
    to.stroke();
  });
  to.setLineDash([]);
}

function style(to: CanvasRenderingContext2D, colours: Palette, which: number): void {
  to.strokeStyle = which === 0 ? colours.a : colours.b;
  to.lineWidth = 1.5;
  to.setLineDash(which === 0 ? [] : [5, 3]);
}
