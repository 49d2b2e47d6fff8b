// SPDX-License-Identifier: MIT OR Apache-2.0
// The time line: rows of CPUs, threads and spans over one axis. The last picture stays, moved and scaled, until the next
// answer is there.

import type { App, Part } from '../app/app.js';
import { type View, around, moved, pinched, zoomed } from '../app/view.js';
import { byId, later, onFrame, turns } from '../common/dom.js';
import { palette } from '../common/palette.js';
import { duration } from '../common/time.js';
import type { Shown } from '../draw/copy.js';
import { Painter, type Place, sharpen } from '../draw/draw.js';
import { type TileLine, type TileWindow, Tiles } from '../draw/tiles.js';
import { GROUP_ROW, toggled } from '../layout/groups.js';
import { type Piece, type Row, pieceAt } from '../layout/layout.js';
import type { Picture } from '../layout/strips.js';
import { RULER, Axis } from './axis.js';
import { type Action, type Label, Labels } from './labels.js';
import { Pictures, SECTIONS, type Which } from './pictures.js';

const LABELS = 208;
const SECTION = 20;
/** Rows are drawn anew for so long in a frame, ms: what is left comes with the next one. Of a trace that is being written
 * each picture is new, and is wanted at once; and as long as there is none, nothing moves that could be held up. */
const MOVING_MS = 2;
const STANDING_MS = 5;
const FOLLOWING_MS = 12;
const FIRST_MS = 40;
/** A window that did not move for so long stands still: all rows are drawn as sharp as they can be, ms. */
const STILL_MS = 120;

/** Where things are, for who draws over the rows. */
export interface Surface {
  x: (at: bigint) => number;
  /** The upper edge of what a thread does; null where it has no row. */
  y: (tid: number) => number | null;
  /** The same of a CPU. */
  cpu: (cpu: number) => number | null;
  width: number;
}

/** Draws over the rows. */
export interface Overlay {
  draw(to: CanvasRenderingContext2D, on: Surface): void;
  /** What is drawn at a place, in words. */
  says?(x: number, y: number): string | null;
}

type Line = { top: number; height: number } & ({ row: Row; picture: Picture } | { title: string; note: string; remark: string; which: Which });

export class Timeline implements Part {
  private readonly box: HTMLElement;
  private readonly labels: Labels;
  private readonly canvas: HTMLCanvasElement;
  private readonly ruler: HTMLCanvasElement;
  private readonly pictures: Pictures;
  private lines: Line[] = [];
  private painter: Painter | null = null;
  private readonly tiles = new Tiles();
  private readonly draw = onFrame((frame) => this.paint(frame));
  private readonly drawStill = later(STILL_MS, this.draw);
  private movedAt = -Infinity;
  /** Sections of which no row was drawn yet. */
  private readonly undrawn = new Set<Which>(SECTIONS);
  /** Of the box. To ask the browser for it makes it lay out the page at once. */
  private size: { width: number; height: number } | null = null;
  private scroll = 0;
  private readonly ask = later(60, () => void this.pictures.load());
  private drag: { x: number; from: bigint; to: bigint; isStretch: boolean; moved: boolean } | null = null;
  private stretch: { from: number; to: number } | null = null;
  /** Fingers, and the times below the first two when the second one came. */
  private readonly fingers = new Map<number, number>();
  private pinch: readonly [bigint, bigint] | null = null;
  /** Tops of the rows, by key. */
  private readonly tops = new Map<string, number>();
  readonly overlays: Overlay[] = [];
  /** Is told which thread the pointer is at. */
  onPointed: (tid: number | null) => void = () => {};

  /** `prefix`: of the ids of its elements; none for the trace of the page. */
  constructor(
    private readonly app: App,
    prefix = '',
  ) {
    this.pictures = new Pictures(app, () => this.width, () => this.arrange());
    this.box = byId(`${prefix}rows`);
    this.labels = new Labels(byId(`${prefix}labels`));
    this.canvas = byId<HTMLCanvasElement>(`${prefix}plot`);
    this.ruler = byId<HTMLCanvasElement>(`${prefix}ruler`);
    new ResizeObserver(() => this.resized()).observe(this.box);
    this.box.addEventListener('scroll', () => {
      this.scroll = this.box.scrollTop;
      this.draw();
    });
    this.canvas.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener('pointerdown', (event) => this.press(event));
    this.canvas.addEventListener('pointermove', (event) => this.move(event));
    this.canvas.addEventListener('pointerup', (event) => this.release(event));
    this.canvas.addEventListener('pointercancel', (event) => {
      this.lift(event);
      this.drag = this.stretch = null;
    });
    this.canvas.addEventListener('dblclick', (event) => this.zoomTo(event));
    this.canvas.addEventListener('pointerleave', () => {
      this.app.say('');
      this.onPointed(null);
    });
  }

  changed(view: View, before: View | null): void {
    if (view.page !== 'timeline') return;
    if (before?.page !== 'timeline') this.size = null;
    if (before?.from !== view.from || before.to !== view.to) {
      this.movedAt = performance.now();
      this.drawStill();
    }
    this.draw();
    const isSame = before && before.page === 'timeline' && before.from === view.from && before.to === view.to;
    const isGrouped = before?.groups === view.groups && before.folded === view.folded && before.spans === view.spans && before.rows === view.rows;
    if (isSame && isGrouped && before.by === view.by && before.match === view.match) {
      if (before.arrows !== view.arrows) this.arrange();
      return;
    }
    if (this.app.isFollowing) this.app.drawn = this.pictures.advance();
    else if (before?.page !== 'timeline') void this.pictures.load();
    else this.ask();
  }

  /** The theme has changed. */
  repaint(): void {
    this.painter = null;
    this.tiles.forget();
    this.draw();
  }

  /** These threads have a row in any case, above all others; what is drawn over the rows is drawn anew. */
  pin(tids: readonly number[]): void {
    if (this.pictures.pin(tids) && this.app.view.page === 'timeline') this.ask();
    this.draw();
  }

  private get width(): number {
    return Math.max(100, this.measured().width - LABELS);
  }

  private measured(): { width: number; height: number } {
    if (!this.size) {
      this.size = { width: this.box.clientWidth, height: this.box.clientHeight };
      this.scroll = this.box.scrollTop;
    }
    return this.size;
  }

  private resized(): void {
    const before = this.size;
    this.size = null;
    this.draw();
    if (this.app.view.page === 'timeline' && this.measured().width !== before?.width) this.ask();
  }

  /** Puts rows below one another. */
  private arrange(): void {
    this.lines = [];
    this.tops.clear();
    let top = 0;
    for (const which of SECTIONS) {
      const { title, picture, note, remark } = this.pictures.sections[which];
      if (which === 'spans' && !picture?.rows.length && !note) continue;
      this.lines.push({ top, height: SECTION, title, note, remark, which });
      top += SECTION;
      for (const row of picture?.rows ?? []) {
        if (picture) this.lines.push({ top, height: row.height, row, picture });
        this.tops.set(row.key, top);
        top += row.height;
      }
    }
    this.labels.show(top, this.lines.map((line) => this.labelOf(line)));
    this.draw();
  }

  private labelOf(line: Line): Label {
    const { top, height } = line;
    if (!('row' in line)) {
      return { key: `section ${line.title}`, top, height, name: line.title, detail: line.note, go: null, isOpen: null, isIn: false, actions: this.actions(line.which) };
    }
    const { key, title, detail, tid, group } = line.row;
    const process = /^group(\d+)$/.exec(key)?.[1];
    const fold = (): void => this.app.go({ ...this.app.view, folded: toggled(this.app.view.folded, Number(process)) });
    const choose = (): void => {
      if (tid !== null) this.app.go({ ...this.app.view, tid });
    };
    const isOpen = process === undefined ? null : height === GROUP_ROW;
    return { key, top, height, name: title, detail, go: process === undefined ? choose : fold, isOpen, isIn: group !== undefined, actions: [] };
  }

  /** What a section offers. */
  private actions(which: Which): Action[] {
    const { app } = this;
    const { groups, arrows } = app.view;
    if (which !== 'threads') return [];
    return [
      { text: 'groups', title: 'Threads by process (g)', isOn: groups !== 'off', go: () => app.go({ ...app.view, groups: app.view.groups === 'off' ? '' : 'off' }) },
      { text: 'wake-ups', title: 'Wake-ups of the selected thread, and of the one under the pointer (v)', isOn: arrows === 'on', go: () => app.go({ ...app.view, arrows: app.view.arrows === 'on' ? '' : 'on' }) },
    ];
  }

  /** Says something in the head of a section. */
  remark(which: Which, text: string): void {
    if (this.pictures.sections[which].remark === text) return this.draw();
    this.pictures.sections[which].remark = text;
    this.arrange();
  }

  private place(picture: Picture): Place {
    const { from, to } = this.app.view;
    const perNs = this.width / Number(to - from);
    const a = (Number(picture.to - picture.from) / picture.pixels) * perNs;
    return { a, b: Number(picture.from - from) * perNs, left: 0, right: this.width };
  }

  private paint(frame: number): void {
    if (this.app.view.page !== 'timeline') return;
    const { height } = this.measured();
    const to = sharpen(this.canvas, this.width, height);
    if (!to) return;
    this.painter ??= new Painter(to, palette(), getComputedStyle(document.body).fontFamily);
    const { colours } = this.painter;
    to.clearRect(0, 0, this.width, height);
    const { scroll } = this;
    this.axis.grid(to, height, colours);
    const isWhole = this.paintRows(to, this.painter, scroll, height, frame);
    const placed = (key: string): number | null => {
      const top = this.tops.get(key);
      return top === undefined ? null : top - scroll + 2;
    };
    const on: Surface = { x: (at) => this.x(at), y: (tid) => placed(`tid${tid}`), cpu: (cpu) => placed(`cpu${cpu}`), width: this.width };
    for (const overlay of this.overlays) overlay.draw(to, on);
    this.marks(to, height);
    this.paintRuler(this.painter);
    const ends = SECTIONS.map((which) => this.pictures.sections[which].picture).flatMap((picture) => (picture?.rows.length ? [picture.to] : []));
    if (!isWhole) this.draw();
    // Up to there all rows are drawn.
    else if (ends.length) this.app.onPainted(ends.reduce((least, to) => (to < least ? to : least)));
  }

  /** The lines that are to be seen. Whether each row is drawn as it should be, and not only as it was before. */
  private paintRows(to: CanvasRenderingContext2D, painter: Painter, scroll: number, height: number, frame: number): boolean {
    const { colours } = painter;
    const { from, to: until, tid } = this.app.view;
    const shown = this.lines.filter((line) => line.top + line.height >= scroll && line.top <= scroll + height);
    const rows: TileLine[] = [];
    for (const line of shown) {
      const top = line.top - scroll;
      if (!('row' in line)) {
        to.fillStyle = colours.panel;
        to.fillRect(0, top, this.width, line.height);
        continue;
      }
      if (line.row.tid !== null && line.row.tid === tid) {
        to.fillStyle = colours.selrow;
        to.fillRect(0, top, this.width, line.height);
      }
      rows.push({ row: line.row, top, place: () => this.place(line.picture) });
    }
    const window: TileWindow = { from, to: until, width: this.width };
    const isMoving = performance.now() - this.movedAt < STILL_MS && !this.app.isFollowing;
    const fresh = [...this.undrawn].filter((which) => this.pictures.sections[which].picture?.rows.length);
    // An answer was taken in this frame: that is enough of work.
    const most_ms = this.app.isFollowing ? FOLLOWING_MS : turns.frame === frame ? 0 : fresh.length ? FIRST_MS : isMoving ? MOVING_MS : STANDING_MS;
    const isWhole = this.tiles.draw(to, rows, { window, isMoving, most_ms }, painter);
    if (isWhole) for (const which of fresh) this.undrawn.delete(which);
    painter.aim(to);
    for (const line of shown) if (!('row' in line)) painter.words(line.remark, 8, line.top - scroll + 14, this.width - 16);
    to.fillStyle = colours.grid;
    for (const { top, height: h } of shown) to.fillRect(0, top - scroll + h - 1, this.width, 1);
    return isWhole;
  }

  private get axis(): Axis {
    return new Axis(this.app.view, this.app.times, this.width);
  }

  private x(at: bigint): number {
    return this.axis.x(at);
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

  private paintRuler({ colours, family }: Painter): void {
    const to = sharpen(this.ruler, this.width, RULER);
    if (to) this.axis.ruler(to, colours, family, this.app.marks);
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const { view, whole } = this.app;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.app.go(moved(view, (event.deltaX || event.deltaY) / 1000, whole), true);
      return;
    }
    const steps = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * 30 : event.deltaY;
    // Two fingers on a touch pad are a wheel with Ctrl, in small steps.
    this.app.go(zoomed(view, (event.ctrlKey ? 1.01 : 1.0016) ** steps, event.offsetX / this.width, whole), true);
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    if (event.pointerType === 'touch') this.fingers.set(event.pointerId, event.offsetX);
    const [first, second, third] = [...this.fingers.values()];
    if (first !== undefined && second !== undefined) {
      this.drag = this.stretch = null;
      this.pinch = third === undefined ? [this.time(first), this.time(second)] : null;
      return;
    }
    const { from, to } = this.app.view;
    this.drag = { x: event.offsetX, from, to, isStretch: event.shiftKey, moved: false };
  }

  private move(event: PointerEvent): void {
    const drag = this.drag;
    if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, event.offsetX);
    if (this.pinch) {
      const [first = 0, second = 0] = [...this.fingers.values()].map((x) => x / this.width);
      return this.app.go(pinched(this.app.view, this.pinch, [first, second], this.app.whole), true);
    }
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

  /** A finger is gone. Whether it was one of two. */
  private lift(event: PointerEvent): boolean {
    this.fingers.delete(event.pointerId);
    const wasPinch = this.pinch !== null;
    this.pinch = null;
    return wasPinch;
  }

  private release(event: PointerEvent): void {
    if (this.lift(event)) return this.app.note();
    const drag = this.drag;
    this.drag = null;
    const stretch = this.stretch;
    this.stretch = null;
    if (!drag) return;
    if (drag.moved) this.app.note();
    if (stretch) this.app.go({ ...this.app.view, from: this.time(stretch.from), to: this.time(stretch.to) });
    else if (!drag.moved) this.select(event);
  }

  /** What is on the screen and below, to be copied. */
  shown(): Shown {
    const { from } = this.app.view;
    const lines = this.lines.map((line) => {
      const { top, height } = line;
      if (!('row' in line)) return { title: line.title, detail: line.note, top, height, row: null, a: 1, b: 0, from };
      const { a, b } = this.place(line.picture);
      return { title: line.row.title, detail: line.row.detail, top, height, row: line.row, a, b, from: line.picture.from };
    });
    const last = this.lines.at(-1);
    return { lines, width: this.width, height: last ? last.top + last.height : 0, labels: LABELS, ruler: RULER, ticks: this.axis.ticks(), base: this.app.base };
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
    const over = this.overlays.map((overlay) => overlay.says?.(event.offsetX, event.offsetY) ?? null).find((text) => text !== null);
    const what = over ?? (tip ? `${tip.text}, ${duration(tip.to - tip.from)}` : (found?.row.title ?? ''));
    this.onPointed(found?.row.key.startsWith('tid') ? found.row.tid : null);
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
