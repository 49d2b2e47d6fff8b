// SPDX-License-Identifier: MIT OR Apache-2.0
// The critical path of the selected thread: a table of its steps, and the line over the rows of threads.

import type { App, Part } from '../app/app.js';
import { type View, around, marked } from '../app/view.js';
import { Pending, add, byId, el, later, link, table } from '../common/dom.js';
import { palette } from '../common/palette.js';
import { duration, grouped } from '../common/time.js';
import { doubts } from '../layout/layout.js';
import { type PathPicture, type PathStep, pathPicture, steps } from '../layout/path.js';
import type { Answer, Table } from '../query/columns.js';
import type { Overlay, Surface, Timeline } from '../timeline/timeline.js';
import { budget, linked, piecesOf } from './explain.js';

/** Steps that are asked for: the longest. */
const STEPS_MAX = 500;
/** Threads that get a row because they are on the path. */
const PINNED_MAX = 40;
const RADIUS = 7;

const ACTS: Record<string, string> = { runs: 'c-run', waits: 'c-pre', blocked: 'c-wait', unknown: 'c-unknown' };

/** What the path is asked of: the stretch between the cursors, else the window. Null where none is wanted. */
export function stretchOf(view: View): { tid: number; from: bigint; to: bigint } | null {
  if (view.page !== 'timeline' || (view.critical !== 'on' && view.tab !== 'critical') || !view.tid) return null;
  const { from, to } = marked(view) ?? view;
  return from < to ? { tid: view.tid, from, to } : null;
}

export class Critical implements Part, Overlay {
  private readonly box = byId('critical');
  private readonly pending = new Pending(this.box);
  private answer: Answer | null = null;
  private path: PathStep[] = [];
  private asked = '';
  private readonly reload = later(150, () => void this.load());

  constructor(
    private readonly app: App,
    private readonly timeline: Timeline,
  ) {
    timeline.overlays.push(this);
  }

  changed(view: View, before: View | null): void {
    const asked = stretchOf(view);
    if (!asked) {
      this.clear(view);
      return;
    }
    const key = [asked.tid, asked.from, asked.to].join(' ');
    if (key !== this.asked) {
      this.asked = key;
      this.pending.begin();
      this.reload();
    } else if (this.answer && (before?.format !== view.format || before.critical !== view.critical || before.tab !== view.tab)) {
      this.show(this.answer);
    }
  }

  /** Nothing is asked for. */
  private clear(view: View): void {
    this.asked = '';
    this.answer = null;
    this.pending.end();
    this.pin([]);
    if (view.tab === 'critical') this.box.replaceChildren(el('p', 'note', 'Select a thread: what it waited for, and what that waited for, is shown here, between the cursors or in the whole window.'));
  }

  private async load(): Promise<void> {
    const { app } = this;
    const asked = stretchOf(app.view);
    if (!asked) return;
    const { tid, from, to } = asked;
    const done = this.pending.begin();
    try {
      const answer = await app.client.ask('critical', 'critical', { tid, from: app.at(from), to: app.at(to), limit: STEPS_MAX });
      if (!answer) return;
      this.answer = answer;
      this.show(answer);
    } catch (error) {
      this.answer = null;
      this.pin([]);
      const hint = (error as { hint?: string | null }).hint;
      const text = error instanceof Error ? error.message : String(error);
      this.box.replaceChildren(el('p', 'note wrong', hint ? `${text}: ${hint}` : text));
    } finally {
      done();
    }
  }

  private show(answer: Answer): void {
    this.pin(steps(answer));
    const { app } = this;
    const of = answer.table('steps');
    const texts = piecesOf(answer);
    const [from, to] = [BigInt(answer.head.from), BigInt(answer.head.to)];
    const whole = Math.max(1, Number(to - from));
    const rows = Array.from({ length: of.rows }, (_, row) => row);
    const time = (name: string, row: number): bigint => of.big(name, row) ?? 0n;
    const length = (row: number): number => Number(time('to', row) - time('from', row));
    const list = table<number>(
      [
        { head: '', cell: (row) => el('span', 'number', row + 1) },
        { head: 'Thread, and what it did on the path', cell: (row) => this.what(texts('steps', row), of, row) },
        { head: 'Priority', cell: (row) => priority(of.number('prio', row)) },
        { head: 'Time', isNumber: true, cell: (row) => duration(length(row)) },
        { head: '', cell: (row) => bar(of.text('act', row) ?? '', Number(time('from', row) - from) / whole, length(row) / whole) },
        { head: 'Doubt', cell: (row) => doubts(answer, of.number('doubt', row) ?? 0) },
      ],
      rows,
      (row) => app.go({ ...around(app.view, time('from', row), time('to', row), app.whole), at: time('from', row) }),
    );
    this.box.replaceChildren(this.head(answer, whole), list, el('h3', '', 'Where the time went'), budget(app, answer, whole, from));
    for (const note of answer.head.notes) add(this.box, el('p', 'note', note));
  }

  private head(answer: Answer, whole: number): HTMLElement {
    const { app } = this;
    const { info } = answer.head;
    const [left, leftNs] = [Number(info['left_out'] ?? 0), Number(info['left_out_ns'] ?? 0)];
    const says = el('p', 'note', `${String(info['name'] || 'thread')}[${String(info['tid'])}], ${duration(whole)}: ${grouped(Number(info['total'] ?? 0))} steps. `);
    if (left) add(says, `${grouped(left)} shorter ones, ${duration(leftNs)} together, are left out. `);
    if (info['is_cut'] === true) add(says, 'There were too many: the first step stands for the rest. ');
    const isOn = app.view.critical === 'on';
    add(says, link(isOn ? 'Do not draw it' : 'Draw it over the threads', () => app.go({ ...app.view, critical: isOn ? '' : 'on' }), 'c'));
    return says;
  }

  private what(pieces: Parameters<typeof linked>[1], of: Table, row: number): HTMLElement {
    const made = linked(this.app, pieces, of.big('from', row));
    made.style.paddingLeft = `${Math.min(8, of.number('depth', row) ?? 0) * 12}px`;
    return made;
  }

  /** Threads of the path get rows, and the line is drawn anew. */
  private pin(path: PathStep[]): void {
    this.path = path;
    const isDrawn = this.app.view.critical === 'on';
    this.timeline.pin(isDrawn ? [...new Set(path.map(({ tid }) => tid))].filter((tid) => tid > 0).slice(0, PINNED_MAX) : []);
  }

  draw(to: CanvasRenderingContext2D, on: Surface): void {
    if (this.app.view.critical !== 'on' || !this.path.length) return;
    const picture = pathPicture(this.path, on.x, on.y, on.width);
    paint(to, picture);
  }
}

function bar(act: string, from: number, length: number): HTMLElement {
  const part = el('i', ACTS[act] ?? 'c-unknown');
  part.style.marginLeft = `${100 * Math.max(0, from)}%`;
  part.style.width = `${100 * Math.min(1, length)}%`;
  return el('div', 'step-bar', part);
}

function priority(prio: number | null): string {
  return prio === null ? '' : prio < 100 ? `rt ${99 - prio}` : `nice ${prio - 120}`;
}

/** 2.2 px of ink, with a casing that parts it from what is below. */
function paint(to: CanvasRenderingContext2D, { lines, marks }: PathPicture): void {
  const colours = palette();
  to.save();
  to.lineJoin = 'round';
  for (const [colour, width] of [[colours.bg, 5], [colours.ink, 2.2]] as const) {
    for (const isBroken of [false, true]) {
      to.setLineDash(isBroken ? [3, 4] : []);
      to.strokeStyle = colour;
      to.lineWidth = width;
      to.beginPath();
      for (const line of lines) {
        if (line.isBroken !== isBroken) continue;
        to.moveTo(line.x0, line.y0);
        to.lineTo(line.x1, line.y1);
      }
      to.stroke();
    }
  }
  to.setLineDash([]);
  to.textAlign = 'center';
  to.font = `600 10px ${getComputedStyle(document.body).fontFamily}`;
  for (const { x, y, number } of marks) {
    to.fillStyle = colours.ink;
    to.strokeStyle = colours.bg;
    to.lineWidth = 1.5;
    to.beginPath();
    to.arc(x, y, RADIUS, 0, 7);
    to.fill();
    to.stroke();
    to.fillStyle = colours.bg;
    to.fillText(String(number), x, y + 3.5);
  }
  to.restore();
}
