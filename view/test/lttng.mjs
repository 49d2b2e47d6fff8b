// SPDX-License-Identifier: MIT OR Apache-2.0
// Drives a real browser through a kernel trace that LTTng has recorded (tests/traces/lttng-kernel): what is shown is what
// is in it. Usage: node test/lttng.mjs ADDRESS.
import assert from 'node:assert/strict';
import { drive, executablePath } from './drive.mjs';

const [address] = process.argv.slice(2);
if (!address || !executablePath) {
  console.log(`SKIP a trace of LTTng in a browser: ${address ? 'chromium is not installed' : 'no address'}`);
  console.log('0 passed, 0 failed, 0 skipped');
  process.exit(0);
}
const { page, wrong, step, end, until, hasRows, settled, text, fragment } = await drive();
const names = (key) => page.$$eval(`#labels [data-key^="${key}"] .name`, (all) => all.map((name) => name.textContent));

await step('the first page: 569 records of the kernel, nothing lost, and places to look at', async () => {
  await page.goto(address);
  await until(() => document.querySelectorAll('.card').length > 0);
  assert.match(await text('#start .lead'), /^569 records in /);
  assert.equal(await page.$('#start .lost'), null);
});
await step('two CPUs and fifteen threads, by the names that LTTng wrote', async () => {
  await page.goto(`${address}#page=timeline`);
  await page.reload();
  await hasRows(2, 15);
  assert.deepEqual(await names('cpu'), ['CPU 0', 'CPU 1']);
  const threads = await names('tid');
  assert.equal(threads.length, 15);
  for (const name of ['rcu_preempt[15]', 'khugepaged[35]', 'kworker/1:0[22]']) assert.ok(threads.includes(name), threads.join(' '));
});
await step('a click on a thread at a moment tells what it did then, as the records say', async () => {
  const { tables } = await page.evaluate(async () => (await fetch('q/states?format=json&tids=15&pixels=800')).json());
  const running = tables.spans.from.map((from, i) => ({ from, to: tables.spans.to[i], state: tables.spans.state[i] })).filter(({ state }) => state === 1);
  const longest = running.sort((a, b) => b.to - b.from - (a.to - a.from))[0];
  assert.ok(longest, 'rcu_preempt runs for a pixel at least');
  const { from, to } = await fragment();
  const [plot, label] = [await (await page.$('#plot')).boundingBox(), await (await page.$('#labels [data-key="tid15"]')).boundingBox()];
  const x = plot.x + (((longest.from + longest.to) / 2 - Number(from)) / (Number(to) - Number(from))) * plot.width;
  await page.mouse.move(x, label.y + 12);
  await until(() => /rcu_preempt\[15\]: runs on CPU \d/.test(document.querySelector('#status').textContent));
  await page.mouse.click(x, label.y + 12);
  await until(() => new URLSearchParams(location.hash.slice(1)).get('tid') === '15');
  await until(() => document.querySelector('#details .now')?.textContent.includes('runs on CPU'));
});
await step('records, statistics and the worst wake-up are those of the trace', async () => {
  // Records are listed from the selected moment on.
  await page.keyboard.press('Escape');
  await page.keyboard.press('1');
  await until(() => document.querySelectorAll('#records tbody tr').length > 50);
  await page.keyboard.press('4');
  await until(() => document.querySelectorAll('#statistics tbody tr').length > 0);
  const events = await page.$$eval('#statistics tbody tr', (rows) => rows.map((row) => row.textContent));
  assert.ok(events.some((row) => row.includes('sched_switch') && row.includes('375')), events.join('; '));
  await page.keyboard.press('3');
  const { tables } = await page.evaluate(async () => (await fetch('q/worst?format=json&limit=50')).json());
  await until((count) => document.querySelectorAll('#worst tbody tr').length === count, 20000, tables.points.value_ns.length);
  await page.click('#worst tbody tr');
  await until(() => /Where the time went/.test(document.querySelector('#explain').textContent));
  const { a, b } = await fragment();
  assert.equal(Number(b) - Number(a), tables.points.to[0] - tables.points.from[0]);
  await settled(200, 20000);
});
await step('nothing went wrong in the page', () => assert.deepEqual(wrong, []));
await end();
