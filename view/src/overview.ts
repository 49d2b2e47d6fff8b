// SPDX-License-Identifier: MIT OR Apache-2.0
// Records over the time of the whole trace, what is missing in it, and the window as a brush.

import type { App, Part } from './app.js';
import type { Answer } from './columns.js';
import { byId, onFrame } from './dom.js';
import { sharpen } from './draw.js';
import { palette } from './palette.js';
import { grouped } from './time.js';
import { looking } from './view.js';

const HEIGHT = 72;
const BARS = 48;

export class Overview implements Part {
  private readonly canvas = byId<HTMLCanvasElement>('overview');
  private answer: Answer | null = null;
  private readonly draw = onFrame(() => this.paint());
  private drag: { from: number; grabbed: bigint | null } | null = null;

  constructor(private readonly app: App) {
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement ?? this.canvas);
    this.canvas.addEventListener('pointerdown', (event) => this.press(event));
    this.canvas.addEventListener('pointermove', (event) => this.move(event));
    this.canvas.addEventListener('pointerup', () => (this.drag = null));
    void this.load();
  }

  changed(): void {
    this.draw();
  }

  repaint(): void {
    this.draw();
  }

  /** There is more of the trace. */
  grown(): void {
    this.draw();
    if (!this.app.client.isBusy('overview')) void this.load();
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
    return Math.max(100, this.canvas.parentElement?.clientWidth ?? 0);
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
    const colours = palette();
    to.clearRect(0, 0, this.width, HEIGHT);
    if (this.answer) this.bars(to, this.answer, colours);
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

  private bars(to: CanvasRenderingContext2D, answer: Answer, colours: ReturnType<typeof palette>): void {
    const bins = answer.table('bins');
    const start = this.app.whole.from;
    const [begins, ends, records] = [bins.offsets('from', start), bins.offsets('to', start), bins.offsets('records')];
    const [lost, packets] = [bins.offsets('lost'), bins.offsets('packets')];
    const most = records.reduce((most, count) => Math.max(most, count), 1);
    for (let i = 0; i < bins.rows; i++) {
      const [begin = 0, end = 0, count = 0] = [begins[i], ends[i], records[i]];
      const x = (begin / this.length) * this.width;
      const w = Math.max(1, ((end - begin) / this.length) * this.width);
      // The square root: a burst does not hide that there is something beside it.
      const h = count > 0 ? Math.max(1, Math.sqrt(count / most) * BARS) : 0;
      to.fillStyle = colours.bar;
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
    const bins = this.answer?.table('bins');
    if (!bins) return this.app.times.text(at);
    const [begins, ends] = [bins.offsets('from'), bins.offsets('to')];
    const row = begins.findIndex((begin, i) => begin <= Number(at) && Number(at) < (ends[i] ?? 0));
    if (row < 0) return this.app.times.text(at);
    const lost = bins.number('lost', row) ?? 0;
    const records = `${grouped(bins.number('records', row) ?? 0)} records`;
    return `${this.app.times.text(at)}   ${records}${lost > 0 ? `, ${grouped(lost)} lost` : ''}`;
  }
}
