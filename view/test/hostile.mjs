// SPDX-License-Identifier: MIT OR Apache-2.0
// Traces that a viewer may choke on, in a real browser: what is shown, that no name is taken for a script, and that the
// page stays usable. Usage: node test/hostile.mjs KIND ADDRESS [PID OF THE SERVER]; KIND as tests/hostile_trace.py has it.
import assert from 'node:assert/strict';
import { drive, executablePath } from './drive.mjs';

const [kind, address, pid] = process.argv.slice(2);
if (!address || !executablePath) {
  console.log(`SKIP hostile traces in a browser: ${executablePath ? 'no address' : 'chromium is not installed'}`);
  process.exit(0);
}
const { page, wrong, step, end, until, hasRows, settled, text, fragment } = await drive();

/** A picture is there within this time; no task of the page holds it up for longer than the other. Noisy machines. */
const PICTURE_MS = 30_000;
const TASK_MS = 8000;

const labels = () => page.$$eval('#labels .label .name', (found) => found.map((label) => label.textContent));
async function walkThrough() {
  for (const tab of ['records', 'latencies', 'worst', 'statistics', 'records']) {
    await page.click(`#tabs [data-tab="${tab}"]`);
    await settled(300, PICTURE_MS);
  }
  const box = await (await page.$('#plot')).boundingBox();
  for (let y = 30; y < Math.min(box.height, 700); y += 34) await page.mouse.move(box.x + box.width / 2, box.y + y);
  await page.mouse.click(box.x + box.width / 3, box.y + 40);
  for (const key of ['w', 'w', 'd', 'a', 's', 'b', 'y', '?', 'Escape', 'Home']) await page.keyboard.press(key);
  await settled(300, PICTURE_MS);
}
/** Until a colour of the style sheet is on the time line: rows are drawn in the frame behind their labels. */
const drawnWith = (name) =>
  until((name) => {
    const colour = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    const canvas = document.querySelector('#plot');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < data.length; i += 4) if (data[i] === red && data[i + 1] === green && data[i + 2] === blue && data[i + 3] === 255) return true;
    return false;
  }, PICTURE_MS, name);
async function open(hash = '') {
  const begin = Date.now();
  await page.goto(`${address}${hash}`);
  await until(() => document.querySelector('#start h1'), PICTURE_MS);
  return begin;
}

const STEPS = {
  names: async () => {
    await step('names of a trace are text, whatever they hold', async () => {
      await open();
      await page.keyboard.press('Home');
      await page.goto(`${address}#page=timeline`);
      await page.reload();
      await hasRows(1, 10, PICTURE_MS);
      const shown = (await labels()).join('\n');
      for (const name of ['<img src=x>', '<b>bold</b>', '<script>1<', '__proto__', 'constructor']) assert.ok(shown.includes(name), name);
      assert.ok(!/[\u0000-\u0009\u000b-\u001f\u202a-\u202e\u2066-\u2069]/.test(shown), 'control characters are shown');
      await walkThrough();
      await until(() => document.querySelectorAll('#records tbody tr').length > 50);
      assert.ok((await text('#records')).includes('window.hacked=1'), 'fields and events are shown');
      for (const label of await page.$$('#labels .label')) await label.evaluate((label) => label.click());
      await until(() => document.querySelector('#details').textContent.length > 20);
      assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
      assert.equal(await page.$$eval('script', (all) => all.length), 1);
      assert.equal(await page.$$eval('#timeline img, #timeline svg, #timeline iframe, #start img', (all) => all.length), 0);
    });
    await step('a thread is found by such a name, and the address keeps it', async () => {
      await page.click('#match');
      await page.keyboard.type('<img');
      await until(() => {
        const threads = [...document.querySelectorAll('#labels [data-key^="tid"] .name')];
        return threads.length === 1 && threads[0].textContent.startsWith('<img');
      });
      // The address follows some changes a moment later.
      await new Promise((resolve) => setTimeout(resolve, 1000));
      assert.equal((await fragment()).match, '<img');
      await page.reload();
      await until(() => document.querySelector('#match').value === '<img');
      assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
    });
  },
  threads: async () => {
    await step('100,000 threads: the first picture is there, and one of them is found', async () => {
      const begin = await open('#page=timeline');
      await hasRows(1, 50, PICTURE_MS);
      console.log(`  first picture after ${Date.now() - begin} ms`);
      await until(() => / hidden/.test(document.querySelector('#labels').textContent));
      const hidden = (await text('#labels')).match(/(\d[\d  ]*) hidden/);
      assert.ok(hidden && Number(hidden[1].replace(/\D/g, '')) > 90_000, 'it says how many are not shown');
      await page.click('#match');
      await page.keyboard.type('99999');
      await until(() => [...document.querySelectorAll('#labels .label .name')].some((label) => label.textContent === 'thread-99999[99999]'), PICTURE_MS);
      await page.keyboard.press('Escape');
      await walkThrough();
    });
  },
  wide: async () => {
    await step('500 threads and 64 CPUs: each CPU has its row, and losses are drawn', async () => {
      const begin = await open('#page=timeline');
      await hasRows(64, 50, PICTURE_MS);
      console.log(`  first picture after ${Date.now() - begin} ms`);
      const cpus = (await labels()).filter((label) => /^CPU \d+$/.test(label));
      assert.deepEqual(cpus.map((label) => Number(label.slice(4))).sort((a, b) => a - b), [...Array(64).keys()]);
      await drawnWith('loss');
      await walkThrough();
    });
    await step('it is panned and zoomed at random', async () => {
      for (let i = 0; i < 60; i++) await page.keyboard.press(['w', 'a', 'd', 's', 'd', 'w'][(i * 7) % 6]);
      await page.keyboard.press('Home');
      await settled(500, PICTURE_MS);
      await hasRows(64, 50, PICTURE_MS);
    });
  },
  onecpu: async () => {
    await step('one CPU has one row', async () => {
      await open('#page=timeline');
      await hasRows(1, 1, PICTURE_MS);
      assert.deepEqual((await labels()).filter((label) => label.startsWith('CPU')), ['CPU 0']);
      await walkThrough();
    });
    await step('the page says that the server has gone, and keeps its picture', async () => {
      assert.ok(Number(pid) > 1, 'no process');
      process.kill(Number(pid), 'SIGKILL');
      await page.keyboard.press('w');
      await until(() => !document.querySelector('#gone').hidden);
      assert.ok((await labels()).includes('CPU 0'));
    });
  },
  onerecord: async () => {
    await step('one record is shown', async () => {
      await open();
      assert.match(await text('#start .lead'), /^1 records? in /);
      await page.goto(`${address}#page=timeline`);
      await page.reload();
      await until(() => document.querySelectorAll('#records tbody tr').length === 1);
      await walkThrough();
    });
  },
  norecord: async () => {
    await step('no record: the page says so, and stands', async () => {
      await open();
      assert.match(await text('#start .lead'), /has no records/);
      await page.goto(`${address}#page=timeline`);
      await page.reload();
      await until(() => /no record/.test(document.querySelector('#records').textContent));
      await walkThrough();
    });
  },
};

await STEPS[kind]();
await step('no script of a name ran, no policy was breached, and no task took too long', async () => {
  assert.deepEqual(wrong, []);
  const seen = await page.evaluate(() => ({ ...globalThis.seen, hacked: globalThis.hacked }));
  assert.deepEqual([seen.breaches, seen.hacked], [[], undefined]);
  console.log(`  longest task ${seen.longestMs} ms`);
  assert.ok(seen.longestMs < TASK_MS, `a task took ${seen.longestMs} ms`);
});
await end();
