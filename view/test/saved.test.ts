// SPDX-License-Identifier: MIT OR Apache-2.0
// Pages that were saved: which answer a window gets, and what is not in it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { type Entry, SavedClient, SavedPage, finest, ofThreads, recordsFrom, threadOrder } from '../src/app/saved.js';
import { finished } from '../src/common/steps.js';
import { Refused } from '../src/query/api.js';
import { type Answer, decode } from '../src/query/columns.js';
import { eachShare, shareColumns, sharesOf } from '../src/query/shares.js';
import { frame } from './frame.js';

const pack = (buffer: ArrayBuffer): string => gzipSync(Buffer.from(buffer)).toString('base64');
const tile = (level: number, from: number, to: number): Entry => ({ question: 'cpus', data: '', level, from, to, pixels: 10 });

test('a window gets the finest answer that holds all of it', () => {
  const entries = [tile(0, 100, 900), tile(1, 100, 300), tile(1, 200, 400), tile(2, 200, 250)];
  const found = (from: number, to: number): number[] | undefined => {
    const entry = finest(entries, from, to);
    return entry ? [entry.from ?? 0, entry.to ?? 0] : undefined;
  };
  assert.deepEqual(found(210, 240), [200, 250]);
  assert.deepEqual(found(210, 260), [100, 300]);
  assert.deepEqual(found(290, 310), [200, 400]);
  assert.deepEqual(found(390, 410), [100, 900]);
  assert.deepEqual(found(-50, 5000), [100, 900], 'more than there is: all there is');
  assert.deepEqual(found(50, 150), [100, 300], 'what is outside does not count');
  assert.equal(finest([], 0, 1), null);
});

function records(times: number[], row: number, more: boolean, before: number[] = []): Answer {
  const many = (value: number): number[] => times.map(() => value);
  return decode(
    frame(
      {
        records: { time: ['i64', times.map(BigInt)], event: ['text', many(0)], cpu: ['u32', times.map((_, at) => row + at)] },
        losses: { from: ['i64', before.map(BigInt)], before: ['u32', before] },
      },
      { texts: ['e'], info: { has_more: more } },
    ),
  );
}

test('records are found by time and by row, over pages', () => {
  const pages = [records([10, 20, 20, 30], 0, true, [2]), records([40, 50], 4, true)];
  const cpus = (from: bigint, to: bigint, row: number, limit: number): unknown => {
    const found = recordsFrom(pages, from, to, row, limit);
    return found && [Array.from({ length: found.table('records').rows }, (_, at) => found.table('records').number('cpu', at)), found.head.info['has_more']];
  };
  assert.deepEqual(cpus(0n, 100n, 0, 10), [[0, 1, 2, 3], true]);
  assert.deepEqual(cpus(0n, 100n, 4, 10), [[4, 5], false]);
  assert.deepEqual(cpus(20n, 100n, 0, 2), [[1, 2], true]);
  assert.deepEqual(cpus(20n, 30n, 0, 10), [[1, 2], false], 'up to the end of the window');
  assert.deepEqual(cpus(21n, 100n, 2, 10), [[5], false]);
  assert.equal(cpus(60n, 100n, 0, 10), null);
  const lossy = recordsFrom(pages, 20n, 100n, 0, 10);
  assert.deepEqual([lossy?.table('losses').rows, lossy?.table('losses').number('before', 0)], [1, 1]);
});

const THREADS = {
  tid: ['i32', [5, 6, 7]],
  name: ['text', [0, 1, null]],
  worst_ns: ['u64', [10, 30, null]],
  running_ns: ['u64', [3, 1, 2]],
  wakeups: ['u32', [1, 1, 9]],
  process: ['i32', [6, 5, null]],
  ...Object.fromEntries(['preempted', 'woken', 'gave_way', 'lock', 'uninterruptible', 'page_fault', 'waiting', 'sleeping', 'stopped'].map((state, at) => [`${state}_ns`, ['u64', [at, 0, 100]]] as const)),
} as const;

test('saved threads are in the order that is asked for', () => {
  const table = decode(frame({ threads: { ...THREADS } }, { texts: ['b', 'a'] })).table('threads');
  const tids = (by: string, match = ''): (number | null)[] => threadOrder(table, by, match).map((row) => table.number('tid', row));
  assert.deepEqual(tids('worst'), [6, 5, 7]);
  assert.deepEqual(tids('running'), [5, 7, 6]);
  assert.deepEqual(tids('waiting'), [7, 5, 6]);
  assert.deepEqual(tids('wakeups'), [7, 5, 6]);
  assert.deepEqual(tids('name'), [7, 6, 5]);
  assert.deepEqual(tids('process'), [7, 6, 5]);
  assert.deepEqual(tids('tid'), [5, 6, 7]);
  assert.deepEqual([tids('worst', 'a'), tids('worst', '7'), tids('worst', 'x')], [[6], [7], []]);
});

test('pictures have only the threads that are asked for', () => {
  const answer = decode(frame({ rows: { tid: ['i32', [5, 6, 7]] }, spans: { tid: ['i32', [7, 5, 6, 7]], state: ['u8', [1, 2, 3, 4]] }, losses: { from: ['i64', [1n]] } }));
  const found = ofThreads(answer, [7, 5]);
  const column = (table: string, name: string): unknown => Array.from({ length: found.table(table).rows }, (_, row) => found.table(table).number(name, row));
  assert.deepEqual([column('rows', 'tid'), column('spans', 'state'), found.table('losses').rows], [[7, 5], [1, 2, 4], 1]);
});

test('pixels of several states keep their own shares when other threads are left out', () => {
  const mixed = { tid: ['i32', [5, 6, 7]], pixel: ['u32', [1, 1, 2]], states: ['u16', [0b1, 0b1010, 0b10000000100]] } as const;
  const answer = decode(frame({ mixed, shares: { share: ['f32', [1, 0.25, 0.75, 0.5, 0.5]] } }));
  const found = ofThreads(answer, [7, 6]);
  const shares = sharesOf(found);
  const of = (row: number): [number, number][] => {
    const all: [number, number][] = [];
    eachShare(shares, row, (state, share) => all.push([state, share]));
    return all;
  };
  assert.deepEqual([found.table('mixed').rows, of(0), of(1)], [2, [[1, 0.25], [3, 0.75]], [[2, 0.5], [10, 0.5]]]);
  const columns = finished(shareColumns(sharesOf(answer)));
  assert.deepEqual([...columns].map(([state, column]) => [state, ...column]), [[0, 1, 0, 0], [1, 0, 0.25, 0], [3, 0, 0.75, 0], [2, 0, 0, 0.5], [10, 0, 0, 0.5]]);
});

test('a saved page answers with what it has, and says what it has not', async () => {
  const picture = (from: number, to: number): string => pack(frame({ rows: { cpu: ['u32', [1]] } }, { from, to }));
  const page = new SavedPage({
    version: 1,
    name: 't',
    from: 100,
    to: 1100,
    is_exact: false,
    left_out: [],
    entries: [
      { question: 'summary', data: pack(frame({}, { base: '7' })) },
      { question: 'worst', data: pack(frame({ points: { tid: ['i32', [1]] } })) },
      { question: 'places', data: '', error: { kind: 'trace', message: 'no', parameter: null, hint: 'record more' } },
      { question: 'cpus', data: picture(100, 1100), level: 0, from: 100, to: 1100, pixels: 10, exact: false },
      { question: 'cpus', data: picture(100, 350), level: 1, from: 100, to: 350, pixels: 10, exact: true },
    ],
  });
  const client = new SavedClient(page);
  assert.equal((await client.ask('a', 'summary', {}))?.head.base, '7');
  const near = await client.ask('a', 'cpus', { from: '@110', to: '@120', pixels: 1000 });
  assert.deepEqual([near?.head.to, near?.head.info['pixels'], near?.head.notes], [350, 10, []]);
  const far = await client.ask('a', 'cpus', { from: '@110', to: '@900', pixels: 1000 });
  assert.deepEqual([far?.head.to, far?.head.notes], [1100, ['Saved at 100 ns a pixel.']]);
  assert.deepEqual((await client.ask('a', 'worst', { from: '@110', to: '@120' }))?.head.notes, ['Of the whole saved stretch.']);
  assert.deepEqual((await client.ask('a', 'worst', { from: '@100', to: '@1100' }))?.head.notes, []);
  const refused = (question: string, parameters: Record<string, string> = {}): Promise<void> => assert.rejects(client.ask('a', question, parameters), Refused);
  await refused('places');
  await refused('search', { filter: 'x' });
  await refused('cpus', { filter: '$cpu == 1' });
  await refused('explain');
});
