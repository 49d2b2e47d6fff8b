// SPDX-License-Identifier: MIT OR Apache-2.0
// What is in a lake: traces, hosts, days, labels, what was lost, what is unfinished.

import { add, el, link, table } from '../common/dom.js';
import { grouped } from '../common/time.js';
import type { Answer } from '../query/columns.js';
import { lostText } from './layout.js';
import { dayText } from './view.js';

/** Values of a label that are shown at first. */
const VALUES = 12;

/** `88.2 MiB`. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [size, unit] = [bytes, 0];
  while (size >= 1024 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${unit ? size.toFixed(1) : size} ${units[unit]}`;
}

function countText(count: number, one: string, many: string): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** One sentence: `12 traces of 3 hosts, 2026-11-20 to 2026-11-28: 4 200 000 rows, 88.2 MiB.` */
export function leadText(answer: Answer): string {
  const [additions, hosts, days] = [answer.table('additions'), answer.table('hosts'), answer.table('days')];
  const known = Array.from({ length: hosts.rows }, (_, row) => hosts.text('host', row)).filter((host) => host !== null);
  const numbers = Array.from({ length: days.rows }, (_, row) => days.number('day', row)).filter((day) => day !== null);
  const [first, last] = [numbers[0], numbers.at(-1)];
  const when = first === undefined || last === undefined ? 'days unknown' : first === last ? dayText(first) : `${dayText(first)} to ${dayText(last)}`;
  const { info } = answer.head;
  if (!additions.rows) return 'The lake is empty.';
  return `${countText(additions.rows, 'trace', 'traces')} of ${countText(known.length, 'host', 'hosts')}, ${when}: ${grouped(Number(info['rows'] ?? 0))} rows, ${bytesText(Number(info['bytes'] ?? 0))}.`;
}

/** Labels with their values, and how many traces have each. */
export function labelsOf(answer: Answer): Map<string, { value: string; additions: number }[]> {
  const of = answer.table('labels');
  const found = new Map<string, { value: string; additions: number }[]>();
  for (let row = 0; row < of.rows; row++) {
    const key = of.text('key', row) ?? '';
    found.set(key, [...(found.get(key) ?? []), { value: of.text('value', row) ?? '', additions: of.number('additions', row) ?? 0 }]);
  }
  return found;
}

/** The section. `choose`: a label's value was clicked. */
export function contents(answer: Answer, choose: (key: string, value: string) => void): HTMLElement[] {
  const parts: (HTMLElement | null)[] = [el('h1', '', String(answer.head.info['lake'] ?? 'Lake')), el('p', 'lead', leadText(answer)), losses(answer), unfinished(answer), labels(answer, choose)];
  if (!answer.table('additions').rows) parts.push(el('p', 'note', 'Add traces: ', el('code', '', `kymo lake add TRACE --to ${String(answer.head.info['lake'] ?? 'URL')}`)));
  else parts.push(additions(answer));
  return parts.filter((part) => part !== null);
}

function losses(answer: Answer): HTMLElement {
  const { records, packets, places } = answer.head.lost;
  const of = answer.table('additions');
  let damaged = 0;
  let missing = 0;
  for (let row = 0; row < of.rows; row++) {
    damaged += of.number('damaged', row) ?? 0;
    missing += of.number('missing_before', row) ?? 0;
  }
  const texts = [
    places && (records || packets) ? `${lostText(records, packets)} were lost, in ${countText(places, 'trace', 'traces')}.` : '',
    missing ? `${countText(missing, 'chunk', 'chunks')} of sessions were removed before they were in the lake.` : '',
    damaged ? `${countText(damaged, 'place is', 'places are')} damaged or doubtful.` : '',
  ].filter(Boolean);
  return texts.length ? el('p', 'lost', texts.join(' ')) : el('p', 'good', 'Nothing was lost.');
}

function unfinished(answer: Answer): HTMLElement | null {
  const of = answer.table('unfinished');
  if (!of.rows) return null;
  const box = el('ul', 'caveats');
  for (let row = 0; row < of.rows; row++) {
    const [place, host, pid] = [of.text('place', row) ?? '', of.text('host', row) ?? '', of.number('pid', row) ?? 0];
    const isRunning = of.number('is_running', row) === 1;
    add(box, el('li', '', isRunning ? `Being added: ${place}, by process ${pid} of ${host}.` : `Unfinished: ${place}. The run of process ${pid} of ${host} was ended; nothing of it is shown here. Add the trace again to complete it.`));
  }
  return box;
}

function labels(answer: Answer, choose: (key: string, value: string) => void): HTMLElement | null {
  const all = labelsOf(answer);
  if (!all.size) return null;
  const list = el('dl', 'labels');
  for (const [key, values] of all) {
    const box = el('dd');
    for (const { value, additions } of values.slice(0, VALUES)) add(box, el('span', 'chip', link(value, () => choose(key, value), `Only ${key} ${value}`), el('span', 'i2', grouped(additions))));
    if (values.length > VALUES) add(box, el('span', 'i2', `and ${grouped(values.length - VALUES)} more`));
    add(list, el('dt', '', key), box);
  }
  return list;
}

function additions(answer: Answer): HTMLElement {
  const of = answer.table('additions');
  const rows = Array.from({ length: of.rows }, (_, row) => row);
  const number = (name: string, row: number): string => grouped(of.number(name, row) ?? 0);
  const days = (row: number): string => {
    const [first, last] = [of.number('first', row), of.number('last', row)];
    if (first === null || last === null) return 'not known';
    return first === last ? dayText(first) : `${dayText(first)} to ${dayText(last)}`;
  };
  const lost = (row: number): HTMLElement | string => {
    const texts = [lostText(of.number('lost_records', row) ?? 0, of.number('lost_packets', row) ?? 0), of.number('damaged', row) ? `${number('damaged', row)} damaged` : ''].filter(Boolean);
    return texts.length ? el('span', 'lost', texts.join(', ')) : '';
  };
  const list = table<number>(
    [
      { head: 'Host', cell: (row) => of.text('hosts', row) || 'not known' },
      { head: 'Days', cell: days },
      { head: 'Rows', isNumber: true, cell: (row) => number('rows', row) },
      { head: 'Size', isNumber: true, cell: (row) => bytesText(of.number('bytes', row) ?? 0) },
      { head: 'Lost', cell: lost },
      { head: 'Trace', cell: (row) => `${of.text('place', row)}${of.number('is_copy', row) ? ' (copy)' : ` on ${of.text('added_on', row)}`}` },
      { head: 'Added', cell: (row) => of.text('added', row) },
    ],
    rows,
  );
  return el('details', '', el('summary', '', `All ${countText(of.rows, 'trace', 'traces')}`), el('div', 'wide', list));
}
