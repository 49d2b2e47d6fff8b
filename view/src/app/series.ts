// SPDX-License-Identifier: MIT OR Apache-2.0
// Which latency is chosen, and of which lengths: as the address has it, and as questions take it. Pure.

import { duration } from '../common/time.js';
import { seriesKey } from '../layout/distribution.js';
import type { Parameters } from '../query/api.js';
import type { Answer } from '../query/columns.js';
import type { View } from './view.js';

/** By what latencies can be kept apart, beside what they are of; the letter stands in the address. */
export const APART = [
  ['process', 'p'],
  ['thread', 't'],
  ['prio', 'r'],
  ['cpu', 'c'],
] as const;
type Apart = (typeof APART)[number][0];

/** Columns of the table `series`. */
const COLUMN: Record<Apart, 'process' | 'tid' | 'prio' | 'cpu'> = { process: 'process', thread: 'tid', prio: 'prio', cpu: 'cpu' };

/** One row of the series of an answer. */
export interface Series {
  row: number;
  /** As the address has it. */
  key: string;
  what: string;
  of: string;
  /** Whose it is, where they are kept apart. */
  whose: string;
  count: number;
  doubtful: number;
  p50: number | null;
  p99: number | null;
  p999: number | null;
  max: number | null;
}

/** What a series is called. */
export function seriesName(one: Series | undefined): string {
  return one ? [one.what, one.of, one.whose].filter(Boolean).join(' ') : '';
}

/** All of an answer. */
export function allSeries(answer: Answer): Series[] {
  const of = answer.table('series');
  return Array.from({ length: of.rows }, (_, row) => {
    const numbers = APART.map(([apart, letter]) => [apart, letter, of.number(COLUMN[apart], row)] as const);
    const marks = numbers.map(([, letter, number]) => (number === null ? '' : `~${letter}${number}`)).join('');
    const name = of.text('name', row) ?? '';
    const whose = numbers.map(([apart, , number]) => (number === null ? '' : apart === 'prio' ? `prio ${number}` : apart === 'cpu' ? `CPU ${number}` : `${name}[${number}]`));
    return {
      row,
      key: seriesKey(of.text('what', row), of.text('of', row)) + marks,
      what: of.text('what', row) ?? '',
      of: of.text('of', row) ?? '',
      whose: whose.filter(Boolean).join(' '),
      count: of.number('count', row) ?? 0,
      doubtful: of.number('doubtful', row) ?? 0,
      p50: of.number('p50_ns', row),
      p99: of.number('p99_ns', row),
      p999: of.number('p999_ns', row),
      max: of.number('max_ns', row),
    };
  });
}

/** The parameters that choose a series by its key; none for the empty one. */
export function choice(key: string): Parameters {
  const chosen: Parameters = {};
  let rest = key;
  for (let found = /~([ptrc])(\d+)$/.exec(rest); found; found = /~([ptrc])(\d+)$/.exec(rest)) {
    const apart = APART.find(([, letter]) => letter === found?.[1]);
    if (apart) chosen[COLUMN[apart[0]]] = found[2];
    rest = rest.slice(0, found.index);
  }
  const [kind = '', ...of] = rest.split(' ');
  return kind ? { ...chosen, kind, of: of.join(' ') } : chosen;
}

/** Lengths of latencies, both included, ns. */
export interface Lengths {
  low: number;
  high: number;
}

/** Those of the address; null: all. */
export function lengthsOf(text: string): Lengths | null {
  const found = /^(\d{1,15})-(\d{1,15})$/.exec(text);
  const [low, high] = [Number(found?.[1]), Number(found?.[2])];
  return found && low <= high ? { low, high } : null;
}

export function lengthsText(a: number, b: number): string {
  const [low, high] = [Math.round(Math.min(a, b)), Math.round(Math.max(a, b))];
  return `${Math.max(0, low)}-${Math.max(0, high)}`;
}

/** A duration that was typed, ns: `12 us`, `1.5ms`; without a unit, ns. */
export function typed(text: string): number | null {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)?\s*$/.exec(text);
  if (!found) return null;
  const unit = { ns: 1, us: 1e3, 'µs': 1e3, ms: 1e6, s: 1e9 }[found[2] ?? 'ns'] ?? 1;
  return Math.round(Number(found[1]) * unit);
}

/** What a view chooses, for `latencies` and `worst`. */
export function chosenBy(view: View): Parameters {
  const lengths = lengthsOf(view.lengths);
  return { ...choice(view.what), by: view.apart, low: lengths?.low, high: lengths?.high };
}

/** In words; empty: all lengths. */
export function lengthsSaid(view: View): string {
  const lengths = lengthsOf(view.lengths);
  return lengths ? `${duration(lengths.low)} to ${duration(lengths.high)}` : '';
}
