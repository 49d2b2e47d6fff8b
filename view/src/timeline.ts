// SPDX-License-Identifier: MIT OR Apache-2.0
// The time line: rows of CPUs, threads and spans over one axis. The last picture stays, moved and scaled, until the next
// answer is there.

import type { App, Part } from './app.js';
import type { Answer } from './columns.js';
import { add, byId, el, later, onFrame } from './dom.js';
import { Painter, type Place, sharpen } from './draw.js';
import { type Piece, type Row, cpuRows, pieceAt, spanRows, threadRows } from './layout.js';
import { palette } from './palette.js';
import { duration, ticks } from './time.js';
import { type View, around, moved, zoomed } from './view.js';

const LABELS = 208;
const SECTION = 20;
const RULER = 30;
const THREADS_MAX = 60;
/** Waits for a CPU that are at least so long are marked at every zoom, ns. */
const LATE_NS = 1_000_000;

/** The picture of one answer. */
interface Picture {
  rows: Row[];
  from: bigint;
  to: bigint;
  pixels: number;
}

interface Section {
  title: string;
  picture: Picture | null;
  note: string;
}

type Line = { top: number; height: number } & ({ row: Row; picture: Picture } | { title: string; note: string });

const SECTIONS = ['cpus', 'threads', 'spans'] as const;

export class Timeline implements Part {
  private readonly box = byId('rows');
  private readonly labels = byId('labels');
  private readonly canvas = byId<HTMLCanvasElement>('plot');
  private readonly ruler = byId<HTMLCanvasElement>('ruler');
  private readonly sections: Record<(typeof SECTIONS)[number], Section> = {
    cpus: { title: 'CPUs', picture: null, note: '' },
    threads: { title: 'Threads', picture: null, note: '' },
    spans: { title: 'Spans', picture: null, note: '' },
  };
  private lines: Line[] = [];
  private painter: Painter | null = null;
  private readonly draw = onFrame(() => this.paint());
  private readonly ask = later(60, () => void this.load());
  private drag: { x: number; from: bigint; to: bigint; isStretch: boolean; moved: boolean } | null = null;
  private stretch: { from: number; to: number } | null = null;

  constructor(private readonly app: App) {
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
    if (!isSame || before.by !== view.by || before.match !== view.match) this.ask();
  }

  /** The theme has changed. */
  repaint(): void {
    this.painter = null;
    this.draw();
  }

  private get width(): number {
    return Math.max(100, this.box.clientWidth - LABELS);
  }

  private resized(): void {
    this.draw();
    if (this.app.view.page === 'timeline') this.ask();
  }

  private async load(): Promise<void> {
    const { app } = this;
    const { from, to, by, match } = app.view;
    const pixels = Math.min(8192, Math.round(this.width));
    const window = { from: app.at(from), to: app.at(to) };
    await Promise.all([
      this.section('cpus', () => app.client.ask('cpus', 'cpus', { ...window, pixels }), (answer) => cpuRows(answer, pixels), pixels),
      this.threads(window, by, match, pixels),
      this.section('spans', () => app.client.ask('slices', 'slices', { ...window, pixels }), (answer) => spanRows(answer, pixels), pixels),
    ]);
  }

  private async threads(window: { from: string; to: string }, by: string, match: string, pixels: number): Promise<void> {
    const { client } = this.app;
    const details = new Map<number, string>();
    let total = 0;
    const states = async (): Promise<Answer | null> => {
      const list = await client.ask('threads', 'threads', { ...window, by, match, limit: THREADS_MAX });
      if (!list) return null;
      const table = list.table('threads');
      total = Number(list.head.info['total'] ?? table.rows);
      const tids = [];
      for (let i = 0; i < table.rows; i++) {
        const tid = table.number('tid', i) ?? 0;
        tids.push(tid);
        details.set(tid, detail(table.number('prio', i), table.number('worst_ns', i)));
      }
      if (!tids.length) return null;
      return client.ask('states', 'states', { ...window, pixels, tids, calls: 1, late: LATE_NS });
    };
    await this.section('threads', states, (answer) => threadRows(answer, pixels, (tid) => details.get(tid) ?? ''), pixels);
    const hidden = total - (this.sections.threads.picture?.rows.length ?? 0);
    this.sections.threads.note = hidden > 0 ? `${hidden} hidden` : '';
    this.arrange();
  }

  private async section(
    which: (typeof SECTIONS)[number],
    ask: () => Promise<Answer | null>,
    layout: (answer: Answer) => Row[],
    pixels: number,
  ): Promise<void> {
    const section = this.sections[which];
    try {
      const answer = await ask();
      if (!answer) return;
      section.picture = { rows: layout(answer), from: BigInt(answer.head.from), to: BigInt(answer.head.to), pixels };
      section.note = answer.head.notes.join(' ');
    } catch (error) {
      section.note = error instanceof Error ? error.message : String(error);
      const hint = (error as { hint?: string | null }).hint;
      if (hint) section.note += `: ${hint}`;
    }
    this.arrange();
  }

  /** Puts rows below one another. */
  private arrange(): void {
    this.lines = [];
    let top = 0;
    for (const which of SECTIONS) {
      const { title, picture, note } = this.sections[which];
      if (which === 'spans' && !picture?.rows.length && !note) continue;
      this.lines.push({ top, height: SECTION, title, note });
      top += SECTION;
      for (const row of picture?.rows ?? []) {
        if (picture) this.lines.push({ top, height: row.height, row, picture });
        top += row.height;
      }
    }
    this.label(top);
    this.draw();
  }

  /** Labels stay the same elements as long as their rows are there: who has one in focus keeps it. */
  private label(height: number): void {
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
    this.marks(to, height);
    this.paintRuler();
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

function detail(prio: number | null, worst: number | null): string {
  const priority = prio === null ? '' : prio < 100 ? `rt ${99 - prio}` : prio === 120 ? '' : `nice ${prio - 120}`;
  return [priority, worst ? `waited ${duration(worst)}` : ''].filter(Boolean).join(' · ');
}

/** What the colours mean. */
export function legend(): HTMLElement {
  const box = el('div', 'legend');
  const items: [string, string][] = [
    ['run', 'runs'], ['pre', 'preempted'], ['wokfill', 'woken, waits for a CPU'], ['lock', 'waits for a lock'],
    ['io', 'blocked in the kernel'], ['wait', 'waits'], ['thr', 'stopped'], ['irq', 'interrupt'], ['soft', 'softirq'], ['sys', 'system call'],
    ['loss', 'records lost'],
  ];
  for (const [colour, means] of items) add(box, el('span', 'item', el('i', `sw c-${colour}`), means));
  add(box, el('span', 'item', 'colour of a name: no meaning of its own'));
  return box;
}
