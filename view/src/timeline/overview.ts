// SPDX-License-Identifier: MIT OR Apache-2.0
// Records over the time of the whole trace, those that the filter selects, what is missing in it, and the window as a brush.

import type { App, Part } from '../app/app.js';
import { type View, looking } from '../app/view.js';
import { byId, later, onFrame } from '../common/dom.js';
import { type Palette, palette } from '../common/palette.js';
import { duration, grouped } from '../common/time.js';
import { sharpen } from '../draw/draw.js';
import type { Answer } from '../query/columns.js';

const HEIGHT = 72;
const BARS = 48;
const SELECTED_BINS = 1000;

export class Overview implements Part {
  private readonly canvas = byId<HTMLCanvasElement>('overview');
  private answer: Answer | null = null;
  /** The bars, as they were drawn last, and what of. */
  private readonly bars = document.createElement('canvas');
  private barsOf: readonly unknown[] = [];
  private colours: Palette | null = null;
  private measured: number | null = null;
  /** Of the filter that is set. */
  private selected: Answer | null = null;
  private readonly reload = later(150, () => void this.loadSelected());
  private readonly draw = onFrame(() => this.paint());
  private drag: { from: number; grabbed: bigint | null } | null = null;

  constructor(private readonly app: App) {
    new ResizeObserver(() => {
      this.measured = null;
      this.draw();
    }).observe(this.canvas.parentElement ?? this.canvas);
    this.canvas.addEventListener('pointerdown', (event) => this.press(event));
    this.canvas.addEventListener('pointermove', (event) => this.move(event));
    this.canvas.addEventListener('pointerup', () => (this.drag = null));
    void this.load();
  }

  changed(view: View, before: View | null): void {
    if (!before || before.filter !== view.filter) {
      this.selected = null;
      this.reload();
    }
    this.draw();
  }

  repaint(): void {
    this.colours = null;
    this.draw();
  }

  /** There is more of the trace. */
  grown(): void {
    this.draw();
    if (!this.app.client.isBusy('overview')) void this.load();
    // All records are read for it: one after the other.
    if (!this.app.client.isBusy('selected')) this.reload();
  }

  /** Records that the filter selects, over time. */
  private async loadSelected(): Promise<void> {
    const { filter } = this.app.view;
    if (!filter) return;
    try {
      const answer = await this.app.client.ask('selected', 'overview', { bins: SELECTED_BINS, filter });
      if (!answer || filter !== this.app.view.filter) return;
      this.selected = answer;
      this.draw();
    } catch {
      // That it is no filter, or cannot be answered, is said where it is typed.
    }
  }

  private async load(): Promise<void> {
    try {
      this.answer = await this.app.client.ask('overview', 'overview', { bins: 1000 });
      this.draw();
    } catch (error) {
      this.app.failed(error);
    }
  }

  private get width(): number {
    // To ask the browser for it makes it lay out the page at once.
    this.measured ??= this.canvas.parentElement?.clientWidth ?? 0;
    return Math.max(100, this.measured);
  }

  private get length(): number {
    return Math.max(1, Number(this.app.whole.to - this.app.whole.from));
  }

  private x(at: bigint): number {
    return (Number(at - this.app.whole.from) / this.length) * this.width;
  }

  private paint(): void {
    const to = sharpen(this.canvas, this.width, HEIGHT);
    if (!to) return;
    this.colours ??= palette();
    const { colours } = this;
    to.clearRect(0, 0, this.width, HEIGHT);
    this.drawBars(colours);
    to.drawImage(this.bars, 0, 0, this.bars.width, this.bars.height, 0, 0, this.width, HEIGHT);
    const { from, to: until, a, b } = this.app.view;
    const [x0, x1] = [this.x(from), this.x(until)];
    to.fillStyle = colours.bg;
    to.globalAlpha = 0.55;
    to.fillRect(0, 0, Math.max(0, x0), HEIGHT);
    to.fillRect(x1, 0, this.width, HEIGHT);
    to.globalAlpha = 1;
    to.fillStyle = colours.accent;
    to.fillRect(x0, 0, 1, HEIGHT);
    to.fillRect(Math.max(x0 + 2, x1 - 1), 0, 1, HEIGHT);
    for (const mark of [a, b]) if (mark !== null) to.fillRect(this.x(mark), 0, 1, HEIGHT);
    for (const { at } of this.app.marks) to.fillRect(this.x(at) - 2, 0, 5, 5);
  }

  /** They stay the same while the window moves. */
  private drawBars(colours: Palette): void {
    const now = [this.answer, this.selected, colours, this.width, this.length, this.app.whole.from, globalThis.devicePixelRatio];
    if (now.every((one, at) => one === this.barsOf[at])) return;
    this.barsOf = now;
    const to = sharpen(this.bars, this.width, HEIGHT);
    if (!to) return;
    to.clearRect(0, 0, this.width, HEIGHT);
    // One scale for both: the share that is selected is seen.
    const most = this.answer ? rates(this.answer).reduce((most, rate) => Math.max(most, rate), 0) : 0;
    if (this.answer) this.drawBarsOf(to, this.answer, colours, this.selected ? 'kern' : 'bar', most);
    if (this.selected) this.drawBarsOf(to, this.selected, colours, 'run', most);
  }

  private drawBarsOf(to: CanvasRenderingContext2D, answer: Answer, colours: Palette, fill: 'bar' | 'kern' | 'run', most: number): void {
    const bins = answer.table('bins');
    const start = this.app.whole.from;
    const [begins, ends, all] = [bins.offsets('from', start), bins.offsets('to', start), rates(answer)];
    const [lost, packets] = [bins.offsets('lost'), bins.offsets('packets')];
    for (let i = 0; i < bins.rows; i++) {
      const [begin = 0, end = 0, rate = 0] = [begins[i], ends[i], all[i]];
      const x = (begin / this.length) * this.width;
      const w = Math.max(1, ((end - begin) / this.length) * this.width);
      // The square root: a burst does not hide that there is something beside it.
      const h = rate > 0 ? Math.max(1, Math.sqrt(Math.min(1, rate / most)) * BARS) : 0;
      to.fillStyle = colours[fill];
      to.fillRect(x, HEIGHT - 4 - h, w, h);
      if ((lost[i] ?? 0) > 0 || (packets[i] ?? 0) > 0) {
        to.fillStyle = colours.loss;
        to.fillRect(x, 2, Math.max(6, w), 10);
      }
    }
  }

  private time(x: number): bigint {
    return this.app.whole.from + BigInt(Math.round((Math.max(0, Math.min(this.width, x)) / this.width) * this.length));
  }

  private press(event: PointerEvent): void {
    this.canvas.setPointerCapture(event.pointerId);
    const { from, to } = this.app.view;
    const isInside = event.offsetX >= this.x(from) && event.offsetX <= this.x(to);
    const isWhole = to - from >= ((this.app.whole.to - this.app.whole.from) * 95n) / 100n;
    this.drag = { from: event.offsetX, grabbed: isInside && !isWhole ? this.time(event.offsetX) - from : null };
  }

  private move(event: PointerEvent): void {
    const { view, whole } = this.app;
    if (!this.drag) {
      this.app.say(this.under(event.offsetX));
      return;
    }
    if (this.drag.grabbed !== null) {
      const from = this.time(event.offsetX) - this.drag.grabbed;
      this.app.go(looking({ ...view, page: 'timeline' }, from, from + (view.to - view.from), whole), true);
    } else if (Math.abs(event.offsetX - this.drag.from) > 3) {
      const [from, to] = [this.time(Math.min(this.drag.from, event.offsetX)), this.time(Math.max(this.drag.from, event.offsetX))];
      this.app.go(looking({ ...view, page: 'timeline' }, from, to, whole), true);
    }
  }

  private under(x: number): string {
    const at = this.time(x);
    const [all, selected] = [binAt(this.answer, at), binAt(this.selected, at)];
    if (!all) return this.app.times.text(at);
    const chosen = selected ? `, of ${grouped(selected.records)} in ${duration(selected.ns)} the filter is true` : '';
    const lost = all.lost > 0 ? `, ${grouped(all.lost)} lost` : '';
    return `${this.app.times.text(at)}   ${grouped(all.records)} records in ${duration(all.ns)}${chosen}${lost}`;
  }
}

/** Records per ns of each bin: bins of two answers may differ in length. */
function rates(answer: Answer): Float64Array {
  const bins = answer.table('bins');
  const [begins, ends, records] = [bins.offsets('from'), bins.offsets('to'), bins.offsets('records')];
  return records.map((count, i) => count / Math.max(1, (ends[i] ?? 0) - (begins[i] ?? 0)));
}

/** The bin in which a moment lies. */
export function binAt(answer: Answer | null, at: bigint): { records: number; lost: number; ns: number } | null {
  const bins = answer?.table('bins');
  if (!bins) return null;
  const [begins, ends] = [bins.offsets('from'), bins.offsets('to')];
  const row = begins.findIndex((begin, i) => begin <= Number(at) && Number(at) < (ends[i] ?? 0));
  if (row < 0) return null;
  return { records: bins.number('records', row) ?? 0, lost: bins.number('lost', row) ?? 0, ns: (ends[row] ?? 0) - (begins[row] ?? 0) };
}
