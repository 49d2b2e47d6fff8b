// SPDX-License-Identifier: MIT OR Apache-2.0
// The tab of latencies: a table of all, and of the chosen one points over time, density, and a histogram on which a brush
// chooses lengths.

import type { App } from '../app/app.js';
import { APART, type Lengths, type Series, allSeries, chosenBy, lengthsOf, lengthsText, seriesName, typed } from '../app/series.js';
import { add, el, link, table } from '../common/dom.js';
import { type Palette, palette } from '../common/palette.js';
import { duration, grouped } from '../common/time.js';
import { sharpen } from '../draw/draw.js';
import { frame } from '../layout/layout.js';
import type { Answer } from '../query/columns.js';
import { Panel, time } from './panels.js';

/** Of a window, and of one that is a large part of the trace: that many the index has without reading records. */
const SHORT = { limit: 500, bins: 300 };
const LONG = { limit: 300, bins: 120 };
const LONG_PART = 200n;
/** Left of the scale: its numbers. Below and above it. */
const LEFT = 60;
const MARGIN = 8;
const QUANTILES = [['p50', 'p50'], ['p99', 'p99'], ['p999', 'p99.9'], ['max', 'max']] as const;

/** A logarithmic scale of lengths: from ns to px from the top, and back. */
export interface LogScale {
  y(ns: number): number;
  ns(y: number): number;
  ticks: number[];
}

/** From the buckets of one series. */
export function logScale(answer: Answer, row: number, height: number): LogScale {
  const buckets = answer.table('histogram');
  let [low, high] = [Infinity, 1];
  for (let i = 0; i < buckets.rows; i++) {
    if (buckets.number('series', i) !== row) continue;
    low = Math.min(low, Math.max(1, buckets.number('low_ns', i) ?? 1));
    high = Math.max(high, buckets.number('high_ns', i) ?? 1);
  }
  const [from, to] = [Math.floor(Math.log10(Math.min(low, high))), Math.log10(high) + 0.1];
  const [range, length] = [Math.max(0.1, to - from), height - 2 * MARGIN];
  const ticks = [];
  for (let power = from; power <= to; power++) ticks.push(10 ** power);
  return {
    y: (ns) => MARGIN + (1 - (Math.log10(Math.max(ns, 1)) - from) / range) * length,
    ns: (y) => 10 ** (from + (1 - (y - MARGIN) / length) * range),
    ticks,
  };
}

/** Where the two parts of the picture lie. */
interface Areas {
  width: number;
  height: number;
  /** Over time ends there, px; the histogram begins a little later. */
  right: number;
  histogram: number;
}

export class Latencies extends Panel {
  constructor(app: App) {
    super(app, 'latencies');
  }

  protected async ask(): Promise<Answer | null> {
    const { app } = this;
    const { view, whole } = app;
    const size = (view.to - view.from) * LONG_PART > whole.to - whole.from ? LONG : SHORT;
    // Bins on a grid come from the index. A trace that grows has none.
    const asked = { ...this.window, ...chosenBy(view), ...size, grid: app.isFollowing ? null : 1 };
    const answer = await app.client.ask('latencies', 'latencies', asked);
    if (!answer || view.what || answer.table('points').rows < size.limit) return answer;
    // Nothing is chosen: the first one's points are among those of all, as far as there was room.
    const first = allSeries(answer)[0];
    return first ? app.client.ask('latencies', 'latencies', { ...asked, kind: first.what, of: first.of }) : answer;
  }

  protected show(answer: Answer): void {
    const { app } = this;
    const series = allSeries(answer);
    const chosen = series.find((one) => one.key === app.view.what) ?? series[0];
    const list = table<Series>(
      [
        { head: 'Latency', cell: (one) => (one === chosen ? el('b', '', seriesName(one)) : seriesName(one)) },
        { head: 'Samples', isNumber: true, cell: (one) => grouped(one.count) },
        { head: 'p50', isNumber: true, cell: (one) => time(one.p50) },
        { head: 'p99', isNumber: true, cell: (one) => time(one.p99) },
        { head: 'p99.9', isNumber: true, cell: (one) => time(one.p999) },
        { head: 'max', isNumber: true, cell: (one) => time(one.max) },
        { head: 'Doubtful', isNumber: true, cell: (one) => (one.doubtful ? grouped(one.doubtful) : '') },
      ],
      series,
      (one) => app.go({ ...app.view, what: one.key, lengths: one.key === app.view.what ? app.view.lengths : '' }),
    );
    const plot = el('canvas', 'points');
    plot.setAttribute('role', 'img');
    plot.setAttribute('aria-label', `${chosen ? seriesName(chosen) : 'no latency'} over time, and how often each length occurs`);
    const left = el('div', 'list', this.choices(answer), list, ...answer.head.notes.map((note) => el('p', 'note', note)));
    this.box.replaceChildren(el('div', 'split', left, plot));
    if (chosen) this.plot(answer, chosen, plot);
    // Of those that are kept apart the other trace has others.
    app.onLatencies(answer, chosen && !app.view.apart ? chosen.key : null, this.box);
  }

  /** By what they are kept apart, and which lengths are shown. */
  private choices(answer: Answer): HTMLElement {
    const { app } = this;
    const boxes = APART.map(([name]) => {
      const on = app.view.apart.split(',').filter(Boolean);
      const box = el('input');
      box.type = 'checkbox';
      box.name = `apart-${name}`;
      box.checked = on.includes(name);
      const others = box.checked ? on.filter((other) => other !== name) : [...on, name];
      // A key is of those that were kept apart before.
      box.addEventListener('change', () => app.go({ ...app.view, apart: others.join(','), what: '', lengths: '' }));
      return el('label', '', box, name === 'prio' ? 'priority' : name === 'cpu' ? 'CPU' : name);
    });
    const field = (name: string, value: number | undefined): HTMLInputElement => {
      const made = el('input');
      made.name = name;
      made.size = 8;
      made.placeholder = name === 'low' ? 'shortest' : 'longest';
      made.value = value === undefined ? '' : duration(value);
      made.setAttribute('aria-label', `${made.placeholder} latency that is shown, as 10 us`);
      made.addEventListener('change', () => this.setLengths(low, high));
      return made;
    };
    const lengths = lengthsOf(app.view.lengths);
    const [low, high] = [field('low', lengths?.low), field('high', lengths?.high)];
    const made = el('div', 'apart', 'by', ...boxes, el('span', '', 'only ', low, ' to ', high));
    if (lengths) {
      const points = grouped(Number(answer.head.info['samples'] ?? 0));
      add(made, el('span', 'i2', `${points} samples`), link('all lengths', () => app.go({ ...app.view, lengths: '' })));
    }
    return made;
  }

  private setLengths(low: HTMLInputElement, high: HTMLInputElement): void {
    const { app } = this;
    const [from, to] = [low.value.trim() ? typed(low.value) : 0, high.value.trim() ? typed(high.value) : 10 ** 14];
    if (from === null || to === null) return app.say('write a length as 12 us, 1.5 ms or 2 s', true);
    app.go({ ...app.view, lengths: low.value.trim() || high.value.trim() ? lengthsText(from, to) : '' });
  }

  private plot(answer: Answer, chosen: Series, canvas: HTMLCanvasElement): void {
    const width = Math.max(200, canvas.parentElement ? canvas.parentElement.clientWidth - 620 : 600);
    const height = Math.max(120, this.box.clientHeight - 12);
    const right = Math.round(width * 0.24);
    const areas = { width, height, right: width - right - 12, histogram: width - right };
    const scale = logScale(answer, chosen.row, height);
    const points = this.paint(canvas, answer, chosen, scale, areas, null);
    this.brush(canvas, scale, areas, (brushed) => this.paint(canvas, answer, chosen, scale, areas, brushed));
    canvas.addEventListener('click', (event) => {
      const away = (point: { x: number; y: number }): number => Math.hypot(point.x - event.offsetX, point.y - event.offsetY);
      const [best] = points.filter((point) => away(point) < 8).sort((a, b) => away(a) - away(b));
      if (best && event.offsetX < areas.right + 8) this.go(answer.table('points'), best.row, chosen.what);
    });
  }

  /** A drag over the histogram chooses lengths; a click in it takes that back. */
  private brush(canvas: HTMLCanvasElement, scale: LogScale, areas: Areas, show: (brushed: Lengths | null) => void): void {
    const { app } = this;
    let from: number | null = null;
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || event.offsetX < areas.histogram) return;
      from = event.offsetY;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (from === null) {
        const ns = scale.ns(event.offsetY);
        return app.say(event.offsetX >= areas.histogram ? `${duration(ns)}: drag over the histogram to see only these lengths` : '');
      }
      const [low, high] = [scale.ns(from), scale.ns(event.offsetY)].sort((a, b) => a - b) as [number, number];
      show({ low, high });
      app.say(`only ${duration(low)} to ${duration(high)}`);
    });
    canvas.addEventListener('pointerup', (event) => {
      if (from === null) return;
      const lengths = Math.abs(event.offsetY - from) > 3 ? lengthsText(scale.ns(from), scale.ns(event.offsetY)) : '';
      from = null;
      app.go({ ...app.view, lengths });
    });
  }

  private paint(canvas: HTMLCanvasElement, answer: Answer, chosen: Series, scale: LogScale, areas: Areas, brushed: Lengths | null): Placed[] {
    const to = sharpen(canvas, areas.width, areas.height);
    if (!to) return [];
    const colours = palette();
    to.clearRect(0, 0, areas.width, areas.height);
    to.font = `10.5px ${getComputedStyle(document.body).fontFamily}`;
    const only = lengthsOf(this.app.view.lengths);
    const shown = brushed ?? only;
    if (shown) {
      const [top, bottom] = [Math.max(0, scale.y(shown.high)), Math.min(areas.height, scale.y(Math.max(1, shown.low)))];
      to.fillStyle = colours.selrow;
      to.fillRect(LEFT, top, areas.width - LEFT, Math.max(1, bottom - top));
    }
    for (const ns of scale.ticks) {
      to.fillStyle = colours.line;
      to.fillRect(LEFT, Math.round(scale.y(ns)), areas.width - LEFT, 1);
      to.fillStyle = colours.ink2;
      to.fillText(duration(ns).replace(/\.0+ /, ' '), 2, scale.y(ns) + 4);
    }
    density(to, answer, chosen, scale, areas, only, colours);
    const placed = points(to, answer, chosen, scale, areas, only, colours);
    histogram(to, answer, chosen, scale, areas, shown, colours);
    quantiles(to, chosen, scale, areas, colours);
    return placed;
  }
}

/** A point of the picture, and its row. */
interface Placed {
  x: number;
  y: number;
  row: number;
}

/** How many bins an answer has; a saved one has as many as a short window. */
export const binsOf = (answer: Answer): number => Number(answer.head.info['bins'] ?? SHORT.bins);

const isIn = (ns: number, only: Lengths | null): boolean => !only || (ns >= only.low && ns <= only.high);

function density(to: CanvasRenderingContext2D, answer: Answer, chosen: Series, scale: LogScale, areas: Areas, only: Lengths | null, colours: Palette): void {
  const cells = answer.table('density');
  const w = (areas.right - LEFT) / binsOf(answer);
  to.fillStyle = colours.run;
  for (let i = 0; i < cells.rows; i++) {
    const [low, high, count] = [cells.number('low_ns', i) ?? 0, cells.number('high_ns', i) ?? 0, cells.number('count', i) ?? 0];
    if (cells.text('what', i) !== chosen.what || (only && (high < only.low || low > only.high))) continue;
    const [top, bottom] = [scale.y(high + 1), scale.y(Math.max(low, 0.5))];
    to.globalAlpha = Math.min(1, 0.3 + Math.log2(count) / 10);
    to.fillRect(LEFT + (cells.number('bin', i) ?? 0) * w, top, Math.max(1, w), Math.max(1.5, bottom - top));
  }
  to.globalAlpha = 1;
}

function points(to: CanvasRenderingContext2D, answer: Answer, chosen: Series, scale: LogScale, areas: Areas, only: Lengths | null, colours: Palette): Placed[] {
  const of = answer.table('points');
  const [from, end] = frame(answer);
  const ends = of.offsets('to', BigInt(from));
  const length = Math.max(1, end - from);
  const placed = [];
  to.fillStyle = colours.pre;
  for (let row = 0; row < of.rows; row++) {
    const ns = of.number('value_ns', row) ?? 0;
    if (of.number('series', row) !== chosen.row || !isIn(ns, only)) continue;
    const [x, y] = [LEFT + ((ends[row] ?? 0) / length) * (areas.right - LEFT), scale.y(ns)];
    placed.push({ x, y, row });
    to.beginPath();
    to.arc(x, y, 2, 0, 7);
    to.fill();
  }
  return placed;
}

function histogram(to: CanvasRenderingContext2D, answer: Answer, chosen: Series, scale: LogScale, areas: Areas, shown: Lengths | null, colours: Palette): void {
  const buckets = answer.table('histogram');
  let most = 1;
  for (let i = 0; i < buckets.rows; i++) if (buckets.number('series', i) === chosen.row) most = Math.max(most, buckets.number('count', i) ?? 0);
  for (let i = 0; i < buckets.rows; i++) {
    if (buckets.number('series', i) !== chosen.row) continue;
    const [low, high, count] = [buckets.number('low_ns', i) ?? 0, buckets.number('high_ns', i) ?? 0, buckets.number('count', i) ?? 0];
    const [top, bottom] = [scale.y(high + 1), scale.y(Math.max(low, 1))];
    // Logarithmic, too: the one that is a thousand times as rare is what is looked for.
    const w = Math.max(2, (Math.log10(count + 1) / Math.log10(most + 1)) * (areas.width - areas.histogram));
    to.fillStyle = shown && (high < shown.low || low > shown.high) ? colours.bar : colours.run;
    to.fillRect(areas.histogram, top, w, Math.max(1.5, bottom - top - 0.5));
  }
}

/** Of all samples, whatever lengths are shown. */
function quantiles(to: CanvasRenderingContext2D, chosen: Series, scale: LogScale, areas: Areas, colours: Palette): void {
  let last = Infinity;
  to.save();
  to.textAlign = 'right';
  for (const [name, says] of QUANTILES) {
    const ns = chosen[name];
    if (ns === null) continue;
    const y = Math.round(scale.y(ns)) + 0.5;
    to.strokeStyle = colours.ink2;
    to.setLineDash([2, 3]);
    to.beginPath();
    to.moveTo(LEFT, y);
    to.lineTo(areas.width, y);
    to.stroke();
    // No text over another one: the longer ones come later, and higher.
    to.fillStyle = colours.ink;
    if (last - y >= 10) to.fillText(`${says} ${duration(ns)}`, areas.width - 2, y - 2);
    if (last - y >= 10) last = y;
  }
  to.restore();
}
