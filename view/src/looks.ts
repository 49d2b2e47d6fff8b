// SPDX-License-Identifier: MIT OR Apache-2.0
// How lines of a chart look: colour and dashes, so that either tells one from the others.

import type { ColourName } from './palette.js';

export interface Look {
  colour: ColourName;
  dashes: readonly number[];
}

const LOOKS: readonly Look[] = [
  { colour: 'a', dashes: [] },
  { colour: 'b', dashes: [6, 3] },
  { colour: 'c', dashes: [2, 2] },
  { colour: 'e1', dashes: [8, 2, 2, 2] },
  { colour: 'e3', dashes: [] },
  { colour: 'e4', dashes: [6, 3] },
  { colour: 'e6', dashes: [2, 2] },
  { colour: 'e5', dashes: [8, 2, 2, 2] },
];

const FIRST: Look = { colour: 'a', dashes: [] };

export function lookOf(place: number): Look {
  return LOOKS[place % LOOKS.length] ?? FIRST;
}
