// SPDX-License-Identifier: MIT OR Apache-2.0
// Drives a real browser through the traces of two hosts, the second 20 ms later than the first: one axis, and a page that
// is of the chosen one. Usage: node test/hosts.mjs ADDRESS [SCREENSHOTS].
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { drive, executablePath } from './drive.mjs';

const [address, shots] = process.argv.slice(2);
if (!address || !executablePath) {
  console.log(`SKIP two hosts in a browser: ${address ? 'chromium is not installed' : 'no address'}`);
  console.log('0 passed, 0 failed, 0 skipped');
  process.exit(0);
}
const { page, wrong, step, end, until, text, fragment } = await drive();
const LATER = 20_000_000n;
const bases = {};
/** What was asked of each host last, by question: the window, ns since 1970. */
const asked = new Map();
page.on('request', (request) => {
  const found = /\/(?:o\/(\d+)\/)?q\/([a-z]+)\?(.*)$/.exec(request.url());
  if (!found) return;
  const [of, question, query] = [Number(found[1] ?? 0), found[2], new URLSearchParams(found[3])];
  const [from, to] = ['from', 'to'].map((name) => query.get(name)?.replace('@', '') ?? null);
  if (from !== null && to !== null) asked.set(`${of} ${question}`, [BigInt(from) + bases[of], BigInt(to) + bases[of]]);
});
const rowsOf = (labels) => until((labels) => document.querySelectorAll(`${labels} .label`).length > 5, 20000, labels);
const isDrawn = (plot) =>
  until((plot) => {
    const canvas = document.querySelector(plot);
    const data = canvas?.width ? canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data : [];
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    return seen.size > 4;
  }, 20000, plot);
const bar = (host) => `.t-bar[data-host="${host}"]`;
const order = () => page.$$eval('.t-bar', (bars) => bars.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).map((bar) => bar.querySelector('.link:nth-child(2)').textContent));
/** Both were asked about the same moments, after something has changed. */
async function isTied(question, how) {
  const before = asked.get(`1 ${question}`);
  await how();
  for (let i = 0; i < 200; i++) {
    const [a, b] = [asked.get(`0 ${question}`), asked.get(`1 ${question}`)];
    if (a && b && String(b) !== String(before) && String(a) === String(b)) return a;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return assert.fail(`${question}: ${asked.get(`0 ${question}`)} is not ${asked.get(`1 ${question}`)}`);
}

await step('the first page is of the first host, and others can be chosen', async () => {
  await page.goto(address);
  await until(() => document.querySelectorAll('.card').length > 0);
  for (const of of [0, 1]) bases[of] = BigInt(await page.evaluate(async (path) => (await (await fetch(path)).json()).base, `${of ? 'o/1/' : ''}q/summary?format=json`));
  assert.equal(bases[1] - bases[0], LATER);
  assert.match(await text('#start h1'), /^a-host1: /);
  assert.deepEqual(await page.$$eval('#host option', (all) => all.map((one) => one.textContent)), ['a-host1', 'b-host2']);
});
await step('both are below one another, on one axis over all of their time', async () => {
  await page.click('#to-timeline');
  await rowsOf('#labels');
  await rowsOf('#o1-labels');
  await isDrawn('#plot');
  await isDrawn('#o1-plot');
  assert.deepEqual(await order(), ['a-host1', 'b-host2']);
  asked.clear();
  const [from, to] = await isTied('cpus', () => page.reload());
  assert.equal(from, bases[0]);
  const end = await page.evaluate(async () => (await (await fetch('o/1/q/summary?format=json')).json()).to);
  assert.equal(to, bases[1] + BigInt(end));
  await isDrawn('#o1-plot');
  if (shots) await page.screenshot({ path: join(shots, 'hosts.png') });
});
await step('what moves one moves the other, from either of them', async () => {
  await isTied('states', () => page.keyboard.press('w'));
  const other = await (await page.$('#o1-plot')).boundingBox();
  await page.mouse.move(other.x + 300, other.y + 30);
  const [from, to] = await isTied('states', () => page.mouse.wheel({ deltaY: -400 }));
  const moved = [from - bases[0], to - bases[0]].map(String);
  await until((from, to) => location.hash.includes(`from=${from}&to=${to}&`), 20000, ...moved);
});
await step('rows of a host can be folded, and are asked for when they come back', async () => {
  const fold = `${bar(1)} .link`;
  await page.click(fold);
  await until(() => document.querySelector('#o1-rows').hidden);
  const before = String(asked.get('1 states'));
  await page.keyboard.press('s');
  await new Promise((resolve) => setTimeout(resolve, 400));
  assert.equal(String(asked.get('1 states')), before);
  await isTied('states', () => page.click(fold));
  assert.equal(await page.$eval(fold, (found) => found.getAttribute('aria-expanded')), 'true');
});
await step('a click on the name of a host: tabs and overview are of it, the moment and the order stay', async () => {
  const before = await fragment();
  await page.click(`${bar(1)} .link:nth-child(2)`);
  await until(() => new URLSearchParams(location.hash.slice(1)).get('host') === '1' && document.querySelectorAll('#o0-labels .label').length > 5);
  await rowsOf('#labels');
  const now = await fragment();
  assert.deepEqual([BigInt(now.from) + LATER, BigInt(now.to) + LATER], [BigInt(before.from), BigInt(before.to)]);
  assert.deepEqual(await order(), ['a-host1', 'b-host2']);
  assert.match(await text('#name'), /^b-host2: /);
  asked.clear();
  await page.keyboard.press('4');
  await until(() => document.querySelectorAll('#statistics tbody tr').length > 0);
  assert.ok(asked.has('1 statistics') && !asked.has('0 statistics'), [...asked.keys()].join('; '));
});
await step('a click on a thread of another host chooses both', async () => {
  const label = await page.waitForSelector('#o0-labels [data-key="tid15"]');
  await label.click();
  await until(() => !new URLSearchParams(location.hash.slice(1)).has('host') || new URLSearchParams(location.hash.slice(1)).get('host') === '0');
  await until(() => /rcu_preempt\[15\]/.test(document.querySelector('#details')?.textContent ?? ''));
  assert.match(await text('#name'), /^a-host1: /);
  assert.equal((await fragment()).tid, '15');
  await isDrawn('#o1-plot');
});
await step('the address of a host opens it, and that of one that is not there says so', async () => {
  await page.goto(`${address}#page=timeline&host=1`);
  await page.reload();
  await rowsOf('#o0-labels');
  assert.equal(await page.$eval('#host', (host) => host.value), '1');
  await page.goto(`${address}#page=timeline&host=7`);
  await page.reload();
  await until(() => /no other trace of this number/.test(document.querySelector('#start').textContent));
});
assert.deepEqual(wrong, []);
await end();
