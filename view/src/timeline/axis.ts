// SPDX-License-Identifier: MIT OR Apache-2.0
// The axis of time above the rows: its ticks, the grid below it, cursors and bookmarks.

import type { Mark } from '../app/app.js';
import type { View } from '../app/view.js';
import type { Palette } from '../common/palette.js';
import { type Times, duration, ticks } from '../common/time.js';

export const RULER = 30;
/** px between two ticks at least. */
const APART = 120;

export class Axis {
  constructor(
    private readonly view: View,
    private readonly times: Times,
    private readonly width: number,
  ) {}

  x(at: bigint): number {
    const { from, to } = this.view;
    return (Number(at - from) / Number(to - from)) * this.width;
  }

  /** Where ticks are, and what they say. */
  ticks(): { x: number; text: string }[] {
    const { origin } = this.times;
    const { step, at } = ticks(this.view.from - origin, this.view.to - origin, this.width, APART);
    return at.map((time) => ({ x: Math.round(this.x(time + origin)), text: this.times.tick(time + origin, step) }));
  }

  grid(to: CanvasRenderingContext2D, height: number, colours: Palette): void {
    to.fillStyle = colours.grid;
    for (const { x } of this.ticks()) to.fillRect(x, 0, 1, height);
  }

  ruler(to: CanvasRenderingContext2D, colours: Palette, family: string, marks: readonly Mark[]): void {
    const { a, b } = this.view;
    to.clearRect(0, 0, this.width, RULER);
    to.font = `10.5px ${family}`;
    for (const { x, text } of this.ticks()) {
      to.fillStyle = colours.line;
      to.fillRect(x, RULER - 6, 1, 6);
      to.fillStyle = colours.ink2;
      to.fillText(text, x + 4, RULER - 9);
    }
    to.fillStyle = colours.accent;
    for (const { at, to: end } of marks) {
      const x = Math.round(this.x(at));
      if (end !== null) to.fillRect(x, 0, Math.max(1, this.x(end) - x), 2);
      if (x > -6 && x < this.width) to.fillRect(x, 0, 5, 5);
    }
    for (const [name, time] of [['A', a], ['B', b]] as const) if (time !== null) to.fillText(name, this.x(time) - 3, 10);
    if (a !== null && b !== null) to.fillText(duration(Number(b > a ? b - a : a - b)), (this.x(a) + this.x(b)) / 2, 10);
  }
}
