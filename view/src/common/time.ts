// SPDX-License-Identifier: MIT OR Apache-2.0
// Times as text. Absolute times are bigint ns; numbers are durations and places inside of a window.

export type TimeFormat = 'trace' | 'wall' | 'utc' | 'mark';
export const TIME_FORMATS: readonly TimeFormat[] = ['trace', 'wall', 'utc', 'mark'];

const SECOND = 1_000_000_000n;

/** A duration of ns: three digits, from 1 ms on three decimals. */
export function duration(ns: number): string {
  const size = Math.abs(ns);
  const sign = ns < 0 ? '−' : '';
  if (!Number.isFinite(ns)) return '?';
  if (size < 1e3) return `${sign}${Math.round(size)} ns`;
  if (size < 1e6) return `${sign}${(size / 1e3).toFixed(size < 1e4 ? 2 : size < 1e5 ? 1 : 0)} µs`;
  if (size < 1e9) return `${sign}${(size / 1e6).toFixed(3)} ms`;
  return `${sign}${(size / 1e9).toFixed(3)} s`;
}

/** Digits in groups of three. */
export function grouped(number: number | bigint): string {
  return number.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ' ');
}

/** `9.387 496 012`: seconds and nanoseconds in groups. */
export function seconds(ns: bigint): string {
  const sign = ns < 0n ? '−' : '';
  const size = ns < 0n ? -ns : ns;
  const fraction = (size % SECOND).toString().padStart(9, '0');
  return `${sign}${grouped(size / SECOND)}.${fraction.slice(0, 3)} ${fraction.slice(3, 6)} ${fraction.slice(6)}`;
}

/** Shows times of one trace. */
export class Times {
  constructor(
    /** ns since 1970 of the trace's first record. */
    readonly base: bigint,
    readonly format: TimeFormat,
    /** What `mark` counts from, ns after base. */
    readonly mark: bigint,
    /** What `trace` counts from, ns after base: of another host's trace it is the first record of the page's. */
    readonly origin = 0n,
  ) {}

  /** A time, ns after base. */
  text(at: bigint): string {
    switch (this.format) {
      case 'trace':
        return `${seconds(at - this.origin)} s`;
      case 'mark':
        return at >= this.mark ? `+${seconds(at - this.mark)} s` : `${seconds(at - this.mark)} s`;
      case 'wall':
      case 'utc': {
        const { day, clock, fraction } = this.clock(at);
        return `${day} ${clock}.${fraction}`;
      }
    }
  }

  /** The same for a scale whose steps are `step` ns: no more digits than tell two steps apart. */
  tick(at: bigint, step: number): string {
    const decimals = Math.max(0, Math.min(9, 9 - Math.floor(Math.log10(Math.max(1, step)) + 1e-9)));
    if (this.format === 'wall' || this.format === 'utc') {
      const { clock, fraction } = this.clock(at);
      return decimals > 0 ? `${clock}.${fraction.replaceAll(' ', '').slice(0, decimals)}` : clock;
    }
    const from = this.format === 'mark' ? this.mark : this.origin;
    const [whole = '', fraction = ''] = seconds(at - from).replace(' s', '').split('.');
    const digits = fraction.replaceAll(' ', '').slice(0, decimals).replace(/(\d{3})(?=\d)/g, '$1 ');
    return digits ? `${whole}.${digits}` : `${whole} s`;
  }

  private clock(at: bigint): { day: string; clock: string; fraction: string } {
    const ns = this.base + at;
    const second = ns >= 0n ? ns / SECOND : -((-ns + SECOND - 1n) / SECOND);
    const fraction = (ns - second * SECOND).toString().padStart(9, '0').replace(/(\d{3})(?=\d)/g, '$1 ');
    const date = new Date(Number(second) * 1000);
    const two = (part: number): string => String(part).padStart(2, '0');
    const isUtc = this.format === 'utc';
    const day = isUtc
      ? [date.getUTCFullYear(), two(date.getUTCMonth() + 1), two(date.getUTCDate())]
      : [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())];
    const clock = isUtc
      ? [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
      : [date.getHours(), date.getMinutes(), date.getSeconds()];
    return { day: day.join('-'), clock: clock.map(two).join(':'), fraction };
  }
}

/** The step of a scale, ns: 1, 2 or 5 times a power of ten, at least `least` ns. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  for (const times of [1, 2, 5, 10]) if (times * power >= least) return times * power;
  return 10 * power;
}

/** Places of a scale in a window: at most one in `spacing` of `width` pixels. */
export function ticks(from: bigint, to: bigint, width: number, spacing: number): { step: number; at: bigint[] } {
  const length = Number(to - from);
  const step = niceStep((length * spacing) / Math.max(1, width));
  const big = BigInt(step);
  const first = ((from + (from > 0n ? big - 1n : 0n)) / big) * big;
  const at: bigint[] = [];
  for (let time = first; time < to && at.length < 1000; time += big) at.push(time);
  return { step, at };
}
