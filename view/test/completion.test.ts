// SPDX-License-Identifier: MIT OR Apache-2.0
// What can stand at the caret of a filter.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { decode } from '../src/query/columns.js';
import { type Names, completion, matches, namesOf } from '../src/query/completion.js';
import { frame } from './frame.js';

const texts = ['sched_switch', 'motor:step', 'motor:hello world', 'prev_comm', 'text', 'next_tid', 'integer', 'position', 'float', 'a b', '$cpu', '$event', '$tid', 'perf_misses'];
const at = (text: string): number => texts.indexOf(text);
const schema = frame(
  {
    events: { name: ['text', [0, 1, 2]], is_kernel: ['u8', [1, 0, 0]] },
    fields: {
      event: ['u32', [0, 0, 1, 2, 2]],
      name: ['text', [at('prev_comm'), at('next_tid'), at('position'), at('position'), at('a b')]],
      kind: ['text', [at('text'), at('integer'), at('float'), at('float'), at('integer')]],
    },
    contexts: { name: ['text', [at('$cpu'), at('$event'), at('$tid')]] },
    recorded_contexts: { event: ['u32', [1]], name: ['text', [at('perf_misses')]] },
  },
  { texts },
);
const names: Names = namesOf(decode(schema));
/** What is offered where the bar stands. */
function offered(filter: string): string[] {
  const caret = filter.indexOf('|^');
  return (completion(names, filter.replace('|^', ''), caret)?.choices ?? []).map((choice) => choice.text);
}
/** The filter after the first choice. */
function taken(filter: string): string {
  const caret = filter.indexOf('|^');
  const text = filter.replace('|^', '');
  const found = completion(names, text, caret);
  return found ? text.slice(0, found.from) + (found.choices[0]?.text ?? '') + text.slice(found.to) : text;
}

test('the names of a trace: each once, with the events that have it', () => {
  assert.deepEqual(names.events, ['sched_switch', 'motor:step', 'motor:hello world']);
  assert.deepEqual(names.fields.map((field) => field.name), ['prev_comm', 'next_tid', 'position', 'a b']);
  assert.deepEqual(names.fields[2]?.events, ['motor:step', 'motor:hello world']);
  assert.deepEqual(names.contexts, ['$cpu', '$event', '$tid', '$perf_misses']);
});

test('where a value can stand: fields, contexts, events and functions', () => {
  const all = offered('|^');
  for (const text of ['prev_comm ', '`a b` ', '$cpu ', '$perf_misses ', 'sched_switch: ', 'motor:step: ', '"motor:hello world": ', 'wakeup(']) assert.ok(all.includes(text), text);
  assert.deepEqual(offered('$c|^'), ['$cpu ']);
  assert.deepEqual(offered('pos|^'), ['position ']);
  assert.deepEqual(offered('tid|^'), ['next_tid ', '$tid '], 'also inside of a name');
  assert.equal(taken('next_tid == 3 && po|^'), 'next_tid == 3 && position ');
  assert.equal(taken('po|^s > 1'), 'position  > 1', 'the whole word is replaced');
  assert.ok(offered('next_tid == 3 && |^').includes('"sched_switch".'), 'not at the begin: a field of an event');
});

test('behind events only their fields are offered', () => {
  assert.deepEqual(offered('motor:step: p|^').filter((text) => /^p/.test(text)), ['position ']);
  assert.ok(!offered('sched_switch: |^').includes('position '));
  assert.ok(offered('motor:*: |^').includes('`a b` '));
  assert.deepEqual(offered('"motor:hello world": a|^').slice(0, 1), ['`a b` ']);
  assert.deepEqual(offered('motor:step.|^'), ['motor:step.position ']);
  assert.deepEqual(offered('$cpu == 1 && "sched_switch".n|^'), ['next_tid ']);
  assert.deepEqual(offered('has(ne|^'), ['next_tid) ']);
  assert.deepEqual(offered('latency(|^'), ['"sched_switch"', 'motor:step', '"motor:hello world"']);
  assert.deepEqual(offered('latency(motor:step, sch|^'), ['"sched_switch"']);
});

test('behind a value: the operators of its kind', () => {
  assert.deepEqual(offered('prev_comm |^'), ['== ', '!= ', '~ ', '!~ ', 'in (']);
  assert.deepEqual(offered('position |^'), ['== ', '!= ', '< ', '<= ', '> ', '>= ', 'in (']);
  assert.deepEqual(offered('position i|^'), ['in (']);
  assert.deepEqual(offered('motor:step.position =|^'), ['== ']);
  assert.deepEqual(offered('$cpu == 0 |^'), ['&& ', '|| ']);
  assert.deepEqual(offered('$cpu == 0 &|^'), ['&& ']);
  assert.deepEqual(offered('($cpu == 0 |^'), ['&& ', '|| ', ') ']);
  assert.deepEqual(offered('($cpu == 0) |^'), ['&& ', '|| ']);
  assert.deepEqual(offered('has(position) |^'), ['&& ', '|| ']);
  assert.deepEqual(offered('wakeup() |^').slice(0, 3), ['== ', '!= ', '< ']);
  assert.deepEqual(offered('$cpu in (1 |^'), [') ']);
  assert.deepEqual(offered('$cpu in (1) |^'), ['&& ', '|| ']);
});

test('names of events are offered as the text of $event, and nothing is where only the user knows', () => {
  assert.deepEqual(offered('$event == |^'), ['"sched_switch" ', '"motor:step" ', '"motor:hello world" ']);
  assert.deepEqual(offered('$event == "mo|^'), ['"motor:step" ', '"motor:hello world" ']);
  assert.equal(taken('$event == "sch|^"'), '$event == "sched_switch" ');
  assert.deepEqual(offered('$cpu == |^'), []);
  assert.deepEqual(offered('prev_comm == "s|^'), []);
  assert.deepEqual(offered('$cpu == 1|^'), []);
  assert.deepEqual(offered('$cpu|^'), [], 'it is there');
});

test('globs of events', () => {
  assert.ok(matches('motor:*', 'motor:step') && matches('*:st?p', 'motor:step') && matches('a.b', 'a.b'));
  assert.ok(!matches('motor:s', 'motor:step') && !matches('a.b', 'axb'));
});
