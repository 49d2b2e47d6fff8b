// SPDX-License-Identifier: MIT OR Apache-2.0
// The keyboard.

import { byId, el } from '../common/dom.js';
import { TIME_FORMATS } from '../common/time.js';
import { type Direction, findChange } from '../query/changes.js';
import type { App } from './app.js';
import { TABS, moved, zoomed } from './view.js';

/** A change of a thread is looked for so far first, ns. */
const FIRST_NS = 10_000n;

export const KEYS: readonly (readonly [string, string])[] = [
  ['W S, ↑ ↓', 'zoom in and out'],
  ['A D, ← →', 'move'],
  ['wheel, pinch', 'zoom at the pointer'],
  ['drag, Shift wheel', 'move'],
  ['Shift drag', 'zoom to a stretch'],
  ['click, double click', 'select; zoom to it'],
  ['[ ] Esc', 'set cursor A, B at the selected moment; clear'],
  [', .', 'previous, next record that the filter selects'],
  ['n p', 'next, previous change of what the selected thread does; without a thread: as . and ,'],
  ['f /', 'filter; find a thread'],
  ['in the filter: Tab, ↓ ↑', 'take the marked name or operator; choose one, which Enter takes; Ctrl Space lists all'],
  ['in records: ↓ ↑, Page, Home, End, Enter', 'choose a record; go there'],
  ['Home', 'the whole trace'],
  ['u Shift u', 'undo and redo navigation'],
  ['m b', 'bookmark the moment, or A to B; the list of bookmarks'],
  ['y', 'copy or save what is shown: PNG, SVG, CSV'],
  ['t', 'trace time, wall clock, UTC, from cursor A'],
  ['c', 'critical path of the selected thread'],
  ['v', 'wake-ups of the selected thread, and of the one under the pointer'],
  ['g', 'threads by process, or one below the other'],
  ['e', 'explanation beside the time line'],
  ['1 to 7', 'tabs'],
  ['0', 'first page'],
  ['l', 'live: follow the newest record, or pause'],
  ['x', 'two traces: tie their axes, or free them'],
  ['T', 'light or dark'],
  ['?', 'these keys'],
];

export class Keys {
  private readonly help = byId('help');

  constructor(
    private readonly app: App,
    private readonly theme: () => void,
    /** What other parts do, by key. */
    private readonly others: Readonly<Record<string, () => void>> = {},
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
      for (const id of ['notes', 'copies']) byId(id).hidden = true;
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
      case 'n':
      case 'p':
        void this.change(event.key === 'n' ? 'next' : 'previous');
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
    const other = Object.hasOwn(this.others, key) ? this.others[key] : undefined;
    if (other) {
      other();
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
      case 'c':
        app.go(view.critical === 'on' ? { ...view, critical: '' } : { ...view, critical: 'on', tab: 'critical' });
        return true;
      case 'e':
        app.go({ ...view, explain: view.explain === 'off' ? '' : 'off' });
        return true;
      case 'v':
        app.go({ ...view, arrows: view.arrows === 'on' ? '' : 'on' });
        return true;
      case 'g':
        app.go({ ...view, groups: view.groups === 'off' ? '' : 'off' });
        return true;
      case 't': {
        const next = TIME_FORMATS[(TIME_FORMATS.indexOf(view.format) + 1) % TIME_FORMATS.length];
        if (next) app.go({ ...view, format: next });
        return true;
      }
      case 'T':
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
  private async step(direction: Direction): Promise<void> {
    const { app } = this;
    const { view } = app;
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
      this.goTo(time);
    } catch (error) {
      app.failed(error);
    }
  }

  /** To the next or previous moment at which the selected thread begins to do something else. */
  private async change(direction: Direction): Promise<void> {
    const { app } = this;
    const { view, whole } = app;
    const { tid } = view;
    // Idle is a state of CPUs, not of a thread.
    if (tid === null || tid === 0) return this.step(direction);
    const at = view.at ?? (direction === 'next' ? view.from : view.to);
    const eighth = (view.to - view.from) / 8n;
    try {
      const ask = ({ from, to }: { from: bigint; to: bigint }, pixels: number): ReturnType<App['client']['ask']> =>
        app.client.ask('change', 'states', { from: app.at(from), to: app.at(to), pixels, tids: [tid] });
      const time = await findChange(ask, whole, at, direction, eighth > FIRST_NS ? eighth : FIRST_NS);
      if (time === null) app.say(direction === 'next' ? 'the thread does nothing else later' : 'the thread did nothing else before');
      else if (time !== undefined) this.goTo(time);
    } catch (error) {
      app.failed(error);
    }
  }

  /** Selects a moment, and moves there if it is not seen. */
  private goTo(time: bigint): void {
    const { view, whole } = this.app;
    const isSeen = time >= view.from && time < view.to;
    const half = (view.to - view.from) / 2n;
    this.app.go(isSeen ? { ...view, at: time } : { ...moved({ ...view, from: time - half, to: time + half }, 0, whole), at: time });
  }
}
