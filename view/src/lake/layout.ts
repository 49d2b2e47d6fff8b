// SPDX-License-Identifier: MIT OR Apache-2.0
// Pictures of the page over a lake: from values to shapes. Pure.

import { type Look, lookOf } from '../common/looks.js';
import type { Picture, Shape } from '../common/shapes.js';
import { duration, grouped } from '../common/time.js';
import { logScale, type LogScale } from '../layout/histograms.js';
import { type Bucket, type Group, type Trend, type TrendDay, isLossy } from './data.js';
import { dayText, valueName } from './view.js';

export const HEIGHT = 260;
const LEFT = 56;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = HEIGHT - 22;
/** Parts of each factor of two in a histogram. */
const PARTS = 4;
/** px between two days that have a text. */
const DAY_APART = 76;

/** What is drawn: a group with its look, which is that of its place among all groups. */
export interface Drawn<T> {
  of: T;
  look: Look;
}

/** The groups that are drawn. */
export function visible<T extends { row: number; value: string | null }>(groups: readonly T[], hide: readonly (string | null)[]): Drawn<T>[] {
  return groups.filter((group) => !hide.includes(group.value)).map((of) => ({ of, look: lookOf(of.row) }));
}

/** `1 ms`, and not `1.000 ms`. */
export function short(ns: number): string {
  return duration(ns).replace(/\.0+ /, ' ').replace(/(\.\d*?)0+ /, '$1 ');
}

/** The share of samples in parts of a scale on which each factor of two has PARTS parts. */
export function parts(buckets: readonly Bucket[]): { low: number; high: number; share: number }[] {
  const total = buckets.reduce((sum, { count }) => sum + count, 0);
  const found = new Map<number, number>();
  for (const { low, high, count } of buckets) {
    const part = Math.floor(Math.log2(Math.max(1, (low + high) / 2)) * PARTS);
    found.set(part, (found.get(part) ?? 0) + count);
  }
  const edge = (part: number): number => 2 ** (part / PARTS);
  return [...found].sort(([a], [b]) => a - b).map(([part, count]) => ({ low: edge(part), high: edge(part + 1), share: count / total }));
}

function lengths(groups: readonly Drawn<Group>[], width: number): LogScale | null {
  const buckets = groups.flatMap(({ of }) => of.buckets);
  if (!buckets.length) return null;
  const low = Math.min(...buckets.map((bucket) => Math.max(1, bucket.low)));
  const high = Math.max(...buckets.map((bucket) => bucket.high)) + 1;
  return logScale(low, high, LEFT, width - RIGHT);
}

function lengthAxis(x: LogScale, width: number): Shape[] {
  return x.ticks.flatMap((ns, place): Shape[] => {
    const at = Math.round(x.at(ns));
    const isLast = place === x.ticks.length - 1;
    return [
      { kind: 'line', points: [[at + 0.5, TOP], [at + 0.5, BOTTOM]], stroke: { colour: 'grid' } },
      { kind: 'text', x: isLast ? width - 4 : at, y: HEIGHT - 7, text: short(ns), colour: 'ink2', anchor: isLast ? 'end' : 'middle' },
    ];
  });
}

function across(y: number, width: number, text: string, colour: 'grid' | 'line' = 'grid'): Shape[] {
  return [
    { kind: 'line', points: [[LEFT, Math.round(y) + 0.5], [width - RIGHT, Math.round(y) + 0.5]], stroke: { colour } },
    { kind: 'text', x: LEFT - 6, y: Math.max(TOP + 3, y + 4), text, colour: 'ink2', anchor: 'end' },
  ];
}

function percentText(share: number): string {
  return share >= 0.001 ? `${Number((share * 100).toPrecision(3))} %` : `1e${Math.round(Math.log10(share))}`;
}

function none(title: string, width: number, text: string): Picture {
  return { title, width, height: HEIGHT, shapes: [{ kind: 'text', x: 16, y: 28, text, colour: 'ink2' }] };
}

/** How often each length occurs. */
export function histogram(groups: readonly Drawn<Group>[], width: number): Picture {
  const title = 'How often each length occurs';
  const x = lengths(groups, width);
  if (!x) return none(title, width, 'No samples.');
  const all = groups.map(({ of, look }) => ({ look, steps: parts(of.buckets) }));
  const shares = all.flatMap(({ steps }) => steps.map(({ share }) => share));
  const y = logScale(Math.min(...shares), Math.max(...shares), BOTTOM, TOP);
  const shapes: Shape[] = [...lengthAxis(x, width), ...y.ticks.flatMap((share, place) => (y.ticks.length > 9 && place % 2 ? [] : across(y.at(share), width, percentText(share))))];
  for (const { look, steps } of all) {
    let points: [number, number][] = [];
    const flush = (): void => {
      if (points.length) shapes.push({ kind: 'line', points, stroke: { ...look, width: 1.6 } });
      points = [];
    };
    steps.forEach(({ low, high, share }, place) => {
      // Where there is no sample, the line goes down to the axis.
      if (steps[place - 1]?.high !== low) {
        flush();
        points.push([x.at(low), BOTTOM]);
      }
      points.push([x.at(low), y.at(share)], [x.at(high), y.at(share)]);
      if (steps[place + 1]?.low !== high) points.push([x.at(high), BOTTOM]);
    });
    flush();
  }
  return { title, width, height: HEIGHT, shapes };
}

/** The share of samples that are longer. */
export function tails(groups: readonly Drawn<Group>[], width: number): Picture {
  const title = 'Samples longer than x';
  const x = lengths(groups, width);
  if (!x) return none(title, width, 'No samples.');
  const most = Math.max(...groups.map(({ of }) => of.count), 1);
  const y = logScale(1 / most, 1, BOTTOM, TOP);
  const shapes: Shape[] = [...lengthAxis(x, width), ...y.ticks.flatMap((share, place) => (y.ticks.length > 9 && place % 2 ? [] : across(y.at(share), width, percentText(share))))];
  for (const { of, look } of groups) {
    const total = of.buckets.reduce((sum, { count }) => sum + count, 0);
    let left = total;
    const points: [number, number][] = [];
    for (const { low, high, count } of of.buckets) {
      points.push([x.at(Math.max(1, low)), y.at(left / total)]);
      left -= count;
      points.push([x.at(high + 1), left > 0 ? y.at(left / total) : BOTTOM]);
    }
    if (points.length) shapes.push({ kind: 'line', points, stroke: { ...look, width: 1.6 } });
  }
  return { title, width, height: HEIGHT, shapes };
}

/** Runs of days that follow one another and have a value: between them are holes. */
export function runs(days: readonly TrendDay[]): TrendDay[][] {
  const found: TrendDay[][] = [];
  for (const day of days) {
    if (!day.bounds) continue;
    const run = found.at(-1);
    if (run && run.at(-1)?.day === day.day - 1) run.push(day);
    else found.push([day]);
  }
  return found;
}

/** How much longer: `+35 %`, `2.1 times`. */
export function changeText(before: number, after: number): string {
  if (before <= 0) return '';
  const ratio = after / before;
  if (ratio >= 2) return `${ratio.toFixed(1)} times`;
  return `${ratio >= 1 ? '+' : '−'}${(Math.abs(ratio - 1) * 100).toFixed(0)} %`;
}

function tipOf(value: string | null, day: TrendDay, quantile: string): string {
  const { bounds } = day;
  const samples = `${grouped(day.count)} samples`;
  const lost = isLossy(day) ? `; ${lostText(day.lost, day.packets)} lost, so it lies between ${bounds ? duration(bounds.least) : '?'} and ${bounds?.most == null ? '?' : duration(bounds.most)}` : '';
  return `${valueName(value)}, ${dayText(day.day)}: ${quantile} ${bounds ? duration(bounds.value) : 'unknown'}, ${samples}${lost}`;
}

/** What is missing: `17 records`, `3 packets`. */
export function lostText(records: number, packets: number): string {
  return [records ? `${grouped(records)} records` : '', packets ? `${grouped(packets)} packets` : ''].filter(Boolean).join(' and ');
}

/** A quantile of each day, with changes of the level. */
export function trend(groups: readonly Drawn<Trend>[], quantile: string, width: number): Picture {
  const title = `${quantile} of each day`;
  const days = groups.flatMap(({ of }) => of.days);
  const values = days.flatMap(({ bounds }) => (bounds ? [bounds.value, Math.max(1, bounds.least || bounds.value), bounds.most ?? bounds.value] : []));
  if (!values.length) return none(title, width, 'No day has enough samples.');
  const [first, last] = [Math.min(...days.map(({ day }) => day)), Math.max(...days.map(({ day }) => day))];
  const inner = width - LEFT - RIGHT - 24;
  const x = (day: number): number => LEFT + 12 + (last > first ? ((day - first) / (last - first)) * inner : inner / 2);
  const y = logScale(Math.min(...values), Math.max(...values), BOTTOM, TOP + 14);
  const shapes: Shape[] = levelsOf(y).flatMap((ns) => across(y.at(ns), width, short(ns)));
  shapes.push(...dayAxis(first, last, x, inner));
  for (const drawn of groups) shapes.push(...levels(drawn, x, y));
  for (const { of, look } of groups) {
    for (const run of runs(of.days)) {
      const points = run.map((day): [number, number] => [x(day.day), y.at(day.bounds?.value ?? 1)]);
      shapes.push({ kind: 'line', points, stroke: { ...look, width: 1.4 } });
    }
  }
  for (const { of, look } of groups) for (const day of of.days) shapes.push(...dayShapes(of, look, day, x, y, quantile));
  return { title, width, height: HEIGHT, shapes };
}

/** Powers of ten; where there are few of them, 2 and 5 times each, too. */
function levelsOf({ ticks }: LogScale): number[] {
  const last = ticks.at(-1) ?? 1;
  return ticks.length > 3 ? ticks : ticks.flatMap((ns) => [ns, 2 * ns, 5 * ns]).filter((ns) => ns <= last);
}

function dayAxis(first: number, last: number, x: (day: number) => number, inner: number): Shape[] {
  const step = Math.max(1, Math.ceil(((last - first) * DAY_APART) / Math.max(1, inner)));
  const shapes: Shape[] = [];
  for (let day = first; day <= last; day += step) {
    // The last text does not go beyond the picture.
    const isAtEnd = x(day) > LEFT + inner - DAY_APART / 2 + 12;
    shapes.push({ kind: 'line', points: [[x(day), BOTTOM], [x(day), BOTTOM + 4]], stroke: { colour: 'line' } });
    shapes.push({ kind: 'text', x: isAtEnd ? x(day) + 20 : x(day), y: HEIGHT - 7, text: dayText(day), colour: 'ink2', anchor: isAtEnd ? 'end' : 'middle' });
  }
  return shapes;
}

/** A day as a dot: full, or hollow with its bounds where records were lost; a mark at the axis where nothing is known. */
function dayShapes(of: Trend, look: Look, day: TrendDay, x: (day: number) => number, y: LogScale, quantile: string): Shape[] {
  const at = x(day.day);
  const tip = tipOf(of.value, day, quantile);
  const mark: Shape[] = isLossy(day) ? [{ kind: 'box', x: at - 3, y: BOTTOM - 3, w: 6, h: 3, fill: 'loss' }] : [];
  const { bounds } = day;
  if (!bounds) return mark;
  const dot = { kind: 'dot', x: at, y: y.at(bounds.value), tip, day: day.day, group: of.row } as const;
  if (!isLossy(day)) return [{ ...dot, r: 3, fill: look.colour }];
  const top = bounds.most === null ? TOP : y.at(bounds.most);
  const bottom = bounds.least > 0 ? y.at(bounds.least) : BOTTOM;
  return [{ kind: 'line', points: [[at, top], [at, bottom]], stroke: { colour: look.colour, width: 1, dashes: [2, 2] } }, ...mark, { ...dot, r: 3.5, fill: 'bg', stroke: { colour: look.colour, width: 1.4 } }];
}

/** Levels before and behind each change, and a line at it. */
function levels({ of, look }: Drawn<Trend>, x: (day: number) => number, y: LogScale): Shape[] {
  const shapes: Shape[] = [];
  const [firstDay, lastDay] = [of.days[0]?.day, of.days.at(-1)?.day];
  if (firstDay === undefined || lastDay === undefined || !of.changes.length) return shapes;
  const starts = [firstDay, ...of.changes.map(({ day }) => day)];
  const values = [of.changes[0]?.before ?? 1, ...of.changes.map(({ after }) => after)];
  starts.forEach((start, place) => {
    const end = (starts[place + 1] ?? lastDay + 1) - 0.5;
    const at = y.at(Math.max(1, values[place] ?? 1));
    shapes.push({ kind: 'line', points: [[x(start - (place ? 0.5 : 0)), at], [x(Math.min(end, lastDay)), at]], stroke: { colour: 'ink3', width: 1, dashes: [1, 3] } });
  });
  for (const change of of.changes) {
    const at = x(change.day - 0.5);
    const text = `${changeText(change.before, change.after)}${change.doubt ? ' ?' : ''}`;
    shapes.push({ kind: 'line', points: [[at, TOP], [at, BOTTOM]], stroke: { colour: 'ink', width: 1.1, dashes: [5, 3] } });
    shapes.push({ kind: 'box', x: at + 2, y: TOP + 1 + 12 * (of.row % 3), w: text.length * 6.2 + 12, h: 12, fill: 'bg' });
    shapes.push({ kind: 'dot', x: at + 8, y: TOP + 7 + 12 * (of.row % 3), r: 3, fill: look.colour });
    shapes.push({ kind: 'text', x: at + 14, y: TOP + 11 + 12 * (of.row % 3), text, colour: 'ink', bold: true });
  }
  return shapes;
}

/** A short line as it is in the pictures. */
export function sampleLine(look: Look): Picture {
  return { title: '', width: 28, height: 10, shapes: [{ kind: 'line', points: [[0, 5], [28, 5]], stroke: { ...look, width: 2 } }] };
}
