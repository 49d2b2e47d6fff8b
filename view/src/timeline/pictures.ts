// SPDX-License-Identifier: MIT OR Apache-2.0
// The pictures of the time line: which questions are asked for which section, for whole windows and for what is new in a
// trace that is being written.

import type { App } from '../app/app.js';
import type { View } from '../app/view.js';
import { turns } from '../common/dom.js';
import { type Steps, finished, inParts } from '../common/steps.js';
import { duration } from '../common/time.js';
import { cpuSteps } from '../layout/cpus.js';
import { spansOf } from '../layout/flame.js';
import { type Member, foldedOf, groupRow, groupsOf } from '../layout/groups.js';
import { type Row, frame } from '../layout/layout.js';
import { spanSteps } from '../layout/spans.js';
import { type Picture, STRIPPED_MIN, extended, renewalLength, stripLength, stripPixels } from '../layout/strips.js';
import { threadSteps } from '../layout/threads.js';
import type { Answer } from '../query/columns.js';

const THREADS_MAX = 100;
/** Waits for a CPU that are at least so long are marked at every zoom, ns. */
const LATE_NS = 1_000_000;
/** Records that are read at most for spans that nobody chose. */
const SPAN_RECORDS = 2_000_000;

/** Layout takes so much of a frame, ms: while a picture is moved, and while there is none to be moved. */
const LAYOUT_MS = 2;
const FIRST_LAYOUT_MS = 40;

/** A stretch that is followed is read from so long before it on, to find spans that began earlier, ns. */
const SPAN_LEAD_NS = 500_000_000;

export const SECTIONS = ['cpus', 'threads', 'spans'] as const;
export type Which = (typeof SECTIONS)[number];
const ASKED_IN_ORDER: readonly Which[] = ['threads', 'cpus', 'spans'];

export interface Section {
  title: string;
  picture: Picture | null;
  note: string;
  /** Something that is drawn over its rows, said in its head. */
  remark: string;
  /** The trace has something for it, so that it is asked for what is new. */
  isFed: boolean;
  /** Where the newest stretch begins; null: where the picture ends. */
  strip: bigint | null;
  /** How often the whole window was answered. */
  answers: number;
}

function section(title: string): Section {
  return { title, picture: null, note: '', remark: '', isFed: true, strip: null, answers: 0 };
}

/** A part of time, as questions have it. */
interface Asked {
  from: bigint;
  to: bigint;
  pixels: number;
}

/** Threads that get a row, what stands behind their names, and whose they are; `total`: with those that get none. */
interface Listed {
  tids: number[];
  details: Map<number, string>;
  members: Map<number, Member>;
  total: number;
}

export class Pictures {
  readonly sections: Record<Which, Section> = { cpus: section('CPUs'), threads: section('Threads'), spans: section('Spans') };
  /** Threads that have a row in any case, above all others. */
  private pinned: readonly number[] = [];
  /** Threads that have a row, and what stands behind their names. */
  private tids: readonly number[] = [];
  private details = new Map<number, string>();
  private members: ReadonlyMap<number, Member> = new Map();
  /** What the whole windows were asked with, and up to where; whether they are being asked for again, and from when on. */
  private about = '';
  private newest: Asked | null = null;
  private wholeTo = 0n;
  private isRenewing = false;
  private renewAfter = 0;

  /** `onChange`: a section has another picture, or another note. */
  constructor(
    private readonly app: App,
    private readonly width: () => number,
    private readonly onChange: () => void,
  ) {}

  /** These threads have a row in any case, above all others. Whether others had one before. */
  pin(tids: readonly number[]): boolean {
    const isSame = tids.length === this.pinned.length && tids.every((tid) => this.pinned.includes(tid));
    this.pinned = tids;
    return !isSame;
  }

  /** All of the window. */
  async load(): Promise<void> {
    const at = this.asked();
    // Threads take two questions, one after the other: the first of them before all others.
    await Promise.all(ASKED_IN_ORDER.map((which) => this.whole(which, at)));
  }

  private asked(): Asked {
    const { view } = this.app;
    [this.about, this.wholeTo] = [this.aboutOf(view), view.to];
    this.newest = { from: view.from, to: view.to, pixels: Math.min(8192, Math.round(this.width())) };
    return this.newest;
  }

  /** What stretches must have in common with the picture that they extend. */
  private aboutOf(view: View): string {
    return [view.to - view.from, this.width(), view.by, view.match, view.groups, view.folded, view.spans, view.rows].join(' ');
  }

  /** The newest record has moved on: asks for what came since. All of the window is asked for again now and then. */
  async advance(): Promise<void> {
    const { view } = this.app;
    const length = view.to - view.from;
    const hasPicture = SECTIONS.some((which) => this.sections[which].picture);
    const isNear = this.about === this.aboutOf(view) && this.wholeTo >= view.from;
    if (!hasPicture || length < STRIPPED_MIN || !isNear) return this.load();
    const isDue = view.to - this.wholeTo >= renewalLength(length) && performance.now() >= this.renewAfter;
    if (isDue && !this.isRenewing) void this.renew();
    await Promise.all(SECTIONS.map((which) => this.strip(which, view.to, length)));
    // Once for all sections: rows and labels are placed, and drawn in one frame.
    this.onChange();
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
        const picture = answer ? await this.madeOf(which, answer, at, listed) : { rows: [], ...at };
        if (!picture) return;
        ({ total, tids: this.tids } = listed);
        this.take(section, picture, false);
        section.note = '';
      } else {
        const answer = await this.question(which, '', at, []);
        const picture = answer && (await this.madeOf(which, answer, at, null));
        if (!picture) return;
        this.take(section, picture, true);
        section.isFed = which === 'cpus' || ((answer.head.info['spans'] as string[] | undefined)?.length ?? 0) > 0;
        section.note = answer.head.notes.join(' ');
      }
    } catch (error) {
      section.note = whyNot(error);
    }
    const hidden = total - this.tids.length;
    if (which === 'threads' && hidden > 0) section.note = `${hidden} hidden`;
    this.onChange();
  }

  /** The picture of a whole window, made little by little; null where the window was asked for again meanwhile. What is followed is made at once. */
  private async madeOf(which: Which, answer: Answer, at: Asked, listed: Listed | null): Promise<Picture | null> {
    if (listed) ({ details: this.details, members: this.members } = listed);
    const steps = this.pictureOf(which, answer, at.pixels);
    if (this.app.isFollowing) return finished(steps);
    const most_ms = this.sections[which].picture ? LAYOUT_MS : FIRST_LAYOUT_MS;
    const goOn = async (): Promise<boolean> => {
      await turns.take();
      return this.newest === at;
    };
    const picture = await inParts(steps, { goOn, clock: () => performance.now(), most_ms });
    // Its rows are put in their places in a frame of its own.
    return picture && (await goOn()) ? picture : null;
  }

  /** A whole picture has come. What came while it was on its way stays until the next stretch, which begins at its end. */
  private take(section: Section, fresh: Picture, mayAdd: boolean): void {
    const before = this.app.isFollowing ? section.picture : null;
    section.picture = before ? extended(fresh, fresh.to, before, mayAdd) : fresh;
    section.strip = fresh.to;
    section.answers++;
  }

  /** Finds the threads that get a row; null where that was asked again meanwhile. */
  private async list(at: Asked): Promise<Listed | null> {
    const { app } = this;
    const { by, match } = app.view;
    const list = await app.client.ask('threads', 'threads', { from: app.at(at.from), to: app.at(at.to), by, match, limit: THREADS_MAX });
    if (!list) return null;
    const table = list.table('threads');
    const found: number[] = [];
    const [details, members] = [new Map<number, string>(), new Map<number, Member>()];
    for (let i = 0; i < table.rows; i++) {
      const tid = table.number('tid', i) ?? 0;
      found.push(tid);
      details.set(tid, detail(table.number('prio', i), table.number('worst_ns', i)));
      members.set(tid, { process: table.number('process', i), name: table.text('process_name', i), of: table.number('process_threads', i) ?? 1 });
    }
    const tids = [...this.pinned, ...found.filter((tid) => !this.pinned.includes(tid))].slice(0, THREADS_MAX);
    return { tids, details, members, total: Number(list.head.info['total'] ?? table.rows) };
  }

  /** One section, what is new in it. */
  private async strip(which: Which, to: bigint, length: bigint): Promise<void> {
    const section = this.sections[which];
    if (!section.picture || !section.isFed || (which === 'threads' && !this.tids.length)) return;
    const [from, { answers }] = [section.strip ?? section.picture.to, section];
    if (from >= to) return;
    const pixels = stripPixels(to - from, length, this.width());
    try {
      const answer = await this.question(which, '+', { from, to, pixels }, this.tids);
      if (!answer || !this.app.isFollowing) return;
      const strip = finished(this.pictureOf(which, answer, pixels));
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
    // Pixels on a grid come from the index. Stretches of a trace that grows follow each other to the ns.
    const gridded = { ...window, grid: this.app.isFollowing ? null : 1 };
    switch (which) {
      case 'cpus':
        return client.ask(`cpus${slot}`, 'cpus', gridded);
      case 'threads':
        return client.ask(`states${slot}`, 'states', { ...gridded, tids, calls: 1, late: LATE_NS });
      case 'spans':
        return client.ask(`slices${slot}`, 'slices', { ...gridded, span: spansOf(this.app.view.spans), rows: this.app.view.rows === 'key' ? 'key' : null, most: this.app.view.spans ? null : SPAN_RECORDS, lead: slot ? SPAN_LEAD_NS : null });
    }
  }

  private *pictureOf(which: Which, answer: Answer, asked: number): Steps<Picture> {
    // A saved answer has as many pixels as it was saved with, and one on a grid as many as fit.
    const pixels = Number(answer.head.info['pixels'] ?? asked);
    const rows = yield* which === 'cpus' ? cpuSteps(answer, pixels) : which === 'spans' ? spanSteps(answer, pixels) : this.inGroups(answer, pixels);
    const [from, to] = frame(answer);
    return { rows, from: BigInt(from), to: BigInt(to), pixels };
  }

  /** Rows of threads below the heads of their processes; of folded ones the head only. */
  private *inGroups(answer: Answer, pixels: number): Steps<Row[]> {
    const rows = yield* threadSteps(answer, pixels, (tid) => this.details.get(tid) ?? '');
    if (this.app.view.groups === 'off') return rows;
    const byTid = new Map(rows.map((row) => [row.tid, row]));
    const folded = foldedOf(this.app.view.folded);
    return groupsOf(rows.map(({ tid }) => tid ?? 0), this.members).flatMap((group) => {
      const own = group.tids.flatMap((tid) => byTid.get(tid) ?? []);
      if (group.process === null) return own;
      const isFolded = folded.has(group.process);
      const head = groupRow(group, this.members, isFolded ? { answer, pixels } : null);
      for (const row of own) row.group = group.process;
      return isFolded ? [head] : [head, ...own];
    });
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
