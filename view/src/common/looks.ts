// SPDX-License-Identifier: MIT OR Apache-2.0
// How lines of a chart look: colour and dashes, so that either tells one from the others.

import type { ColourName } from './palette.js';

export interface Look {
  colour: ColourName;
  dashes: readonly number[];
}

const COLOURS: readonly ColourName[] = ['a', 'b', 'c', 'e1', 'e3', 'e4', 'e6', 'e5'];
const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2], [8, 2, 2, 2]];

/** The first 32 are all different: each time round the colours, their dashes are the next ones. */
export function lookOf(place: number): Look {
  const round = Math.floor(place / COLOURS.length);
  return { colour: COLOURS[place % COLOURS.length] ?? 'a', dashes: DASHES[(place + round) % DASHES.length] ?? [] };
}
