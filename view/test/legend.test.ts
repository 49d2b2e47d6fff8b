// SPDX-License-Identifier: MIT OR Apache-2.0
// The legend has all that can be drawn, and the style sheet has all marks of the legend.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { STACKED, STATES } from '../src/layout/layout.js';
import { LEGEND } from '../src/timeline/legend.js';

const marks = LEGEND.map(({ mark }) => mark);

test('every state of a thread has its mark, in the order of the states', () => {
  assert.deepEqual(marks.slice(0, STATES.length - 1), STATES.filter((state) => state !== 'absent'));
});

test('shares of a pixel are drawn of every state but those that leave it empty', () => {
  const empty = ['unknown', 'sleeping', 'absent'];
  assert.deepEqual([...STACKED].sort(), STATES.filter((state) => !empty.includes(state)).sort());
});

test('every fill and every look that the layout gives has a mark', () => {
  const body = ['layout', 'cpus', 'threads', 'groups', 'spans'].map((name) => readFileSync(`src/layout/${name}.ts`, 'utf8').replace(/STATE_LOOKS[^;]*;/, '')).join('\n');
  const fills = [...body.matchAll(/'(irq|soft|sys|bar)'/g)].map(([, fill]) => fill);
  const looks = [...body.matchAll(/look: '(\w+)'/g)].map(([, look]) => (look === 'dots' ? 'unknown' : look));
  assert.ok(fills.length > 3 && looks.length > 3);
  for (const mark of [...fills, ...looks, 'late', 'realtime', 'idle', 'shares', 'path']) assert.ok(marks.includes(mark ?? ''), mark);
});

test('each mark is drawn by the style sheet, once in the legend', () => {
  const style = readFileSync('src/style.css', 'utf8');
  for (const mark of marks) assert.ok(style.includes(`.m-${mark} {`) || style.includes(`.m-${mark},`), mark);
  assert.equal(new Set(marks).size, marks.length);
});
