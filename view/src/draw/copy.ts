// SPDX-License-Identifier: MIT OR Apache-2.0
// What is shown, as PNG, SVG and CSV: to the clipboard, or as a file. The picture is made of the same pieces as that on
// the screen. Everything but the class Copy is pure.

import { byId, clean, el, link } from '../common/dom.js';
import { type Palette, edgeOf, fillOf, palette } from '../common/palette.js';
import { boxesOf } from '../layout/cells.js';
import { type Piece, type Row, rangeOf } from '../layout/layout.js';

/** A line of the time line. */
export interface ShownLine {
  title: string;
  detail: string;
  top: number;
  height: number;
  /** None: the head of a section. */
  row: Row | null;
  /** Where pixels of the row lie: x = a * pixel + b. */
  a: number;
  b: number;
  /** ns after the base that times of tips count from. */
  from: bigint;
}

/** The time line as it is shown. */
export interface Shown {
  lines: readonly ShownLine[];
  width: number;
  height: number;
  labels: number;
  ruler: number;
  ticks: readonly { x: number; text: string }[];
  /** ns since 1970. */
  base: bigint;
}

/** A field of CSV. A spreadsheet takes what begins with one of these for a formula: an apostrophe makes it text. */
export function field(value: string | number | bigint | null): string {
  if (value === null) return '';
  if (typeof value !== 'string') return String(value);
  const text = clean(/^[=+\-@\t\r]/.test(value) ? `'${value}` : value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Lines of CSV. */
export function csv(rows: readonly (readonly (string | number | bigint | null)[])[]): string {
  return rows.map((row) => `${row.map(field).join(',')}\r\n`).join('');
}

/** What is drawn in the rows: one line for each piece that is known by name. Times are ns since 1970. */
export function timelineCsv(shown: Shown): string {
  const rows: (string | number | bigint | null)[][] = [['row', 'from_ns', 'to_ns', 'duration_ns', 'what', 'tid']];
  for (const line of shown.lines) {
    for (const { tip } of line.row?.pieces ?? []) {
      if (!tip) continue;
      const [from, to] = [tip.from, tip.to].map((at) => shown.base + line.from + BigInt(Math.round(at)));
      if (from !== undefined && to !== undefined) rows.push([line.title, from, to, to - from, tip.text, tip.tid]);
    }
  }
  return csv(rows);
}

const escaped = (text: string): string =>
  clean(text).replace(/[&<>"']/g, (character) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[character] ?? '');
const places = (number: number): string => String(Math.round(number * 100) / 100);

function box(x: number, y: number, w: number, h: number, rest: string): string {
  return `<rect x="${places(x)}" y="${places(y)}" width="${places(w)}" height="${places(h)}" ${rest}/>`;
}

function words(x: number, y: number, text: string, fill: string, size: number, anchor = 'start'): string {
  return `<text x="${places(x)}" y="${places(y)}" fill="${fill}" font-size="${size}" text-anchor="${anchor}">${escaped(text)}</text>`;
}

/** Patterns, as the painter has them. */
function patterns(colours: Palette): string {
  const tile = (id: string, size: number, inner: string): string => `<pattern id="${id}" width="${size}" height="${size}" patternUnits="userSpaceOnUse">${inner}</pattern>`;
  return [
    tile('stripes', 5, box(0, 0, 5, 5, `fill="${colours.thr}"`) + box(0, 0, 2, 5, `fill="${colours.bg}"`)),
    tile('dots', 4, box(1.5, 1.5, 1, 1, `fill="${colours.ink3}"`)),
    tile('hatch', 6, `<path d="M0 6 6 0" stroke="${colours.ink}" stroke-opacity=".6"/>`),
    tile('hole', 9, box(0, 0, 9, 9, `fill="${colours.hole}"`) + box(0, 0, 4.5, 9, `fill="${colours.lossbg}"`)),
  ].join('');
}

/** About as many characters as fit: an image has no font to measure with. */
function fitted(text: string, width: number, size: number): string {
  const count = Math.floor(width / (size * 0.56));
  const letters = [...text];
  if (letters.length <= count) return text;
  return count < 4 ? '' : `${letters.slice(0, count - 1).join('')}…`;
}

function drawn(piece: Piece, line: ShownLine, shown: Shown, colours: Palette): string {
  const range = rangeOf(piece);
  return range ? boxesOf(range).map((box) => drawnPiece(box, line, shown, colours)).join('') : drawnPiece(piece, line, shown, colours);
}

function drawnPiece(piece: Piece, line: ShownLine, shown: Shown, colours: Palette): string {
  const [left, right] = [shown.labels, shown.labels + shown.width];
  const x0 = Math.max(left, left + line.a * piece.x0 + line.b);
  const x1 = Math.min(right, left + line.a * piece.x1 + line.b);
  if (x1 <= x0) return '';
  const [y, w, h] = [shown.ruler + line.top + piece.y, Math.max(x1 - x0, 0.5), Math.max(piece.h, 1)];
  const colour = piece.fill ? colours[piece.fill] : piece.name !== undefined ? fillOf(colours, piece.name) : null;
  let out = colour && piece.look !== 'hole' ? box(x0, y, w, h, `fill="${colour}"`) : '';
  if (piece.look === 'outline') out += box(x0 + 0.5, y + 0.5, Math.max(0.5, w - 1), h - 1, `fill="none" stroke="${colours.wok}"`);
  else if (piece.look) out += box(x0, y, w, h, `fill="url(#${piece.look})"${piece.look === 'hole' ? ` stroke="${colours.loss}" stroke-dasharray="3 2"` : ''}`);
  if (piece.isRealTime && piece.name !== undefined) out += box(x0, y, w, 3, `fill="${edgeOf(colours, piece.name)}"`);
  const label = piece.label && w > 22 ? fitted(piece.label, w - 8, 10.5) : '';
  if (label) out += words(x0 + 4, h < 9 ? y - 2 : y + h / 2 + 3.8, label, colours[piece.ink ?? 'ink'], h <= 10 ? 10 : 10.5);
  return out;
}

/** The time line as an image that is made of shapes. */
export function svg(shown: Shown, colours: Palette): string {
  const [w, h] = [shown.labels + shown.width, shown.ruler + shown.height];
  const out = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${places(w)}" height="${places(h)}" viewBox="0 0 ${places(w)} ${places(h)}" font-family="system-ui, sans-serif">`,
    `<defs>${patterns(colours)}</defs>`,
    box(0, 0, w, h, `fill="${colours.bg}"`),
  ];
  for (const { x, text } of shown.ticks) {
    out.push(box(shown.labels + x, 0, 1, h, `fill="${colours.grid}"`), words(shown.labels + x + 4, shown.ruler - 9, text, colours.ink2, 10.5));
  }
  for (const line of shown.lines) {
    const top = shown.ruler + line.top;
    if (!line.row) out.push(box(0, top, w, line.height, `fill="${colours.panel}"`));
    const detail = fitted(line.detail, shown.labels * 0.55, 10.5);
    out.push(words(8, top + Math.min(line.height - 6, 15), fitted(line.title, shown.labels * (detail ? 0.6 : 1) - 12, 11), colours.ink, 11));
    if (detail) out.push(words(shown.labels - 8, top + Math.min(line.height - 6, 15), detail, colours.ink3, 10.5, 'end'));
    for (const piece of line.row?.pieces ?? []) out.push(drawn(piece, line, shown, colours));
    out.push(box(0, top + line.height - 1, w, 1, `fill="${colours.grid}"`));
  }
  out.push('</svg>');
  return out.join('');
}

/** A name for a file: letters and digits of the trace's name. */
export function fileName(name: string, end: string): string {
  const plain = name.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[.-]+|[.-]+$/g, '').slice(0, 60);
  return `kymo-${plain || 'trace'}.${end}`;
}

type Form = 'png' | 'svg' | 'csv' | 'table';
const KINDS: Record<Form, { title: string; mime: string; end: string }> = {
  png: { title: 'Picture (PNG)', mime: 'image/png', end: 'png' },
  svg: { title: 'Picture (SVG)', mime: 'image/svg+xml', end: 'svg' },
  csv: { title: 'Time line (CSV)', mime: 'text/csv', end: 'csv' },
  table: { title: 'Table below (CSV)', mime: 'text/csv', end: 'table.csv' },
};

/** The panel that copies and saves. */
export class Copy {
  private readonly box = byId('copies');

  constructor(
    private readonly shown: () => Shown,
    private readonly name: string,
    private readonly say: (text: string, isWrong?: boolean) => void,
  ) {
    const list = el('dl', 'keys');
    for (const form of Object.keys(KINDS) as Form[]) {
      const save = link('save', () => void this.run(form, false));
      const copy = link('copy', () => void this.run(form, true));
      save.dataset['form'] = form;
      list.append(el('dt', '', KINDS[form].title), el('dd', '', save, ' ', copy));
    }
    this.box.append(el('h2', '', 'What is shown'), list);
    byId('to-copies').addEventListener('click', () => this.toggle());
  }

  toggle(): void {
    this.box.hidden = !this.box.hidden;
  }

  private async run(form: Form, toClipboard: boolean): Promise<void> {
    try {
      const blob = await this.made(form);
      if (toClipboard) {
        if (form === 'png') await navigator.clipboard.write([new ClipboardItem({ [blob.type]: blob })]);
        else await navigator.clipboard.writeText(await blob.text());
        this.say(`${KINDS[form].title}: copied`);
      } else {
        save(blob, fileName(this.name, KINDS[form].end));
        this.say(`${KINDS[form].title}: saved`);
      }
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error), true);
    }
  }

  private async made(form: Form): Promise<Blob> {
    const type = KINDS[form].mime;
    if (form === 'csv') return new Blob([timelineCsv(this.shown())], { type });
    if (form === 'table') return new Blob([csv(tableRows())], { type });
    const picture = svg(this.shown(), palette());
    return form === 'svg' ? new Blob([picture], { type }) : raster(picture);
  }
}

/** The rows of the table that is shown below the time line. */
function tableRows(): string[][] {
  const shown = document.querySelector<HTMLElement>(`#${document.body.dataset['tab'] ?? 'records'}`);
  const rows = [...(shown?.querySelectorAll('table tr') ?? [])];
  if (!rows.length) throw new Error('there is no table below the time line');
  return rows.map((row) => [...row.children].map((cell) => cell.textContent ?? ''));
}

/** As pixels, as sharp as the screen. */
export async function raster(picture: string): Promise<Blob> {
  const address = URL.createObjectURL(new Blob([picture], { type: 'image/svg+xml' }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const ratio = globalThis.devicePixelRatio || 1;
    const canvas = el('canvas');
    canvas.width = Math.min(16384, Math.round(image.width * ratio));
    canvas.height = Math.min(16384, Math.round(image.height * ratio));
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/png'));
    if (!blob) throw new Error('the picture is too large');
    return blob;
  } finally {
    URL.revokeObjectURL(address);
  }
}

export function save(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  const anchor = el('a');
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  // The browser has opened it by then.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
