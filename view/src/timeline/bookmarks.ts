// SPDX-License-Identifier: MIT OR Apache-2.0
// The user's bookmarks and notes: a list that the server keeps beside the trace, and marks over the time line.

import type { App, Mark } from '../app/app.js';
import { type View, around } from '../app/view.js';
import { byId, button, clean, el, link } from '../common/dom.js';
import { duration } from '../common/time.js';

/** As the server keeps one: decimal ns since 1970. */
export interface KeptNote {
  at: string;
  to: string | null;
  text: string;
}

/** What the server answers. */
interface Kept {
  revision: number;
  notes: KeptNote[];
  place: string | null;
}

/** Characters of a note at most, and how many there may be: as the server has it. */
const TEXT_MAX = 2000;
const NOTES_MAX = 1000;

/** From what is kept to marks, ns after `base`, in the order of time. Pure. */
export function toMarks(notes: readonly KeptNote[], base: bigint): Mark[] {
  const marks = notes.map(({ at, to, text }) => ({ at: BigInt(at) - base, to: to === null ? null : BigInt(to) - base, text }));
  return marks.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

/** The other way. Pure. */
export function toKept(marks: readonly Mark[], base: bigint): KeptNote[] {
  return marks.map(({ at, to, text }) => ({ at: String(at + base), to: to === null ? null : String(to + base), text: text.slice(0, TEXT_MAX) }));
}

/** What a new bookmark is of: the stretch between both cursors; else the moment that is selected; else the middle. Pure. */
export function newMark({ a, b, at, from, to }: Pick<View, 'a' | 'b' | 'at' | 'from' | 'to'>): Mark {
  if (a !== null && b !== null && a !== b) return { at: a < b ? a : b, to: a < b ? b : a, text: '' };
  return { at: at ?? a ?? (from + to) / 2n, to: null, text: '' };
}

export class Bookmarks {
  private readonly box = byId('notes');
  private readonly list = el('ol', 'notes');
  private readonly about = el('p', 'i2');
  private revision = 0;
  private saving: Promise<void> = Promise.resolve();

  constructor(private readonly app: App) {
    const head = el('h2', '', 'Bookmarks');
    this.box.append(head, this.list, el('div', '', link('Bookmark this moment', () => this.add(), 'm'), ' ', link('Close', () => this.toggle(), 'b')), this.about);
    byId('to-notes').addEventListener('click', () => this.toggle());
    void this.load();
  }

  /** Shows the list, or hides it. */
  toggle(): void {
    this.box.hidden = !this.box.hidden;
    if (!this.box.hidden) this.paint();
  }

  /** Bookmarks what is looked at, and waits for a note. */
  add(): void {
    const { app } = this;
    if (app.marks.length >= NOTES_MAX) return app.say(`there are ${NOTES_MAX} bookmarks already`, true);
    const mark = newMark(app.view);
    this.change([...app.marks, mark].sort((one, other) => Number(one.at - other.at)));
    this.box.hidden = false;
    this.paint();
    this.list.querySelectorAll<HTMLInputElement>('input')[app.marks.indexOf(mark)]?.focus();
  }

  private async load(): Promise<void> {
    try {
      const response = await fetch('notes');
      if (!response.ok) throw new Error(await refusal(response));
      this.take((await response.json()) as Kept);
    } catch (error) {
      this.about.textContent = error instanceof Error ? clean(error.message) : String(error);
    }
  }

  private take(kept: Kept): void {
    this.revision = kept.revision;
    this.about.textContent = kept.place ? `Kept ${kept.place}.` : 'Nothing is kept yet.';
    this.show(toMarks(kept.notes, this.app.base));
  }

  private show(marks: readonly Mark[]): void {
    this.app.marks = marks;
    this.app.show(this.app.view);
    if (!this.box.hidden) this.paint();
  }

  /** Shows others and saves them, one after the other. */
  private change(marks: readonly Mark[]): void {
    this.show(marks);
    this.saving = this.saving.then(() => this.save(marks));
  }

  private async save(marks: readonly Mark[]): Promise<void> {
    try {
      const body = JSON.stringify({ revision: this.revision, notes: toKept(marks, this.app.base) });
      const response = await fetch('notes', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
      if (response.ok) {
        const kept = (await response.json()) as Kept;
        this.revision = kept.revision;
        this.about.textContent = kept.place ? `Kept ${kept.place}.` : '';
        return;
      }
      this.app.failed(new Error(await refusal(response)));
      // Another page has saved others: they are shown, and nothing of them is lost.
      if (response.status === 409) await this.load();
    } catch (error) {
      this.app.failed(error);
    }
  }

  private paint(): void {
    this.list.replaceChildren(...this.app.marks.map((mark) => this.row(mark)));
  }

  private row(mark: Mark): HTMLElement {
    const { app } = this;
    const input = el('input');
    input.value = mark.text;
    input.maxLength = TEXT_MAX;
    input.placeholder = 'note';
    input.setAttribute('aria-label', `Note at ${app.times.text(mark.at)}`);
    input.addEventListener('change', () => this.change(app.marks.map((one) => (one === mark ? { ...mark, text: input.value } : one))));
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') input.blur();
    });
    const length = mark.to === null ? '' : `, ${duration(Number(mark.to - mark.at))}`;
    const go = link(`${app.times.text(mark.at)}${length}`, () => this.goTo(mark), 'go there');
    const gone = button('×', 'remove this bookmark', () => this.change(app.marks.filter((one) => one !== mark)));
    return el('li', '', go, input, gone);
  }

  private goTo(mark: Mark): void {
    const { app } = this;
    const { view, whole } = app;
    if (mark.to !== null) return app.go({ ...around(view, mark.at, mark.to, whole), a: mark.at, b: mark.to, at: mark.at });
    const half = (view.to - view.from) / 4n;
    const isSeen = view.page === 'timeline' && mark.at >= view.from && mark.at < view.to;
    app.go({ ...(isSeen ? view : around(view, mark.at - half, mark.at + half, whole)), at: mark.at });
  }
}

async function refusal(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as { error: { message: string } };
    return error.message;
  } catch {
    return `the server answered ${response.status}`;
  }
}
