// SPDX-License-Identifier: MIT OR Apache-2.0
// What all parts of the page share: the server, the trace, the view, and who wants to know when it changes.

import { later } from '../common/dom.js';
import { Times } from '../common/time.js';
import type { Client } from '../query/api.js';
import type { Answer } from '../query/columns.js';
import { History, type View, fromFragment, toFragment, whole } from './view.js';

/** A part of the page that shows the view. */
export interface Part {
  /** The view has changed: `before` is what it was. */
  changed(view: View, before: View | null): void;
}

/** A bookmark: ns after the base; a stretch where it has an end. */
export interface Mark {
  at: bigint;
  to: bigint | null;
  text: string;
}

export class App {
  readonly history = new History();
  /** Bookmarks, in the order of time. */
  marks: readonly Mark[] = [];
  private baseNow: bigint;
  private wholeNow: View;
  /** What times of the trace count from, ns after the base. */
  origin = 0n;
  /** The picture goes where the newest record is. */
  isFollowing = false;
  /** Is done when the picture of the view is drawn. */
  drawn: Promise<void> = Promise.resolve();
  /** Is told which part of time was painted. */
  onPainted: (to: bigint) => void = () => {};
  /** Is told that the user went somewhere else. */
  onMoved: () => void = () => {};
  /** Is told which latencies are shown, in which element. */
  onLatencies: (answer: Answer, what: string | null, box: HTMLElement) => void = () => {};
  /** More of the address than the view: what only some pages have. */
  readonly extra = new Map<string, string>();
  private parts: Part[] = [];
  private current: View;
  /** Browsers allow a page some changes of its address a second, and no more. */
  private readonly noteSoon = later(250, () => this.noteIfOurs(), 500);
  /** The address as it was written last. */
  private written: string | null = null;
  /** Shows a sentence: what is pointed at, or what went wrong. */
  say: (text: string, isWrong?: boolean) => void = () => {};

  constructor(
    readonly summary: Answer,
    fragment: string,
    readonly client: Client,
    bounds: { from: bigint; to: bigint } | null = null,
  ) {
    this.baseNow = BigInt(summary.head.base);
    this.wholeNow = whole(bounds?.to ?? BigInt(summary.head.to), bounds?.from);
    this.current = fromFragment(fragment, this.wholeNow);
  }

  /** ns since 1970 of the first record: all times are after it. */
  get base(): bigint {
    return this.baseNow;
  }

  /** The view of all there is. */
  get whole(): View {
    return this.wholeNow;
  }

  /** There is more of the trace than before. Times stay what they were, though the first record may be another one. */
  grow(base: bigint, to: bigint): void {
    const by = this.baseNow - base;
    this.baseNow = base;
    this.wholeNow = whole(to);
    if (by === 0n) return;
    const { from, to: until, a, b, at } = this.current;
    const moved = (time: bigint | null): bigint | null => (time === null ? null : time + by);
    this.marks = this.marks.map((mark) => ({ ...mark, at: mark.at + by, to: moved(mark.to) }));
    this.current = { ...this.current, from: from + by, to: until + by, a: moved(a), b: moved(b), at: moved(at) };
  }

  get view(): View {
    return this.current;
  }

  get times(): Times {
    const { format, a } = this.current;
    return new Times(this.base, format, a ?? 0n, this.origin);
  }

  add(part: Part): void {
    this.parts.push(part);
    part.changed(this.current, null);
  }

  /** Goes to a view. Small moves are one step of undo. */
  go(view: View, isSmall = false): void {
    this.history.leave(this.current, isSmall);
    const { from, to } = this.current;
    if (view.from !== from || view.to !== to) this.onMoved();
    this.show(view, isSmall);
  }

  undo(): void {
    const view = this.history.undo(this.current);
    if (view) this.show(view);
  }

  redo(): void {
    const view = this.history.redo(this.current);
    if (view) this.show(view);
  }

  /** Shows a view, without a step of undo. Of many small moves the address has the last one. */
  show(view: View, isSmall = false): void {
    const before = this.current;
    this.current = view;
    // What is more than a move of the window stands in the address at once.
    const isMove = toFragment({ ...view, from: before.from, to: before.to }) === toFragment(before);
    if (this.isFollowing || (isSmall && isMove)) this.noteSoon();
    else this.note();
    for (const part of this.parts) part.changed(view, before);
  }

  /** Writes the view into the address. */
  note(): void {
    const extra = [...this.extra].map(([name, value]) => `&${name}=${encodeURIComponent(value)}`).join('');
    try {
      history.replaceState(null, '', toFragment(this.current) + extra);
      this.written = location.hash;
    } catch {
      // A page in a frame without an origin of its own has no address to write to.
    }
  }

  /** Somebody may have written another address meanwhile: that is where the page goes next. */
  private noteIfOurs(): void {
    if (this.written === null || this.written === location.hash) this.note();
  }

  /** A time as the server takes it. */
  at(time: bigint): string {
    return `@${time}`;
  }

  /** Says that something failed. */
  failed(error: unknown): void {
    const text = error instanceof Error ? error.message : String(error);
    const hint = (error as { hint?: string | null }).hint;
    this.say(hint ? `${text}: ${hint}` : text, true);
  }
}
