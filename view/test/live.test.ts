// SPDX-License-Identifier: MIT OR Apache-2.0
// What a page makes of a trace that is being written, without a browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { App } from '../src/app/app.js';
import { type News, behindText, edgeOf, lostText, newsOf, filling, FOLLOWED } from '../src/app/live.js';
import { MIN_LENGTH, whole } from '../src/app/view.js';
import { later } from '../src/common/dom.js';
import { Client } from '../src/query/api.js';
import { decode } from '../src/query/columns.js';
import { frame } from './frame.js';

const NEWS: News = { number: 3, state: 'live', base: '1700000000000000000', to: 5000, records: 7, lost: null, problem: null, behind_ns: 300_000_000 };

test('news are taken as they are, and what is none is refused', () => {
  assert.deepEqual(newsOf(JSON.parse(JSON.stringify(NEWS))), NEWS);
  assert.equal(newsOf({ number: 0, state: 'whole', base: '-5', to: 9 }).records, null);
  for (const wrong of [null, 5, [], {}, { ...NEWS, state: 'odd' }, { ...NEWS, number: '3' }, { ...NEWS, base: '1e9' }, { ...NEWS, to: null }, { ...NEWS, records: 'many' }]) {
    assert.throws(() => newsOf(wrong), /something else than news/, JSON.stringify(wrong));
  }
});

test('the edge keeps the length of the window, and begins at the first record', () => {
  const view = { ...whole(10_000n), from: 4000n, to: 6000n };
  assert.deepEqual([edgeOf(view, 9000n).from, edgeOf(view, 9000n).to], [7000n, 9000n]);
  assert.deepEqual([edgeOf(view, 1500n).from, edgeOf(view, 1500n).to], [0n, 1500n]);
  assert.equal(edgeOf(view, 0n).to, 100n, 'a window has a length');
});

test('how old the picture is counts on while nothing comes', () => {
  assert.equal(behindText(NEWS, 0), '0.3 s behind');
  assert.equal(behindText(NEWS, 900), '1.2 s behind');
  assert.equal(behindText(NEWS, 60_000), 'nothing new for 60.000 s');
  assert.equal(behindText({ ...NEWS, behind_ns: null }, 5), 'no record yet');
  assert.equal(behindText({ ...NEWS, state: 'ended' }, 5), 'has ended');
  assert.match(behindText({ ...NEWS, problem: 'the trace is gone' }, 0), /behind: the trace is gone/);
  assert.deepEqual([lostText(null), lostText({ records: 0, packets: 0, places: 0 })], ['', '']);
  assert.equal(lostText({ records: 1200, packets: 2, places: 1 }), '1 200 records and 2 packets lost');
});

test('times stay what they were when the first record becomes another one', () => {
  globalThis.history ??= { replaceState: () => {} } as unknown as typeof globalThis.history;
  const summary = decode(frame({}, { base: '1000', to: 500 }));
  const app = new App(summary, '#page=timeline&from=100&to=300&at=150', new Client());
  app.grow(1000n, 900n);
  assert.deepEqual([app.view.from, app.view.to, app.whole.to], [100n, 300n, 900n]);
  app.grow(960n, 1000n);
  assert.deepEqual([app.base, app.view.from, app.view.to, app.view.at, app.view.a], [960n, 140n, 340n, 190n, null]);
});

test('only a move of the window is a move', () => {
  const app = new App(decode(frame({}, { base: '0', to: 5000 })), '', new Client());
  let moves = 0;
  app.onMoved = () => moves++;
  app.go({ ...app.view, tab: 'worst' });
  app.go({ ...app.view, page: 'timeline' });
  assert.equal(moves, 0);
  app.show({ ...app.view, from: 10n });
  assert.equal(moves, 0, 'what follows does not pause itself');
  app.go({ ...app.view, from: 20n });
  assert.equal(moves, 1);
});

test('calls that never end do not hold something up for ever', async () => {
  let calls = 0;
  const call = later(50, () => calls++, 120);
  const end = Date.now() + 700;
  while (Date.now() < end) {
    call();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.ok(calls >= 2, `${calls} calls`);
});

test('a trace that has just begun is shown whole until it is as long as what is followed', () => {
  const view = whole(300_000_000n);
  assert.deepEqual(filling(view, 2_000_000_000n), { ...view, to: 2_000_000_000n });
  assert.equal(filling(view, FOLLOWED), null);
  assert.deepEqual(filling(view, 3n), { ...view, to: MIN_LENGTH }, 'no shorter than a window may be');
});
