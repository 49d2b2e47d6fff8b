// SPDX-License-Identifier: MIT OR Apache-2.0
// The labels in front of the rows: buttons, so that each row can be reached by the keyboard.

import { el, link } from '../common/dom.js';

/** Something that a section offers: a word that is on or off. */
export interface Action {
  text: string;
  title: string;
  isOn: boolean;
  go: () => void;
}

/** One label. */
export interface Label {
  key: string;
  top: number;
  height: number;
  name: string;
  detail: string;
  /** What choosing it does; null: it is the head of a section. */
  go: (() => void) | null;
  /** Whether its group is open; null: it is none. */
  isOpen: boolean | null;
  /** It stands below the head of a group. */
  isIn: boolean;
  actions: readonly Action[];
}

export class Labels {
  private shown = new Map<string, Label>();
  private signature = '';

  constructor(private readonly box: HTMLElement) {}

  /** Labels stay the same elements as long as their rows are there: who has one in focus keeps it. */
  show(height: number, all: readonly Label[]): void {
    this.shown = new Map(all.map((label) => [label.key, label]));
    const written = all.map((label) => [label.key, label.name, label.detail, label.top, label.height, label.isOpen, label.isIn, ...label.actions.map((action) => `${action.text}${action.isOn}`)].join(' '));
    const signature = `${height} ${written.join('\n')}`;
    // Between two pictures of a trace that is being written nothing of them changes, as a rule.
    if (signature === this.signature) return;
    this.signature = signature;
    this.box.style.height = `${height}px`;
    const left = new Map([...this.box.children].map((label) => [(label as HTMLElement).dataset['key'] ?? '', label as HTMLElement]));
    for (const label of all) {
      const made = left.get(label.key) ?? this.made(label);
      left.delete(label.key);
      this.write(made, label);
      made.style.top = `${label.top}px`;
      made.style.height = `${label.height}px`;
      if (!made.isConnected) this.box.append(made);
    }
    for (const gone of left.values()) gone.remove();
  }

  private write(made: HTMLElement, { name, detail, isOpen, isIn, actions }: Label): void {
    const text = [name, detail, isOpen, isIn, ...actions.map((action) => `${action.text} ${action.isOn}`)].join('\n');
    if (made.dataset['text'] === text) return;
    made.dataset['text'] = text;
    const links = actions.map((action) => {
      const made = link(action.text, action.go, action.title);
      made.setAttribute('aria-pressed', String(action.isOn));
      return made;
    });
    made.replaceChildren(el('span', 'name', name), el('span', 'i3', detail), ...links);
    made.title = [name, detail].filter(Boolean).join(': ');
    made.classList.toggle('in', isIn);
    if (isOpen !== null) made.setAttribute('aria-expanded', String(isOpen));
  }

  private made({ key, go, isOpen }: Label): HTMLElement {
    if (!go) {
      const made = el('div', 'section');
      made.dataset['key'] = key;
      return made;
    }
    const made = el('button', isOpen === null ? 'label' : 'label group');
    made.dataset['key'] = key;
    made.type = 'button';
    // What the row is now: rows of one key may change.
    made.addEventListener('click', () => this.shown.get(key)?.go?.());
    return made;
  }
}
