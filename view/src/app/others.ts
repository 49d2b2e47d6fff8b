// SPDX-License-Identifier: MIT OR Apache-2.0
// Other traces of a page: which there are, and what each of them needs in the page.

import { add, el } from '../common/dom.js';
import { Client } from '../query/api.js';
import type { Answer } from '../query/columns.js';
import { App } from './app.js';

/** What the server shows, the first one first, and how it belongs together [spec/view.md 8]. */
export interface Others {
  relation: 'beside' | 'hosts' | null;
  names: readonly string[];
}

export const ALONE: Others = { relation: null, names: [] };

/** Checks what the server sent. */
export function othersOf(json: unknown): Others {
  const { relation, names } = (json ?? {}) as { relation?: unknown; names?: unknown };
  if (relation !== 'beside' && relation !== 'hosts') return ALONE;
  const isNames = Array.isArray(names) && names.length > 1 && names.every((name) => typeof name === 'string');
  return isNames ? { relation, names: names as string[] } : ALONE;
}

export async function findOthers(): Promise<Others> {
  return othersOf(await (await fetch('q/')).json());
}

/** Where questions about a trace are. */
export function clientOf(number: number): Client {
  return new Client(number ? `o/${number}/` : '');
}

/** One of the other traces. Its view is no address of its own: who shows it is told instead. */
export class OtherApp extends App {
  onNote: () => void = () => {};

  static async of(number: number): Promise<OtherApp | null> {
    const client = clientOf(number);
    const summary: Answer | null = await client.ask('summary', 'summary', {});
    return summary && new OtherApp(summary, '', client);
  }

  override note(): void {
    this.onNote();
  }
}

/** The elements of a time line: their ids begin with `prefix`. */
export function timelineParts(prefix: string, says: string): { ruler: HTMLElement; rows: HTMLElement } {
  const canvas = (id: string, label: string): HTMLCanvasElement => {
    const made = el('canvas', `t-${id}`);
    made.id = `${prefix}${id}`;
    made.setAttribute('aria-label', label);
    made.setAttribute('role', 'img');
    return made;
  };
  const [labels, rows] = [el('div', 't-labels'), el('div', 't-rows')];
  labels.id = `${prefix}labels`;
  rows.id = `${prefix}rows`;
  rows.tabIndex = 0;
  add(rows, labels, canvas('plot', `What CPUs and threads of ${says} did`));
  return { ruler: canvas('ruler', `Time of ${says}`), rows };
}
