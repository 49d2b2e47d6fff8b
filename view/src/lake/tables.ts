// SPDX-License-Identifier: MIT OR Apache-2.0
// Tables of the page over a lake, and the same as CSV.

import { add, el, link, table } from '../common/dom.js';
import { lookOf } from '../common/looks.js';
import { type Palette } from '../common/palette.js';
import { drawn } from '../common/shapes.js';
import { duration, grouped } from '../common/time.js';
import type { Bounds, Group, Trend, WorstRow } from './data.js';
import { changeText, lostText, sampleLine } from './layout.js';
import { command, pictureAddress } from './links.js';
import { type LakeView, QUANTILES, QUANTILE_NAMES, dayText, momentText, valueName } from './view.js';

/** A quantile as text; where records were lost, between what it lies. */
export function boundsText(bounds: Bounds | null, isLossy: boolean): string {
  if (!bounds) return 'too few';
  if (!isLossy) return duration(bounds.value);
  return `${duration(bounds.least)} to ${bounds.most === null ? '?' : duration(bounds.most)}`;
}

export interface GroupActions {
  only: (value: string | null) => void;
  toggle: (value: string | null) => void;
}

/** Groups of a distribution. */
export function groupTable(groups: readonly Group[], view: LakeView, colours: Palette, actions: GroupActions): HTMLElement {
  const isLossy = (group: Group): boolean => group.lost > 0 || group.packets > 0;
  return table<Group>(
    [
      { head: 'Drawn', cell: (group) => sample(group, view, colours, actions.toggle) },
      { head: 'Group', cell: (group) => link(valueName(group.value), () => actions.only(group.value), 'Only this') },
      { head: 'Hosts', isNumber: true, cell: (group) => grouped(group.hosts) },
      { head: 'Traces', isNumber: true, cell: (group) => grouped(group.traces) },
      { head: 'Samples', isNumber: true, cell: (group) => grouped(group.count) },
      { head: 'Doubtful', isNumber: true, cell: (group) => (group.doubtful ? grouped(group.doubtful) : '') },
      ...QUANTILES.map((name) => ({ head: QUANTILE_NAMES[name], isNumber: true, cell: (group: Group) => boundsText(group.quantiles[name], isLossy(group)) })),
      { head: 'Lost', cell: (group) => (isLossy(group) ? el('span', 'lost', lostText(group.lost, group.packets)) : '') },
    ],
    groups,
  );
}

/** The look of a group, and whether it is drawn. */
function sample(group: Group, view: LakeView, colours: Palette, toggle: (value: string | null) => void): HTMLElement {
  const box = el('input');
  box.type = 'checkbox';
  box.checked = !view.hide.includes(group.value);
  box.setAttribute('aria-label', `Draw ${valueName(group.value)}`);
  box.addEventListener('change', () => toggle(group.value));
  const made = el('label', 'sample', box);
  if (box.checked) {
    const line = drawn(sampleLine(lookOf(group.row)), colours, '');
    line.setAttribute('aria-hidden', 'true');
    made.append(line);
  }
  return made;
}

export function groupCsv(groups: readonly Group[]): (string | number | null)[][] {
  const quantiles = QUANTILES.flatMap((name) => [`${name}_ns`, `${name}_least_ns`, `${name}_most_ns`]);
  const head = ['group', 'hosts', 'traces', 'samples', 'doubtful', 'lost_records', 'lost_packets', ...quantiles];
  const row = (group: Group): (string | number | null)[] => [
    group.value,
    group.hosts,
    group.traces,
    group.count,
    group.doubtful,
    group.lost,
    group.packets,
    ...QUANTILES.flatMap((name) => {
      const bounds = group.quantiles[name];
      return [bounds?.value ?? null, bounds?.least ?? null, bounds?.most ?? null];
    }),
  ];
  return [head, ...groups.map(row)];
}

/** Changes of all groups, in the order of days. */
export function changeTable(trends: readonly Trend[], choose: (day: number) => void): HTMLElement {
  const rows = trends.flatMap((trend) => trend.changes.map((change) => ({ trend, change })));
  rows.sort((a, b) => a.change.day - b.change.day);
  return table(
    [
      { head: 'First day', cell: ({ change }) => dayText(change.day) },
      { head: 'Group', cell: ({ trend }) => valueName(trend.value) },
      { head: 'Change', isNumber: true, cell: ({ change }) => changeText(change.before, change.after) },
      { head: 'Before', isNumber: true, cell: ({ change }) => `${duration(change.before)} (${change.daysBefore} days)` },
      { head: 'After', isNumber: true, cell: ({ change }) => `${duration(change.after)} (${change.daysAfter} days)` },
      { head: 'p', isNumber: true, cell: ({ change }) => (change.p < 0.001 ? '< 0.001' : change.p.toFixed(3)) },
      { head: 'Doubt', cell: ({ change }) => change.doubt ?? '' },
    ],
    rows,
    ({ change }) => choose(change.day),
  );
}

export function trendCsv(trends: readonly Trend[]): (string | number | null)[][] {
  const head = ['group', 'day', 'samples', 'value_ns', 'least_ns', 'most_ns', 'lost_records', 'lost_packets', 'change_before_ns', 'change_p', 'doubt'];
  const rows = trends.flatMap(({ value, days, changes }) =>
    days.map((day) => {
      const change = changes.find((one) => one.day === day.day);
      const { bounds } = day;
      return [value, dayText(day.day), day.count, bounds?.value ?? null, bounds?.least ?? null, bounds?.most ?? null, day.lost, day.packets, change?.before ?? null, change?.p ?? null, change?.doubt ?? null];
    }),
  );
  return [head, ...rows];
}

function labelsText(row: WorstRow): string {
  return row.place?.labels.map(([key, value]) => `${key}=${value}`).join(', ') ?? '';
}

/** The longest samples, each with a way to its picture. */
export function worstTable(rows: readonly WorstRow[], what: string, say: (text: string) => void): HTMLElement {
  return table<WorstRow>(
    [
      { head: '#', isNumber: true, cell: (row) => row.row + 1 },
      { head: 'Lasted', isNumber: true, cell: (row) => duration(row.ns) },
      { head: 'Picture', cell: (row) => picture(row, what, say) },
      { head: 'Host', cell: (row) => row.host ?? 'not known' },
      { head: 'Time (UTC)', cell: (row) => (row.time === null ? 'not known' : momentText(row.time)) },
      { head: 'Thread', cell: (row) => row.thread },
      { head: 'CPU', isNumber: true, cell: (row) => row.cpu ?? '' },
      { head: 'Of', cell: (row) => row.of },
      { head: 'By', cell: (row) => row.by },
      { head: 'Labels', cell: (row) => el('span', 'cut', labelsText(row)) },
      { head: 'Doubt', cell: (row) => row.doubt },
    ],
    rows,
  );
}

/** A link where the trace is on this machine; else what to run, and where. */
function picture(row: WorstRow, what: string, say: (text: string) => void): HTMLElement | string {
  const address = pictureAddress(row, what);
  if (address) {
    const made = el('a', 'link', 'Show');
    made.href = address;
    made.setAttribute('aria-label', `Show the picture of sample ${row.row + 1}`);
    return made;
  }
  const found = command(row);
  if (!found) return row.place ? 'time not known' : 'trace not known';
  const text = found.lines.join('\n');
  const box = el('details', 'elsewhere', el('summary', '', 'Command'));
  const copy = link('copy', () => {
    navigator.clipboard.writeText(text).then(
      () => say('The command was copied.'),
      () => say('The browser does not allow to copy: select the text.'),
    );
  });
  add(box, el('div', 'i2', found.where), el('pre', '', ...found.lines.map((line) => el('div', '', line))), copy);
  return box;
}

export function worstCsv(rows: readonly WorstRow[]): (string | number | bigint | null)[][] {
  const head = ['value_ns', 'time_ns', 'end_time_ns', 'host', 'thread', 'cpu', 'of', 'by', 'labels', 'doubt', 'trace', 'place', 'added_on'];
  const row = (one: WorstRow): (string | number | bigint | null)[] => [one.ns, one.time, one.endTime, one.host, one.thread, one.cpu, one.of, one.by, labelsText(one), one.doubt, one.place?.trace ?? null, one.place?.place ?? null, one.place?.addedOn ?? null];
  return [head, ...rows.map(row)];
}
