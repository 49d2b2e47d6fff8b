// SPDX-License-Identifier: MIT OR Apache-2.0
// The keyboard.

import type { App } from './app.js';
import { byId, el } from './dom.js';
import { TIME_FORMATS } from './time.js';
import { TABS, moved, zoomed } from './view.js';

export const KEYS: readonly (readonly [string, string])[] = [
  ['W S, ↑ ↓', 'zoom in and out'],
  ['A D, ← →', 'move'],
  ['wheel, pinch', 'zoom at the pointer'],
  ['drag, Shift wheel', 'move'],
  ['Shift drag', 'zoom to a stretch'],
  ['click, double click', 'select; zoom to it'],
  ['[ ] Esc', 'set cursor A, B at the selected moment; clear'],
  [', .', 'previous, next record that the filter selects'],
  ['f /', 'filter; find a thread'],
  ['Home', 'the whole trace'],
  ['u Shift u', 'undo and redo navigation'],
  ['t', 'trace time, wall clock, UTC, from cursor A'],
  ['1 to 4', 'tabs'],
  ['0', 'first page'],
  ['l', 'light or dark'],
  ['?', 'these keys'],
];

export class Keys {
  private readonly help = byId('help');

  constructor(
    private readonly app: App,
    private readonly theme: () => void,
  ) {
    const list = el('dl', 'keys');
    for (const [keys, does] of KEYS) list.append(el('dt', '', keys), el('dd', '', does));
    this.help.append(el('h2', '', 'Keys'), list);
    document.addEventListener('keydown', (event) => this.press(event));
    byId('keys').addEventListener('click', () => this.toggleHelp());
  }

  toggleHelp(): void {
    this.help.hidden = !this.help.hidden;
  }

  private press(event: KeyboardEvent): void {
    const target = event.target as HTMLElement | null;
    const isTyping = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
    if (event.key === 'Escape') {
      if (isTyping) target?.blur();
      this.help.hidden = true;
      if (!isTyping) this.app.go({ ...this.app.view, a: null, b: null, at: null, tid: null });
      return;
    }
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.act(event)) event.preventDefault();
  }

  private act(event: KeyboardEvent): boolean {
    const { app } = this;
    const { view, whole } = app;
    switch (event.key) {
      case 'w':
      case 'ArrowUp':
        app.go(zoomed(view, 0.7, 0.5, whole), true);
        return true;
      case 's':
      case 'ArrowDown':
        app.go(zoomed(view, 1 / 0.7, 0.5, whole), true);
        return true;
      case 'a':
      case 'ArrowLeft':
        app.go(moved(view, -0.15, whole), true);
        return true;
      case 'd':
      case 'ArrowRight':
        app.go(moved(view, 0.15, whole), true);
        return true;
      case '[':
      case ']':
        if (view.at !== null) app.go(event.key === '[' ? { ...view, a: view.at } : { ...view, b: view.at });
        return true;
      case ',':
      case '.':
        void this.step(event.key === '.' ? 'next' : 'previous');
        return true;
      default:
        return this.choose(event.key);
    }
  }

  private choose(key: string): boolean {
    const { app } = this;
    const { view } = app;
    const tab = TABS[Number(key) - 1];
    if (key >= '1' && key <= '9' && tab) {
      app.go({ ...view, page: 'timeline', tab });
      return true;
    }
    switch (key) {
      case '0':
        app.go({ ...view, page: 'start' });
        return true;
      case 'f':
        byId('filter').focus();
        return true;
      case '/':
        byId('match').focus();
        return true;
      case 'Home':
        app.go({ ...view, from: app.whole.from, to: app.whole.to });
        return true;
      case 'u':
        app.undo();
        return true;
      case 'U':
        app.redo();
        return true;
      case 't': {
        const next = TIME_FORMATS[(TIME_FORMATS.indexOf(view.format) + 1) % TIME_FORMATS.length];
        if (next) app.go({ ...view, format: next });
        return true;
      }
      case 'l':
        this.theme();
        return true;
      case '?':
        this.toggleHelp();
        return true;
      default:
        return false;
    }
  }

  /** To the next or previous record that the filter selects. */
  private async step(direction: 'next' | 'previous'): Promise<void> {
    const { app } = this;
    const { view, whole } = app;
    const filter = view.filter || (view.tid === null ? '$cpu >= 0' : `$tid == ${view.tid}`);
    const at = view.at ?? view.from;
    try {
      const answer = await app.client.ask('search', 'search', { filter, at: app.at(at), direction });
      const found = answer?.table('records');
      const time = found?.rows ? found.big('time', 0) : null;
      if (time === null || time === undefined) {
        app.say(direction === 'next' ? 'no later record matches' : 'no earlier record matches');
        return;
      }
      const isSeen = time >= view.from && time < view.to;
      app.go(isSeen ? { ...view, at: time } : { ...moved({ ...view, from: time - (view.to - view.from) / 2n, to: time + (view.to - view.from) / 2n }, 0, whole), at: time });
    } catch (error) {
      app.failed(error);
    }
  }
}
