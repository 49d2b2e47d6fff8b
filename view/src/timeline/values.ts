// SPDX-License-Identifier: MIT OR Apache-2.0
// Numeric fields, counters and contexts over time, below the time line and on its axis: the band from minimum to maximum of
// each pixel, so that no peak vanishes, and the last value as a line.

import type { App, Part } from '../app/app.js';
import type { View } from '../app/view.js';
import { Pending, add, byId, button, el, later } from '../common/dom.js';
import { palette } from '../common/palette.js';
import { grouped } from '../common/time.js';
import { dashed, patterns, sharpen } from '../draw/draw.js';
import { frame } from '../layout/layout.js';
import { type Hole, Losses, countOf } from '../layout/losses.js';
import type { Answer } from '../query/columns.js';

const LABELS = 208;
const HEIGHT = 46;
/** Rows at most. */
const FIELDS_MAX = 12;

/** The fields that a view draws. */
export function fieldsOf(view: View): string[] {
  return [...new Set(view.values.split('|').filter(Boolean))].slice(0, FIELDS_MAX);
}

/** What is drawn of one field, in bins from the left and in pixels from the top. */
export interface Band {
  least: number;
  most: number;
  bins: { x: number; top: number; bottom: number; last: number; row: number }[];
  /** Where records are missing: a value may have been among them. Which event they were of is not known. */
  holes: readonly Hole[];
}

/** The band of an answer to `values`. Pure. */
export function band(answer: Answer, height: number): Band {
  const of = answer.table('bins');
  const [at, mins, maxes, lasts] = [of.numbers('bin'), of.numbers('min'), of.numbers('max'), of.numbers('last')];
  let [least, most] = [Infinity, -Infinity];
  for (let row = 0; row < of.rows; row++) {
    // Infinite values have no place on a scale.
    for (const value of [mins[row] ?? NaN, maxes[row] ?? NaN]) if (Number.isFinite(value)) [least, most] = [Math.min(least, value), Math.max(most, value)];
  }
  const y = (value: number): number => {
    if (value === Infinity) return 1;
    if (value === -Infinity) return height - 1;
    return most > least ? 2 + (1 - (value - least) / (most - least)) * (height - 4) : height / 2;
  };
  const bins = Array.from({ length: of.rows }, (_, row) => ({ x: at[row] ?? 0, top: y(maxes[row] ?? 0), bottom: y(mins[row] ?? 0), last: y(lasts[row] ?? 0), row }));
  return { least, most, bins, holes: new Losses(answer).all() };
}

/** Where a bin of an answer begins: bins on a grid are about as long as the pixels that were asked for. Pure. */
export function binTime(answer: Answer, asked: number): (bin: number) => number {
  const [from, to] = frame(answer);
  const bins = Number(answer.head.info['bins'] ?? asked);
  return (bin) => from + (bin / bins) * (to - from);
}

/** A value with at most six digits, and what it is called. */
export function shown(value: number | null): string {
  if (value === null) return 'NaN';
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return grouped(value).replace('-', '−');
  return String(Number(value.toPrecision(6)));
}

/** One field. */
interface Line {
  field: string;
  box: HTMLElement;
  label: HTMLElement;
  canvas: HTMLCanvasElement;
  answer: Answer | null;
  band: Band | null;
}

export class Values implements Part {
  private readonly box = byId('values');
  private readonly pending = new Pending(this.box);
  private readonly list = el('div');
  private readonly event = el('select');
  private readonly field = el('select');
  private readonly lines = new Map<string, Line>();
  private byEvent: Map<string, string[]> | null = null;
  private readonly reload = later(120, () => void this.load());

  constructor(private readonly app: App) {
    const head = el('div', 'choose');
    this.event.id = 'value-event';
    this.field.id = 'value-field';
    this.event.addEventListener('change', () => this.fill());
    const choose = el('button', 'link', 'Add');
    choose.type = 'button';
    choose.id = 'value-add';
    choose.addEventListener('click', () => this.choose());
    add(head, el('label', 'box', 'Event ', this.event), el('label', 'box', 'Field ', this.field), choose);
    this.box.append(head, this.list);
    new ResizeObserver(() => this.app.view.tab === 'values' && this.reload()).observe(this.box);
  }

  changed(view: View, before: View | null): void {
    if (view.page !== 'timeline' || view.tab !== 'values') return;
    if (!this.byEvent) void this.schema();
    const isSame = before && before.page === view.page && before.tab === view.tab && before.from === view.from && before.to === view.to;
    if (!isSame || before.filter !== view.filter || before.values !== view.values) this.reload();
    else this.lines.forEach((line) => this.paint(line));
  }

  /** What can be drawn, by event. */
  private async schema(): Promise<void> {
    this.byEvent = new Map();
    try {
      const answer = await this.app.client.ask('schema', 'schema', {});
      if (!answer) return;
      this.byEvent = numericFields(answer);
      this.event.replaceChildren(...[...this.byEvent.keys()].map((name) => new Option(name, name)));
      this.fill();
    } catch (error) {
      this.byEvent = null;
      this.app.failed(error);
    }
  }

  private fill(): void {
    const fields = this.byEvent?.get(this.event.value) ?? [];
    this.field.replaceChildren(...fields.map((name) => new Option(name, name)));
  }

  private choose(): void {
    if (!this.event.value || !this.field.value) return;
    const fields = fieldsOf(this.app.view).filter((field) => field !== `${this.event.value}.${this.field.value}`);
    this.app.go({ ...this.app.view, values: [...fields, `${this.event.value}.${this.field.value}`].join('|') });
  }

  private get width(): number {
    return Math.max(100, Math.min(8192, this.box.clientWidth - LABELS));
  }

  private async load(): Promise<void> {
    const { app } = this;
    const fields = fieldsOf(app.view);
    const { from, to, filter } = app.view;
    for (const [field, line] of this.lines) {
      if (fields.includes(field)) continue;
      line.box.remove();
      this.lines.delete(field);
    }
    const ask = async (field: string): Promise<void> => {
      const line = this.lines.get(field) ?? this.made(field);
      try {
        const window = { from: app.at(from), to: app.at(to), filter: filter || null };
        // Bins on a grid come from the index. A trace that grows has none.
        const size = { bins: Math.round(this.width), grid: app.isFollowing ? null : 1 };
        const answer = await app.client.ask(`values ${field}`, 'values', { ...window, field, ...size });
        if (!answer) return;
        [line.answer, line.band] = [answer, band(answer, HEIGHT)];
        this.name(line, '');
      } catch (error) {
        [line.answer, line.band] = [null, null];
        this.name(line, error instanceof Error ? error.message : String(error));
      }
      this.paint(line);
    };
    this.list.classList.toggle('empty', fields.length === 0);
    const done = app.isFollowing ? () => this.pending.end() : this.pending.begin();
    await Promise.all(fields.map(ask));
    done();
  }

  private made(field: string): Line {
    const remove = button('×', `Remove ${field}`, () => this.app.go({ ...this.app.view, values: fieldsOf(this.app.view).filter((one) => one !== field).join('|') }));
    const [label, canvas] = [el('div', 'value-label'), el('canvas')];
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${field} over time`);
    const line: Line = { field, box: el('div', 'value', el('div', 'value-head', label, remove), canvas), label, canvas, answer: null, band: null };
    canvas.addEventListener('pointermove', (event) => this.hover(line, event.offsetX));
    canvas.addEventListener('click', (event) => this.app.go({ ...this.app.view, at: this.time(event.offsetX) }));
    this.lines.set(field, line);
    this.list.append(line.box);
    return line;
  }

  private name(line: Line, wrong: string): void {
    const { band: drawn, answer } = line;
    const range = drawn && drawn.bins.length ? `${shown(finite(drawn.least))} to ${shown(finite(drawn.most))}` : answer ? 'no record in this window' : '';
    const lost = Number(answer?.head.info['not_numbers'] ?? 0);
    const missing = answer ? answer.head.lost : { records: 0, packets: 0 };
    const hidden = missing.records || missing.packets ? `${countOf(missing)}: a peak may be among them` : '';
    const notes = [range, hidden, lost ? `${grouped(lost)} are no numbers` : '', wrong].filter(Boolean).join('; ');
    line.label.replaceChildren(el('b', '', line.field), el('span', wrong ? 'wrong' : 'i2', notes));
    line.label.title = `${line.field}: ${notes}`;
  }

  private time(x: number): bigint {
    const { from, to } = this.app.view;
    return from + BigInt(Math.round((x / this.width) * Number(to - from)));
  }

  /** Where a bin begins, px. The answer may be of another window: the last picture stays, moved and scaled. */
  private places(answer: Answer): (bin: number) => number {
    const { from, to } = this.app.view;
    const [time, scale] = [binTime(answer, Math.round(this.width)), this.width / Math.max(1, Number(to - from))];
    return (bin) => (time(bin) - Number(from)) * scale;
  }

  private hover(line: Line, x: number): void {
    const of = line.answer?.table('bins');
    const place = line.answer ? this.places(line.answer) : Number;
    const away = (bin: { x: number }): number => Math.abs(place(bin.x) - x);
    const near = line.band?.bins.reduce<Band['bins'][number] | null>((best, bin) => (!best || away(bin) < away(best) ? bin : best), null);
    const at = this.app.times.text(this.time(x));
    if (!of || !near || away(near) > 6) return this.app.say(at);
    const number = (name: string): string => shown(of.number(name, near.row));
    this.app.say(`${at}   ${line.field}: ${grouped(of.number('count', near.row) ?? 0)} records, minimum ${number('min')}, maximum ${number('max')}, last ${number('last')}`);
  }

  private paint(line: Line): void {
    const to = sharpen(line.canvas, this.width, HEIGHT);
    if (!to) return;
    const colours = palette();
    to.clearRect(0, 0, this.width, HEIGHT);
    const { answer, band: drawn } = line;
    if (!answer || !drawn) return;
    const { from, to: until, at } = this.app.view;
    const scale = this.width / Math.max(1, Number(until - from));
    const x = this.places(answer);
    // Below the values: those of other CPUs and programs are known there.
    const hole = drawn.holes.length ? patterns(to, colours).hole : '';
    for (const { from: begin, to: end } of drawn.holes) {
      const [x0, x1] = [begin, end].map((offset) => (answer.head.from - Number(from) + offset) * scale) as [number, number];
      to.fillStyle = hole;
      to.fillRect(x0, 0, Math.max(3, x1 - x0), HEIGHT);
      dashed(to, colours.loss, x0, 0, Math.max(3, x1 - x0), HEIGHT);
    }
    to.fillStyle = colours.run;
    to.globalAlpha = 0.45;
    for (const bin of drawn.bins) to.fillRect(x(bin.x), bin.top, Math.max(1, x(bin.x + 1) - x(bin.x)), Math.max(1.5, bin.bottom - bin.top));
    to.globalAlpha = 1;
    to.strokeStyle = colours.ink;
    to.lineWidth = 1.2;
    to.beginPath();
    drawn.bins.forEach((bin, i) => {
      // A value holds until the next one.
      const before = drawn.bins[i - 1];
      if (before) to.lineTo(x(bin.x), before.last);
      else to.moveTo(x(bin.x), bin.last);
      to.lineTo(x(bin.x), bin.last);
    });
    to.stroke();
    if (at !== null) {
      to.fillStyle = colours.accent;
      to.fillRect(Math.round(Number(at - from) * scale), 0, 1, HEIGHT);
    }
  }
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** Numeric fields, and contexts with a dollar sign, by event. */
export function numericFields(schema: Answer): Map<string, string[]> {
  const [events, fields, contexts] = [schema.table('events'), schema.table('fields'), schema.table('recorded_contexts')];
  const byEvent = new Map<string, string[]>();
  const put = (event: number | null, name: string): void => {
    const of = events.text('name', event ?? -1);
    if (of === null) return;
    const known = byEvent.get(of) ?? [];
    if (!known.includes(name)) byEvent.set(of, [...known, name]);
  };
  for (let i = 0; i < fields.rows; i++) {
    if (['integer', 'float'].includes(fields.text('kind', i) ?? '')) put(fields.number('event', i), fields.text('name', i) ?? '');
  }
  for (let i = 0; i < contexts.rows; i++) put(contexts.number('event', i), `$${contexts.text('name', i) ?? ''}`);
  return byEvent;
}
