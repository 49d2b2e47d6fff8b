// SPDX-License-Identifier: MIT OR Apache-2.0
// What can stand at the caret of a filter [spec/filter.md]. Pure. It knows names and where they may stand; whether a filter
// is one is decided by the server alone.

import type { Answer } from './columns.js';

type Kind = 'integer' | 'float' | 'text' | 'other' | 'condition' | 'unknown';

/** A field, and the events that have it. */
interface Field {
  name: string;
  kind: Kind;
  events: string[];
}

/** The names of a trace. */
export interface Names {
  events: string[];
  fields: Field[];
  /** With their `$`. */
  contexts: string[];
}

/** Something that can be put in: `text` takes the place of what stands there. */
export interface Choice {
  text: string;
  about: string;
}

export interface Completion {
  /** The part of the filter that a choice takes the place of. */
  from: number;
  to: number;
  /** How many of its characters were typed: none where only a place is known. */
  typed: number;
  choices: Choice[];
}

/** Choices at most: who has more types another letter. */
const CHOICES_MAX = 100;

const CONTEXTS: Readonly<Record<string, { kind: Kind; about: string }>> = {
  $time: { kind: 'integer', about: 'time since the origin of the clock' },
  $cpu: { kind: 'integer', about: 'number of the CPU' },
  $pid: { kind: 'integer', about: 'number of the process' },
  $tid: { kind: 'integer', about: 'number of the thread' },
  $proc: { kind: 'text', about: 'name of the thread or process' },
  $event: { kind: 'text', about: 'name of the event' },
  $running: { kind: 'integer', about: 'thread that runs on the CPU' },
  $task: { kind: 'text', about: 'name of the thread that runs on the CPU' },
  $task_prio: { kind: 'integer', about: 'its priority: real-time below 100' },
  $syscall: { kind: 'text', about: 'system call that it is in' },
  $doing: { kind: 'text', about: 'what the CPU does: thread, idle, interrupt' },
};

const FUNCTIONS: readonly Choice[] = [
  { text: 'has(', about: 'the record has this field' },
  { text: 'latency(', about: 'time between two events' },
  { text: 'len(', about: 'length of a text or an array' },
  { text: 'wakeup(', about: 'wait of a woken thread for its CPU' },
];
const JOINS: readonly Choice[] = [
  { text: '&& ', about: 'and' },
  { text: '|| ', about: 'or' },
];
const EQUALITIES: readonly Choice[] = [
  { text: '== ', about: 'equal' },
  { text: '!= ', about: 'not equal' },
];
const ORDERS: readonly Choice[] = [
  { text: '< ', about: 'less' },
  { text: '<= ', about: 'at most' },
  { text: '> ', about: 'more' },
  { text: '>= ', about: 'at least' },
];
const GLOBS: readonly Choice[] = [
  { text: '~ ', about: 'matches, with * and ?' },
  { text: '!~ ', about: 'does not match' },
];
const IN: Choice = { text: 'in (', about: 'one of' };

/** The names of an answer to `schema`. */
export function namesOf(answer: Answer): Names {
  const [events, fields, contexts, recorded] = ['events', 'fields', 'contexts', 'recorded_contexts'].map((name) => answer.table(name));
  const names: string[] = [];
  for (let i = 0; i < (events?.rows ?? 0); i++) names.push(events?.text('name', i) ?? '');
  const found = new Map<string, Field>();
  for (let i = 0; i < (fields?.rows ?? 0); i++) {
    const [name, event] = [fields?.text('name', i) ?? '', names[fields?.number('event', i) ?? -1] ?? ''];
    const kind = (fields?.text('kind', i) ?? 'unknown') as Kind;
    const known = found.get(name);
    if (!known) found.set(name, { name, kind, events: [event] });
    else {
      known.events.push(event);
      // Of two kinds: each comparison can be meant.
      if (known.kind !== kind) known.kind = 'unknown';
    }
  }
  const all = new Set<string>();
  for (let i = 0; i < (contexts?.rows ?? 0); i++) all.add(contexts?.text('name', i) ?? '');
  for (let i = 0; i < (recorded?.rows ?? 0); i++) all.add(`$${recorded?.text('name', i) ?? ''}`);
  return { events: [...new Set(names)], fields: [...found.values()], contexts: [...all] };
}

interface Token {
  kind: 'text' | 'quoted' | 'context' | 'number' | 'word' | 'operator';
  text: string;
  from: number;
  to: number;
}

/** Event names have a colon inside; a dot leads to a field, or to a member of one. */
const TOKENS =
  /(?<text>"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?)|(?<quoted>`[^`]*`?)|(?<context>\$\w*)|(?<number>\d[\w.]*)|(?<word>(?:[*?]*[A-Za-z_][\w*?]*:[\w:*?]*|[*?]+:[\w:*?]*|[A-Za-z_]\w*)(?:\.\w*|\[\d*\]?)*)|(?<operator>&&|\|\||[=!<>]=|!~|<<|>>|[^\s\w])/gu;

function tokens(filter: string): Token[] {
  return [...filter.matchAll(TOKENS)].map((match) => {
    const [kind = 'operator'] = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined) ?? [];
    return { kind: kind as Token['kind'], text: match[0], from: match.index, to: match.index + match[0].length };
  });
}

/** What a bracket belongs to, and how far it is filled. */
interface Level {
  of: string;
  parts: number;
  isCompared: boolean;
}

/** What may stand behind some tokens. */
interface Place {
  /** A value; else an operator. */
  isValue: boolean;
  /** The left side of the comparison, or the last value. */
  left: string;
  level: Level;
  depth: number;
  /** The events that the filter is about; null: all. */
  only: string | null;
}

const COMPARISONS = ['==', '!=', '<', '<=', '>', '>=', '~', '!~'];

function placeBehind(before: readonly Token[]): Place {
  const levels: Level[] = [{ of: '', parts: 0, isCompared: false }];
  const top = (): Level => levels[levels.length - 1] ?? { of: '', parts: 0, isCompared: false };
  const place = { isValue: true, left: '', only: null as string | null };
  before.forEach((token, i) => {
    const { text } = token;
    if (token.kind !== 'operator') {
      if (text === 'in' && !place.isValue) [place.isValue, top().isCompared] = [true, true];
      else if (i === 0 && /.:$/.test(text)) place.only = text.slice(0, -1);
      else {
        if (!top().isCompared) place.left = text;
        place.isValue = false;
      }
      return;
    }
    if (text === '(') {
      const previous = before[i - 1]?.text ?? '';
      levels.push({ of: previous, parts: 0, isCompared: previous === 'in' });
      place.isValue = true;
    } else if (text === ')') {
      const inner = levels.length > 1 ? levels.pop() : undefined;
      place.isValue = false;
      if (inner?.of === 'has') place.left = 'has(';
      else if (inner && ['len', 'latency', 'wakeup'].includes(inner.of)) place.left = inner.of;
      else if (inner?.isCompared && inner.of !== 'in') top().isCompared = true;
    } else if (text === ':' && i === 1) {
      [place.only, place.isValue] = [unquoted(before[0]?.text ?? ''), true];
    } else if (text === '&&' || text === '||') {
      [place.isValue, top().isCompared, place.left] = [true, false, ''];
    } else if (text === ',') {
      place.isValue = true;
      top().parts++;
    } else if (COMPARISONS.includes(text)) [place.isValue, top().isCompared] = [true, true];
    else place.isValue = true;
  });
  return { ...place, level: top(), depth: levels.length - 1 };
}

/** What can stand at the caret; null where nothing is known. */
export function completion(names: Names, filter: string, caret: number): Completion | null {
  const all = tokens(filter);
  const current = all.find((token) => token.from < caret && caret <= token.to && !(token.kind === 'operator' && !isBegun(token, all))) ?? null;
  const before = all.filter((token) => (current ? token.to <= current.from : token.to <= caret));
  const place = placeBehind(before);
  const typed = filter.slice(current?.from ?? caret, caret);
  const found = current?.kind === 'number' ? [] : place.isValue ? values(names, place, before, typed) : operators(names, place);
  const choices = ranked(found, typed);
  if (!choices.length || (choices.length === 1 && choices[0]?.text.trim() === typed)) return null;
  return { from: current?.from ?? caret, to: current?.to ?? caret, typed: typed.length, choices };
}

/** An operator that is the begin of another one, where one can stand. */
function isBegun(token: Token, all: readonly Token[]): boolean {
  return ['=', '!', '&', '|'].includes(token.text) && !placeBehind(all.filter((one) => one.to <= token.from)).isValue;
}

function values(names: Names, place: Place, before: readonly Token[], typed: string): Choice[] {
  const { level, only } = place;
  const isCompared = level.isCompared;
  if (isCompared && place.left === '$event') return names.events.map((name) => ({ text: `${JSON.stringify(name)} `, about: 'event' }));
  if (/^["'0-9]/.test(typed)) return [];
  if (level.of === 'latency' && level.parts < 2) return names.events.map((name) => ({ text: written(name, false), about: 'event' }));
  const dot = before.at(-1);
  const owner = /^(.*:.*)\.[^.]*$/.exec(typed)?.[1] ?? (dot?.text === '.' ? unquoted(before.at(-2)?.text ?? '') : null);
  if (owner !== null) {
    const lead = dot?.text === '.' ? '' : `${owner}.`;
    return fields(names, owner).map((field) => ({ text: `${lead}${nameOf(field)} `, about: field.kind }));
  }
  const isInner = level.of === 'has' || level.of === 'len';
  const own = fields(names, only).map((field) => ({ text: `${nameOf(field)}${isInner ? ') ' : ' '}`, about: `${field.kind}, ${eventsOf(field)}` }));
  if (isInner) return own;
  // Behind a comparison there is a value as a rule, which the trace does not tell.
  if (isCompared && !typed) return [];
  const contexts = names.contexts.map((name) => ({ text: `${name} `, about: CONTEXTS[name]?.about ?? 'recorded context' }));
  const isFirst = !before.length;
  const events = only === null ? names.events.map((name) => ({ text: isFirst ? `${written(name, true)}: ` : `${written(name, false)}.`, about: isFirst ? 'only this event' : 'a field of this event' })) : [];
  return [...own, ...contexts, ...events, ...FUNCTIONS];
}

function operators(names: Names, place: Place): Choice[] {
  const end: Choice[] = place.depth > 0 ? [{ text: ') ', about: 'end of the bracket' }] : [];
  if (place.level.of === 'in' || place.level.of === 'latency' || place.level.of === 'has' || place.level.of === 'len') return end;
  const kind = kindOf(names, place.left);
  if (place.level.isCompared || kind === 'condition') return [...JOINS, ...end];
  switch (kind) {
    case 'text':
      return [...EQUALITIES, ...GLOBS, IN];
    case 'integer':
    case 'float':
      return [...EQUALITIES, ...ORDERS, IN];
    case 'other':
      return [];
    default:
      return [...EQUALITIES, ...ORDERS, ...GLOBS, IN, ...JOINS, ...end];
  }
}

function kindOf(names: Names, left: string): Kind {
  if (left === 'has(') return 'condition';
  if (['len', 'latency', 'wakeup'].includes(left) || /^\d/.test(left)) return 'integer';
  if (left.startsWith('$')) return CONTEXTS[left]?.kind ?? 'unknown';
  const name = unquoted(left.replace(/^.*:.*\./, ''));
  return names.fields.find((field) => field.name === name)?.kind ?? 'unknown';
}

/** Those that begin with what was typed, then those that have it inside. */
function ranked(choices: readonly Choice[], typed: string): Choice[] {
  const wanted = plain(typed);
  if (!wanted) return choices.slice(0, CHOICES_MAX);
  const of = (choice: Choice): string => plain(choice.text);
  const first = choices.filter((choice) => of(choice).startsWith(wanted));
  const isWord = /^\w/.test(wanted);
  const others = isWord ? choices.filter((choice) => !of(choice).startsWith(wanted) && of(choice).includes(wanted)) : [];
  return [...first, ...others].slice(0, CHOICES_MAX);
}

function plain(text: string): string {
  return text.toLowerCase().replace(/^["'`]/, '');
}

function fields(names: Names, events: string | null): Field[] {
  if (events === null) return names.fields;
  return names.fields.filter((field) => field.events.some((event) => matches(events, event)));
}

function eventsOf(field: Field): string {
  const [first = '', ...more] = field.events;
  return more.length ? `${first} and ${more.length} more` : first;
}

/** A name with `*` and `?` against another one. */
export function matches(glob: string, name: string): boolean {
  const pattern = glob.replace(/[.+^${}()|[\]\\]/g, '\\$&').replace(/\*/g, '[^]*').replace(/\?/g, '[^]');
  return new RegExp(`^${pattern}$`, 'u').test(name);
}

function nameOf(field: Field): string {
  const isPlain = /^[A-Za-z_]\w*$/.test(field.name) && !['true', 'false', 'in'].includes(field.name);
  return isPlain ? field.name : `\`${field.name}\``;
}

/** An event as a filter has it. In front of a colon a name without one needs no quotes. */
function written(event: string, isFirst: boolean): string {
  const isPlain = isFirst ? /^[A-Za-z_]\w*(:[A-Za-z_]\w*)*$/ : /^[A-Za-z_]\w*(:[A-Za-z_]\w*)+$/;
  return isPlain.test(event) ? event : JSON.stringify(event);
}

function unquoted(text: string): string {
  return text.replace(/^["'`]/, '').replace(/["'`]$/, '');
}
