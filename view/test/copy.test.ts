// SPDX-License-Identifier: MIT OR Apache-2.0
// Bookmarks, and copies of what is shown: the parts that need no browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Palette } from '../src/common/palette.js';
import { type Shown, csv, field, fileName, svg, timelineCsv } from '../src/draw/copy.js';
import { newMark, toKept, toMarks } from '../src/timeline/bookmarks.js';

const BASE = 1_700_000_000_123_456_789n;

test('bookmarks come back as they were kept, in the order of time', () => {
  const marks = [
    { at: 5n, to: null, text: '<b>' },
    { at: -3n, to: 9n, text: '' },
  ];
  const kept = toKept(marks, BASE);
  assert.deepEqual(kept[0], { at: '1700000000123456794', to: null, text: '<b>' });
  assert.deepEqual(toMarks(kept, BASE), [marks[1], marks[0]]);
  assert.equal(toKept([{ at: 0n, to: null, text: 'x'.repeat(3000) }], BASE)[0]?.text.length, 2000);
});

test('a new bookmark is of the stretch between cursors, of the moment, or of the middle', () => {
  const view = { a: 20n, b: 10n, at: 7n, from: 0n, to: 100n };
  assert.deepEqual(newMark(view), { at: 10n, to: 20n, text: '' });
  assert.deepEqual(newMark({ ...view, b: null }), { at: 7n, to: null, text: '' });
  assert.deepEqual(newMark({ ...view, a: null, b: null, at: null }), { at: 50n, to: null, text: '' });
});

test('CSV is quoted, and no cell is a formula', () => {
  assert.equal(field('a,"b"'), '"a,""b"""');
  for (const text of ["=cmd|'/c calc'!A0", '+1', '-1', '@x', '\tx']) assert.match(field(text), /^"?'/, text);
  assert.equal(field('a\u001b\u202eb'), 'a\u{fffd}\u{fffd}b');
  assert.deepEqual([field(null), field(-5), field(2n ** 63n)], ['', '-5', '9223372036854775808']);
  assert.equal(csv([['a', 1], ['b,', null]]), 'a,1\r\n"b,",\r\n');
});

function shown(label: string): Shown {
  const tip = { text: label, from: 10, to: 30, tid: 7 };
  const piece = { x0: 0, x1: 400, y: 2, h: 18, fill: 'run' as const, label, tip };
  const hole = { x0: 5, x1: 9, y: 2, h: 18, fill: null, look: 'hole' as const };
  const row = { key: 'x', title: label, detail: 'd', tid: 7, height: 34, pieces: [piece, hole], late: [] };
  const lines = [
    { title: 'Threads', detail: '', top: 0, height: 20, row: null, a: 1, b: 0, from: 0n },
    { title: label, detail: 'd', top: 20, height: 34, row, a: 1, b: 0, from: 1000n },
  ];
  return { lines, width: 500, height: 54, labels: 208, ruler: 30, ticks: [{ x: 3, text: '1.5' }], base: BASE };
}

const colours = new Proxy({}, { get: (_, name) => `#${String(name)}` }) as Palette;

test('CSV of the time line has times since 1970', () => {
  const text = timelineCsv(shown('<b>"x",'));
  assert.equal(text.split('\r\n')[1], `"<b>""x"",",${BASE + 1010n},${BASE + 1030n},20,"<b>""x"",",7`);
});

test('names are text in SVG, and nothing else', () => {
  const image = svg(shown('</text><script>alert(1)</script>\u0000&"\''), colours);
  assert.ok(!image.includes('<script') && image.includes('&lt;script&gt;') && !image.includes('\u0000'));
  // Every tag is closed: the picture is XML.
  const open: string[] = [];
  for (const [, slash, name, , end] of image.matchAll(/<(\/?)([a-z]+)((?: [^<>]*?)?)(\/?)>/g)) {
    if (slash) assert.equal(open.pop(), name);
    else if (!end) open.push(name ?? '');
  }
  assert.deepEqual(open, []);
  assert.ok(image.includes('url(#hole)') && image.includes('fill="#run"') && image.includes('width="708"'));
});

test('file names are plain', () => {
  assert.equal(fileName('../../etc/x y<b>', 'svg'), 'kymo-etc-x-y-b.svg');
  assert.equal(fileName('\u202e', 'csv'), 'kymo-trace.csv');
});
