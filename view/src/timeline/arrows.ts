// SPDX-License-Identifier: MIT OR Apache-2.0
// Wake-ups, from who wakes to who is woken: those of the selected thread and of the one under the pointer, on request. The
// picture of them is pure.

import type { App, Part } from '../app/app.js';
import type { View } from '../app/view.js';
import { later } from '../common/dom.js';
import { palette } from '../common/palette.js';
import { duration, grouped } from '../common/time.js';
import { named } from '../layout/layout.js';
import type { Answer } from '../query/columns.js';
import type { Overlay, Surface, Timeline } from './timeline.js';

/** Wake-ups that are asked for: those with the longest waits. */
const ARROWS_MAX = 300;
/** px between the pointer and an arrow that it points at. */
const NEAR = 4;

/** A wake-up. Times are ns after the trace's first record. */
export interface Wake {
  at: bigint;
  /** When and where the woken thread runs, if it does in the window. */
  runsAt: bigint | null;
  cpu: number | null;
  tid: number;
  /** Who wakes; null: an interrupt, or not known. And where. */
  from: number | null;
  fromCpu: number | null;
  text: string;
}

/** An arrow: straight up or down where both have a row, for a wake-up is one moment. */
export interface ArrowLine {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
  wake: Wake;
}

/** The wake-ups of an answer to `arrows`. */
export function wakes(answer: Answer): Wake[] {
  const of = answer.table('arrows');
  return Array.from({ length: of.rows }, (_, i) => {
    const [tid, from, wait] = [of.number('tid', i) ?? 0, of.number('from_tid', i), of.number('wait_ns', i) ?? 0];
    const [runsAt, cpu, fromCpu, name] = [of.big('runs_at', i), of.number('cpu', i), of.number('from_cpu', i), of.text('from_name', i)];
    const who = from === null ? (name ?? 'what is not known') : from === 0 ? 'the idle thread' : named(name, from);
    const where = fromCpu === null ? '' : ` on CPU ${fromCpu}`;
    const then = runsAt === null ? `does not run in this window (${duration(wait)})` : `runs ${duration(wait)} later${cpu === null ? '' : ` on CPU ${cpu}`}`;
    return { at: of.big('at', i) ?? 0n, runsAt, cpu, tid, from, fromCpu, text: `${who}${where} wakes ${named(of.text('name', i), tid)}, which ${then}` };
  });
}

/**
 * Where arrows go: from the row of who wakes, else from the CPU on which it happens, to the row of who is woken, else to the
 * CPU where it runs. What has neither end is left out; of those that would cover each other the first is there.
 */
export function arrowLines(all: readonly Wake[], on: Surface): ArrowLine[] {
  const [lines, seen] = [[] as ArrowLine[], new Set<string>()];
  for (const wake of all) {
    const x0 = on.x(wake.at);
    if (x0 < 0 || x0 > on.width) continue;
    const waker = wake.from === null || wake.from === 0 ? null : on.y(wake.from);
    const begin = waker ?? (wake.fromCpu === null ? null : on.cpu(wake.fromCpu));
    const woken = on.y(wake.tid);
    const end = woken ?? (wake.cpu === null ? null : on.cpu(wake.cpu));
    if (begin === null || end === null) continue;
    const x1 = woken === null && wake.runsAt !== null ? on.x(wake.runsAt) : x0;
    // Out of the one bar and into the edge of the other.
    const isDown = begin < end;
    const line = { x0, y0: begin + 9, x1, y1: isDown ? end : end + 18, wake };
    const key = [x0, line.y0, x1, line.y1].map(Math.round).join(' ');
    if (!seen.has(key)) lines.push(line);
    seen.add(key);
  }
  return lines;
}

/** How many wake-ups are shown, of so many; null: of several threads that is not known. */
export function howMany(shown: number, total: number | null): string {
  if (total !== null && total > shown) return `the ${grouped(shown)} of ${grouped(total)} with the longest waits`;
  return total === null && shown >= ARROWS_MAX ? `the ${grouped(shown)} with the longest waits` : grouped(shown);
}

/** The arrow at a place; null where there is none. */
export function arrowAt(lines: readonly ArrowLine[], x: number, y: number): ArrowLine | null {
  let best: ArrowLine | null = null;
  let least = NEAR;
  for (const line of lines) {
    const [top, bottom] = [Math.min(line.y0, line.y1), Math.max(line.y0, line.y1)];
    const along = line.y1 === line.y0 ? 0 : Math.max(0, Math.min(1, (y - line.y0) / (line.y1 - line.y0)));
    const away = Math.abs(line.x0 + along * (line.x1 - line.x0) - x);
    if (y >= top - 2 && y <= bottom + 2 && away < least) [best, least] = [line, away];
  }
  return best;
}

export class Arrows implements Part, Overlay {
  private all: Wake[] = [];
  private lines: ArrowLine[] = [];
  private asked = '';
  /** The thread under the pointer. */
  private pointed: number | null = null;
  private readonly reload = later(200, () => void this.load());

  constructor(
    private readonly app: App,
    private readonly timeline: Timeline,
  ) {
    timeline.overlays.push(this);
    timeline.onPointed = (tid) => {
      if (tid === this.pointed) return;
      this.pointed = tid;
      if (this.isOn) this.reload();
    };
  }

  private get isOn(): boolean {
    return this.app.view.page === 'timeline' && this.app.view.arrows === 'on';
  }

  changed(_: View, before: View | null): void {
    if (!this.isOn) this.show([], '');
    else if (this.key() !== this.asked || before?.arrows !== 'on') this.reload();
  }

  private tids(): number[] {
    const all = [this.app.view.tid, this.pointed].filter((tid): tid is number => tid !== null && tid > 0);
    return [...new Set(all)];
  }

  private key(): string {
    const { from, to } = this.app.view;
    return [from, to, ...this.tids()].join(' ');
  }

  private show(all: Wake[], note: string): void {
    if (!all.length) this.asked = '';
    this.all = all;
    this.timeline.remark('threads', note);
  }

  private async load(): Promise<void> {
    const { app } = this;
    if (!this.isOn) return;
    const [tids, key] = [this.tids(), this.key()];
    if (!tids.length) return this.show([], 'wake-ups: select a thread, or point at one');
    if (key === this.asked) return;
    try {
      const answer = await app.client.ask('arrows', 'arrows', { from: app.at(app.view.from), to: app.at(app.view.to), tids, limit: ARROWS_MAX });
      if (!answer || !this.isOn) return;
      this.asked = key;
      const all = wakes(answer);
      const total = answer.head.info['total'];
      this.show(all, `wake-ups of ${tids.join(' and ')}: ${howMany(all.length, typeof total === 'number' ? total : null)}`);
    } catch (error) {
      this.show([], error instanceof Error ? error.message : String(error));
    }
  }

  draw(to: CanvasRenderingContext2D, on: Surface): void {
    this.lines = this.isOn ? arrowLines(this.all, on) : [];
    if (!this.lines.length) return;
    const colours = palette();
    to.save();
    // With a casing, as it goes over all kinds of colours.
    for (const [colour, width] of [[colours.bg, 3], [colours.ink2, 1]] as const) {
      to.strokeStyle = to.fillStyle = colour;
      to.lineWidth = width;
      to.beginPath();
      for (const { x0, y0, x1, y1 } of this.lines) {
        // In the middle of a pixel: one that is straight is sharp.
        to.moveTo(Math.floor(x0) + 0.5, y0);
        to.lineTo(Math.floor(x1) + 0.5, y1);
      }
      to.stroke();
      for (const line of this.lines) head(to, line, width === 1 ? 0 : 1);
    }
    to.restore();
  }

  says(x: number, y: number): string | null {
    return arrowAt(this.lines, x, y)?.wake.text ?? null;
  }
}

/** A dot where it begins and a point where it ends. */
function head(to: CanvasRenderingContext2D, { x0, y0, x1, y1 }: ArrowLine, more: number): void {
  to.fillRect(x0 - 1 - more, y0 - 1 - more, 2 + 2 * more, 2 + 2 * more);
  const back = y1 > y0 ? -6 - more : 6 + more;
  to.beginPath();
  to.moveTo(x1, y1);
  to.lineTo(x1 - 3 - more, y1 + back);
  to.lineTo(x1 + 3 + more, y1 + back);
  to.fill();
}
