// SPDX-License-Identifier: MIT OR Apache-2.0
// Bookmarks, copies, cursors and forms of time, in a real browser.
// Usage: node test/keep.mjs ADDRESS DOWNLOADS; the server shows a trace whose directory can be written.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { drive, executablePath } from './drive.mjs';

const [address, downloads] = process.argv.slice(2);
if (!address || !downloads || !executablePath) {
  console.log(`SKIP bookmarks and copies in a browser: ${executablePath ? 'no address' : 'chromium is not installed'}`);
  process.exit(0);
}
const { browser, page, wrong, step, end, until, hasRows, text, fragment } = await drive();
const session = await browser.target().createCDPSession();
await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: downloads });
/** The content of a file that the page saves, as soon as it is whole. */
async function saved(form, end) {
  await page.click(`[data-form="${form}"]`);
  for (let waited = 0; waited < 200; waited++) {
    const name = readdirSync(downloads).find((name) => name.endsWith(end) && !name.endsWith('.crdownload'));
    if (name && existsSync(join(downloads, name)) && readFileSync(join(downloads, name)).length) return readFileSync(join(downloads, name));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`no file *${end} was saved`);
}

await step('a moment is bookmarked with a note, and is there after loading again', async () => {
  await page.goto(`${address}#page=timeline`);
  await hasRows(1, 1);
  const box = await (await page.$('#plot')).boundingBox();
  await page.mouse.click(box.x + 300, box.y + 40);
  const { at } = await fragment();
  await page.keyboard.press('m');
  await until(() => document.activeElement?.matches('#notes input'));
  await page.keyboard.type('<i>late</i> here');
  await page.keyboard.press('Enter');
  await until(() => /Kept (beside|in)/.test(document.querySelector('#notes').textContent));
  // The bookmark was saved without its note first: what is on its way when a page ends is lost.
  await until(async () => (await (await fetch('notes')).json()).notes[0]?.text === '<i>late</i> here');
  await page.reload();
  await hasRows(1, 1);
  await page.keyboard.press('b');
  await until(() => document.querySelectorAll('#notes li').length === 1);
  assert.equal(await page.$eval('#notes input', (input) => input.value), '<i>late</i> here');
  await page.keyboard.press('Escape');
  await until(() => !new URLSearchParams(location.hash.slice(1)).has('at'));
  await page.keyboard.press('b');
  await page.click('#notes li .link');
  await until((at) => new URLSearchParams(location.hash.slice(1)).get('at') === at, 20000, at);
});
await step('a list that another page has changed is not overwritten', async () => {
  const other = await page.evaluate(async () => {
    const kept = await (await fetch('notes')).json();
    const notes = [...kept.notes, { at: kept.notes[0].at, to: null, text: 'of another page' }];
    const response = await fetch('notes', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ revision: kept.revision, notes }) });
    return response.status;
  });
  assert.equal(other, 200);
  await page.evaluate(() => document.querySelector('#notes li .ib').click());
  await until(() => [...document.querySelectorAll('#notes input')].some((input) => input.value === 'of another page'));
  assert.equal(await page.$$eval('#notes li', (rows) => rows.length), 2);
});
await step('spans have rows and a flame graph, whose frames are those of the answer and lead to their longest span', async () => {
  await page.goto(`${address}#page=timeline&tab=flame`);
  await page.reload();
  await until(() => document.querySelectorAll('#flame .flames button').length > 0 && document.querySelector('#labels [data-key^="span"]'));
  const { tables } = await page.evaluate(async () => (await fetch('q/flame?format=json')).json());
  assert.equal((await page.$$('#flame .flames button')).length, tables.frames.count.length);
  const counts = tables.frames.count.reduce((sum, count) => sum + count, 0);
  assert.ok(counts > 0);
  const says = await page.$eval('#flame .flames button', (frame) => frame.getAttribute('aria-label'));
  assert.match(says, /^axis/);
  await page.click('#flame .flames button');
  await until(() => new URLSearchParams(location.hash.slice(1)).has('a'));
  // Times of this page are in one JSON number.
  const { a, b, tid } = await fragment();
  const { longest_from: from, longest_to: to, longest_tid: thread } = tables.frames;
  assert.ok(from.some((_, row) => [from[row], to[row], thread[row]].join() === [a, b, tid].join()), JSON.stringify([a, b, tid, tables.frames]));
  await page.keyboard.press('Escape');
});
await step('spans that are paired by a field have a row for each of its values', async () => {
  await page.goto(`${address}#page=timeline&tab=flame&spans=${encodeURIComponent('axis:begin, axis:end, by=n')}`);
  await page.reload();
  const titles = () => [...document.querySelectorAll('#labels [data-key^="span"] .name, #labels [data-key^="key"] .name')].map((name) => name.textContent);
  await until(() => document.querySelector('#flame select[name="rows"]') && document.querySelectorAll('#labels [data-key^="span"]').length > 1);
  const threads = await page.evaluate(titles);
  assert.ok(!threads.some((title) => title.startsWith('axis')), threads.join(', '));
  await page.select('#flame select[name="rows"]', 'key');
  await until(() => document.querySelectorAll('#labels [data-key^="key"]').length === 1 && !document.querySelector('#labels [data-key^="span"]'));
  assert.deepEqual(await page.evaluate(titles), ['axis 1']);
  assert.equal((await fragment()).rows, 'key');
  await page.reload();
  await until(() => document.querySelector('#labels [data-key^="key"]') && document.querySelector('#flame select[name="rows"]'));
  await page.select('#flame select[name="rows"]', '');
  await until(() => document.querySelector('#labels [data-key^="span"]') && !document.querySelector('#labels [data-key^="key"]'));
  // The next step begins where the last one ended.
  await page.goto(`${address}#page=timeline`);
  await page.reload();
  await hasRows(1, 1);
  await page.keyboard.press('b');
  await until(() => document.querySelectorAll('#notes li').length === 2);
});
await step('two fingers zoom: what is below them stays there', async () => {
  const box = await (await page.$('#plot')).boundingBox();
  const before = await fragment();
  const [left, right, y] = [box.x + 400, box.x + 600, box.y + 40];
  const own = await page.createCDPSession();
  const touch = (type, ...places) => own.send('Input.dispatchTouchEvent', { type, touchPoints: places.map((x, id) => ({ x, y, id })) });
  await touch('touchStart', left);
  await touch('touchStart', left, right);
  for (let i = 1; i <= 10; i++) await touch('touchMove', left - 10 * i, right + 10 * i);
  await touch('touchEnd');
  await until((from) => !location.hash.includes(`from=${from}&`), 20000, before.from);
  const now = await fragment();
  const [length, after] = [before, now].map((of) => Number(of.to) - Number(of.from));
  assert.ok(Math.abs(after / length - 0.5) < 0.02, `${after} of ${length}`);
  const at = (of, x) => Number(of.from) + ((x - box.x) / box.width) * (Number(of.to) - Number(of.from));
  assert.ok(Math.abs(at(now, left - 100) - at(before, left)) < length / 200);
  await page.keyboard.press('Home');
});
await step('bookmarks are removed', async () => {
  for (const left of [1, 0]) {
    await page.evaluate(() => document.querySelector('#notes li .ib').click());
    await until((left) => document.querySelectorAll('#notes li').length === left, 20000, left);
  }
  await until(async () => (await (await fetch('notes')).json()).notes.length === 0);
  await page.keyboard.press('Escape');
});
await step('forms of time, and two cursors with the time between', async () => {
  await page.goto(`${address}#page=timeline&a=1000&b=251000`);
  await page.reload();
  await hasRows(1, 1);
  const seen = [];
  for (const format of ['trace', 'wall', 'utc', 'mark']) {
    assert.equal((await fragment()).time ?? 'trace', format);
    seen.push(await text('#window'));
    await page.keyboard.press('t');
  }
  assert.match(seen[0], / s to /);
  assert.match(seen[2], /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d{3} \d{3} to /);
  assert.match(seen[3], /^−0\.000 001 000 s to \+/);
  assert.match(seen[0], /A to B 250 µs/);
});
await step('SVG, CSV and PNG of what is shown', async () => {
  await page.keyboard.press('y');
  const image = (await saved('svg', '.svg')).toString();
  assert.match(image, /^<svg xmlns/);
  assert.ok(image.includes('CPU 0') && image.split('<rect').length > 20);
  const lines = (await saved('csv', '.csv')).toString().split('\r\n');
  assert.equal(lines[0], 'row,from_ns,to_ns,duration_ns,what,tid');
  assert.ok(lines.length > 3 && /,\d{18,19},\d{18,19},\d+,/.test(lines[1]), lines[1]);
  const png = await saved('png', '.png');
  assert.equal(png.subarray(1, 4).toString(), 'PNG');
  assert.ok(png.length > 3000, `${png.length} bytes`);
  await until(() => document.querySelectorAll('#records tbody tr').length > 10);
  const table = (await saved('table', '.table.csv')).toString();
  assert.match(table, /^Time \[s\],/);
});
await step('nothing went wrong in the page', async () => {
  assert.deepEqual(wrong, []);
  assert.deepEqual((await page.evaluate(() => globalThis.seen)).breaches, []);
});
await end();
