// SPDX-License-Identifier: MIT OR Apache-2.0
// What the page over a lake shows: its address, and the parameters of its questions [spec/view.md 11.2]. Pure.

import type { Parameters } from '../query/api.js';

export const QUANTILES = ['p50', 'p90', 'p99', 'p999', 'p9999', 'max'] as const;
export type QuantileName = (typeof QUANTILES)[number];
export const QUANTILE_NAMES: Record<QuantileName, string> = { p50: 'p50', p90: 'p90', p99: 'p99', p999: 'p99.9', p9999: 'p99.99', max: 'max' };

/** What rows can be grouped by, beside labels. */
export const KEYS = { host: 'Host', kernel_release: 'Kernel', name: 'Thread', of: 'What it is of', day: 'Day' } as const;

/** Groups at most, those with most samples. */
export const VALUES = ['8', '16', '24'] as const;

export interface LakeView {
  what: string;
  by: string;
  values: (typeof VALUES)[number];
  /** Days, `YYYY-MM-DD`; empty: all. */
  first: string;
  last: string;
  /** `NAME=VALUE`, or `NAME` for "not known". */
  is: readonly string[];
  quantile: QuantileName;
  /** Groups that are not drawn, by value; `null` for the one that is not known. */
  hide: readonly (string | null)[];
}

export const LAKE_START: LakeView = { what: 'wakeup', by: 'host', values: '8', first: '', last: '', is: [], quantile: 'p99', hide: [] };

/** Whether a text is a day. */
export function isDay(text: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`)) && dayText(dayNumber(text)) === text;
}

/** A day; nothing of another text. */
function day(text: string | null): string {
  return text !== null && isDay(text) ? text : '';
}

/** The view of an address. What makes no sense there is as at the start. */
export function fromLakeFragment(fragment: string): LakeView {
  const parts = new URLSearchParams(fragment.replace(/^#/, ''));
  const hidden = parts.getAll('hide').map((text) => (text.startsWith('=') ? text.slice(1) : null));
  return {
    what: parts.get('what') || LAKE_START.what,
    by: parts.get('by') || LAKE_START.by,
    values: VALUES.find((known) => known === parts.get('values')) ?? LAKE_START.values,
    first: day(parts.get('first')),
    last: day(parts.get('last')),
    is: [...new Set(parts.getAll('is'))].filter(Boolean).slice(0, 20),
    quantile: QUANTILES.find((known) => known === parts.get('quantile')) ?? LAKE_START.quantile,
    hide: hidden.slice(0, 100),
  };
}

export function toLakeFragment(view: LakeView): string {
  const parts = new URLSearchParams({ what: view.what, by: view.by, values: view.values, quantile: view.quantile });
  for (const name of ['first', 'last'] as const) if (view[name]) parts.set(name, view[name]);
  for (const one of view.is) parts.append('is', one);
  for (const one of view.hide) parts.append('hide', one === null ? '?' : `=${one}`);
  return `#${parts.toString()}`;
}

/** What all questions about samples are told. */
export function chosen(view: LakeView): Parameters {
  const { what, by, values, first, last, is } = view;
  return { what, by, values, first, last, is };
}

/** What a group is called. */
export function valueName(value: string | null): string {
  return value ?? 'not known';
}

/** What a key is called: `label board`. */
export function keyName(key: string): string {
  const label = /^label:(.*)$/s.exec(key)?.[1];
  if (label !== undefined) return label;
  return key in KEYS ? KEYS[key as keyof typeof KEYS] : key;
}

/** The same within a sentence. */
export function keyText(key: string): string {
  return key in KEYS ? keyName(key).toLowerCase() : keyName(key);
}

/** A condition in words. */
export function conditionName(condition: string): string {
  const at = condition.indexOf('=');
  if (at < 0) return `${keyName(condition)}: not known`;
  return `${keyName(condition.slice(0, at))}: ${condition.slice(at + 1)}`;
}

/** Only the samples of one group. */
export function onlyGroup(view: LakeView, value: string | null): LakeView {
  if (view.by === 'day') return value === null ? view : { ...view, first: value, last: value };
  const condition = value === null ? view.by : `${view.by}=${value}`;
  return view.is.includes(condition) ? view : { ...view, is: [...view.is, condition] };
}

/** Shows a group, or hides it. */
export function toggled(view: LakeView, value: string | null): LakeView {
  const isHidden = view.hide.includes(value);
  return { ...view, hide: isHidden ? view.hide.filter((one) => one !== value) : [...view.hide, value] };
}

const DAY_MS = 86_400_000;

/** `YYYY-MM-DD` of days since 1970. */
export function dayText(number: number): string {
  return new Date(number * DAY_MS).toISOString().slice(0, 10);
}

/** Days since 1970 of `YYYY-MM-DD`. */
export function dayNumber(text: string): number {
  return Math.round(Date.parse(`${text}T00:00:00Z`) / DAY_MS);
}

/** ns since 1970 as a time in UTC: `2026-11-27 10:00:00.123 456 789`. */
export function momentText(ns: bigint): string {
  const second = ns >= 0n ? ns / 1_000_000_000n : (ns - 999_999_999n) / 1_000_000_000n;
  const fraction = (ns - second * 1_000_000_000n).toString().padStart(9, '0');
  const date = new Date(Number(second) * 1000).toISOString();
  return `${date.slice(0, 10)} ${date.slice(11, 19)}.${fraction.replace(/(\d{3})(?=\d)/g, '$1 ')}`;
}
