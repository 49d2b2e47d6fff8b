// SPDX-License-Identifier: MIT OR Apache-2.0
// The panel that copies and saves what the page over a lake shows: tables as CSV, pictures as SVG and PNG.

import { byId, el, link } from '../common/dom.js';
import { csv, fileName, raster, save } from '../draw/copy.js';

type Rows = (string | number | bigint | null)[][];

/** What can be copied; null where nothing is shown. */
export interface LakeCopies {
  tables: Record<string, () => Rows | null>;
  pictures: Record<string, () => SVGElement | null>;
}

type Say = (text: string, isWrong?: boolean) => void;

export class LakeCopy {
  private readonly box = byId('copies');

  constructor(
    copies: LakeCopies,
    private readonly say: Say,
  ) {
    const list = el('dl', 'keys');
    const item = (title: string, form: string, mime: string, end: string, make: () => Promise<Blob>): void => {
      const name = fileName(title, end);
      const done = (go: Promise<void>, what: string): void => void go.then(() => say(`${title}: ${what}`)).catch((error: unknown) => say(error instanceof Error ? error.message : String(error), true));
      const saves = link('save', () => done(make().then((blob) => save(blob, name)), 'saved'));
      saves.dataset['form'] = form;
      const copies = link('copy', () => done(make().then((blob) => toClipboard(blob, mime)), 'copied'));
      list.append(el('dt', '', `${title} (${end.toUpperCase()})`), el('dd', '', saves, ' ', copies));
    };
    for (const [title, rows] of Object.entries(copies.tables)) {
      item(title, `${title}.csv`, 'text/csv', 'csv', async () => new Blob([csv(shown(rows()))], { type: 'text/csv' }));
    }
    for (const [title, picture] of Object.entries(copies.pictures)) {
      const text = (): string => new XMLSerializer().serializeToString(shown(picture()));
      item(title, `${title}.svg`, 'image/svg+xml', 'svg', async () => new Blob([text()], { type: 'image/svg+xml' }));
      item(title, `${title}.png`, 'image/png', 'png', () => raster(text()));
    }
    this.box.append(el('h2', '', 'What is shown'), list);
  }

  toggle(): void {
    this.box.hidden = !this.box.hidden;
    if (!this.box.hidden) this.say('');
  }
}

function shown<T>(what: T | null): T {
  if (what === null) throw new Error('nothing is shown yet');
  return what;
}

async function toClipboard(blob: Blob, mime: string): Promise<void> {
  if (mime === 'image/png') await navigator.clipboard.write([new ClipboardItem({ [mime]: blob })]);
  else await navigator.clipboard.writeText(await blob.text());
}
