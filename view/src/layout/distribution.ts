// SPDX-License-Identifier: MIT OR Apache-2.0
// Distributions of one latency in two traces: how often each length occurs, how many are longer, and what differs. Pure.

import type { Answer } from '../query/columns.js';

/** A bucket of a histogram, both ends included, ns. */
export interface Bucket {
  low: number;
  high: number;
  count: number;
}

export const QUANTILES = ['p50_ns', 'p90_ns', 'p99_ns', 'p999_ns', 'p9999_ns', 'max_ns'] as const;
export type Quantile = (typeof QUANTILES)[number];

/** One latency of one trace. */
export interface Distribution {
  /** In the order of length, without empty ones. */
  buckets: Bucket[];
  count: number;
  doubtful: number;
  /** Null where there are too few samples. */
  quantiles: Record<Quantile, number | null>;
}

/** What a series of an answer is called: `futex 0x7f..`. */
export function seriesKey(what: string | null, of: string | null): string {
  return of ? `${what ?? ''} ${of}` : (what ?? '');
}

/** The distribution of a latency in an answer; null where it has none of that name. */
export function distributionOf(answer: Answer, key: string): Distribution | null {
  const series = answer.table('series');
  let row = 0;
  while (row < series.rows && seriesKey(series.text('what', row), series.text('of', row)) !== key) row++;
  if (row === series.rows) return null;
  const histogram = answer.table('histogram');
  const buckets: Bucket[] = [];
  for (let i = 0; i < histogram.rows; i++) {
    const count = histogram.number('count', i) ?? 0;
    if (histogram.number('series', i) !== row || !count) continue;
    buckets.push({ low: histogram.number('low_ns', i) ?? 0, high: histogram.number('high_ns', i) ?? 0, count });
  }
  buckets.sort((a, b) => a.low - b.low);
  const quantiles = Object.fromEntries(QUANTILES.map((name) => [name, series.number(name, row)])) as Record<Quantile, number | null>;
  return { buckets, count: series.number('count', row) ?? 0, doubtful: series.number('doubtful', row) ?? 0, quantiles };
}

/** A place of a curve: a length in ns, and a share of all samples. */
export interface CurvePoint {
  ns: number;
  share: number;
}

/** The share of samples that are at least as long as the begin of each bucket: 1 first, and never rising. */
export function tail(of: Distribution): CurvePoint[] {
  const total = of.buckets.reduce((sum, bucket) => sum + bucket.count, 0);
  let left = total;
  const points = of.buckets.map((bucket) => {
    const point = { ns: bucket.low, share: left / total };
    left -= bucket.count;
    return point;
  });
  const last = of.buckets.at(-1);
  // It ends where the longest sample ends.
  if (last) points.push({ ns: last.high, share: last.count / total });
  return points;
}

/** The share of samples in each part of a scale on which each factor of two has `parts` parts of equal length. */
export function shares(of: Distribution, parts: number): Map<number, number> {
  const total = of.buckets.reduce((sum, bucket) => sum + bucket.count, 0);
  const found = new Map<number, number>();
  for (const { low, high, count } of of.buckets) {
    // A bucket is narrower than a part, except among the shortest: it counts where its middle is.
    const part = Math.floor(Math.log2(Math.max(1, (low + high) / 2)) * parts);
    found.set(part, (found.get(part) ?? 0) + count / total);
  }
  return found;
}

/** The lengths between which both lie, ns: at least a factor of two. */
export function range(all: readonly (Distribution | null)[]): [number, number] {
  let [low, high] = [Infinity, 1];
  for (const of of all) {
    for (const bucket of of?.buckets ?? []) [low, high] = [Math.min(low, Math.max(1, bucket.low)), Math.max(high, bucket.high)];
  }
  if (low > high) low = high;
  return [low, Math.max(high, 2 * low)];
}

/** How much longer the second is: `+12 %`, `2.1 times`; nothing where one is not known. */
export function difference(a: number | null, b: number | null): string {
  if (a === null || b === null) return '';
  if (a === b) return 'the same';
  if (a === 0) return 'longer';
  const ratio = b / a;
  if (ratio >= 2) return `${ratio.toFixed(1)} times`;
  const percent = Math.abs(ratio - 1) * 100;
  const text = percent < 1 ? '<1' : percent.toFixed(0);
  return `${ratio > 1 ? '+' : '−'}${text} %`;
}
