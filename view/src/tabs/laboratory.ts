// SPDX-License-Identifier: MIT OR Apache-2.0
// Results of the laboratory: what was measured, histograms and tails over each other, worst samples over time, each with a
// way to its place in the trace where that is shown, and what makes the numbers doubtful.

import type { App, Part } from '../app/app.js';
import { type View, around } from '../app/view.js';
import { add, byId, el, later, link, table } from '../common/dom.js';
import { lookOf } from '../common/looks.js';
import { palette } from '../common/palette.js';
import { duration, grouped } from '../common/time.js';
import { sharpen } from '../draw/draw.js';
import { type Curve, type LogScale, curves, density, logScale, tail } from '../layout/histograms.js';
import type { Answer, Table } from '../query/columns.js';

const HEIGHT = 260;
/** Series that are drawn at first, and at most. */
const DRAWN = 6;
const DRAWN_MAX = 12;
/** The worst that are listed. */
const WORST = 40;

/** The series that a view draws; without a choice the first ones. */
export function drawnOf(view: View, count: number): number[] {
  const chosen = view.series.split(',').filter((text) => /^\d{1,6}$/.test(text)).map(Number).filter((row) => row < count);
  const all = chosen.length || view.series ? chosen : Array.from({ length: Math.min(DRAWN, count) }, (_, row) => row);
  return [...new Set(all)].slice(0, DRAWN_MAX);
}

interface Chart {
  canvas: HTMLCanvasElement;
  paint: (to: CanvasRenderingContext2D, width: number) => void;
}

export class Laboratory implements Part {
  private readonly box = byId('laboratory');
  private answer: Answer | null = null;
  private charts: Chart[] = [];
  private readonly reload = later(0, () => void this.load());

  constructor(private readonly app: App) {
    new ResizeObserver(() => this.charts.forEach((chart) => this.draw(chart))).observe(this.box);
  }

  changed(view: View, before: View | null): void {
    if (view.page !== 'laboratory') return;
    if (!this.answer) this.reload();
    else if (!before || before.page !== view.page || before.series !== view.series) this.show(this.answer);
  }

  private async load(): Promise<void> {
    try {
      this.answer = await this.app.client.ask('results', 'results', {});
      if (this.answer) this.show(this.answer);
    } catch (error) {
      const hint = (error as { hint?: string | null }).hint;
      const text = error instanceof Error ? error.message : String(error);
      this.box.replaceChildren(el('p', 'note', hint ? `${text}: ${hint}` : text));
    }
  }

  private show(answer: Answer): void {
    const all = curves(answer);
    const drawn = drawnOf(this.app.view, all.length);
    const shown = drawn.map((row) => all[row]).filter((curve): curve is Curve => curve !== undefined);
    this.charts = [];
    this.box.replaceChildren(
      el('h2', '', 'What was measured'),
      this.list(answer, all, drawn),
      el(
        'div',
        'charts',
        this.chart('How often each length occurs', 'Share of the samples, of a tenth of a power of ten; both axes are logarithmic.', (to, width) => histogram(to, width, shown)),
        this.chart('Tails', 'Share of the samples that are longer; both axes are logarithmic.', (to, width) => tails(to, width, shown)),
        this.chart('The worst samples over time', overTime(answer, drawn) === 'at_ns' ? 'By when they ended, since the first run began.' : 'By their number: when they ended is not known.', (to, width) => worstOverTime(to, width, answer, drawn)),
      ),
      el('h2', '', 'The worst samples'),
      this.worst(answer, all, drawn),
    );
    this.doubts(answer);
    this.comparisons(answer);
    this.charts.forEach((chart) => this.draw(chart));
  }

  private list(answer: Answer, all: readonly Curve[], drawn: readonly number[]): HTMLElement {
    const [runs, series] = [answer.table('runs'), answer.table('series')];
    const ns = (name: string, row: number): string => {
      const value = series.number(name, row);
      return value === null ? 'too few' : duration(value);
    };
    const missing = ({ row, beyond, beyondNs }: Curve): string => {
      const lost = series.number('lost', row) ?? 0;
      return [lost ? `${grouped(lost)} lost` : '', beyond ? `${grouped(beyond)} beyond ${beyondNs === null ? '?' : duration(beyondNs)}` : ''].filter(Boolean).join(', ');
    };
    const toggle = (row: number): void => {
      const now = drawn.includes(row) ? drawn.filter((one) => one !== row) : [...drawn, row];
      this.app.go({ ...this.app.view, series: now.join(',') || '-' });
    };
    return table<Curve>(
      [
        { head: 'Drawn', cell: ({ row }) => this.sample(row, drawn, toggle) },
        { head: 'Run', cell: ({ run }) => runs.text('name', run) },
        { head: 'Test', cell: ({ run }) => runs.text('test', run) },
        { head: 'Series', cell: ({ name }) => name },
        { head: 'Thread', cell: ({ row }) => thread(series, row) },
        { head: 'Samples', isNumber: true, cell: ({ row }) => grouped(series.number('count', row) ?? 0) },
        { head: 'p50', isNumber: true, cell: ({ row }) => ns('p50_ns', row) },
        { head: 'p99', isNumber: true, cell: ({ row }) => ns('p99_ns', row) },
        { head: 'p99.9', isNumber: true, cell: ({ row }) => ns('p999_ns', row) },
        { head: 'p99.99', isNumber: true, cell: ({ row }) => ns('p9999_ns', row) },
        { head: 'max', isNumber: true, cell: ({ row }) => ns('max_ns', row) },
        { head: 'Without a value', cell: missing },
      ],
      all,
    );
  }

  /** The look of a line, and whether it is drawn. */
  private sample(row: number, drawn: readonly number[], toggle: (row: number) => void): HTMLElement {
    const box = el('input');
    box.type = 'checkbox';
    box.checked = drawn.includes(row);
    box.setAttribute('aria-label', 'Draw this series');
    box.addEventListener('change', () => toggle(row));
    const canvas = el('canvas');
    const to = box.checked ? sharpen(canvas, 28, 10) : null;
    if (to) {
      const { colour, dashes } = lookOf(drawn.indexOf(row));
      to.strokeStyle = palette()[colour];
      to.lineWidth = 2;
      to.setLineDash([...dashes]);
      to.beginPath();
      to.moveTo(0, 5);
      to.lineTo(28, 5);
      to.stroke();
    }
    return el('label', '', box, box.checked ? canvas : '');
  }

  private chart(title: string, about: string, paint: Chart['paint']): HTMLElement {
    const canvas = el('canvas');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${title}. ${about}`);
    this.charts.push({ canvas, paint });
    return el('figure', 'chart', el('figcaption', '', el('b', '', title), ` ${about}`), canvas);
  }

  private draw({ canvas, paint }: Chart): void {
    const width = Math.max(200, (canvas.parentElement?.clientWidth ?? 400) - 2);
    const to = sharpen(canvas, width, HEIGHT);
    if (!to) return;
    to.clearRect(0, 0, width, HEIGHT);
    to.font = `10.5px ${getComputedStyle(document.body).fontFamily}`;
    paint(to, width);
  }

  private worst(answer: Answer, all: readonly Curve[], drawn: readonly number[]): HTMLElement {
    const [of, runs] = [answer.table('worst'), answer.table('runs')];
    const curveOf = (row: number): Curve | undefined => all[of.number('series', row) ?? -1];
    const rows = Array.from({ length: of.rows }, (_, row) => row).filter((row) => drawn.includes(of.number('series', row) ?? -1));
    rows.sort((a, b) => (of.number('value_ns', b) ?? 0) - (of.number('value_ns', a) ?? 0));
    if (!rows.length) return el('p', 'note', 'The records of these series have no single samples.');
    return table<number>(
      [
        { head: '#', isNumber: true, cell: (row) => rows.indexOf(row) + 1 },
        { head: 'Lasted', isNumber: true, cell: (row) => duration(of.number('value_ns', row) ?? 0) },
        { head: 'Run', cell: (row) => runs.text('name', curveOf(row)?.run ?? -1) },
        { head: 'Series', cell: (row) => curveOf(row)?.name },
        { head: 'Sample', isNumber: true, cell: (row) => number(of.number('sample', row)) },
        { head: 'Cause', cell: (row) => of.text('cause', row) ?? 'not asked for: --explain' },
        { head: '', cell: (row) => this.way(of, row) },
      ],
      rows.slice(0, WORST),
    );
  }

  /** To its place in the trace that is shown. */
  private way(of: Table, row: number): HTMLElement | string {
    const [from, to, tid] = [of.big('from', row), of.big('to', row), of.number('tid', row)];
    if (from === null || to === null) return '';
    return link('Show in the trace', () => this.app.go({ ...around({ ...this.app.view, page: 'timeline' }, from, to, this.app.whole), tid, at: to, a: from, b: to, sample: '' }));
  }

  private doubts(answer: Answer): void {
    const [of, runs] = [answer.table('caveats'), answer.table('runs')];
    if (!of.rows) return;
    const rows = Array.from({ length: of.rows }, (_, row) => row);
    const list = table<number>(
      [
        { head: 'Severity', cell: (row) => of.text('severity', row) },
        { head: 'Run', cell: (row) => runs.text('name', of.number('run', row) ?? -1) },
        { head: 'What', cell: (row) => of.text('text', row) },
        { head: 'What to do', cell: (row) => of.text('next', row) },
      ],
      rows,
    );
    add(this.box, el('h2', '', 'What makes the numbers doubtful'), list);
  }

  private comparisons(answer: Answer): void {
    const list = answer.head.info['comparisons'];
    if (!Array.isArray(list) || !list.length) return;
    add(this.box, el('h2', '', 'Comparisons'));
    for (const { name, lines } of list as { name: string; lines: string[] }[]) {
      add(this.box, el('b', '', name), el('div', 'lines mono', ...lines.map((line) => el('div', '', line))));
    }
  }
}

function thread(series: Table, row: number): string {
  const [policy, priority, tid] = [series.text('policy', row), series.number('priority', row), series.number('tid', row)];
  return [policy ?? '', priority === null ? '' : String(priority), tid === null ? '' : `[${tid}]`].filter(Boolean).join(' ');
}

function number(value: number | null): string {
  return value === null ? '' : grouped(value);
}

const LEFT = 56;
const BOTTOM = HEIGHT - 20;

/** Axes with powers of ten, and what they say. */
function axes(to: CanvasRenderingContext2D, width: number, x: LogScale, y: LogScale): void {
  const colours = palette();
  for (const ns of x.ticks) {
    to.fillStyle = colours.grid;
    to.fillRect(Math.round(x.at(ns)), 6, 1, BOTTOM - 6);
    to.fillStyle = colours.ink2;
    to.fillText(short(ns), Math.min(width - 34, x.at(ns) + 3), HEIGHT - 6);
  }
  y.ticks.forEach((share, i) => {
    if (y.ticks.length > 9 && i % 2) return;
    to.fillStyle = colours.grid;
    to.fillRect(LEFT, Math.round(y.at(share)), width - LEFT, 1);
    to.fillStyle = colours.ink2;
    to.fillText(share >= 0.001 ? `${Number((share * 100).toPrecision(3))} %` : `1e${Math.round(Math.log10(share))}`, 4, Math.max(14, y.at(share) + 3));
  });
}

function short(ns: number): string {
  return duration(ns).replace(/\.0+ /, ' ');
}

function scaleOf(shown: readonly Curve[], width: number): LogScale | null {
  const ends = shown.flatMap(({ buckets, beyondNs }) => [buckets[0]?.low, buckets.at(-1)?.high, beyondNs ?? undefined]).filter((ns): ns is number => ns !== undefined);
  if (!ends.length) return null;
  return logScale(Math.max(1, Math.min(...ends)), Math.max(...ends) + 1, LEFT, width - 8);
}

function stroke(to: CanvasRenderingContext2D, place: number, trace: () => void): void {
  const { colour, dashes } = lookOf(place);
  to.save();
  to.strokeStyle = palette()[colour];
  to.lineWidth = 1.6;
  to.setLineDash([...dashes]);
  to.beginPath();
  trace();
  to.stroke();
  to.restore();
}

function histogram(to: CanvasRenderingContext2D, width: number, shown: readonly Curve[]): void {
  const x = scaleOf(shown, width);
  if (!x) return;
  const all = shown.map(density);
  const shares = all.flat().map(({ share }) => share).filter((share) => share > 0);
  if (!shares.length) return;
  const y = logScale(Math.min(...shares), Math.max(...shares), BOTTOM, 8);
  axes(to, width, x, y);
  all.forEach((steps, place) =>
    stroke(to, place, () => {
      let end = -1;
      for (const { low, high, share } of steps) {
        // Where there is no sample, the line goes down to the axis.
        if (low !== end) {
          if (end >= 0) to.lineTo(x.at(end), BOTTOM);
          to.moveTo(x.at(low), BOTTOM);
        }
        to.lineTo(x.at(low), y.at(share));
        to.lineTo(x.at(high), y.at(share));
        end = high;
      }
      if (end >= 0) to.lineTo(x.at(end), BOTTOM);
    }),
  );
}

function tails(to: CanvasRenderingContext2D, width: number, shown: readonly Curve[]): void {
  const x = scaleOf(shown, width);
  if (!x) return;
  const most = Math.max(1, ...shown.map(({ known }) => known));
  const y = logScale(1 / most, 1, BOTTOM, 8);
  axes(to, width, x, y);
  shown.forEach((curve, place) =>
    stroke(to, place, () => {
      const first = curve.buckets[0];
      if (!first) return;
      let share = 1;
      to.moveTo(x.at(Math.max(1, first.low)), y.at(1));
      for (const point of tail(curve)) {
        to.lineTo(x.at(point.ns), y.at(share));
        to.lineTo(x.at(point.ns), point.share > 0 ? y.at(point.share) : BOTTOM);
        share = point.share;
      }
    }),
  );
}

/** By what the worst samples are put in order: when they ended, or their numbers. */
function overTime(answer: Answer, drawn: readonly number[]): 'at_ns' | 'sample' {
  const of = answer.table('worst');
  const own = Array.from({ length: of.rows }, (_, row) => row).filter((row) => drawn.includes(of.number('series', row) ?? -1));
  return own.some((row) => of.big('at_ns', row) !== null) ? 'at_ns' : 'sample';
}

function worstOverTime(to: CanvasRenderingContext2D, width: number, answer: Answer, drawn: readonly number[]): void {
  const of = answer.table('worst');
  const by = overTime(answer, drawn);
  const points = [];
  for (let row = 0; row < of.rows; row++) {
    const [place, at] = [drawn.indexOf(of.number('series', row) ?? -1), of.big(by, row)];
    if (place >= 0 && at !== null) points.push({ place, at, ns: of.number('value_ns', row) ?? 0 });
  }
  const [first] = points;
  if (!first) return;
  const begin = points.reduce((least, { at }) => (at < least ? at : least), first.at);
  const length = Math.max(1, ...points.map(({ at }) => Number(at - begin)));
  const values = points.map(({ ns }) => Math.max(1, ns));
  const y = logScale(Math.min(...values), Math.max(...values), BOTTOM, 8);
  const colours = palette();
  for (const ns of y.ticks) {
    to.fillStyle = colours.grid;
    to.fillRect(LEFT, Math.round(y.at(ns)), width - LEFT, 1);
    to.fillStyle = colours.ink2;
    to.fillText(short(ns), 4, Math.max(14, y.at(ns) + 3));
  }
  to.fillText(by === 'at_ns' ? `0 to ${duration(length)}` : `samples ${grouped(begin)} to ${grouped(begin + BigInt(length))}`, LEFT, HEIGHT - 6);
  for (const { place, at, ns } of points) {
    const { colour } = lookOf(place);
    to.fillStyle = colours[colour];
    to.beginPath();
    to.arc(LEFT + 6 + (Number(at - begin) / length) * (width - LEFT - 16), y.at(ns), 3, 0, 7);
    to.fill();
  }
}
