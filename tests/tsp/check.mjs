// SPDX-License-Identifier: MIT OR Apache-2.0
// The Trace Server Protocol of kymo view, asked by the client library of the viewers, beside the JSON answers of q/.
// Usage: node check.mjs ADDRESS TRACE_DIR; the server was started with --tsp. Last line: N passed, N failed.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { HttpTspClient } = require('tsp-typescript-client/lib/protocol/http-tsp-client');
const { QueryHelper } = require('tsp-typescript-client/lib/models/query/query-helper');
const { Query } = require('tsp-typescript-client/lib/models/query/query');

const [address, dir] = process.argv.slice(2);
const base = `${address}tsp/api`;
const client = new HttpTspClient(base);
let [passed, failed] = [0, 0];

async function step(name, go) {
  try {
    await go();
    passed++;
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED ${name}: ${error.stack}`);
  }
}

/** The model of an answer; the client drops it where anything in it is not as the protocol wants. */
async function model(answer) {
  const found = await answer;
  assert.equal(found.getStatusCode(), 200, found.getText());
  const whole = found.getModel();
  assert.ok(whole !== undefined, `the client dropped ${found.getText().slice(0, 300)}`);
  return whole;
}
async function enveloped(answer) {
  const { status, model: inner } = await model(answer);
  assert.equal(status, 'COMPLETED');
  return inner;
}
async function ask(question, parameters) {
  const query = new URLSearchParams({ ...parameters, format: 'json' });
  const response = await fetch(`${address}q/${question}?${query}`);
  const json = await response.json();
  assert.equal(response.status, 200, JSON.stringify(json));
  json.base = BigInt(json.base);
  json.time = (ns) => json.base + BigInt(ns);
  return json;
}
const rows = (table) => {
  const names = Object.keys(table);
  return (table[names[0]] ?? []).map((_, row) => Object.fromEntries(names.map((name) => [name, table[name][row]])));
};
/** Status and headers of a request whose head is as it is here. */
const raw = (url, method, headers, body) =>
  new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, (response) => {
      response.resume();
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers }));
    });
    sent.on('error', reject);
    sent.end(body);
  });

const ids = {};
let experiment;
let threads = [];

await step('health, identifier, trace and experiment', async () => {
  assert.equal((await model(client.checkHealth())).status, 'UP');
  assert.equal((await model(client.fetchIdentifier())).tspVersion, '0.6.0');
  const trace = await model(client.openTrace(new Query({ name: 'mine', uri: dir })));
  assert.ok(trace.end > trace.start && typeof trace.start === 'bigint');
  const none = await client.openTrace(new Query({ name: 'x', uri: '/etc' }));
  assert.equal(none.getStatusCode(), 404);
  experiment = await model(client.createExperiment(new Query({ name: 'mine', traces: [trace.UUID] })));
  assert.equal(experiment.traces[0].UUID, trace.UUID);
  assert.equal((await model(client.fetchExperiment(experiment.UUID))).indexingStatus, 'COMPLETED');
  const summary = await ask('summary', {});
  assert.equal(experiment.start, summary.base);
  assert.equal(experiment.end + 1n, summary.time(summary.to));
  assert.equal((await model(client.fetchTraces())).length, 1);
});
const exp = () => experiment.UUID;

await step('outputs have types that viewers draw', async () => {
  for (const output of await model(client.experimentOutputs(exp()))) {
    assert.match(output.id, /^[A-Za-z0-9._:-]+$/);
    assert.ok(['TABLE', 'TREE_TIME_XY', 'TIME_GRAPH', 'DATA_TREE'].includes(output.type), output.type);
    ids[output.name] = output.id;
  }
  assert.ok(ids['Thread Status'] && ids['Resources Status'] && ids['Events Table'] && ids['Histogram']);
  assert.deepEqual(await enveloped(client.fetchMarkerSets(exp())), []);
});

/** Windows of several lengths. */
function* windows() {
  const whole = experiment.end - experiment.start;
  for (const [part, of] of [[0n, 1n], [3n, 10n], [50n, 100n], [512n, 1000n]]) {
    const start = experiment.start + (whole * part) / (part ? of : 1n);
    const end = part ? start + whole / of : experiment.end;
    yield { start, end: end > experiment.end ? experiment.end : end, times: 501 };
  }
}

await step('threads: a tree with its root first', async () => {
  const tree = await enveloped(client.fetchTimeGraphTree(exp(), ids['Thread Status'], QueryHelper.query()));
  assert.equal(tree.entries[0].start, experiment.start);
  const unique = new Set(tree.entries.map((entry) => entry.id));
  assert.equal(unique.size, tree.entries.length);
  for (const entry of tree.entries) {
    assert.ok(entry.id >= 1 && entry.id < 2 ** 31 && entry.labels[0].trim());
    assert.ok(entry.parentId === -1 || unique.has(entry.parentId));
  }
  const answer = await ask('threads', { limit: 10000 });
  assert.equal(tree.entries.length - 1, answer.tables.threads.tid.length);
  threads = tree.entries.slice(1).map((entry) => ({ id: entry.id, tid: Number(entry.labels[1]) })).slice(0, 40);
});

const KEYS = ['Unknown', 'Running', 'Preempted', 'Woken', 'Gave way', 'Lock', 'Uninterruptible', 'Waiting', 'Sleeping', 'Stopped', null, 'Page fault'];

/** States of a row: sorted, none over another, each with a style. */
function inOrder(states) {
  states.forEach((state, at) => {
    assert.ok(state.start < state.end && state.style.parentKey);
    if (at) assert.ok(states[at - 1].end <= state.start, 'they overlap');
  });
}

await step('states of threads are those of q/states', async () => {
  const styles = (await enveloped(client.fetchStyles(exp(), ids['Thread Status'], QueryHelper.query()))).styles;
  let compared = 0;
  for (const { start, end, times } of windows()) {
    const query = QueryHelper.selectionTimeRangeQuery(start, end, times, threads.map((thread) => thread.id));
    const found = await enveloped(client.fetchTimeGraphStates(exp(), ids['Thread Status'], query));
    const answer = await ask('states', { from: start, to: end + 1n, pixels: times - 1, tids: threads.map((thread) => thread.tid).join(',') });
    const spans = rows(answer.tables.spans);
    const mixed = rows(answer.tables.mixed);
    for (const { id, tid } of threads) {
      const states = found.rows.find((row) => row.entryId === id)?.states ?? [];
      inOrder(states);
      for (const state of states) assert.ok(styles[state.style.parentKey], state.style.parentKey);
      for (const span of spans.filter((span) => span.tid === tid && KEYS[span.state])) {
        const [from, to] = [answer.time(span.from), answer.time(span.to)];
        const state = states.find((state) => state.start === from);
        assert.ok(state && state.end === to && state.style.parentKey === KEYS[span.state], `${tid}: ${JSON.stringify(span)}`);
        compared++;
      }
      const own = new Set(spans.filter((span) => span.tid === tid).map((span) => answer.time(span.from)));
      const rest = states.filter((state) => !own.has(state.start)).length;
      assert.ok(rest <= mixed.filter((pixel) => pixel.tid === tid).length, 'states of no pixel');
    }
  }
  assert.ok(compared > 10, `${compared} compared`);
});

await step('arrows are those of q/arrows', async () => {
  let compared = 0;
  for (const { start, end, times } of windows()) {
    const arrows = await enveloped(client.fetchTimeGraphArrows(exp(), ids['Thread Status'], QueryHelper.timeRangeQuery(start, end, times)));
    const answer = await ask('arrows', { from: start, to: end + 1n });
    const expect = rows(answer.tables.arrows)
      .filter((arrow) => arrow.from_tid > 0 && arrow.runs_at !== null)
      .map((arrow) => `${arrow.from_tid} ${arrow.tid} ${answer.time(arrow.at)} ${answer.time(arrow.runs_at)}`);
    assert.deepEqual(arrows.map((arrow) => `${arrow.sourceId - 16} ${arrow.targetId - 16} ${arrow.start} ${arrow.end}`), expect);
    compared += expect.length;
  }
  assert.ok(compared > 0);
});

await step('a tooltip says what the thread did', async () => {
  const answer = await ask('states', { tids: threads[0].tid, pixels: 2000 });
  const span = rows(answer.tables.spans).find((span) => span.state === 1) ?? rows(answer.tables.spans)[0];
  const at = answer.time(span.from) + BigInt(Math.floor((span.to - span.from) / 2));
  const query = QueryHelper.selectionTimeQuery([at], [threads[0].id], { requested_element: { elementType: 'state', time: answer.time(span.from), duration: 1n } });
  const tip = await enveloped(client.fetchTimeGraphTooltip(exp(), ids['Thread Status'], query));
  assert.equal(tip.State, KEYS[span.state] ?? undefined);
  assert.equal(tip.TID, String(threads[0].tid));
});

await step('CPUs: states of q/cpus, and interrupts below', async () => {
  const tree = await enveloped(client.fetchTimeGraphTree(exp(), ids['Resources Status'], QueryHelper.query()));
  assert.equal(tree.entries[0].start, experiment.start);
  const own = tree.entries.filter((entry) => /^CPU \d+$/.test(entry.labels[0]));
  let compared = 0;
  for (const { start, end, times } of windows()) {
    const query = QueryHelper.selectionTimeRangeQuery(start, end, times, tree.entries.map((entry) => entry.id));
    const found = await enveloped(client.fetchTimeGraphStates(exp(), ids['Resources Status'], query));
    found.rows.forEach((row) => inOrder(row.states));
    const answer = await ask('cpus', { from: start, to: end + 1n, pixels: times - 1 });
    for (const span of rows(answer.tables.spans)) {
      const entry = own.find((entry) => entry.labels[0] === `CPU ${span.cpu}`);
      const state = found.rows.find((row) => row.entryId === entry.id).states.find((state) => state.start === answer.time(span.from));
      const key = ['Unknown', 'Idle', 'Running'][span.state];
      assert.ok(state && state.end === answer.time(span.to) && state.style.parentKey === key, JSON.stringify(span));
      compared++;
    }
  }
  assert.ok(compared > 5);
});

await step('the histogram has the bins of q/overview', async () => {
  const tree = await enveloped(client.fetchXYTree(exp(), ids['Histogram'], QueryHelper.query()));
  const items = tree.entries.filter((entry) => entry.isDefault).map((entry) => entry.id);
  for (const { start, end, times } of windows()) {
    const query = QueryHelper.selectionTimeRangeQuery(start, end, times, items);
    const { series } = await enveloped(client.fetchXY(exp(), ids['Histogram'], query));
    const { tables, time } = await ask('overview', { from: start, to: end + 1n, bins: times - 1 });
    const records = series.find((one) => one.seriesName === 'Records');
    assert.deepEqual(records.yValues, tables.bins.records);
    assert.deepEqual(records.xValues, tables.bins.from.map((at) => time(at)));
    assert.deepEqual(series.find((one) => one.seriesName === 'Lost').yValues, tables.bins.lost);
  }
  const none = await enveloped(client.fetchXY(exp(), ids['Histogram'], QueryHelper.selectionTimeRangeQuery(experiment.start, experiment.end, 10, [])));
  assert.deepEqual(none.series, []);
});

await step('the use of CPUs adds up to the time of q/cpus', async () => {
  for (const { start, end, times } of windows()) {
    const query = QueryHelper.selectionTimeRangeQuery(start, end, times, [1, threads[0].id]);
    const { series } = await enveloped(client.fetchXY(exp(), ids['CPU Usage'], query));
    const answer = await ask('cpus', { from: start, to: end + 1n, pixels: times - 1 });
    const ns = answer.to - answer.from;
    const total = answer.tables.rows.thread_ns.reduce((sum, one) => sum + one, 0);
    const all = series.find((one) => one.seriesId === 1);
    const mean = all.yValues.reduce((sum, one) => sum + one, 0) / all.yValues.length;
    assert.ok(Math.abs((mean / 100) * ns - total) <= total * 1e-3 + 1000, `${(mean / 100) * ns} and ${total}`);
    assert.equal(all.xValues.length, times - 1);
  }
});

await step('lines of the table are the rows of q/records, by index, by time, and by search', async () => {
  const id = ids['Events Table'];
  const columns = await enveloped(client.fetchTableColumns(exp(), id, QueryHelper.query()));
  const column = (name) => columns.find((one) => one.name === name).id;
  const lines = (properties) => enveloped(client.fetchTableLines(exp(), id, new Query(properties)));
  const text = (line, name) => line.cells[columns.findIndex((one) => one.name === name)].content;
  const all = (row, limit) => ask('records', { row, limit });
  const size = (await lines({ requested_table_index: 0, requested_table_count: 1 })).size;
  assert.equal(size, (await ask('count', {})).info.rows);
  for (const index of [0, 200, Math.floor(size / 2), Math.floor(size / 3), size - 5]) {
    const found = await lines({ requested_table_index: index, requested_table_count: 50, requested_table_column_ids: [] });
    const { tables, time } = await all(index, 50);
    assert.deepEqual(found.lines.map((line) => text(line, 'Timestamp ns')), tables.records.time.map((at) => String(time(at))));
    assert.deepEqual(found.lines.map((line) => text(line, 'Event type')), tables.records.event);
    assert.deepEqual(found.lines.map((line) => line.index), tables.records.time.map((_, row) => index + row));
  }
  const { tables, time } = await all(Math.floor(size * 0.7), 1);
  const at = time(tables.records.time[0]);
  const found = await lines({ requested_times: [at], requested_table_count: 3, requested_table_column_ids: [column('Event type'), column('Timestamp ns')] });
  assert.equal(found.lines[0].cells[1].content, String(at));
  assert.deepEqual(found.columnIds, [column('Event type'), column('Timestamp ns')]);
  const before = await all(found.lines[0].index - 1, 1);
  assert.ok(before.time(before.tables.records.time[0]) < at, 'it is the first at that time');
  const search = (index, direction) =>
    lines({ requested_table_index: index, requested_table_count: 1, table_search_expressions: { [column('Event type')]: 'sched_switch' }, table_search_direction: direction });
  const middle = Math.floor(size / 2);
  const [next, previous] = [await search(middle, 'NEXT'), await search(middle, 'PREVIOUS')];
  for (const [answer, isBehind] of [[next, true], [previous, false]]) {
    assert.match(text(answer.lines[0], 'Event type'), /sched_switch/);
    assert.ok(isBehind ? answer.lines[0].index >= middle : answer.lines[0].index <= middle);
    assert.ok(answer.lines[0].tags > 0);
  }
  const between = await all(previous.lines[0].index + 1, Math.max(1, Math.min(10000, middle - previous.lines[0].index - 1)));
  if (middle - previous.lines[0].index > 1) assert.ok(!between.tables.records.event.slice(0, middle - previous.lines[0].index - 1).some((event) => event.includes('sched_switch')));
});

await step('annotations are the losses of q/summary', async () => {
  const answer = await ask('summary', { limit: 4096 });
  const losses = rows(answer.tables.losses);
  const { annotationCategories } = await enveloped(client.fetchAnnotationsCategories(exp(), ids['Thread Status']));
  assert.deepEqual(annotationCategories, losses.length ? ['Lost records'] : []);
  const query = QueryHelper.timeRangeQuery(experiment.start, experiment.end, 100);
  const { annotations } = await enveloped(client.fetchAnnotations(exp(), ids['Thread Status'], query));
  const inside = losses.filter((loss) => answer.time(loss.from) <= experiment.end && answer.time(loss.to) >= experiment.start);
  const found = (annotations['Lost records'] ?? []).map((one) => `${one.time} ${one.duration}`);
  assert.deepEqual(found, inside.map((loss) => `${answer.time(loss.from)} ${BigInt(loss.to - loss.from)}`));
});

await step('latencies: statistics and points', async () => {
  const tree = await enveloped(client.fetchDataTree(exp(), ids['Latency Statistics'], QueryHelper.query()));
  const { tables } = await ask('latencies', {});
  assert.deepEqual(tree.entries.map((entry) => Number(entry.labels[1])), tables.series.count);
  const kinds = await enveloped(client.fetchXYTree(exp(), ids['Latencies vs Time'], QueryHelper.query()));
  const kind = kinds.entries.find((entry) => entry.labels[0] === 'wakeup');
  const query = QueryHelper.selectionTimeRangeQuery(experiment.start, experiment.end, 100, [kind.id]);
  const { series } = await enveloped(client.fetchXY(exp(), ids['Latencies vs Time'], query));
  const worst = await ask('worst', { what: 'wakeup', limit: 2000 });
  assert.equal(series[0].yValues.length, worst.tables.points.value_ns.length);
  assert.equal(Math.max(...series[0].yValues), worst.tables.points.value_ns[0]);
});

await step('values and spans of the user, where there are some', async () => {
  if (!ids['Values']) return;
  const tree = await enveloped(client.fetchXYTree(exp(), ids['Values'], QueryHelper.query()));
  const field = tree.entries.find((entry) => entry.parentId === 1);
  const query = QueryHelper.selectionTimeRangeQuery(experiment.start, experiment.end, 201, [field.id, field.id + 1, field.id + 2]);
  const { series } = await enveloped(client.fetchXY(exp(), ids['Values'], query));
  const { tables } = await ask('values', { field: field.labels[0], bins: 200 });
  tables.bins.bin.forEach((bin, row) => {
    for (const [line, name] of [[0, 'last'], [1, 'min'], [2, 'max']]) {
      const value = tables.bins[name][row];
      assert.ok(Math.abs(series[line].yValues[bin] - value) <= Math.abs(value) * 1e-6, `${name} of bin ${bin}`);
    }
  });
  if (!ids['Spans']) return;
  const graph = await enveloped(client.fetchTimeGraphTree(exp(), ids['Spans'], QueryHelper.query()));
  const items = graph.entries.slice(1).map((entry) => entry.id);
  const found = await enveloped(client.fetchTimeGraphStates(exp(), ids['Spans'], QueryHelper.selectionTimeRangeQuery(experiment.start, experiment.end, 501, items)));
  found.rows.forEach((row) => inOrder(row.states));
  const slices = await ask('slices', { pixels: 500 });
  const whole = found.rows.flatMap((row) => row.states).filter((state) => state.style.parentKey === 'Span');
  assert.equal(whole.length, slices.tables.slices.from.length);
});

await step('who does not know the token, or is another page, gets nothing', async () => {
  const other = base.replace(/[0-9a-f]{32}/, '0'.repeat(32));
  assert.equal((await raw(`${other}/health`, 'GET', {})).status, 404);
  for (const [origin, status] of [['http://evil.example', 403], ['null', 403], ['vscode-webview://0abc', 200], ['http://localhost:3000', 200]]) {
    const found = await raw(`${base}/health`, 'GET', { origin });
    assert.equal(found.status, status, origin);
    assert.equal(found.headers['access-control-allow-origin'], status === 200 ? origin : undefined);
  }
  const asks = { origin: 'vscode-webview://0abc', 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type' };
  const preflight = await raw(`${base}/experiments`, 'OPTIONS', asks);
  assert.equal(preflight.status, 204);
  assert.match(preflight.headers['access-control-allow-headers'], /content-type/);
  assert.equal((await raw(`${base}/experiments`, 'POST', { 'content-type': 'text/plain' }, '{}')).status, 415);
  assert.equal((await raw(`${base}/experiments`, 'POST', { 'content-type': 'application/json' }, '{')).status, 400);
  const large = `{"parameters": {"x": "${'x'.repeat(2 << 20)}"}}`;
  const refused = await raw(`${base}/traces`, 'POST', { 'content-type': 'application/json' }, large).catch(() => ({ status: 413 }));
  assert.equal(refused.status, 413);
  assert.equal((await raw(`${base}/health`, 'GET', { host: 'evil.example' })).status, 403);
});

console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
