// SPDX-License-Identifier: MIT OR Apache-2.0
// From an answer to `results` to curves: how often each length occurs, and the tail. Pure.

import type { Answer } from '../query/columns.js';

/** A bucket of a histogram; both ends are in it. */
export interface Bucket {
  low: number;
  high: number;
  count: number;
}

/** A series of a result record. */
export interface Curve {
  row: number;
  run: number;
  /** `wakeup, CPU 2`. */
  name: string;
  buckets: Bucket[];
  /** Samples that were taken and have a value, or are known to lie beyond the histogram. */
  known: number;
  beyond: number;
  beyondNs: number | null;
}

/** All series of an answer. */
export function curves(answer: Answer): Curve[] {
  const of = answer.table('series');
  const all = Array.from({ length: of.rows }, (_, row): Curve => {
    const [cpu, beyond] = [of.number('cpu', row), of.number('beyond', row) ?? 0];
    return {
      row,
      run: of.number('run', row) ?? 0,
      name: [of.text('name', row) ?? '', cpu === null ? '' : `CPU ${cpu}`].filter(Boolean).join(', '),
      buckets: [],
      known: (of.number('count', row) ?? 0) - (of.number('lost', row) ?? 0),
      beyond,
      beyondNs: of.number('beyond_ns', row),
    };
  });
  const buckets = answer.table('buckets');
  for (let i = 0; i < buckets.rows; i++) {
    const curve = all[buckets.number('series', i) ?? -1];
    curve?.buckets.push({ low: buckets.number('low_ns', i) ?? 0, high: buckets.number('high_ns', i) ?? 0, count: buckets.number('count', i) ?? 0 });
  }
  for (const { buckets: own } of all) own.sort((a, b) => a.low - b.low);
  return all;
}

/** The share of samples that are longer than each value: how the tail falls. From the left to the right. */
export function tail(curve: Curve): { ns: number; share: number }[] {
  let above = curve.known;
  const points = [];
  for (const { high, count } of curve.buckets) {
    above -= count;
    points.push({ ns: high + 1, share: Math.max(0, above) / Math.max(1, curve.known) });
  }
  return points;
}

/** The share of samples in each bucket, for a bucket of a tenth of a power of ten: buckets of tools differ in width. */
export function density(curve: Curve): { low: number; high: number; share: number }[] {
  return curve.buckets.map(({ low, high, count }) => {
    const [from, to] = [Math.max(1, low), Math.max(1, low) > high ? high + 2 : high + 1];
    const width = Math.max(1e-9, Math.log10(to / from)) * 10;
    return { low: from, high: to, share: count / Math.max(1, curve.known) / Math.max(width, 0.01) };
  });
}

/** A scale with powers of ten. */
export interface LogScale {
  at: (value: number) => number;
  ticks: number[];
}

/** From `least` to `most`, onto `from` to `to` pixels. */
export function logScale(least: number, most: number, from: number, to: number): LogScale {
  const [low, high] = [Math.floor(Math.log10(Math.max(least, 1e-12)) + 1e-9), Math.ceil(Math.log10(Math.max(most, least, 1e-12)) - 1e-9)];
  const powers = Math.max(1, high - low);
  const ticks = Array.from({ length: powers + 1 }, (_, i) => 10 ** (low + i));
  return { at: (value) => from + ((Math.log10(Math.max(value, 10 ** low)) - low) / powers) * (to - from), ticks };
}
