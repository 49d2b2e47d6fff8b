// SPDX-License-Identifier: MIT OR Apache-2.0
// Making elements. Text is always set as text: names of a trace may hold anything.

type Child = Node | string | number | null | undefined | false;

/** An element with a class, and children. */
export function el<K extends keyof HTMLElementTagNameMap>(tag: K, classes = '', ...children: Child[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  add(made, ...children);
  return made;
}

export function add(to: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) to.append(child instanceof Node ? child : clean(String(child)));
  }
}

/** Without control characters, which would not be seen. */
export function clean(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, '\u{fffd}');
}

/** A button that looks like a link. */
export function link(text: string, go: () => void, title = ''): HTMLButtonElement {
  const made = el('button', 'link', text);
  made.type = 'button';
  if (title) made.title = title;
  // In a row of a table that can be chosen it is the link that counts.
  made.addEventListener('click', (event) => {
    event.stopPropagation();
    go();
  });
  return made;
}

export function button(text: string, title: string, go: () => void): HTMLButtonElement {
  const made = el('button', 'ib', text);
  made.type = 'button';
  made.title = title;
  made.setAttribute('aria-label', title);
  made.addEventListener('click', go);
  return made;
}

/** Makes a part of the page anew; what has the focus in it has it again, if there is such a thing. */
export function renewed(box: HTMLElement, ...children: Child[]): void {
  const nameOf = (of: Element): string => of.getAttribute('aria-label') ?? of.textContent ?? '';
  const active = document.activeElement;
  const had = active && active !== box && box.contains(active) ? { tag: active.tagName, name: nameOf(active) } : null;
  box.replaceChildren();
  add(box, ...children);
  if (!had) return;
  const same = [...box.querySelectorAll<HTMLElement>(had.tag)].find((one) => nameOf(one) === had.name);
  same?.focus({ preventScroll: true });
}

/** The element of the page with this id. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found as T;
}

export interface ColumnOf<T> {
  head: string;
  /** Numbers stand on the right. */
  isNumber?: boolean;
  cell: (row: T) => Child;
}

/** A table of rows; a row that is chosen calls `choose`. */
export function table<T>(columns: readonly ColumnOf<T>[], rows: readonly T[], choose?: (row: T) => void): HTMLTableElement {
  const head = el('tr');
  for (const column of columns) head.append(el('th', column.isNumber ? 'num' : '', column.head));
  const body = el('tbody');
  for (const row of rows) body.append(tableRow(columns, row, choose));
  return el('table', 'rec', el('thead', '', head), body);
}

export function tableRow<T>(columns: readonly ColumnOf<T>[], row: T, choose?: (row: T) => void): HTMLTableRowElement {
  const line = el('tr');
  for (const column of columns) line.append(el('td', column.isNumber ? 'num' : '', column.cell(row)));
  if (choose) {
    line.tabIndex = 0;
    line.className = 'can';
    line.addEventListener('click', () => choose(row));
    line.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && event.target === line) choose(row);
    });
  }
  return line;
}

/** Calls `go` once, so long after the last call, and at the latest `most` ms after the first: calls may never end. */
export function later(ms: number, go: () => void, most = 1000): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let first = 0;
  return () => {
    const now = performance.now();
    if (timer === undefined) first = now;
    clearTimeout(timer);
    const fire = (): void => {
      timer = undefined;
      go();
    };
    const left = first + most - now;
    if (left <= 0) fire();
    else timer = setTimeout(fire, Math.min(ms, left));
  };
}

/** Calls `go` before the next picture, once however often it is asked for. `frame`: which picture, as the browser counts. */
export function onFrame(go: (frame: number) => void): () => void {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame((frame) => {
      isAsked = false;
      go(frame);
    });
  };
}

/** A part of the page whose answer may take long. Until it is there the part says that what it shows is of an earlier question. */
export class Pending {
  private newest = 0;

  constructor(private readonly box: HTMLElement) {}

  /** A question is asked, or will be. What is returned says that it is answered; of an older one it says nothing. */
  begin(): () => void {
    const own = ++this.newest;
    this.box.setAttribute('aria-busy', 'true');
    return () => {
      if (own === this.newest) this.end();
    };
  }

  /** Nothing is asked any more. */
  end(): void {
    this.box.removeAttribute('aria-busy');
  }
}

/** Larger pieces of work, such as taking an answer: one of them a frame, so that the picture goes on moving. */
export class Turns {
  private readonly waiting: (() => void)[] = [];
  private readonly next = onFrame((frame) => {
    this.frame = frame;
    this.waiting.shift()?.();
    if (this.waiting.length) this.next();
  });
  /** The last one that had such a piece. */
  frame = -1;

  /** Done when it is one's turn. */
  take(): Promise<void> {
    // A page that nobody sees has no frames.
    if (document.hidden) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      this.next();
    });
  }
}

/** Those of the page. */
export const turns = new Turns();
