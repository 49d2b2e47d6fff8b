// SPDX-License-Identifier: MIT OR Apache-2.0
// What all parts of the page share: the server, the trace, the view, and who wants to know when it changes.

import { Client } from './api.js';
import type { Answer } from './columns.js';
import { Times } from './time.js';
import { History, type View, fromFragment, toFragment, whole } from './view.js';

/** A part of the page that shows the view. */
export interface Part {
  /** The view has changed: `before` is what it was. */
  changed(view: View, before: View | null): void;
}

export class App {
  readonly client = new Client();
  readonly history = new History();
  readonly base: bigint;
  readonly whole: View;
  private parts: Part[] = [];
  private current: View;
  /** Shows a sentence: what is pointed at, or what went wrong. */
  say: (text: string, isWrong?: boolean) => void = () => {};

  constructor(
    readonly summary: Answer,
    fragment: string,
  ) {
    this.base = BigInt(summary.head.base);
    this.whole = whole(BigInt(summary.head.to));
    this.current = fromFragment(fragment, this.whole);
  }

  get view(): View {
    return this.current;
  }

  get times(): Times {
    const { format, a } = this.current;
    return new Times(this.base, format, a ?? 0n);
  }

  add(part: Part): void {
    this.parts.push(part);
    part.changed(this.current, null);
  }

  /** Goes to a view. Small moves are one step of undo. */
  go(view: View, isSmall = false): void {
    this.history.leave(this.current, isSmall);
    this.show(view);
  }

  undo(): void {
    const view = this.history.undo(this.current);
    if (view) this.show(view);
  }

  redo(): void {
    const view = this.history.redo(this.current);
    if (view) this.show(view);
  }

  /** Shows a view, without a step of undo. */
  show(view: View): void {
    const before = this.current;
    this.current = view;
    history.replaceState(null, '', toFragment(view));
    for (const part of this.parts) part.changed(view, before);
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
