// SPDX-License-Identifier: MIT OR Apache-2.0
// From a row of the lake to its picture: an address where the trace is on this machine, else a command. Pure.

import type { Place, WorstRow } from './data.js';

/** Around a sample, ns: as much again on both sides, and this at least. */
const MARGIN = 100_000n;

/** A word of a shell. */
export function quoted(text: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text) && !text.startsWith('-')) return text;
  // What a terminal would take for more than text is written as octal digits.
  // eslint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f-\u009f]/.test(text)) {
    const bytes = [...new TextEncoder().encode(text)];
    const plain = (byte: number): boolean => byte > 31 && byte < 127 && byte !== 39 && byte !== 92;
    return `$'${bytes.map((byte) => (plain(byte) ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`)).join('')}'`;
  }
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The address of the picture, relative to the page; none where its time is not known, or the trace is elsewhere. */
export function pictureAddress(row: WorstRow, what: string): string | null {
  const { place, time } = row;
  if (!place?.isHere || time === null || !/^[0-9a-f]{32}$/.test(place.trace)) return null;
  const parts = new URLSearchParams({ wall: `${time}~${endOf(row)}`, what });
  if (row.tid !== null) parts.set('tid', String(row.tid));
  return `t/${place.trace}/#${parts.toString()}`;
}

function endOf({ time, endTime, ns }: WorstRow): bigint {
  return endTime ?? (time ?? 0n) + BigInt(Math.round(ns));
}

/** What shows the picture on a machine that has the trace, and where that is. */
export interface Command {
  where: string;
  lines: string[];
}

/** How a copy in an object store comes to this machine: by the tool of that store. */
function download({ place, trace }: Place): string[] {
  const to = quoted(`kymo-${trace.slice(0, 8)}`);
  const scheme = /^([a-z0-9]+):\/\//.exec(place)?.[1] ?? '';
  if (scheme === 's3' || scheme === 's3a') return [`aws s3 cp --recursive ${quoted(place.replace(/^s3a/, 's3'))} ${to}`];
  if (scheme === 'gs') return [`gcloud storage cp --recursive ${quoted(`${place}/*`)} ${to}`];
  return [`rclone copy ${quoted(place)} ${to}`];
}

/** The command to copy; none where the time or the trace is not known. */
export function command(row: WorstRow): Command | null {
  const { place, time } = row;
  if (!place || time === null) return null;
  const margin = (endOf(row) - time) / 2n > MARGIN ? (endOf(row) - time) / 2n : MARGIN;
  const window = `--from ${time - margin} --to ${endOf(row) + margin}`;
  const isInStore = place.isCopy && /^[a-z0-9]+:\/\//.test(place.place);
  if (isInStore) return { where: 'anywhere: downloads the copy first', lines: [...download(place), `kymo view ${quoted(`kymo-${place.trace.slice(0, 8)}`)} ${window}`] };
  return { where: `on the host ${place.addedOn}`, lines: [`kymo view ${quoted(place.place)} ${window}`] };
}
