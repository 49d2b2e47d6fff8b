// SPDX-License-Identifier: MIT OR Apache-2.0
// The list below the filter: names and operators that can stand at the caret. What they are is decided in completion.ts.

import { byId, el } from '../common/dom.js';
import { type Choice, type Completion, type Names, completion, namesOf } from '../query/completion.js';
import type { App } from './app.js';

/** What a Page key moves by. */
const PAGE = 8;

export class Complete {
  private readonly list = byId('complete');
  private names: Names | null = null;
  private shown: Completion | null = null;
  /** The marked choice; -1: none. */
  private marked = -1;
  /** The user has moved the mark: Enter takes the choice. */
  private isChosen = false;
  /** Something was typed before the names were there. */
  private isWanted = false;

  constructor(
    private readonly app: App,
    private readonly input: HTMLInputElement,
  ) {
    input.addEventListener('focus', () => void this.load());
    input.addEventListener('blur', () => this.close());
    input.addEventListener('input', () => this.open());
    // Before the filter is applied and before the page has its keys.
    input.addEventListener('keydown', (event) => this.press(event), { capture: true });
    // A press would take the focus from the field, and close the list before it is a click.
    this.list.addEventListener('pointerdown', (event) => event.preventDefault());
    this.list.addEventListener('click', (event) => {
      const row = event.target instanceof Element ? event.target.closest<HTMLElement>('[role="option"]') : null;
      if (row) this.take(Number(row.dataset['row']));
    });
  }

  /** Asked again each time: a trace that is being written gets new events. */
  private async load(): Promise<void> {
    try {
      const answer = await this.app.client.ask('names', 'schema', {});
      if (answer) this.names = namesOf(answer);
    } catch {
      // A saved page answers no filters, and a server that is gone says so elsewhere.
      this.names = null;
    }
    if (this.isWanted && document.activeElement === this.input) this.open();
  }

  private open(): void {
    const { input } = this;
    this.isWanted = !this.names;
    this.shown = this.names && completion(this.names, input.value, input.selectionStart ?? input.value.length);
    // With nothing typed the list says what is possible, and proposes nothing.
    this.marked = this.shown?.typed ? 0 : -1;
    this.isChosen = false;
    this.draw();
  }

  private close(): void {
    [this.shown, this.isWanted] = [null, false];
    this.draw();
  }

  private draw(): void {
    const { list, input, shown } = this;
    list.hidden = !shown;
    input.setAttribute('aria-expanded', String(shown !== null));
    list.replaceChildren(...(shown?.choices ?? []).map((choice, row) => option(choice, row)));
    if (shown) {
      const { left, bottom } = input.getBoundingClientRect();
      list.style.left = `${left}px`;
      list.style.top = `${bottom + 6}px`;
    }
    this.mark();
  }

  private mark(): void {
    const rows = [...this.list.children];
    rows.forEach((row, number) => row.setAttribute('aria-selected', String(number === this.marked)));
    const row = rows[this.marked];
    if (row) this.input.setAttribute('aria-activedescendant', row.id);
    else this.input.removeAttribute('aria-activedescendant');
    row?.scrollIntoView({ block: 'nearest' });
  }

  private move(by: number): void {
    const last = (this.shown?.choices.length ?? 0) - 1;
    // Steps go round; pages end at the ends.
    if (Math.abs(by) === 1) this.marked = this.marked < 0 ? (by > 0 ? 0 : last) : (this.marked + by + last + 1) % (last + 1);
    else this.marked = Math.max(0, Math.min(last, this.marked + by));
    this.isChosen = true;
    this.mark();
  }

  private press(event: KeyboardEvent): void {
    if (this.act(event)) {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
  }

  private act(event: KeyboardEvent): boolean {
    if (event.altKey || event.metaKey || event.isComposing) return false;
    const isOpen = this.shown !== null;
    switch (event.key) {
      case ' ':
        if (event.ctrlKey) this.open();
        return event.ctrlKey;
      case 'ArrowDown':
        if (isOpen) this.move(1);
        else this.open();
        return true;
      case 'ArrowUp':
        if (isOpen) this.move(-1);
        return isOpen;
      case 'PageDown':
      case 'PageUp':
        if (isOpen) this.move(event.key === 'PageDown' ? PAGE : -PAGE);
        return isOpen;
      case 'Tab':
        return !event.shiftKey && isOpen && this.take(this.marked);
      case 'Enter':
        if (this.isChosen && this.take(this.marked)) return true;
        this.close();
        return false;
      case 'Escape':
        this.close();
        return isOpen;
      case 'ArrowLeft':
      case 'ArrowRight':
      case 'Home':
      case 'End':
        this.close();
        return false;
      default:
        return false;
    }
  }

  /** Puts a choice where it belongs, and offers what can follow. */
  private take(row: number): boolean {
    const choice = this.shown?.choices[row];
    if (!this.shown || !choice) return false;
    const { from, to } = this.shown;
    // A blank that follows already stays the only one.
    const behind = choice.text.endsWith(' ') && this.input.value[to] === ' ' ? to + 1 : to;
    this.input.setRangeText(choice.text, from, behind, 'end');
    this.open();
    return true;
  }
}

function option(choice: Choice, row: number): HTMLElement {
  const made = el('div', 'choice', el('code', '', choice.text.trim()), el('span', 'i2', choice.about));
  made.id = `complete-${row}`;
  made.dataset['row'] = String(row);
  made.setAttribute('role', 'option');
  return made;
}
