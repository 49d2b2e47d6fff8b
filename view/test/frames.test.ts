// SPDX-License-Identifier: MIT OR Apache-2.0
// Work that is done little by little, one part a frame, and the address while the window moves.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { App } from '../src/app/app.js';
import { moved } from '../src/app/view.js';
import { Turns } from '../src/common/dom.js';
import { type Steps, finished, inParts } from '../src/common/steps.js';
import type { Client } from '../src/query/api.js';
import { decode } from '../src/query/columns.js';
import { frame } from './frame.js';

/** Work of five steps, a millisecond each. */
function work(): { steps: Steps<string>; clock: () => number; done: number[] } {
  let ms = 0;
  const done: number[] = [];
  function* steps(): Steps<string> {
    for (let step = 0; step < 5; step++) {
      ms++;
      done.push(step);
      yield;
    }
    return 'all';
  }
  return { steps: steps(), clock: () => ms, done };
}

test('work goes on for its time in each frame, and gives what it gives at once', async () => {
  const { steps, clock, done } = work();
  const frames: number[] = [];
  const goOn = (): Promise<boolean> => {
    frames.push(done.length);
    return Promise.resolve(true);
  };
  assert.equal(await inParts(steps, { goOn, clock, most_ms: 2 }), 'all');
  assert.deepEqual(frames, [0, 2, 4]);
  assert.equal(finished(work().steps), 'all');
});

test('work that nobody wants any more is left', async () => {
  const { steps, clock, done } = work();
  const goOn = (): Promise<boolean> => Promise.resolve(done.length < 2);
  assert.equal(await inParts(steps, { goOn, clock, most_ms: 1 }), null);
  assert.deepEqual(done, [0, 1]);
});

/** A browser whose frames come when a test says so. */
function browser(isHidden = false): { next: () => Promise<void> } {
  let asked: ((frame: number) => void)[] = [];
  let now = 0;
  Object.assign(globalThis, { document: { hidden: isHidden }, requestAnimationFrame: (go: (frame: number) => void) => asked.push(go) });
  const next = async (): Promise<void> => {
    const these = asked;
    [asked, now] = [[], now + 16];
    these.forEach((go) => go(now));
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { next };
}

test('of larger pieces of work one is done in a frame, in their order', async () => {
  const { next } = browser();
  const turns = new Turns();
  const done: string[] = [];
  for (const name of ['a', 'b', 'c']) void turns.take().then(() => done.push(`${name}${turns.frame}`));
  await next();
  assert.deepEqual(done, ['a16']);
  await next();
  await next();
  assert.deepEqual(done, ['a16', 'b32', 'c48']);
  await next();
  assert.equal(turns.frame, 48, 'no frame is taken without work');
});

test('a page that nobody sees has no frames, and waits for none', async () => {
  browser(true);
  await new Turns().take();
});

test('the address has the last of many small moves, and not what somebody else wrote meanwhile', () => {
  const location = { hash: '#page=timeline' };
  let written = 0;
  const history = { replaceState: (_state: null, _title: string, hash: string) => [(location.hash = hash), written++] };
  const timers = new Map<number, () => void>();
  const { setTimeout, clearTimeout } = globalThis;
  let set = 0;
  const later = (go: () => void): number => {
    timers.set(++set, go);
    return set;
  };
  const pass = (): void => {
    for (const go of timers.values()) go();
    timers.clear();
  };
  Object.assign(globalThis, { location, history, setTimeout: later, clearTimeout: (id: number | undefined) => timers.delete(id ?? -1) });
  const summary = decode(frame({}, { from: 0, to: 1_000_000 }));
  const app = new App(summary, '#page=timeline&from=0&to=1000', {} as Client);
  const from = (): string | null => new URLSearchParams(location.hash.slice(1)).get('from');
  const step = (): void => app.go(moved(app.view, 1, app.whole), true);
  app.go({ ...app.view, tid: 7 });
  assert.deepEqual([written, from()], [1, '0'], 'a step of its own is written at once');
  for (let i = 0; i < 3; i++) step();
  assert.deepEqual([written, from()], [1, '0']);
  pass();
  assert.deepEqual([written, from()], [2, '3000']);
  step();
  location.hash = '#page=start';
  pass();
  assert.deepEqual([written, location.hash], [2, '#page=start'], 'where somebody wants to go stays in the address');
  Object.assign(globalThis, { setTimeout, clearTimeout });
});
