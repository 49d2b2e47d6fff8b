// SPDX-License-Identifier: MIT OR Apache-2.0
// The time line: rows of CPUs, threads and spans over one axis. The last picture stays, moved and scaled, until the next
// answer is there.

import type { App, Part } from './app.js';
import type { Answer } from './columns.js';
import type { Shown } from './copy.js';
import { byId, el, later, onFrame } from './dom.js';
import { Painter, type Place, sharpen } from './draw.js';
import { type Piece, type Row, cpuRows, pieceAt, spanRows, threadRows } from './layout.js';
import { palette } from './palette.js';
import { type Picture, STRIPPED_MIN, extended, renewalLength, stripLength, stripPixels } from './strips.js';
import { duration, ticks } from './time.js';
import { type View, around, moved, zoomed } from './view.js';

const LABELS = 208;
const SECTION = 20;
const RULER = 30;
const THREADS_MAX = 100;
/** Waits for a CPU that are at least so long are marked at every zoom, ns. */
const LATE_NS = 1_000_000;

/** A stretch that is followed is read from so long before it on, to find spans that began earlier, ns. */
const SPAN_LEAD_NS = 500_000_000;

interface Section {
  title: string;
  picture: Picture | null;
  note: string;
  /** The trace has something for it, so that it is asked for what is new. */
  isFed: boolean;
  /** Where the newest stretch begins; null: where the picture ends. */
  strip: bigint | null;
  /** How often the whole window was answered. */
  answers: number;
}

function section(title: string): Section {
  return { title, picture: null, note: '', isFed: true, strip: null, answers: 0 };
}

/** A part of time, as questions have it. */
interface Asked {
  from: bigint;
  to: bigint;
  pixels: number;
}

/** Where things are, for who draws over the rows. */
export interface Surface {
  x: (at: bigint) => number;
  /** The upper edge of what a thread does; null where it has no row. */
  y: (tid: number) => number | null;
  width: number;
}

type Line = { top: number; height: number } & ({ row: Row; picture: Picture } | { title: string; note: string });

const SECTIONS = ['cpus', 'threads', 'spans'] as const;
type Which = (typeof SECTIONS)[number];

export class Timeline implements Part {
  private readonly box: HTMLElement;
  private readonly labels: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly ruler: HTMLCanvasElement;
  private readonly sections: Record<Which, Section> = { cpus: section('CPUs'), threads: section('Threads'), spans: section('Spans') };
  private lines: Line[] = [];
  private painter: Painter | null = null;
  private readonly draw = onFrame(() => this.paint());
  private readonly ask = later(60, () => void this.load());
  private drag: { x: number; from: bigint; to: bigint; isStretch: boolean; moved: boolean } | null = null;
  private stretch: { from: number; to: number } | null = null;
  /** Threads that have a row in any case, above all others. */
  private pinned: readonly number[] = [];
  /** Threads that have a row, and what stands behind their names. */
  private tids: readonly number[] = [];
  private details = new Map<number, string>();
  /** What the whole windows were asked with, and up to where; whether they are being asked for again, and from when on. */
  private about = '';
  private wholeTo = 0n;
  private isRenewing = false;
  private renewAfter = 0;
  /** What the labels were made of. */
  private labelled = '';
  /** Tops of the rows, by key. */
  private readonly tops = new Map<string, number>();
  /** Draws over the rows. */
  overlay: ((to: CanvasRenderingContext2D, on: Surface) => void) | null = null;

  /** `prefix`: of the ids of its elements; `b-` for the trace beside. */
  constructor(
    private readonly app: App,
    prefix = '',
  ) {
    this.box = byId(`${prefix}rows`);
    this.labels = byId(`${prefix}labels`);
    this.canvas = byId<HTMLCanvasElement>(`${prefix}plot`);
    this.ruler = byId<HTMLCanvasElement>(`${prefix}ruler`);
    new ResizeObserver(() => this.resized()).observe(this.box);
    this.box.addEventListener('scroll', this.draw);
    this.canvas.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener('pointerdown', (event) => this.press(event));
    this.canvas.addEventListener('pointermove', (event) => this.move(event));
    this.canvas.addEventListener('pointerup', (event) => this.release(event));
    this.canvas.addEventListener('dblclick', (event) => this.zoomTo(event));
    this.canvas.addEventListener('pointerleave', () => this.app.say(''));
  }

  changed(view: View, before: View | null): void {
    if (view.page !== 'timeline') return;
    this.draw();
    const isSame = before && before.page === 'timeline' && before.from === view.from && before.to === view.to;
    if (isSame && before.by === view.by && before.match === view.match) return;
    if (this.app.isFollowing) this.app.drawn = this.advance();
    else this.ask();
  }

  /** The theme has changed. */
  repaint(): void {
    this.painter = null;
    this.draw();
  }

  /** These threads have a row in any case, above all others; what is drawn over the rows is drawn anew. */
  pin(tids: readonly number[]): void {
    const isSame = tids.length === this.pinned.length && tids.every((tid) => this.pinned.includes(tid));
    this.pinned = tids;
    if (!isSame && this.app.view.page === 'timeline') this.ask();
    this.draw();
  }

  private get width(): number {
    return Math.max(100, this.box.clientWidth - LABELS);
  }

  private resized(): void {
    this.draw();
    if (this.app.view.page === 'timeline') this.ask();
  }

  /** All of the window. */
  private async load(): Promise<void> {
    const at = this.asked();
    await Promise.all(SECTIONS.map((which) => this.whole(which, at)));
  }

  private asked(): Asked {
    const { view } = this.app;
    [this.about, this.wholeTo] = [this.aboutOf(view), view.to];
    return { from: view.from, to: view.to, pixels: Math.min(8192, Math.round(this.width)) };
  }

  /** What stretches must have in common with the picture that they extend. */
  private aboutOf(view: View): string {
    return `${view.to - view.from} ${this.width} ${view.by} ${view.match}`;
  }

  /** The newest record has moved on: asks for what came since. All of the window is asked for again now and then. */
  private async advance(): Promise<void> {
    const { view } = this.app;
    const length = view.to - view.from;
    const hasPicture = SECTIONS.some((which) => this.sections[which].picture);
    const isNear = this.about === this.aboutOf(view) && this.wholeTo >= view.from;
    if (!hasPicture || length < STRIPPED_MIN || !isNear) return this.load();
    const isDue = view.to - this.wholeTo >= renewalLength(length) && performance.now() >= this.renewAfter;
    if (isDue && !this.isRenewing) void this.renew();
    await Promise.all(SECTIONS.map((which) => this.strip(which, view.to, length)));
    // Once for all sections: rows and labels are placed, and drawn in one frame.
    this.arrange();
  }

  /** Asks for all of the window, one part after the other: meanwhile the newest stretch is asked for, too. */
  private async renew(): Promise<void> {
    const begin = performance.now();
    this.isRenewing = true;
    try {
      const at = this.asked();
      for (const which of SECTIONS) if (this.app.isFollowing) await this.whole(which, at);
    } finally {
      this.isRenewing = false;
      // On a slow machine half of the time at most.
      this.renewAfter = 2 * performance.now() - begin;
    }
  }

  /** One section, all of the window. */
  private async whole(which: Which, at: Asked): Promise<void> {
    const section = this.sections[which];
    let total = 0;
    try {
      if (which === 'threads') {
        const listed = await this.list(at);
        if (!listed) return;
        const answer = listed.tids.length ? await this.question(which, '', at, listed.tids) : null;
        if (!answer && listed.tids.length) return;
        ({ total, tids: this.tids, details: this.details } = listed);
        this.take(section, answer ? this.pictureOf(which, answer, at.pixels) : { rows: [], ...at }, false);
        section.note = '';
      } else {
        const answer = await this.question(which, '', at, []);
        if (!answer) return;
        this.take(section, this.pictureOf(which, answer, at.pixels), true);
        section.isFed = which === 'cpus' || ((answer.head.info['spans'] as string[] | undefined)?.length ?? 0) > 0;
        section.note = answer.head.notes.join(' ');
      }
    } catch (error) {
      section.note = whyNot(error);
    }
    const hidden = total - (section.picture?.rows.length ?? 0);
    if (hidden > 0) section.note = `${hidden} hidden`;
    this.arrange();
  }

  /** A whole picture has come. What came while it was on its way stays until the next stretch, which begins at its end. */
  private take(section: Section, fresh: Picture, mayAdd: boolean): void {
    const before = this.app.isFollowing ? section.picture : null;
    section.picture = before ? extended(fresh, fresh.to, before, mayAdd) : fresh;
    section.strip = fresh.to;
    section.answers++;
  }

  /** Finds the threads that get a row; null where that was asked again meanwhile. */
  private async list(at: Asked): Promise<{ tids: number[]; details: Map<number, string>; total: number } | null> {
    const { app } = this;
    const { by, match } = app.view;
    const list = await app.client.ask('threads', 'threads', { from: app.at(at.from), to: app.at(at.to), by, match, limit: THREADS_MAX });
    if (!list) return null;
    const table = list.table('threads');
    const found: number[] = [];
    const details = new Map<number, string>();
    for (let i = 0; i < table.rows; i++) {
      const tid = table.number('tid', i) ?? 0;
      found.push(tid);
      details.set(tid, detail(table.number('prio', i), table.number('worst_ns', i)));
    }
    const tids = [...this.pinned, ...found.filter((tid) => !this.pinned.includes(tid))].slice(0, THREADS_MAX);
    return { tids, details, total: Number(list.head.info['total'] ?? table.rows) };
  }

  /** One section, what is new in it. */
  private async strip(which: Which, to: bigint, length: bigint): Promise<void> {
    const section = this.sections[which];
    if (!section.picture || !section.isFed || (which === 'threads' && !this.tids.length)) return;
    const [from, { answers }] = [section.strip ?? section.picture.to, section];
    if (from >= to) return;
    const pixels = stripPixels(to - from, length, this.width);
    try {
      const answer = await this.question(which, '+', { from, to, pixels }, this.tids);
      if (!answer || !this.app.isFollowing) return;
      const strip = this.pictureOf(which, answer, pixels);
      // A whole window that came meanwhile is better up to its end, and the next stretch begins there.
      const isOld = section.answers !== answers && section.strip !== null && section.strip > strip.from;
      section.picture = extended(section.picture, isOld && section.strip !== null ? section.strip : strip.from, strip, which !== 'threads');
      if (section.answers === answers) section.strip = strip.to - strip.from >= stripLength(length) ? null : from;
    } catch (error) {
      section.note = whyNot(error);
    }
  }

  /** `slot`: behind the name of the slot: a stretch does not take the place of the whole window. */
  private question(which: Which, slot: '' | '+', { from, to, pixels }: Asked, tids: readonly number[]): Promise<Answer | null> {
    const { client } = this.app;
    const window = { from: this.app.at(from), to: this.app.at(to), pixels };
    switch (which) {
      case 'cpus':
        return client.ask(`cpus${slot}`, 'cpus', window);
      case 'threads':
        return client.ask(`states${slot}`, 'states', { ...window, tids, calls: 1, late: LATE_NS });
      case 'spans':
        return client.ask(`slices${slot}`, 'slices', { ...window, lead: slot ? SPAN_LEAD_NS : null });
    }
  }

  private pictureOf(which: Which, answer: Answer, asked: number): Picture {
    // A saved answer has as many pixels as it was saved with.
    const pixels = Number(answer.head.info['pixels'] ?? asked);
    const rows = which === 'cpus' ? cpuRows(answer, pixels) : which === 'spans' ? spanRows(answer, pixels) : threadRows(answer, pixels, (tid) => this.details.get(tid) ?? '');
    return { rows, from: BigInt(answer.head.from), to: BigInt(answer.head.to), pixels };
  }

  /** Puts rows below one another. */
  private arrange(): void {
    this.lines = [];
    this.tops.clear();
    let top = 0;
    for (const which of SECTIONS) {
      const { title, picture, note } = this.sections[which];
      if (which === 'spans' && !picture?.rows.length && !note) continue;
      this.lines.push({ top, height: SECTION, title, note });
      top += SECTION;
      for (const row of picture?.rows ?? []) {
        if (picture) this.lines.push({ top, height: row.height, row, picture });
        this.tops.set(row.key, top);
        top += row.height;
      }
    }
    this.label(top);
    this.draw();
  }

  /** Labels stay the same elements as long as their rows are there: who has one in focus keeps it. */
  private label(height: number): void {
    const written = this.lines.map((line) => ('row' in line ? `${line.row.key} ${line.row.title} ${line.row.detail}` : `${line.title} ${line.note}`) + line.top);
    const signature = `${height} ${written.join('\n')}`;
    // Between two pictures of a trace that is being written nothing of them changes, as a rule.
    if (signature === this.labelled) return;
    this.labelled = signature;
    this.labels.style.height = `${height}px`;
    const left = new Map([...this.labels.children].map((label) => [(label as HTMLElement).dataset['key'] ?? '', label as HTMLElement]));
    for (const line of this.lines) {
      const key = 'row' in line ? line.row.key : `section ${line.title}`;
      const made = left.get(key) ?? this.newLabel(key, 'row' in line ? line.row.tid : null, 'row' in line);
      left.delete(key);
      const [name, detail] = 'row' in line ? [line.row.title, line.row.detail] : [line.title, line.note];
      if (made.firstChild?.textContent !== name || made.lastChild?.textContent !== detail) {
        made.replaceChildren(el('span', 'name', name), el('span', 'i3', detail));
        made.title = [name, detail].filter(Boolean).join(': ');
      }
      made.style.top = `${line.top}px`;
      made.style.height = `${line.height}px`;
      if (!made.isConnected) this.labels.append(made);
    }
    for (const gone of left.values()) gone.remove();
  }

  private newLabel(key: string, tid: number | null, isRow: boolean): HTMLElement {
    const made = isRow ? el('button', 'label') : el('div', 'section');
    made.dataset['key'] = key;
    if (made instanceof HTMLButtonElement) {
      made.type = 'button';
      made.addEventListener('click', () => tid !== null && this.app.go({ ...this.app.view, tid }));
    }
    return made;
  }

  private place(picture: Picture): Place {
    const { from, to } = this.app.view;
    const perNs = this.width / Number(to - from);
    const a = (Number(picture.to - picture.from) / picture.pixels) * perNs;
    return { a, b: Number(picture.from - from) * perNs, left: 0, right: this.width };
  }

  private paint(): void {
    if (this.app.view.page !== 'timeline') return;
    const height = this.box.clientHeight;
    const to = sharpen(this.canvas, this.width, height);
    if (!to) return;
    this.painter ??= new Painter(to, palette(), getComputedStyle(document.body).fontFamily);
    const { colours } = this.painter;
    to.clearRect(0, 0, this.width, height);
    const scroll = this.box.scrollTop;
    this.grid(to, height);
    for (const line of this.lines) {
      const top = line.top - scroll;
      if (top + line.height < 0 || top > height) continue;
      if ('row' in line) {
        if (line.row.tid !== null && line.row.tid === this.app.view.tid) {
          to.fillStyle = colours.selrow;
          to.fillRect(0, top, this.width, line.height);
        }
        this.painter.row(line.row, top, this.place(line.picture));
      } else {
        to.fillStyle = colours.panel;
        to.fillRect(0, top, this.width, line.height);
      }
      to.fillStyle = colours.grid;
      to.fillRect(0, top + line.height - 1, this.width, 1);
    }
    const y = (tid: number): number | null => {
      const top = this.tops.get(`tid${tid}`);
      return top === undefined ? null : top - scroll + 2;
    };
    this.overlay?.(to, { x: (at) => this.x(at), y, width: this.width });
    this.marks(to, height);
    this.paintRuler();
    const ends = SECTIONS.map((which) => this.sections[which].picture).flatMap((picture) => (picture?.rows.length ? [picture.to] : []));
    // Up to there all rows are drawn.
    if (ends.length) this.app.onPainted(ends.reduce((least, to) => (to < least ? to : least)));
  }

  private x(at: bigint): number {
    const { from, to } = this.app.view;
    return (Number(at - from) / Number(to - from)) * this.width;
  }

  private grid(to: CanvasRenderingContext2D, height: number): void {
    const { from, to: until } = this.app.view;
    to.fillStyle = this.painter?.colours.grid ?? '';
    for (const at of ticks(from, until, this.width, 120).at) to.fillRect(Math.round(this.x(at)), 0, 1, height);
  }

  private marks(to: CanvasRenderingContext2D, height: number): void {
    const { a, b, at } = this.app.view;
    to.fillStyle = this.painter?.colours.accent ?? '';
    for (const mark of [a, b]) if (mark !== null) to.fillRect(Math.round(this.x(mark)), 0, 1, height);
    if (at !== null) {
      to.save();
      to.strokeStyle = this.painter?.colours.accent ?? '';
      to.setLineDash([4, 3]);
      to.beginPath();
      to.moveTo(Math.round(this.x(at)) + 0.5, 0);
      to.lineTo(Math.round(this.x(at)) + 0.5, height);
      to.stroke();
      to.restore();
    }
    if (this.stretch) {
      to.globalAlpha = 0.18;
      to.fillRect(this.stretch.from, 0, this.stretch.to - this.stretch.from, height);
      to.globalAlpha = 1;
    }
  }

  private paintRuler(): void {
    const to = sharpen(this.ruler, this.width, RULER);
    const colours = this.painter?.colours;
    if (!to || !colours) return;
    const { from, to: until, a, b } = this.app.view;
    to.clearRect(0, 0, this.width, RULER);
    to.font = `10.5px ${getComputedStyle(document.body).fontFamily}`;
    const { step, at } = ticks(from, until, this.width, 120);
    for (const time of at) {
      const x = Math.round(this.x(time));
      to.fillStyle = colours.line;
      to.fillRect(x, RULER - 6, 1, 6);
      to.fillStyle = colours.ink2;
      to.fillText(this.app.times.tick(time, step), x + 4, RULER - 9);
    }
    to.fillStyle = colours.accent;
    for (const { at, to: end } of this.app.marks) {
      const x = Math.round(this.x(at));
      if (end !== null) to.fillRect(x, 0, Math.max(1, this.x(end) - x), 2);
      if (x > -6 && x < this.width) to.fillRect(x, 0, 5, 5);
    }
    for (const [name, time] of [['A', a], ['B', b]] as const) if (time !== null) to.fillText(name, this.x(time) - 3, 10);
    if (a !== null && b !== null) to.fillText(duration(Number(b > a ? b - a : a - b)), (this.x(a) + this.x(b)) / 2, 10);
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const { view, whole } = this.app;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.app.go(moved(view, (event.deltaX || event.deltaY) / 1000, whole), true);
      return;
    }
    const steps = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * 30 : event.deltaY;
    this.app.go(zoomed(view, 1.0016 ** steps, event.offsetX / this.width, whole), true);
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    const { from, to } = this.app.view;
    this.drag = { x: event.offsetX, from, to, isStretch: event.shiftKey, moved: false };
  }

  private move(event: PointerEvent): void {
    const drag = this.drag;
    if (!drag) return this.hover(event);
    if (Math.abs(event.offsetX - drag.x) > 3) drag.moved = true;
    if (!drag.moved) return;
    if (drag.isStretch) {
      this.stretch = { from: Math.min(drag.x, event.offsetX), to: Math.max(drag.x, event.offsetX) };
      this.draw();
      return;
    }
    const start = { ...this.app.view, from: drag.from, to: drag.to };
    this.app.go(moved(start, (drag.x - event.offsetX) / this.width, this.app.whole), true);
  }

  private release(event: PointerEvent): void {
    const drag = this.drag;
    this.drag = null;
    const stretch = this.stretch;
    this.stretch = null;
    if (!drag) return;
    if (stretch) this.app.go({ ...this.app.view, from: this.time(stretch.from), to: this.time(stretch.to) });
    else if (!drag.moved) this.select(event);
  }

  /** What is on the screen and below, to be copied. */
  shown(): Shown {
    const { from, to } = this.app.view;
    const { step, at } = ticks(from, to, this.width, 120);
    const lines = this.lines.map((line) => {
      const { top, height } = line;
      if (!('row' in line)) return { title: line.title, detail: line.note, top, height, row: null, a: 1, b: 0, from };
      const { a, b } = this.place(line.picture);
      return { title: line.row.title, detail: line.row.detail, top, height, row: line.row, a, b, from: line.picture.from };
    });
    const last = this.lines.at(-1);
    const marks = at.map((time) => ({ x: Math.round(this.x(time)), text: this.app.times.tick(time, step) }));
    return { lines, width: this.width, height: last ? last.top + last.height : 0, labels: LABELS, ruler: RULER, ticks: marks, base: this.app.base };
  }

  /** The time at a place of the plot. */
  time(x: number): bigint {
    const { from, to } = this.app.view;
    return from + BigInt(Math.round((x / this.width) * Number(to - from)));
  }

  private found(event: MouseEvent): { row: Row; picture: Picture; piece: Piece | null } | null {
    const y = event.offsetY + this.box.scrollTop;
    const line = this.lines.find((line) => y >= line.top && y < line.top + line.height);
    if (!line || !('row' in line)) return null;
    const { a, b } = this.place(line.picture);
    return { row: line.row, picture: line.picture, piece: pieceAt(line.row, (event.offsetX - b) / a, y - line.top) };
  }

  private hover(event: PointerEvent): void {
    const found = this.found(event);
    const at = this.app.times.text(this.time(event.offsetX));
    const tip = found?.piece?.tip;
    const what = tip ? `${tip.text}, ${duration(tip.to - tip.from)}` : (found?.row.title ?? '');
    this.app.say(what ? `${at}   ${what}` : at);
  }

  private select(event: MouseEvent): void {
    const found = this.found(event);
    const tid = found?.piece?.tip?.tid ?? found?.row.tid ?? null;
    this.app.go({ ...this.app.view, tid, at: this.time(event.offsetX) });
  }

  private zoomTo(event: MouseEvent): void {
    const found = this.found(event);
    const tip = found?.piece?.tip;
    if (!found || !tip) return;
    const from = found.picture.from;
    this.app.go(around(this.app.view, from + BigInt(Math.round(tip.from)), from + BigInt(Math.round(tip.to)), this.app.whole));
  }
}

function whyNot(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const hint = (error as { hint?: string | null }).hint;
  return hint ? `${text}: ${hint}` : text;
}

function detail(prio: number | null, worst: number | null): string {
  const priority = prio === null ? '' : prio < 100 ? `rt ${99 - prio}` : prio === 120 ? '' : `nice ${prio - 120}`;
  return [priority, worst ? `waited ${duration(worst)}` : ''].filter(Boolean).join(' · ');
}
