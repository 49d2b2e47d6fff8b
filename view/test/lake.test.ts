// SPDX-License-Identifier: MIT OR Apache-2.0
// The page over a lake: its address, values of answers, pictures, and ways from a row to its picture.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

import { fromFragment, fromWall, sampleOf, whole } from '../src/app/view.js';
import { lookOf } from '../src/common/looks.js';
import type { Shape } from '../src/common/shapes.js';
import { csv } from '../src/draw/copy.js';
import { bytesText, labelsOf, leadText } from '../src/lake/contents.js';
import { type Group, type Place, type Trend, type TrendDay, type WorstRow, groupsOf, trendsOf, worstOf } from '../src/lake/data.js';
import { nextDay } from '../src/lake/days.js';
import { changeText, histogram, lostText, parts, runs, short, tails, trend, visible } from '../src/lake/layout.js';
import { command, pictureAddress, quoted } from '../src/lake/links.js';
import { boundsText, groupCsv, trendCsv, worstCsv } from '../src/lake/tables.js';
import { LAKE_START, chosen, conditionName, dayNumber, dayText, fromLakeFragment, isDay, momentText, onlyGroup, toLakeFragment, toggled } from '../src/lake/view.js';
import { address } from '../src/query/api.js';
import { decode } from '../src/query/columns.js';
import { type Columns, frame } from './frame.js';

const ODD = `a'b"c=d&<img src=x>\n\u202e%`;

test('the address is the view, whatever characters it has', () => {
  const view = { ...LAKE_START, what: 'futex', by: `label:board`, values: '24' as const, first: '2026-11-01', is: [`label:board=${ODD}`, 'host'], quantile: 'max' as const, hide: [ODD, null, ''] };
  assert.deepEqual(fromLakeFragment(toLakeFragment(view)), view);
  assert.deepEqual(fromLakeFragment(''), LAKE_START);
  const odd = fromLakeFragment('#quantile=p42&values=9&first=yesterday&last=2026-1-1&by=&is=&hide=');
  assert.deepEqual(odd, { ...LAKE_START, hide: [null] });
  const asked = new URLSearchParams(address('worst', chosen(view)).split('?')[1]);
  assert.deepEqual(asked.getAll('is'), view.is);
  assert.equal(asked.has('last'), false);
});

test('conditions and groups', () => {
  assert.equal(conditionName(`label:board=${ODD}`), `board: ${ODD}`);
  assert.equal(conditionName('kernel_release'), 'Kernel: not known');
  const view = { ...LAKE_START, by: 'label:board' };
  assert.deepEqual(onlyGroup(view, ODD).is, [`label:board=${ODD}`]);
  assert.deepEqual(onlyGroup(onlyGroup(view, null), null).is, ['label:board']);
  const day = onlyGroup({ ...view, by: 'day' }, '2026-11-27');
  assert.deepEqual([day.first, day.last, day.is.length], ['2026-11-27', '2026-11-27', 0]);
  assert.deepEqual(toggled(toggled(view, null), 'x').hide, [null, 'x']);
  assert.deepEqual(toggled(toggled(view, null), null).hide, []);
});

test('days and moments', () => {
  for (const [number, text] of [[0, '1970-01-01'], [-1, '1969-12-31'], [20_778, '2026-11-21']] as const) {
    assert.equal(dayText(number), text);
    assert.equal(dayNumber(text), number);
    assert.ok(isDay(text));
  }
  for (const text of ['2026-02-30', '2026-13-01', '2026-1-1', 'x', ' 2026-11-21']) assert.equal(isDay(text), false, text);
  assert.equal(momentText(1_795_169_417_123_456_789n), '2026-11-20 10:10:17.123 456 789');
  assert.equal(momentText(-1n), '1969-12-31 23:59:59.999 999 999');
});

const QUANTILES = ['p50', 'p90', 'p99', 'p999', 'p9999'];

function groupFrame(values: readonly (number | null)[], own: Columns = {}): Columns {
  const none = values.map(() => null);
  const quantiles = QUANTILES.flatMap((name) => ['', 'least_', 'most_'].map((bound) => [`${name}_${bound}ns`, ['u64', none]] as const));
  const counts = ['count', 'doubtful', 'lost', 'packets', 'max_ns'].map((name) => [name, ['u64', none]] as const);
  return { value: ['text', values], hosts: ['u32', none], traces: ['u32', none], ...Object.fromEntries(counts), ...Object.fromEntries(quantiles), ...own } as Columns;
}

test('distributions: counts, bounds, and what is not known', () => {
  const answer = decode(
    frame(
      {
        groups: groupFrame([0, null], { count: ['u64', [1000, 3]], lost: ['u64', [0, 7]], max_ns: ['u64', [900, 80]], p50_ns: ['u64', [100, 50]], p50_least_ns: ['u64', [99, 0]], p50_most_ns: ['u64', [100, null]] }),
        buckets: { group: ['u32', [1, 0, 0]], low_ns: ['u64', [50, 200, 100]], high_ns: ['u64', [51, 201, 101]], count: ['u64', [3, 400, 600]] },
      },
      { texts: [ODD] },
    ),
  );
  const [first, second] = groupsOf(answer);
  assert.ok(first && second);
  assert.deepEqual([first.value, first.count, first.buckets.map(({ low }) => low)], [ODD, 1000, [100, 200]]);
  assert.deepEqual(first.quantiles.max, { value: 900, least: 900, most: 900 });
  assert.deepEqual([second.value, second.quantiles.p90, second.quantiles.max?.most], [null, null, null]);
  assert.equal(boundsText(first.quantiles.p50, false), '100 ns');
  assert.equal(boundsText(second.quantiles.p50, true), '0 ns to ?');
  assert.equal(boundsText(null, true), 'too few');
  const rows = csv(groupCsv([first, second])).split('\r\n');
  assert.ok(rows[1]?.startsWith('"a\'b""c=d&<img src=x>'), rows[1]);
  assert.ok(rows[2]?.startsWith(',0,0,3,0,7,0,50,0,,'), rows[2]);
});

const lines = (shapes: readonly Shape[], colour: string): Extract<Shape, { kind: 'line' }>[] =>
  shapes.filter((shape): shape is Extract<Shape, { kind: 'line' }> => shape.kind === 'line' && shape.stroke.colour === colour);

function group(row: number, buckets: [low: number, high: number, count: number][]): Group {
  const none = Object.fromEntries([...QUANTILES, 'max'].map((name) => [name, null])) as Group['quantiles'];
  const count = buckets.reduce((sum, [, , count]) => sum + count, 0);
  return { row, value: `g${row}`, hosts: 1, traces: 1, count, doubtful: 0, lost: 0, packets: 0, quantiles: none, buckets: buckets.map(([low, high, count]) => ({ low, high, count })) };
}

test('pictures of distributions: shares add up, tails fall, hidden groups keep the looks of the others', () => {
  const groups = [group(0, [[100, 101, 600], [1000, 1007, 400]]), group(1, [[50_000, 50_200, 1]])];
  assert.ok(Math.abs(parts(groups[0]?.buckets ?? []).reduce((sum, { share }) => sum + share, 0) - 1) < 1e-9);
  const both = visible(groups, []);
  assert.deepEqual(visible(groups, ['g0']).map(({ look }) => look.colour), [both[1]?.look.colour]);
  for (const picture of [histogram(both, 600), tails(both, 600)]) {
    for (const shape of picture.shapes) {
      const points = shape.kind === 'line' ? shape.points : shape.kind === 'text' ? [[shape.x, shape.y] as const] : [];
      for (const [x, y] of points) assert.ok(x >= 0 && x <= 600 && y >= 0 && y <= picture.height, JSON.stringify(shape));
    }
  }
  const falls = lines(tails(both, 600).shapes, 'a').filter(({ stroke }) => stroke.width === 1.6);
  assert.equal(falls.length, 1);
  const points = falls[0]?.points ?? [];
  points.reduce((before, now) => {
    assert.ok(now[0] >= before[0] && now[1] >= before[1] - 1e-9, 'to the right and down');
    return now;
  });
  // Between two heaps the line of a histogram goes down to the axis.
  assert.equal(lines(histogram(both, 600).shapes, 'a').filter(({ stroke }) => stroke.width === 1.6).length, 2);
  assert.equal(histogram([], 600).shapes.filter(({ kind }) => kind === 'text').length, 1);
});

const day = (number: number, value: number | null, lost = 0, most: number | null = value): TrendDay => ({ day: number, count: value === null ? 0 : 100, bounds: value === null ? null : { value, least: lost ? value / 2 : value, most }, lost, packets: 0 });

test('trends: holes, days with losses, changes of the level', () => {
  const of: Trend = {
    row: 0,
    value: ODD,
    why: null,
    days: [day(10, 100), day(11, 110), day(13, 105), day(14, 220, 5, null), day(15, null, 9)],
    changes: [{ row: 0, day: 14, before: 105, after: 220, daysBefore: 3, daysAfter: 1, p: 0.01, doubt: 'lost' }],
  };
  assert.deepEqual(runs(of.days).map((run) => run.map(({ day }) => day)), [[10, 11], [13, 14]]);
  const { shapes } = trend(visible([of], []), 'p99', 800);
  const dots = shapes.filter((shape): shape is Extract<Shape, { kind: 'dot' }> => shape.kind === 'dot' && shape.day !== undefined);
  assert.deepEqual(dots.map(({ day, fill }) => [day, fill]), [[10, 'a'], [11, 'a'], [13, 'a'], [14, 'bg']]);
  assert.match(dots[3]?.tip ?? '', /1970-01-15: p99 220 ns, 100 samples; 5 records lost, so it lies between 110 ns and \?$/);
  assert.equal(shapes.filter((shape) => shape.kind === 'box' && shape.fill === 'loss').length, 2, 'also where nothing is known of the day');
  assert.ok(shapes.some((shape) => shape.kind === 'text' && shape.text === '2.1 times ?'));
  assert.equal(lines(shapes, 'ink').length, 1);
  assert.equal(trend(visible([{ ...of, days: [] }], []), 'p99', 800).shapes.length, 1);
  const only = trend(visible([{ ...of, days: [day(7, 5)], changes: [] }], []), 'max', 800).shapes.filter((shape) => shape.kind === 'dot');
  assert.equal(only.length, 1);
  assert.deepEqual([changeText(100, 135), changeText(100, 50), changeText(100, 300), changeText(0, 1)], ['+35 %', '−50 %', '3.0 times', '']);
  assert.equal(lostText(1234, 2), '1 234 records and 2 packets');
  assert.deepEqual([short(1e6), short(1e3), short(1.5e9), short(10)], ['1 ms', '1 µs', '1.5 s', '10 ns']);
  const rows = csv(trendCsv([of])).split('\r\n');
  assert.equal(rows.length, 7);
  assert.ok(rows[4]?.endsWith(',1970-01-15,100,220,110,,5,0,105,0.01,lost'), rows[4]);
});

test('trends and changes of an answer', () => {
  const answer = decode(
    frame(
      {
        groups: { value: ['text', [0]], days: ['u32', [2]], count: ['u64', [9]], why: ['text', [null]] },
        days: { group: ['u32', [0, 0]], day: ['i32', [11, 10]], count: ['u64', [5, 4]], value_ns: ['u64', [null, 7]], least_ns: ['u64', [null, 7]], most_ns: ['u64', [null, null]], lost: ['u64', [1, 0]], packets: ['u64', [0, 0]] },
        changes: { group: ['u32', [0]], day: ['i32', [11]], before_ns: ['u64', [7]], after_ns: ['u64', [9]], days_before: ['u32', [8]], days_after: ['u32', [9]], p: ['f64', [0.001]], doubt: ['text', [null]] },
      },
      { texts: ['x'] },
    ),
  );
  const [of] = trendsOf(answer);
  assert.deepEqual(of?.days.map(({ day, bounds }) => [day, bounds?.value ?? null]), [[10, 7], [11, null]]);
  assert.deepEqual(of?.changes[0], { row: 0, day: 11, before: 7, after: 9, daysBefore: 8, daysAfter: 9, p: 0.001, doubt: null });
});

const ID = '0123456789abcdef0123456789abcdef';
const place = (own: Partial<Place> = {}): Place => ({ trace: ID, place: '/traces/a b', addedOn: 'box', isCopy: false, isHere: true, labels: [['board', ODD]], ...own });
const row = (own: Partial<WorstRow> = {}): WorstRow => ({ row: 0, time: 1_795_000_000_000_000_123n, endTime: 1_795_000_000_000_500_123n, ns: 500_000, of: '', host: 'box', thread: 'a[7]', tid: 7, cpu: 1, by: '', doubt: '', place: place(), ...own });

test('from a row to its picture', () => {
  const link = pictureAddress(row(), 'wakeup') ?? '';
  assert.ok(link.startsWith(`t/${ID}/#`));
  const base = 1_795_000_000_000_000_000n;
  const all = whole(10_000_000n);
  const view = fromFragment(fromWall(link.slice(link.indexOf('#')), base), all);
  assert.deepEqual([view.page, view.a, view.b, view.tid, view.at], ['timeline', 123n, 500_123n, 7, 500_123n]);
  assert.equal(view.sample, sampleOf('wakeup', 7, 123n, 500_123n));
  assert.ok(view.from < 123n && view.to > 500_123n);
  assert.equal(fromWall('#page=start&from=1&to=2', base), '#page=start&from=1&to=2');
  assert.equal(fromWall('#wall=x~1', base), '#wall=x~1');
  // As the command line prints it.
  const window = fromFragment(fromWall(`#window=${base + 1000n}~${base + 5000n}`, base), all);
  assert.deepEqual([window.page, window.from, window.to, window.a], ['timeline', 1000n, 5000n, null]);
  for (const own of [{ place: null }, { time: null }, { place: place({ isHere: false }) }, { place: place({ trace: '../../x' }) }]) assert.equal(pictureAddress(row(own), 'wakeup'), null);
});

test('the command for another machine is one that a shell takes as it is meant', () => {
  assert.deepEqual(command(row()), { where: 'on the host box', lines: ["kymo view '/traces/a b' --from 1794999999999750123 --to 1795000000000750123"] });
  assert.deepEqual(command(row({ place: place({ isCopy: true, place: 's3://b/l/_kymo/traces/x-1/t' }) }))?.lines, [
    'aws s3 cp --recursive s3://b/l/_kymo/traces/x-1/t kymo-01234567',
    'kymo view kymo-01234567 --from 1794999999999750123 --to 1795000000000750123',
  ]);
  assert.match(command(row({ place: place({ isCopy: true, place: 'az://c/x' }) }))?.lines[0] ?? '', /^rclone copy az:/);
  assert.match(command(row({ place: place({ isCopy: true, place: '/lake/_kymo/traces/x' }) }))?.where ?? '', /box/);
  for (const own of [{ place: null }, { time: null }]) assert.equal(command(row(own)), null);
  for (const text of ['plain/x', "a'b", '-rf', '$(id)', '`id`', 'a\nb\\c\x1b[31m', '', 'ü "x" \u202e', "\n'\\n"]) {
    const said = spawnSync('bash', ['-c', `printf %s ${quoted(text)}`]);
    assert.equal(said.stdout.toString(), text, quoted(text));
  }
});

test('the longest samples of an answer, also where nearly nothing is known', () => {
  const none: Columns = Object.fromEntries(['of', 'host', 'name', 'by', 'doubt'].map((name) => [name, ['text', [null, null]]]));
  const answer = decode(
    frame(
      {
        rows: { ...none, name: ['text', [0, null]], host: ['text', [1, null]], time: ['i64', [5n, null]], end_time: ['i64', [9n, null]], prio: ['i64', [null, null]], value_ns: ['u64', [4, 3]], addition: ['u32', [0, null]], tid: ['u32', [7, null]], pid: ['u32', [null, null]], cpu: ['u32', [0, null]], by_tid: ['u32', [0, null]], owner_tid: ['u32', [3, null]] },
        additions: { trace: ['text', [2]], place: ['text', [3]], added_on: ['text', [1]], is_copy: ['u8', [0]], is_here: ['u8', [1]], has_wall_clock: ['u8', [1]] },
        labels: { addition: ['u32', [0]], key: ['text', [4]], value: ['text', [0]] },
      },
      { texts: [ODD, 'box', ID, '/t', 'board'] },
    ),
  );
  const [first, second] = worstOf(answer);
  assert.deepEqual([first?.thread, first?.by, first?.place?.labels], [`${ODD}[7]`, 'woken by [0], held by [3]', [['board', ODD]]]);
  assert.deepEqual([second?.thread, second?.time, second?.place], ['', null, null]);
  assert.equal(csv(worstCsv(worstOf(answer))).split('\r\n').at(-2), '3,,,,,,,,,,,,');
});

test('what is in the lake, in one sentence', () => {
  const make = (additions: number, days: (number | null)[]): string =>
    leadText(
      decode(
        frame(
          { additions: { rows: ['u64', Array.from({ length: additions }, () => 1)] }, hosts: { host: ['text', [0, null]], additions: ['u32', [1, 1]] }, days: { day: ['i32', days], additions: ['u32', days.map(() => 1)] } },
          { texts: ['box'], info: { rows: 1234, bytes: 5_000_000 } },
        ),
      ),
    );
  assert.equal(make(2, [null, 20_778, 20_779]), '2 traces of 1 host, 2026-11-21 to 2026-11-22: 1 234 rows, 4.8 MiB.');
  assert.equal(make(1, [20_778]), '1 trace of 1 host, 2026-11-21: 1 234 rows, 4.8 MiB.');
  assert.equal(make(1, [null]), '1 trace of 1 host, days unknown: 1 234 rows, 4.8 MiB.');
  assert.equal(make(0, []), 'The lake is empty.');
  assert.equal(bytesText(900), '900 B');
  const labels = labelsOf(decode(frame({ labels: { key: ['text', [0, 0]], value: ['text', [1, 0]], additions: ['u32', [1, 2]] } }, { texts: ['board', ODD] })));
  assert.deepEqual([...labels], [['board', [{ value: ODD, additions: 1 }, { value: 'board', additions: 2 }]]]);
});

test('arrows lead from day to day, and to the nearest day of another group', () => {
  const days = [10, 11, 13].map((day) => ({ group: 0, day })).concat([{ group: 2, day: 12 }, { group: 2, day: 20 }]);
  const from = (place: number, key: string): unknown => nextDay(days, place, key);
  assert.deepEqual([from(0, 'ArrowRight'), from(1, 'ArrowRight'), from(2, 'ArrowRight'), from(0, 'ArrowLeft')], [1, 2, null, null]);
  assert.deepEqual([from(0, 'ArrowDown'), from(2, 'ArrowDown'), from(4, 'ArrowUp'), from(3, 'ArrowUp'), from(3, 'ArrowDown')], [3, 3, 2, 1, null]);
  assert.deepEqual([from(1, 'Home'), from(1, 'End'), from(4, 'Home'), from(1, 'x'), from(9, 'End')], [0, 2, 3, null, null]);
});

test('looks of 24 groups are all different', () => {
  const looks = Array.from({ length: 24 }, (_, place) => lookOf(place));
  assert.equal(new Set(looks.map(({ colour, dashes }) => `${colour} ${dashes.join()}`)).size, 24);
});
