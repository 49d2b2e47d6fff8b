// SPDX-License-Identifier: MIT OR Apache-2.0
// Drives a real browser: wake-up arrows, groups of threads, the brush over latencies, counts of a filter, and the page by
// keyboard alone. Usage: node test/parts.mjs ADDRESS TID [SCREENSHOTS]; the server shows a trace of the kernel's scheduler,
// TID: of a thread that is woken again and again.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { drive, executablePath } from './drive.mjs';

const [address, shell, shots] = process.argv.slice(2);
if (!address || !shell || !executablePath) {
  console.log(`SKIP parts of the page in a browser: ${executablePath ? 'no address or no thread' : 'chromium is not installed'}`);
  console.log('0 passed, 0 failed, 0 skipped');
  process.exit(0);
}
const { page, wrong, step, end, until, hasRows, settled, text, fragment } = await drive();
const shot = (name) => (shots ? page.screenshot({ path: join(shots, `${name}.png`) }) : null);
/** How many pixels of a canvas have exactly this colour of the palette; and where the first one is, in CSS pixels. */
const coloured = (selector, name, right = 1) =>
  page.evaluate(
    (selector, name, right) => {
      const probe = document.createElement('canvas').getContext('2d');
      probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
      probe.fillRect(0, 0, 1, 1);
      const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
      const canvas = document.querySelector(selector);
      const { data, width } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let [count, x, y] = [0, 0, 0];
      for (let i = 0; i < data.length; i += 4) {
        const at = (i / 4) % width;
        if (data[i] !== r || data[i + 1] !== g || data[i + 2] !== b || data[i + 3] !== 255 || at > width * right) continue;
        if (!count) [x, y] = [at, Math.floor(i / 4 / width)];
        count++;
      }
      return { count, x: x / devicePixelRatio, y: y / devicePixelRatio };
    },
    selector,
    name,
    right,
  );
/** Until it holds of the number of pixels; the last two of them. */
const untilColoured = async (selector, name, holds, what) => {
  const end = Date.now() + 20_000;
  for (let last = (await coloured(selector, name)).count; ; ) {
    await new Promise((done) => setTimeout(done, 150));
    const now = (await coloured(selector, name)).count;
    if (holds(now, last)) return now;
    assert.ok(Date.now() < end, `${what}: ${last}, ${now} pixels`);
    last = now;
  }
};
const has = (name, value) => until((name, value) => (new URLSearchParams(location.hash.slice(1)).get(name) ?? '') === value, 20000, name, value);
const labelOf = (key) => page.$(`#labels [data-key="${key}"]`);

await step('the time line is there', async () => {
  await page.goto(`${address}#page=timeline`);
  await page.reload();
  await hasRows(1, 3);
});
await step('wake-ups of the selected thread are drawn on request, and of the one under the pointer', async () => {
  const asked = [];
  page.on('request', (request) => request.url().includes('/q/arrows') && asked.push(new URL(request.url()).searchParams.get('tids')));
  const first = `tid${shell}`;
  // A row beside it: what is chosen is scrolled to, and rows far from it may be out of sight.
  const keys = await page.$$eval('#labels [data-key^="tid"]', (all) => all.map((label) => label.dataset.key));
  const second = keys[keys.indexOf(first) - 1] ?? keys[1];
  await (await labelOf(first)).click();
  await has('tid', first.slice(3));
  await settled(300, 20000);
  assert.deepEqual(asked, [], 'nothing is asked before it is wanted');
  const without = await untilColoured('#plot', 'ink2', (now, last) => now === last, 'the rows are drawn');
  await page.keyboard.press('v');
  await has('arrows', 'on');
  await until(() => document.querySelector('#labels .section [aria-pressed="true"][title^="Wake-ups"]'));
  await untilColoured('#plot', 'ink2', (now) => now > without + 40, 'arrows are drawn');
  assert.deepEqual(asked, [first.slice(3)]);
  await shot('arrows');
  const [plot, label] = [await (await page.$('#plot')).boundingBox(), await (await labelOf(second)).boundingBox()];
  const pointedAt = page.waitForRequest((request) => request.url().includes('/q/arrows') && request.url().includes(second.slice(3)), { timeout: 20000 });
  await page.mouse.move(plot.x + 200, label.y + 12);
  await pointedAt;
  assert.deepEqual(asked.at(-1).split(','), [first.slice(3), second.slice(3)]);
  await page.mouse.move(plot.x + 200, 5);
  await page.keyboard.press('v');
  await has('arrows', '');
  await untilColoured('#plot', 'ink2', (now) => now < without + 40, 'arrows are gone');
});
await step('threads stand below their process, which folds to a row of shares', async () => {
  const group = await page.$eval('#labels .group', (head) => head.dataset.key);
  const process = group.slice(5);
  const members = () => page.$$eval('#labels [data-key^="tid"]', (all) => all.length);
  const before = await members();
  const [open, said] = await page.$eval(`[data-key="${group}"]`, (head) => [head.offsetHeight, head.textContent]);
  assert.match(said, /\[\d+\]\d+ (of \d+ )?threads/);
  await (await labelOf(group)).click();
  await has('folded', process);
  await until((group, open) => document.querySelector(`[data-key="${group}"]`).offsetHeight > open, 20000, group, open);
  assert.ok((await members()) < before, 'its threads have no row');
  assert.equal(await page.$eval(`[data-key="${group}"]`, (head) => head.getAttribute('aria-expanded')), 'false');
  // Its row is drawn: in it are more colours than that of the background.
  const isDrawn = (group) => {
    const [plot, head] = [document.querySelector('#plot'), document.querySelector(`[data-key="${group}"]`)];
    const top = (head.getBoundingClientRect().top - plot.getBoundingClientRect().top) * devicePixelRatio;
    const { data } = plot.getContext('2d').getImageData(0, top + 4, plot.width, 14);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add(`${data[i]} ${data[i + 1]} ${data[i + 2]}`);
    return seen.size > 2;
  };
  await until(isDrawn, 20000, group);
  await shot('groups');
  await page.keyboard.press('g');
  await until(() => !document.querySelector('#labels .group'));
  await page.keyboard.press('g');
  await until((group) => document.querySelector(`[data-key="${group}"]`), 20000, group);
  await (await labelOf(group)).click();
  await has('folded', '');
  await until((before) => document.querySelectorAll('#labels [data-key^="tid"]').length === before, 20000, before);
});
await step('a brush over the histogram chooses lengths, in the worst ones, too', async () => {
  await page.keyboard.press('Home');
  await page.keyboard.press('2');
  await until(() => document.querySelectorAll('#latencies tbody tr').length > 0);
  await page.evaluate(() => [...document.querySelectorAll('#latencies tbody tr')].find((row) => row.cells[0].textContent === 'wakeup').click());
  await has('what', 'wakeup');
  await settled(300, 20000);
  const box = await (await page.$('#latencies canvas')).boundingBox();
  await page.mouse.move(box.x + box.width - 60, box.y + box.height * 0.55);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 60, box.y + box.height * 0.3, { steps: 4 });
  await page.mouse.up();
  await until(() => /[&#]lengths=\d+-\d+/.test(location.hash));
  const [low, high] = (await fragment()).lengths.split('-').map(Number);
  assert.ok(low < high && low > 0, `${low} to ${high}`);
  await until(() => /\d samples/.test(document.querySelector('#latencies .apart').textContent));
  const { info, tables } = await page.evaluate(async (low, high) => (await fetch(`q/latencies?format=json&kind=wakeup&low=${low}&high=${high}`)).json(), low, high);
  assert.ok(info.samples > 0 && info.samples < tables.series.count[tables.series.what.indexOf('wakeup')], `${info.samples}`);
  assert.equal(Number((await text('#latencies .apart .i2')).replace(/\D/g, '')), info.samples);
  await shot('brush');
  await page.keyboard.press('3');
  await until((low) => document.querySelector('#worst .note')?.textContent.startsWith('Only wakeup'), 20000, low);
  const worst = await page.evaluate(async (low, high) => (await fetch(`q/worst?format=json&what=wakeup&kind=wakeup&low=${low}&high=${high}&limit=50`)).json(), low, high);
  await until((count) => document.querySelectorAll('#worst tbody tr').length === count, 20000, worst.tables.points.value_ns.length);
  assert.ok(worst.tables.points.value_ns.every((ns) => ns >= low && ns <= high));
  await page.evaluate(() => [...document.querySelectorAll('#worst .note .link')][0].click());
  await has('lengths', '');
});
await step('a point of the latencies leads to its moment', async () => {
  await page.keyboard.press('2');
  await until(() => document.querySelector('#latencies canvas'));
  await settled(300, 20000);
  const { count, x, y } = await coloured('#latencies canvas', 'pre', 0.7);
  assert.ok(count > 0, 'points are drawn');
  const box = await (await page.$('#latencies canvas')).boundingBox();
  await page.mouse.click(box.x + x + 1, box.y + y + 1);
  await until(() => /[&#]sample=/.test(location.hash));
  const { a, b, sample } = await fragment();
  assert.ok(Number(b) > Number(a) && sample.startsWith('wakeup~'), sample);
  await page.keyboard.press('u');
});
await step('latencies are kept apart by CPU', async () => {
  await page.click('#latencies input[name="apart-cpu"]');
  await has('apart', 'cpu');
  await until(() => [...document.querySelectorAll('#latencies tbody tr')].some((row) => /^wakeup CPU 0$/.test(row.cells[0].textContent)));
  await page.click('#latencies input[name="apart-cpu"]');
  await has('apart', '');
});
await step('the overview counts what the filter selects', async () => {
  await settled(200, 20000);
  const before = (await coloured('#overview', 'run')).count;
  assert.equal(before, 0);
  await page.click('#filter');
  await page.keyboard.type('$cpu == 0');
  await page.keyboard.press('Enter');
  await has('filter', '$cpu == 0');
  await untilColoured('#overview', 'run', (now) => now > 20, 'the bars of the filter');
  const box = await (await page.$('#overview')).boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 60);
  await until(() => /records in .*the filter is true/.test(document.querySelector('#status').textContent));
  await page.keyboard.press('Escape');
  await page.click('#filter', { clickCount: 3 });
  await page.keyboard.press('Backspace');
  await page.keyboard.press('Enter');
  await has('filter', '');
  await untilColoured('#overview', 'run', (now) => now === 0, 'the bars are gone');
});
await step('from the first page to the worst wake-up and its explanation by keyboard alone', async () => {
  await page.goto(`${address}#page=start`);
  await page.reload();
  await until(() => document.querySelector('.card'));
  /** Tab until the element in focus is one of these. */
  const tabTo = async (selector) => {
    for (let i = 0; i < 300; i++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate((selector) => document.activeElement?.matches(selector) ?? false, selector)) return;
    }
    assert.fail(`Tab does not reach ${selector}`);
  };
  await tabTo('.card');
  await page.keyboard.press('Enter');
  await until(() => document.body.dataset.page === 'timeline');
  await page.keyboard.press('Home');
  await hasRows(1, 3);
  await settled(200, 20000);
  await page.keyboard.press('Escape');
  await tabTo('#labels [data-key^="tid"]');
  await page.keyboard.press('Enter');
  await until(() => /[&#]tid=\d/.test(location.hash));
  await page.keyboard.press('3');
  await until(() => document.querySelectorAll('#worst tbody tr').length > 0);
  await tabTo('#worst tbody tr');
  await page.keyboard.press('Enter');
  await until(() => /[&#]sample=/.test(location.hash));
  await until(() => /Where the time went/.test(document.querySelector('#explain').textContent));
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'match');
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  assert.equal(await page.$eval('#help', (help) => help.hidden), false);
  await page.keyboard.press('Escape');
});
await step('nothing went wrong in the page', () => assert.deepEqual(wrong, []));
await end();
