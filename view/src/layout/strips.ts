// SPDX-License-Identifier: MIT OR Apache-2.0
// The picture of a trace that is being written, put together of stretches: a whole window is asked for now and then, and
// between two of these only what came since. Pure.

import { type Piece, type Row, trimmed } from './layout.js';

/** The picture of one answer, or of several that follow each other. */
export interface Picture {
  rows: Row[];
  from: bigint;
  to: bigint;
  /** From `from` to `to`; a fraction where stretches were put together. */
  pixels: number;
}

/** A window that is shorter is asked for whole each time, ns: that takes no longer than a stretch. */
export const STRIPPED_MIN = 1_000_000_000n;
/** A stretch is asked for again, longer each time, until it is so long, ns. */
const STRIP_MAX = 1_000_000_000n;
/** In pixels: places that differ by less are one. */
const NEAR = 0.01;

/** How long a stretch grows, in a window of this length. */
export function stripLength(window: bigint): bigint {
  const part = window / 20n;
  return part < STRIP_MAX ? part : STRIP_MAX;
}

/** The whole window is asked for again when so much of it is of stretches. */
export function renewalLength(window: bigint): bigint {
  const [part, strips] = [window / 4n, stripLength(window) * 30n];
  return part < strips ? part : strips;
}

/** Pixels of a stretch, such that they are as wide as those of the window. */
export function stripPixels(strip: bigint, window: bigint, width: number): number {
  return Math.max(1, Math.min(8192, Math.round((width * Number(strip)) / Math.max(1, Number(window)))));
}

/**
 * The picture up to `begin`, and `newer` from there on, in pixels of the first one. A stretch of a state that goes on over
 * the seam is one piece. As it is where `newer` has nothing to add, or would leave a gap. `mayAdd`: rows that are new.
 */
export function extended(picture: Picture, begin: bigint, newer: Picture, mayAdd: boolean): Picture {
  const isSeam = begin >= picture.from && begin <= picture.to && begin >= newer.from;
  if (!isSeam || newer.to <= picture.to || picture.to <= picture.from) return picture;
  const perNs = picture.pixels / Number(picture.to - picture.from);
  const offset = Number(newer.from - picture.from);
  const place: Seam = {
    edge: Number(begin - picture.from) * perNs,
    scale: (Number(newer.to - newer.from) / newer.pixels) * perNs,
    shift: offset * perNs,
    offset,
  };
  const more = new Map(newer.rows.map((row) => [row.key, row]));
  const rows = picture.rows.map((row) => {
    const added = more.get(row.key);
    more.delete(row.key);
    return joined(row, added ?? null, place);
  });
  if (mayAdd) for (const row of more.values()) rows.push(joined({ ...row, pieces: [], late: [] }, row, place));
  return { rows, from: picture.from, to: newer.to, pixels: Number(newer.to - picture.from) * perNs };
}

/** Where one picture goes on in another one: x = scale * pixel + shift; `offset` ns lie between their begins. */
interface Seam {
  edge: number;
  scale: number;
  shift: number;
  offset: number;
}

function joined(row: Row, added: Row | null, seam: Seam): Row {
  const { edge, scale, shift } = seam;
  const pieces: Piece[] = [];
  /** Pieces that end at the seam, by what they would be known again by. */
  const open = new Map<string, number>();
  for (const piece of row.pieces) {
    if (piece.x0 >= edge) continue;
    if (piece.tip && piece.x1 >= edge - NEAR) open.set(nameOf(piece, piece.tip.from), pieces.length);
    pieces.push(piece.x1 > edge ? trimmed(piece, piece.x0, edge) : piece);
  }
  const late = row.late.filter((x) => x < edge);
  if (!added) return { ...row, pieces, late };
  for (const piece of added.pieces) {
    const there = moved(piece, seam);
    if (there.x1 <= edge) continue;
    const at = there.tip && there.x0 <= edge + NEAR ? open.get(nameOf(there, there.tip.from)) : undefined;
    const before = at === undefined ? undefined : pieces[at];
    if (at !== undefined && before) pieces[at] = { ...there, x0: before.x0 };
    else pieces.push(there);
  }
  for (const pixel of added.late) if (pixel * scale + shift >= edge) late.push(pixel * scale + shift);
  return { ...row, pieces, late, height: Math.max(row.height, added.height) };
}

function nameOf(piece: Piece, from: number): string {
  return `${piece.y} ${piece.h} ${piece.look ?? ''} ${from}`;
}

function moved(piece: Piece, { edge, scale, shift, offset }: Seam): Piece {
  const all: Piece = { ...piece, x0: piece.x0 * scale + shift, x1: piece.x1 * scale + shift };
  const there = all.x0 < edge ? trimmed(all, edge, all.x1) : all;
  if (piece.tip) there.tip = { ...piece.tip, from: piece.tip.from + offset, to: piece.tip.to + offset };
  return there;
}
