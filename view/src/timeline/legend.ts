// SPDX-License-Identifier: MIT OR Apache-2.0
// What every colour and mark of the time line means.

import { add, el } from '../common/dom.js';
import { STATES, STATE_LOOKS } from '../layout/layout.js';

/** A mark of the legend: its class in the style sheet, and what it means. */
export interface Meaning {
  mark: string;
  means: string;
  /** px; as high as the state is beside others. */
  height?: number;
}

/** Thread states are as high as they are drawn, halved. */
const OF_STATES: readonly Meaning[] = STATES.filter((state) => state !== 'absent').map((state) => ({
  mark: state,
  means: STATE_LOOKS[state].says,
  height: Math.max(1, Math.round(STATE_LOOKS[state].h / 2)),
}));

export const LEGEND: readonly Meaning[] = [
  ...OF_STATES,
  { mark: 'shares', means: 'shares of a pixel with several states' },
  { mark: 'late', means: 'wait of 1 ms or more' },
  { mark: 'name', means: 'colour of a name: no meaning of its own' },
  { mark: 'realtime', means: 'real-time thread' },
  { mark: 'idle', means: 'CPU idle: empty, with its idle state where it is recorded' },
  { mark: 'irq', means: 'interrupt' },
  { mark: 'soft', means: 'softirq, timer call' },
  { mark: 'sys', means: 'system call' },
  { mark: 'bar', means: 'short spans merged; frequency of a CPU; records over time (with a filter: as running, those that it selects)' },
  { mark: 'hatch', means: 'doubtful: point at it for the reason' },
  { mark: 'hole', means: 'records lost: nothing is known' },
  { mark: 'loss', means: 'losses in the overview' },
  { mark: 'wakeup', means: 'wake-up (v): from who wakes to who is woken' },
  { mark: 'path', means: 'critical path' },
  { mark: 'cursor', means: 'cursors, window, bookmarks' },
];

export function legend(): HTMLElement {
  const box = el('div', 'legend');
  for (const { mark, means, height } of LEGEND) {
    const swatch = el('i', `sw m-${mark}`);
    if (height !== undefined) swatch.style.height = `${height}px`;
    add(box, el('span', 'item', swatch, means));
  }
  return box;
}
