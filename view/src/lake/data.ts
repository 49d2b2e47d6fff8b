// SPDX-License-Identifier: MIT OR Apache-2.0
// Answers about a lake as plain values. Pure.

import type { Answer, Table } from '../query/columns.js';
import { QUANTILES, type QuantileName } from './view.js';

export interface Bucket {
  low: number;
  high: number;
  count: number;
}

/** A quantile, and between what it lies where records were lost. */
export interface Bounds {
  value: number;
  least: number;
  /** Null: nothing bounds it. */
  most: number | null;
}

export interface Group {
  row: number;
  value: string | null;
  hosts: number;
  traces: number;
  count: number;
  doubtful: number;
  lost: number;
  packets: number;
  /** Null where there are too few samples. */
  quantiles: Record<QuantileName, Bounds | null>;
  buckets: Bucket[];
}

const rows = (of: Table): number[] => Array.from({ length: of.rows }, (_, row) => row);

function boundsOf(of: Table, name: QuantileName, row: number): Bounds | null {
  const value = of.number(`${name}_ns`, row);
  if (value === null) return null;
  if (name !== 'max') return { value, least: of.number(`${name}_least_ns`, row) ?? 0, most: of.number(`${name}_most_ns`, row) };
  // A lost sample may have been the longest one.
  const isLossy = Boolean(of.number('lost', row) || of.number('packets', row));
  return { value, least: value, most: isLossy ? null : value };
}

/** The groups of a distribution, those with most samples first. */
export function groupsOf(answer: Answer): Group[] {
  const of = answer.table('groups');
  const groups = rows(of).map((row): Group => {
    const quantiles = Object.fromEntries(QUANTILES.map((name) => [name, boundsOf(of, name, row)])) as Group['quantiles'];
    const number = (name: string): number => of.number(name, row) ?? 0;
    return {
      row,
      value: of.text('value', row),
      hosts: number('hosts'),
      traces: number('traces'),
      count: number('count'),
      doubtful: number('doubtful'),
      lost: number('lost'),
      packets: number('packets'),
      quantiles,
      buckets: [],
    };
  });
  const buckets = answer.table('buckets');
  for (const row of rows(buckets)) {
    const bucket = { low: buckets.number('low_ns', row) ?? 0, high: buckets.number('high_ns', row) ?? 0, count: buckets.number('count', row) ?? 0 };
    groups[buckets.number('group', row) ?? -1]?.buckets.push(bucket);
  }
  for (const { buckets: own } of groups) own.sort((a, b) => a.low - b.low);
  return groups;
}

export interface TrendDay {
  /** Days since 1970. */
  day: number;
  count: number;
  /** Null: too few samples. */
  bounds: Bounds | null;
  lost: number;
  packets: number;
}

export interface TrendChange {
  /** Row of the answer. */
  row: number;
  day: number;
  before: number;
  after: number;
  daysBefore: number;
  daysAfter: number;
  p: number;
  doubt: string | null;
}

export interface Trend {
  row: number;
  value: string | null;
  /** Why no changes were looked for. */
  why: string | null;
  days: TrendDay[];
  changes: TrendChange[];
}

/** Whether records of a day were lost. */
export function isLossy(day: TrendDay): boolean {
  return day.lost > 0 || day.packets > 0;
}

/** The groups of a trend. */
export function trendsOf(answer: Answer): Trend[] {
  const [of, days, changes] = [answer.table('groups'), answer.table('days'), answer.table('changes')];
  const trends = rows(of).map((row): Trend => ({ row, value: of.text('value', row), why: of.text('why', row), days: [], changes: [] }));
  for (const row of rows(days)) {
    const value = days.number('value_ns', row);
    trends[days.number('group', row) ?? -1]?.days.push({
      day: days.number('day', row) ?? 0,
      count: days.number('count', row) ?? 0,
      bounds: value === null ? null : { value, least: days.number('least_ns', row) ?? 0, most: days.number('most_ns', row) },
      lost: days.number('lost', row) ?? 0,
      packets: days.number('packets', row) ?? 0,
    });
  }
  for (const row of rows(changes)) {
    const number = (name: string): number => changes.number(name, row) ?? 0;
    trends[number('group')]?.changes.push({
      row,
      day: number('day'),
      before: number('before_ns'),
      after: number('after_ns'),
      daysBefore: number('days_before'),
      daysAfter: number('days_after'),
      p: number('p'),
      doubt: changes.text('doubt', row),
    });
  }
  for (const { days: own } of trends) own.sort((a, b) => a.day - b.day);
  return trends;
}

/** Where a trace is. */
export interface Place {
  trace: string;
  place: string;
  addedOn: string;
  isCopy: boolean;
  isHere: boolean;
  labels: [key: string, value: string][];
}

export interface WorstRow {
  row: number;
  time: bigint | null;
  endTime: bigint | null;
  ns: number;
  of: string;
  host: string | null;
  thread: string;
  tid: number | null;
  cpu: number | null;
  by: string;
  doubt: string;
  place: Place | null;
}

function named(name: string | null, tid: number | null): string {
  return [name ?? '', tid === null ? '' : `[${tid}]`].join('');
}

/** The longest samples. */
export function worstOf(answer: Answer): WorstRow[] {
  const [of, additions, labels] = [answer.table('rows'), answer.table('additions'), answer.table('labels')];
  const places = rows(additions).map(
    (row): Place => ({
      trace: additions.text('trace', row) ?? '',
      place: additions.text('place', row) ?? '',
      addedOn: additions.text('added_on', row) ?? '',
      isCopy: additions.number('is_copy', row) === 1,
      isHere: additions.number('is_here', row) === 1,
      labels: [],
    }),
  );
  for (const row of rows(labels)) places[labels.number('addition', row) ?? -1]?.labels.push([labels.text('key', row) ?? '', labels.text('value', row) ?? '']);
  return rows(of).map((row): WorstRow => {
    const tid = of.number('tid', row);
    const owner = of.number('owner_tid', row);
    const by = named(of.text('by', row), of.number('by_tid', row));
    return {
      row,
      time: of.big('time', row),
      endTime: of.big('end_time', row),
      ns: of.number('value_ns', row) ?? 0,
      of: of.text('of', row) ?? '',
      host: of.text('host', row),
      thread: named(of.text('name', row), tid),
      tid,
      cpu: of.number('cpu', row),
      by: [by ? `woken by ${by}` : '', owner === null ? '' : `held by [${owner}]`].filter(Boolean).join(', '),
      doubt: of.text('doubt', row) ?? '',
      place: places[of.number('addition', row) ?? -1] ?? null,
    };
  });
}
