// SPDX-License-Identifier: MIT OR Apache-2.0
// Pictures of shapes: layout makes them, and they become SVG, on the page and in copies alike.

import { clean } from './dom.js';
import type { ColourName, Palette } from './palette.js';

export interface Stroke {
  colour: ColourName;
  width?: number;
  dashes?: readonly number[];
}

export type Shape =
  | { kind: 'line'; points: readonly (readonly [x: number, y: number])[]; stroke: Stroke }
  | { kind: 'box'; x: number; y: number; w: number; h: number; fill?: ColourName; stroke?: Stroke }
  | { kind: 'dot'; x: number; y: number; r: number; fill: ColourName; stroke?: Stroke; tip?: string; day?: number; group?: number }
  | { kind: 'text'; x: number; y: number; text: string; colour: ColourName; anchor?: 'start' | 'middle' | 'end'; bold?: boolean };

export interface Picture {
  title: string;
  width: number;
  height: number;
  shapes: readonly Shape[];
}

const SVG = 'http://www.w3.org/2000/svg';

type Attributes = Record<string, string | number | undefined>;

function make(name: string, attributes: Attributes): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(key, typeof value === 'number' ? String(Math.round(value * 100) / 100) : value);
  }
  return made;
}

function stroked(stroke: Stroke | undefined, colours: Palette): Attributes {
  if (!stroke) return {};
  return { stroke: colours[stroke.colour], 'stroke-width': stroke.width ?? 1, 'stroke-dasharray': stroke.dashes?.length ? stroke.dashes.join(' ') : undefined };
}

function element(shape: Shape, colours: Palette): SVGElement {
  switch (shape.kind) {
    case 'line': {
      const points = shape.points.map(([x, y]) => `${Math.round(x * 100) / 100},${Math.round(y * 100) / 100}`).join(' ');
      return make('polyline', { points, fill: 'none', ...stroked(shape.stroke, colours) });
    }
    case 'box': {
      const { x, y, w, h, fill, stroke } = shape;
      return make('rect', { x, y, width: Math.max(w, 0.5), height: Math.max(h, 0.5), fill: fill ? colours[fill] : 'none', ...stroked(stroke, colours) });
    }
    case 'dot': {
      const { x, y, r, fill, stroke, tip, day, group } = shape;
      const made = make('circle', { cx: x, cy: y, r, fill: colours[fill], ...stroked(stroke, colours) });
      if (tip) made.dataset['tip'] = clean(tip);
      if (day !== undefined) made.dataset['day'] = String(day);
      if (group !== undefined) made.dataset['group'] = String(group);
      return made;
    }
    case 'text': {
      const { x, y, text, colour, anchor, bold } = shape;
      const made = make('text', { x, y, fill: colours[colour], 'font-size': 10.5, 'text-anchor': anchor, 'font-weight': bold ? 600 : undefined });
      made.textContent = clean(text);
      return made;
    }
  }
}

/** A picture as an element. */
export function drawn(picture: Picture, colours: Palette, family: string): SVGElement {
  const { width, height, title, shapes } = picture;
  const made = make('svg', { xmlns: undefined, width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': clean(title), 'font-family': family });
  made.append(make('rect', { x: 0, y: 0, width, height, fill: colours.bg }), ...shapes.map((shape) => element(shape, colours)));
  return made;
}
