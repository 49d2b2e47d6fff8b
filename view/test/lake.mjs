// SPDX-License-Identifier: MIT OR Apache-2.0
// The page over a lake in a real browser (tests/page_lake.sh makes the lake): numbers, names that are no markup, change
// points, the way to a picture, a process that is killed.
// Usage: node test/lake.mjs ADDRESS SERVER TRACES [SCREENSHOTS]; SERVER: the process whose child answers; TRACES: of the
// second host.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drive, executablePath } from './drive.mjs';

const [address, server, traces, shots] = process.argv.slice(2);
if (!address || !executablePath) {
  console.log(`SKIP a lake in a browser: ${address ? 'chromium is not installed' : 'no address'}`);
  console.log('0 passed, 0 failed, 0 skipped');
  process.exit(0);
}
if (shots) mkdirSync(shots, { recursive: true });
const { browser, page, wrong, step, end, until, text, fragment } = await drive();
const shot = (name) => (shots ? page.screenshot({ path: join(shots, `${name}.png`) }) : null);
const ODD_HOST = '<b>rt & "2"</b>';
/** Cells of a table, row by row. */
const cells = (section) => page.$$eval(`#${section} table.rec`, (tables) => [...(tables.at(-1)?.tBodies[0]?.rows ?? [])].map((row) => [...row.cells].map((cell) => cell.textContent)));
const heads = (section) => page.$$eval(`#${section} table.rec`, (tables) => [...(tables.at(-1)?.tHead.rows[0].cells ?? [])].map((cell) => cell.textContent));
/** Until all that the address names is shown. */
const idle = () => until(() => document.body.dataset.shown === location.hash);
const choose = async (id, value) => {
  await page.select(`#${id}`, value);
  await until((id, value) => new URLSearchParams(location.hash.slice(1)).get(id) === value, 20000, id, value);
  await idle();
};
const us = (cell) => Number(cell.replace(/ µs.*/, ''));
const ask = (path) => page.evaluate(async (path) => ({ status: (await fetch(path)).status, body: await (await fetch(path)).json() }), path);

await step('what is in the lake, and what is missing', async () => {
  await page.goto(address);
  await idle();
  assert.match(await text('#contents .lead'), /^25 traces of 3 hosts, 2026-11-10 to 2026-11-21: [\d ]+ rows, /);
  assert.match(await text('#contents .lost'), /^5 000 records were lost, in 1 trace\. 1 place is damaged/);
  assert.equal(await page.$$eval('#contents tbody tr', (rows) => rows.length), 25);
});
await step('names are text, whatever they look like', async () => {
  const labels = await page.$$eval('#contents .labels dt', (all) => all.map((one) => one.textContent));
  assert.deepEqual(labels, ['board', 'kernel']);
  const board = await text('#contents .labels .link');
  assert.ok(board.startsWith('imx8 "q" \'s\' <img src=x'), board);
  assert.equal(await page.$('#lake img, #lake b b, #lake script'), null);
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
});
await step('the distribution by host: counts, quantiles, and bounds where records were lost', async () => {
  assert.equal((await heads('distribution')).join(), 'Drawn,Group,Hosts,Traces,Samples,Doubtful,p50,p90,p99,p99.9,p99.99,max,Lost');
  const rows = await cells('distribution');
  assert.deepEqual(rows.map((row) => row.slice(1, 5)), [['rt-1', '1', '12', '12 000'], [ODD_HOST, '1', '11', '11 000'], ['rt-3', '1', '1', '1 000']]);
  assert.ok(us(rows[0][6]) > 48 && us(rows[0][6]) < 53, rows[0][6]);
  assert.match(rows[1][6], /^[\d.]+ µs to [\d.]+ µs$/);
  assert.match(rows[1][8], / to \?$/, 'more records were lost than samples lie beyond p99');
  assert.equal(rows[1][12], '5 000 records');
  assert.equal(rows[2][9], 'too few');
  assert.equal(await page.$$eval('#distribution svg.picture', (all) => all.length), 2);
  assert.match(await text('#distribution .note'), /^1 trace of the lake cannot be opened/);
});
await step('a group is hidden and shown, and the address has it', async () => {
  const colours = () => page.$$eval('#distribution svg.picture', ([histogram]) => new Set([...histogram.querySelectorAll('polyline[stroke-width="1.6"]')].map((line) => line.getAttribute('stroke'))).size);
  assert.equal(await colours(), 3);
  await page.click('#distribution tbody tr:nth-child(2) input');
  await until(() => new URLSearchParams(location.hash.slice(1)).getAll('hide').length === 1);
  await until(() => !document.querySelector('#distribution tbody tr:nth-child(2) svg'));
  assert.equal(await colours(), 2);
  await page.reload();
  await idle();
  assert.equal(await page.$eval('#distribution tbody tr:nth-child(2) input', (box) => box.checked), false);
  // By keyboard: the focus stays where it is, though the table is made anew.
  await page.focus('#distribution tbody tr:nth-child(2) input');
  await page.keyboard.press('Space');
  await until(() => !location.hash.includes('hide='));
  await until(() => document.querySelector('#distribution tbody tr:nth-child(2) svg'));
  assert.equal(await page.evaluate(() => document.activeElement.closest('tr')?.rowIndex), 2);
});
await step('the trend has the step on its day, a hole, and a day that is doubtful', async () => {
  await choose('quantile', 'p50');
  const rows = await cells('trend');
  assert.equal(rows.length, 1, JSON.stringify(rows));
  assert.deepEqual(rows[0].slice(0, 2), ['2026-11-16', ODD_HOST]);
  assert.match(rows[0][2], /^\+[789]\d %$/);
  assert.match(rows[0][4], /\(5 days\)$/);
  const dots = await page.$$eval('#trend circle[data-day]', (all) => all.map((one) => one.dataset.tip));
  assert.equal(dots.length, 24);
  const doubtful = dots.filter((tip) => tip.includes('lost'));
  assert.equal(doubtful.length, 1, doubtful.join('; '));
  assert.match(doubtful[0], /^<b>rt & "2"<\/b>, 2026-11-12: p50 .* 1 000 samples; 5 000 records lost, so it lies between/);
  assert.match(await text('#trend'), /rt-3: 1 day with enough samples; 8 are needed/);
  const box = await (await page.$('#trend circle[data-day]')).boundingBox();
  await page.mouse.move(box.x + 2, box.y + 2);
  await until(() => /2026-11-1\d: p50/.test(document.querySelector('#status').textContent));
  await shot('lake-first');
});
await step('a click on a day chooses it, and the way back is there', async () => {
  await page.evaluate(() => document.querySelector('#trend circle[data-day]').dispatchEvent(new MouseEvent('click', { bubbles: true })));
  await until(() => new URLSearchParams(location.hash.slice(1)).get('first') === '2026-11-10');
  await idle();
  assert.deepEqual((await cells('distribution')).map((row) => row[4]), ['1 000', '1 000']);
  assert.equal(await page.$eval('#last', (input) => input.value), '2026-11-10');
  await page.goBack();
  await idle();
  await until(() => document.querySelectorAll('#distribution tbody tr').length === 3);
});
await step('days are walked by keyboard alone, and Enter chooses one', async () => {
  const focused = () => page.evaluate(() => [document.activeElement.dataset.group, document.activeElement.dataset.day].map(Number));
  assert.equal(await page.$$eval('#trend circle[tabindex="0"]', (all) => all.length), 1);
  await page.$eval('#trend circle[tabindex="0"]', (day) => day.focus());
  const [group, day] = await focused();
  await page.keyboard.press('ArrowRight');
  assert.deepEqual(await focused(), [group, day + 1]);
  assert.match(await text('#status'), /2026-11-11: p50/);
  await page.keyboard.press('ArrowDown');
  assert.deepEqual(await focused(), [group + 1, day + 1]);
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowRight');
  assert.deepEqual(await focused(), [group + 1, day + 11], 'there is no day behind the last one');
  // Drawn anew, the focus stays where it is.
  await page.keyboard.press('T');
  await page.keyboard.press('T');
  await until((day) => Number(document.activeElement.dataset.day) === day && document.activeElement.getAttribute('tabindex') === '0', 20000, day + 11);
  await page.keyboard.press('Enter');
  await until(() => new URLSearchParams(location.hash.slice(1)).get('first') === '2026-11-21');
  await idle();
  await page.goBack();
  await idle();
});
await step('more groups are asked for when they are chosen', async () => {
  const asked = [];
  const note = (request) => request.url().includes('l/q/') && asked.push(new URL(request.url()));
  page.on('request', note);
  await choose('values', '24');
  page.off('request', note);
  const names = asked.map((url) => url.pathname.split('/').at(-1)).sort();
  assert.deepEqual(names, ['distribution', 'kinds', 'trend', 'worst']);
  for (const url of asked) assert.equal(url.searchParams.get('values'), /distribution|trend/.test(url.pathname) ? '24' : null, url.pathname);
  assert.equal((await cells('distribution')).length, 3);
  await choose('values', '8');
});
await step('by label; a click on a group is a condition, with all its characters', async () => {
  await choose('by', 'label:board');
  const groups = await cells('distribution');
  assert.deepEqual(groups.map((row) => row[4]), ['12 000', '12 000']);
  assert.ok(groups.some((row) => row[1] === 'not known') && groups.some((row) => row[1].startsWith('imx8 "q"')), JSON.stringify(groups));
  const place = groups.findIndex((row) => row[1] !== 'not known');
  await page.click(`#distribution tbody tr:nth-child(${place + 1}) .link`);
  await until(() => document.querySelectorAll('#conditions .chip').length === 1);
  await until(() => document.querySelectorAll('#distribution tbody tr').length === 1);
  await idle();
  assert.equal((await cells('distribution'))[0][4], '12 000');
  assert.ok((await fragment()).is.endsWith('>\n\u202e'), 'nothing of the value was changed');
  await page.click('#conditions .ib');
  await until(() => document.querySelectorAll('#distribution tbody tr').length === 2);
  await choose('by', 'kernel_release');
  assert.deepEqual((await cells('distribution')).map((row) => [row[1], row[4]]), [['6.12.1', '12 000'], ['6.12.1-rt', '11 000'], ['not known', '1 000']]);
  await choose('by', 'label:kernel');
  assert.deepEqual((await cells('distribution')).map((row) => row.slice(1, 5)), [['6.12', '2', '13', '13 000'], ['6.12-rt', '1', '11', '11 000']]);
});
await step('the worst: a link where the trace is here, else the command and the host', async () => {
  await choose('by', 'host');
  const rows = await cells('worst');
  assert.equal(rows.length, 50);
  assert.match(rows[0][1], /^36\.000 ms$/);
  assert.equal(rows[0][3], 'rt-3');
  assert.match(rows[0][2], /kymo view '?\/[^ ]*gone\/2026-11-12'? --from \d{19} --to \d{19}/);
  assert.equal(rows[0][5], 'late[8]');
  assert.equal(await page.$eval('#worst tbody tr:nth-child(1)', (row) => row.querySelector('a')), null);
  const first = rows.findIndex((row) => row[2] === 'Show');
  assert.ok(first > 0);
  assert.match(rows[first][1], /^2\.\d+ ms$/, 'the longest of those that are here');
});
await step('a row leads to its picture, with the thread and its wait selected and explained', async () => {
  const ns = await page.evaluate(async () => {
    const { rows, additions } = (await (await fetch('l/q/worst?format=json&limit=50')).json()).tables;
    return rows.value_ns[rows.addition.findIndex((addition) => additions.is_here[addition])];
  });
  await page.click('#worst a.link');
  await until(() => document.body.dataset.page === 'timeline');
  await until(() => document.querySelectorAll('#labels .label').length > 1);
  const { a, b, tid } = await fragment();
  assert.deepEqual([Number(b) - Number(a), tid], [ns, '8']);
  await until(() => /late\[8\]/.test(document.querySelector('#explain').textContent));
  assert.match(page.url(), /\/t\/[0-9a-f]{32}\/#/);
  await shot('lake-picture');
  await page.click('#to-lake');
  await idle();
  assert.match(await text('#contents .lead'), /^25 traces/);
});
await step('the window of kymo view --from --to is the one that is shown', async () => {
  const { additions } = (await ask('l/q/contents?format=json')).body.tables;
  const id = additions.trace[additions.place.findIndex((place) => place.endsWith('/one/2026-11-10'))];
  const base = BigInt((await ask(`t/${id}/q/summary?format=json`)).body.base);
  await page.goto(`${address}t/${id}/#window=${base + 1_000_000n}~${base + 3_000_000n}`);
  await until(() => document.body.dataset.page === 'timeline' && document.querySelectorAll('#labels .label').length > 1);
  assert.deepEqual([(await fragment()).from, (await fragment()).to], ['1000000', '3000000']);
  await page.goto(address);
  await idle();
});
await step('only traces of this lake, and only as they were added', async () => {
  const none = await ask('t/00000000000000000000000000000000/q/summary?format=json');
  assert.deepEqual([none.status, none.body.error.kind], [422, 'here']);
  const contents = await ask('l/q/contents?format=json');
  const row = contents.body.tables.additions.place.findIndex((one) => one.endsWith('two/2026-11-19'));
  const id = contents.body.tables.additions.trace[row];
  appendFileSync(join(traces, '2026-11-19', 'kernel_0'), 'x');
  const changed = await ask(`t/${id}/q/summary?format=json`);
  assert.deepEqual([changed.status, changed.body.error.kind], [422, 'here']);
  assert.match(changed.body.error.message, /is another trace than the one that was added/);
  await page.goto(`${address}t/${id}/`);
  await until(() => /another trace/.test(document.querySelector('#start').textContent));
  for (const [path, status, kind] of [
    ['l/q/locate?trace=x', 404, 'question'],
    ['l/q/nothing', 404, 'question'],
    ['l/q/worst?is=label:none=1', 400, 'parameter'],
    ['l/q/worst?by=1;DROP', 400, 'parameter'],
    ['l/q/worst?limit=1001', 400, 'parameter'],
    ['l/q/trend?quantile=p42', 400, 'parameter'],
    ['l/q/distribution?first=2026-02-30', 400, 'parameter'],
    ['l/q/distribution?odd=1', 400, 'parameter'],
  ]) {
    const { status: got, body } = await ask(`${address}${path}`);
    assert.deepEqual([got, body.error.kind], [status, kind], path);
  }
  const quoted = await ask(`${address}l/q/distribution?format=json&is=${encodeURIComponent("host=rt-1' OR '1'='1")}`);
  assert.deepEqual([quoted.status, quoted.body.tables.groups.value.length], [200, 0]);
});
await step('tables and pictures are saved', async () => {
  await page.goto(address);
  await idle();
  const files = mkdtempSync(join(tmpdir(), 'kymo-lake-'));
  const session = await browser.target().createCDPSession();
  await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: files });
  const saved = async (form, end) => {
    await page.$eval(`[data-form="${form}"]`, (button) => button.click());
    for (let waited = 0; waited < 200; waited++) {
      const name = readdirSync(files).find((name) => name.endsWith(end) && name.includes(form.split('.')[0].split(' ')[0]));
      if (name && readFileSync(join(files, name)).length) return readFileSync(join(files, name));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`${form} was not saved`);
  };
  try {
    const rows = (await saved('Distribution.csv', '.csv')).toString().split('\r\n');
    assert.match(rows[0], /^group,hosts,traces,samples,/);
    assert.ok(rows.some((row) => row.startsWith('"<b>rt & ""2""</b>",1,11,11000,')), rows.join('|'));
    const picture = (await saved('Histogram.svg', '.svg')).toString();
    assert.ok(picture.startsWith('<svg') && picture.includes('polyline'));
    assert.equal((await saved('Trend picture.png', '.png')).subarray(1, 4).toString(), 'PNG');
  } finally {
    rmSync(files, { recursive: true });
  }
});
await step('the process that answers is killed: the page says so, and comes back', async () => {
  const before = await cells('distribution');
  const child = Number(execFileSync('pgrep', ['-P', server, '-f', 'kymo-sql']));
  assert.ok(child > 1);
  process.kill(child, 'SIGSTOP');
  await page.keyboard.press('r');
  await until(() => /Reading/.test(document.querySelector('#window').textContent));
  process.kill(child, 'SIGKILL');
  await until(() => /has ended; it is started again/.test(document.querySelector('#gone').textContent));
  assert.deepEqual(await cells('distribution'), before, 'what was shown stays');
  await until(() => document.querySelector('#gone').hidden);
  await idle();
  assert.deepEqual(await cells('distribution'), before);
});
await step('light, keys, and a window that is narrow', async () => {
  await page.keyboard.press('T');
  await choose('by', 'label:kernel');
  await shot('lake-other');
  await page.keyboard.press('T');
  await page.keyboard.press('?');
  assert.equal(await page.$eval('#help', (box) => box.hidden), false);
  await page.keyboard.press('Escape');
  assert.equal(await page.$eval('#help', (box) => box.hidden), true);
  await page.setViewport({ width: 800, height: 1000 });
  await until(() => document.querySelector('#trend svg.picture').getBoundingClientRect().width <= 800);
  await shot('lake-narrow');
});
await step('nothing went wrong in the page', async () => {
  assert.deepEqual(wrong, []);
  assert.deepEqual(await page.evaluate(() => globalThis.seen.breaches), []);
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
});
await end();
