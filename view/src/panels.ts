// SPDX-License-Identifier: MIT OR Apache-2.0
// The tabs below the time line: what they share, latencies, and the worst of them.

import type { Parameters } from './api.js';
import type { App, Part } from './app.js';
import type { Answer, Table } from './columns.js';
import { byId, clean, el, later, table } from './dom.js';
import { sharpen } from './draw.js';
import { piecesOf } from './explain.js';
import { doubts } from './layout.js';
import { palette } from './palette.js';
import { duration, grouped } from './time.js';
import { type View, around, sampleOf } from './view.js';

const POINTS = 500;
const WORST = 50;
/** Causes are found for so many of the worst. */
const CAUSES = 20;

/** One row of the series of an answer. */
interface Series {
  row: number;
  what: string;
  of: string;
  count: number;
  doubtful: number;
  p50: number | null;
  p99: number | null;
  max: number | null;
}

function allSeries(answer: Answer): Series[] {
  const of = answer.table('series');
  return Array.from({ length: of.rows }, (_, row) => ({
    row,
    what: of.text('what', row) ?? '',
    of: of.text('of', row) ?? '',
    count: of.number('count', row) ?? 0,
    doubtful: of.number('doubtful', row) ?? 0,
    p50: of.number('p50_ns', row),
    p99: of.number('p99_ns', row),
    max: of.number('max_ns', row),
  }));
}

const time = (ns: number | null): string => (ns === null ? 'too few' : duration(ns));

/** A tab that asks again when the window, the filter or its own choice changes. */
export abstract class Panel implements Part {
  protected readonly box: HTMLElement;
  private readonly reload = later(150, () => void this.load());
  private isLoading = false;

  constructor(
    protected readonly app: App,
    private readonly tab: View['tab'],
  ) {
    this.box = byId(tab);
  }

  changed(view: View, before: View | null): void {
    if (view.page !== 'timeline' || view.tab !== this.tab) return;
    const isSame = before && before.page === view.page && before.tab === view.tab && before.from === view.from && before.to === view.to;
    if (!isSame || before.filter !== view.filter || before.what !== view.what || before.stats !== view.stats || before.format !== view.format) this.reload();
  }

  private async load(): Promise<void> {
    // While the picture moves a question may take longer than the pause between two: it is not given up for the next.
    if (this.app.isFollowing && this.isLoading) return this.reload();
    this.isLoading = true;
    try {
      const answer = await this.ask();
      if (answer) this.show(answer);
    } catch (error) {
      const hint = (error as { hint?: string | null }).hint;
      const text = error instanceof Error ? error.message : String(error);
      this.box.replaceChildren(el('pre', 'note wrong', hint ? `${text}\n${hint}` : text));
    } finally {
      this.isLoading = false;
    }
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

/** All latencies of the window: a table, points over time, and the histogram of one. */
export class Latencies extends Panel {
  constructor(app: App) {
    super(app, 'latencies');
  }

  protected ask(): Promise<Answer | null> {
    return this.app.client.ask('latencies', 'latencies', { ...this.window, bins: 300, limit: POINTS });
  }

  protected show(answer: Answer): void {
    const series = allSeries(answer);
    const chosen = series.find((one) => key(one) === this.app.view.what) ?? series[0];
    const list = table<Series>(
      [
        { head: 'Latency', cell: (one) => (key(one) === (chosen && key(chosen)) ? el('b', '', key(one)) : key(one)) },
        { head: 'Samples', isNumber: true, cell: (one) => grouped(one.count) },
        { head: 'p50', isNumber: true, cell: (one) => time(one.p50) },
        { head: 'p99', isNumber: true, cell: (one) => time(one.p99) },
        { head: 'max', isNumber: true, cell: (one) => time(one.max) },
        { head: 'Doubtful', isNumber: true, cell: (one) => (one.doubtful ? grouped(one.doubtful) : '') },
      ],
      series,
      (one) => this.app.go({ ...this.app.view, what: key(one) }),
    );
    const plot = el('canvas', 'points');
    plot.setAttribute('role', 'img');
    plot.setAttribute('aria-label', `${chosen ? key(chosen) : 'no latency'} over time, and how often each length occurs`);
    this.box.replaceChildren(el('div', 'split', el('div', 'list', list, ...answer.head.notes.map((note) => el('p', 'note', note))), plot));
    if (chosen) this.plot(answer, chosen, plot);
    this.app.onLatencies(answer, chosen ? key(chosen) : null, this.box);
  }

  private plot(answer: Answer, chosen: Series, canvas: HTMLCanvasElement): void {
    const [width, height] = [Math.max(200, canvas.parentElement ? canvas.parentElement.clientWidth - 560 : 600), Math.max(120, this.box.clientHeight - 12)];
    const to = sharpen(canvas, width, height);
    if (!to) return;
    const colours = palette();
    const scale = logScale(answer, chosen, height);
    const right = Math.round(width * 0.24);
    const area = { left: 60, right: width - right - 12, width };
    to.font = `10.5px ${getComputedStyle(document.body).fontFamily}`;
    for (const ns of scale.ticks) {
      to.fillStyle = colours.line;
      to.fillRect(area.left, Math.round(scale.y(ns)), width - area.left, 1);
      to.fillStyle = colours.ink2;
      to.fillText(duration(ns).replace(/\.0+ /, ' '), 2, scale.y(ns) + 4);
    }
    this.density(to, answer, chosen, scale, area, colours.run);
    const points = this.points(to, answer, chosen, scale, area, colours.pre);
    histogram(to, answer, chosen, scale, { left: width - right, right: width }, colours.run);
    canvas.addEventListener('click', (event) => {
      const near = points.filter((point) => Math.hypot(point.x - event.offsetX, point.y - event.offsetY) < 8);
      const [best] = near.sort((a, b) => Math.hypot(a.x - event.offsetX, a.y - event.offsetY) - Math.hypot(b.x - event.offsetX, b.y - event.offsetY));
      if (best) this.go(answer.table('points'), best.row, chosen.what);
    });
  }

  private density(to: CanvasRenderingContext2D, answer: Answer, chosen: Series, scale: LogScale, area: { left: number; right: number }, colour: string): void {
    const cells = answer.table('density');
    const w = (area.right - area.left) / 300;
    to.fillStyle = colour;
    for (let i = 0; i < cells.rows; i++) {
      if (cells.text('what', i) !== chosen.what) continue;
      const [low, high, count] = [cells.number('low_ns', i) ?? 0, cells.number('high_ns', i) ?? 0, cells.number('count', i) ?? 0];
      const [top, bottom] = [scale.y(high + 1), scale.y(Math.max(low, 0.5))];
      to.globalAlpha = Math.min(1, 0.3 + Math.log2(count) / 10);
      to.fillRect(area.left + (cells.number('bin', i) ?? 0) * w, top, Math.max(1, w), Math.max(1.5, bottom - top));
    }
    to.globalAlpha = 1;
  }

  private points(to: CanvasRenderingContext2D, answer: Answer, chosen: Series, scale: LogScale, area: { left: number; right: number }, colour: string): { x: number; y: number; row: number }[] {
    const points = answer.table('points');
    const from = BigInt(answer.head.from);
    const ends = points.offsets('to', from);
    const length = Math.max(1, answer.head.to - answer.head.from);
    const placed = [];
    to.fillStyle = colour;
    for (let row = 0; row < points.rows; row++) {
      if (points.number('series', row) !== chosen.row) continue;
      const x = area.left + ((ends[row] ?? 0) / length) * (area.right - area.left);
      const y = scale.y(points.number('value_ns', row) ?? 0);
      placed.push({ x, y, row });
      to.beginPath();
      to.arc(x, y, 2, 0, 7);
      to.fill();
    }
    return placed;
  }
}

function key(one: Series): string {
  return one.of ? `${one.what} ${one.of}` : one.what;
}

interface LogScale {
  y(ns: number): number;
  ticks: number[];
}

function logScale(answer: Answer, chosen: Series, height: number): LogScale {
  const buckets = answer.table('histogram');
  let [low, high] = [Infinity, 1];
  for (let i = 0; i < buckets.rows; i++) {
    if (buckets.number('series', i) !== chosen.row) continue;
    low = Math.min(low, Math.max(1, buckets.number('low_ns', i) ?? 1));
    high = Math.max(high, buckets.number('high_ns', i) ?? 1);
  }
  const [from, to] = [Math.floor(Math.log10(Math.min(low, high))), Math.log10(high) + 0.1];
  const ticks = [];
  for (let power = from; power <= to; power++) ticks.push(10 ** power);
  return { y: (ns) => 8 + (1 - (Math.log10(Math.max(ns, 1)) - from) / Math.max(0.1, to - from)) * (height - 16), ticks };
}

function histogram(to: CanvasRenderingContext2D, answer: Answer, chosen: Series, scale: LogScale, area: { left: number; right: number }, colour: string): void {
  const buckets = answer.table('histogram');
  let most = 1;
  for (let i = 0; i < buckets.rows; i++) if (buckets.number('series', i) === chosen.row) most = Math.max(most, buckets.number('count', i) ?? 0);
  to.fillStyle = colour;
  for (let i = 0; i < buckets.rows; i++) {
    if (buckets.number('series', i) !== chosen.row) continue;
    const [low, high, count] = [buckets.number('low_ns', i) ?? 0, buckets.number('high_ns', i) ?? 0, buckets.number('count', i) ?? 0];
    const [top, bottom] = [scale.y(high + 1), scale.y(Math.max(low, 1))];
    // Logarithmic, too: the one that is a thousand times as rare is what is looked for.
    const w = Math.max(2, (Math.log10(count + 1) / Math.log10(most + 1)) * (area.right - area.left));
    to.fillRect(area.left, top, w, Math.max(1.5, bottom - top - 0.5));
  }
}

/** The longest ones, with whose they were. */
export class Worst extends Panel {
  constructor(app: App) {
    super(app, 'worst');
  }

  private get asked(): Parameters {
    const what = this.app.view.what.split(' ')[0];
    return { ...this.window, limit: WORST, what: what || null };
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
        { head: 'Latency', cell: (row) => (series[points.number('series', row) ?? 0] ? key(series[points.number('series', row) ?? 0] as Series) : '') },
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
    this.box.replaceChildren(rows.length ? list : el('p', 'note', 'No latency was found in this window.'));
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
