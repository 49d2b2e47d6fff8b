// SPDX-License-Identifier: MIT OR Apache-2.0
// Colours of the style sheet for the canvas, and which one a name has.

const NAMES = [
  'bg', 'panel', 'raised', 'line', 'grid', 'ink', 'ink2', 'ink3', 'accent', 'selrow', 'run', 'pre', 'wok', 'wokfill', 'thr', 'lock',
  'io', 'fault', 'wait', 'sleep', 'irq', 'soft', 'sys', 'sysink', 'kern', 'kerne', 'loss', 'lossbg', 'hole', 'onrun', 'onpre', 'onwok',
  'bar', 'a', 'b', 'c', 'h0', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'h7', 'e0', 'e1', 'e2', 'e3', 'e4', 'e5', 'e6', 'e7',
] as const;
export type ColourName = (typeof NAMES)[number];
export type Palette = Record<ColourName, string>;

/** The colours of the theme that the page has now. */
export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])) as Palette;
}

/** The colours as words of four bytes, as pixels of an image have them. */
export function words(to: CanvasRenderingContext2D, colours: Palette): Record<ColourName, number> {
  const bytes = new Uint8ClampedArray(4);
  const word = (colour: string): number => {
    // The canvas writes every opaque colour as #rrggbb.
    to.fillStyle = '#000';
    to.fillStyle = colour;
    const [, r = '0', g = '0', b = '0'] = /^#(..)(..)(..)$/.exec(String(to.fillStyle)) ?? [];
    bytes.set([parseInt(r, 16), parseInt(g, 16), parseInt(b, 16), 255]);
    return new Uint32Array(bytes.buffer)[0] ?? 0;
  };
  return Object.fromEntries(NAMES.map((name) => [name, word(colours[name])])) as Record<ColourName, number>;
}

/** FNV-1a of a name, modulo 8: which of the colours of identity it has. */
export function identity(name: string): number {
  let hash = 2166136261;
  for (const character of name) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 16777619);
  return (hash >>> 0) % 8;
}

export function fillOf(colours: Palette, name: string): string {
  return colours[`h${identity(name)}` as ColourName];
}

export function edgeOf(colours: Palette, name: string): string {
  return colours[`e${identity(name)}` as ColourName];
}
