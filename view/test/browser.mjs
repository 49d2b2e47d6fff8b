// SPDX-License-Identifier: MIT OR Apache-2.0
// Drives a real browser through the page: clicks, drags, types and zooms, and looks at what is shown.
// Usage: node test/browser.mjs ADDRESS TID [SCREENSHOTS]; the server shows a trace of the kernel's scheduler, TID: of a thread that waits
// again and again.
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { drive, executablePath } from './drive.mjs';

const [address, shell, shots] = process.argv.slice(2);
if (!address || !shell || !executablePath) {
  console.log(`SKIP the page in a browser: ${executablePath ? 'no address or no thread' : 'chromium is not installed'}`);
  process.exit(0);
}
if (shots) await mkdir(shots, { recursive: true });
const { page, wrong, step, end, text, fragment, until: untilIn } = await drive();
page.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
const until = (what, ...args) => untilIn(what, 20000, ...args);
const shot = (name) => (shots ? page.screenshot({ path: join(shots, `${name}.png`) }) : null);
/** Whether anything but the background is on a canvas. */
const isDrawn = (selector) =>
  until((selector) => {
    const canvas = document.querySelector(selector);
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    return seen.size > 4;
  }, selector);

await step('the first page says what is in the trace and where to look', async () => {
  await page.goto(address);
  await until(() => document.querySelector('#start h1'));
  assert.match(await text('#start .lead'), /^[\d ]+ records in /);
  await until(() => document.querySelectorAll('.card').length > 0);
  await isDrawn('#overview');
  await shot('start');
});
await step('a card leads to the time line', async () => {
  await page.click('.card');
  await until(() => document.body.dataset.page === 'timeline');
  await until(() => document.querySelectorAll('#labels .label').length > 2);
  await isDrawn('#plot');
  assert.ok(Number((await fragment()).to) > Number((await fragment()).from));
});
await step('the whole trace, and rows of CPUs and threads', async () => {
  await page.keyboard.press('Home');
  await until(() => [...document.querySelectorAll('#labels .label')].some((label) => label.textContent.startsWith('CPU 0')));
  await until(() => [...document.querySelectorAll('#labels .label')].some((label) => /\[\d+\]/.test(label.textContent)));
  await isDrawn('#plot');
  await shot('timeline');
});
await step('the wheel zooms at the pointer, and undo goes back', async () => {
  const before = await fragment();
  const box = await (await page.$('#plot')).boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 40);
  await page.mouse.wheel({ deltaY: -600 });
  await until((to) => new URLSearchParams(location.hash.slice(1)).get('to') !== to, before.to);
  const near = await fragment();
  const place = (view) => Number(view.from) + 0.25 * (Number(view.to) - Number(view.from));
  assert.ok(Math.abs(place(near) - place(before)) <= 0.001 * (Number(before.to) - Number(before.from)));
  await page.keyboard.press('u');
  await until((to) => new URLSearchParams(location.hash.slice(1)).get('to') === to, before.to);
});
await step('dragging moves, and Shift dragging zooms to the stretch', async () => {
  const box = await (await page.$('#plot')).boundingBox();
  await page.keyboard.down('Shift');
  await page.mouse.move(box.x + 300, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 500, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await page.keyboard.up('Shift');
  const near = await fragment();
  await page.mouse.move(box.x + 500, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 400, box.y + 60, { steps: 5 });
  await page.mouse.up();
  const later = await fragment();
  assert.ok(Number(later.from) > Number(near.from), 'to the left is later');
  await page.keyboard.press('Home');
});
await step('a thread is selected by its label, and what it did is told', async () => {
  // The shell of the recorded command: a thread that waits again and again. Other rows may have one change only.
  await until((shell) => document.querySelector(`#labels [data-key="tid${shell}"]`), shell);
  await page.evaluate((shell) => document.querySelector(`#labels [data-key="tid${shell}"]`).click(), shell);
  await until(() => /Where the time of the window went/.test(document.querySelector('#details').textContent));
  await until(() => document.querySelectorAll('#details .steps li').length > 0);
  await shot('details');
});
await step('n and p go from one change of the selected thread to the next, and back', async () => {
  const isAt = (time) => (new URLSearchParams(location.hash.slice(1)).get('at') ?? '') === time;
  const isBehind = (time) => BigInt(new URLSearchParams(location.hash.slice(1)).get('at') ?? '0') > BigInt(time);
  // From the begin: behind the moment that the card chose, there may be no further change.
  await page.evaluate(() => (location.hash = location.hash.replace(/&at=\d+/, '')));
  await until(() => !/&at=/.test(location.hash));
  const begin = (await fragment()).at ?? '';
  await page.keyboard.press('n');
  await until(isBehind, '0');
  const first = (await fragment()).at;
  await page.keyboard.press('n');
  await until(isBehind, first);
  await page.keyboard.press('p');
  await until(isAt, first);
  for (let undo = 0; undo < 3; undo++) await page.keyboard.press('u');
  await until(isAt, begin);
});
await step('records are listed, and more come when they are scrolled', async () => {
  await page.click('[data-tab="records"]');
  await until(() => document.querySelectorAll('#records tbody tr').length >= 50);
  const count = await page.$$eval('#records tbody tr', (rows) => rows.length);
  await page.$eval('#records', (box) => (box.scrollTop = box.scrollHeight));
  await until((count) => document.querySelectorAll('#records tbody tr').length > count || /to the end/.test(document.querySelector('#records .note').textContent), count);
});
await step('records are walked by keyboard alone, and Enter goes there', async () => {
  const focused = () => page.evaluate(() => (document.activeElement instanceof HTMLTableRowElement ? document.activeElement.sectionRowIndex : -1));
  // In another form of time: so the rows are those of the last view, and are not replaced below.
  await page.keyboard.press('t');
  await until(() => /:/.test(document.querySelector('#records tbody td')?.textContent ?? ''));
  await page.evaluate(() => document.querySelector('#records tbody tr').focus());
  assert.equal(await focused(), 0);
  const { from, to, b = null } = await fragment();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowUp');
  assert.equal(await focused(), 1);
  await page.keyboard.press('PageDown');
  const far = await focused();
  assert.ok(far > 4, `${far}`);
  await page.keyboard.press('Home');
  assert.equal(await focused(), 0);
  assert.deepEqual([(await fragment()).from, (await fragment()).to], [from, to], 'the time line did not move');
  assert.equal(await page.$$eval('#records tbody tr[tabindex="0"]', (rows) => rows.length), 1, 'one row is in the order of Tab');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await until((b) => new URLSearchParams(location.hash.slice(1)).get('b') !== b, b);
  assert.equal(await focused(), 1, 'the row keeps the focus');
  await page.keyboard.press('u');
  await until((b) => new URLSearchParams(location.hash.slice(1)).get('b') === b, b);
  await page.keyboard.press('u');
  await until(() => !new URLSearchParams(location.hash.slice(1)).has('time'));
});
await step('columns of records are chosen, and the address has them', async () => {
  const heads = () => page.$$eval('#records th', (cells) => cells.map((cell) => cell.textContent));
  const before = await heads();
  await page.$eval('#records input[name="fields"]', (box) => box.click());
  await until((count) => document.querySelectorAll('#records th').length === count, before.length - 1);
  assert.equal((await fragment()).columns, 'time,delta,cursor,cpu,thread,event');
  assert.equal(await page.$eval('#records tbody tr.can', (row) => row.cells.length), before.length - 1);
  await page.$eval('#records input[name="fields"]', (box) => box.click());
  await until((count) => document.querySelectorAll('#records th').length === count, before.length);
  assert.equal((await fragment()).columns, undefined);
});
await step('the filter is completed by keyboard alone, and what comes out is a filter', async () => {
  const choices = () => page.$$eval('#complete .choice code', (all) => all.map((one) => one.textContent));
  const value = () => page.$eval('#filter', (input) => input.value);
  const isOpen = (is) => until((is) => document.querySelector('#complete').hidden !== is, is);
  await page.keyboard.press('f');
  // Names are asked for when the field gets the focus, and the list opens as soon as they are there.
  await page.keyboard.type('next_t');
  await isOpen(true);
  assert.ok((await choices()).includes('next_tid'), (await choices()).join());
  await page.keyboard.press('Tab');
  assert.equal(await value(), 'next_tid ');
  assert.deepEqual((await choices()).slice(0, 2), ['==', '!=']);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.$eval('#filter', (input) => document.getElementById(input.getAttribute('aria-activedescendant')).textContent), '!=not equal');
  await shot('completion');
  await page.keyboard.press('Enter');
  assert.equal(await value(), 'next_tid != ', 'Enter takes what was chosen, and filters nothing yet');
  await page.keyboard.type('0 ');
  await isOpen(true);
  await page.keyboard.press('Escape');
  await isOpen(false);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'filter', 'Escape closes the list first');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.id === 'filter'), false, 'nothing is marked: Tab goes on');
  await page.click('#filter');
  await page.keyboard.press('End');
  await page.keyboard.type('&& $event == "sched_switc');
  await isOpen(true);
  await page.click('#complete .choice');
  await page.keyboard.press('Enter');
  await until(() => /^next_tid != 0 && \$event == "(sched:)?sched_switch"$/.test(new URLSearchParams(location.hash.slice(1)).get('filter') ?? ''));
  await isOpen(false);
  assert.equal(await page.$eval('#wrong', (wrong) => wrong.hidden), true);
  await page.keyboard.press('Escape');
  await page.keyboard.press('u');
  await until(() => !new URLSearchParams(location.hash.slice(1)).has('filter'));
});
await step('a filter that is none is refused with its place, and the last one stays', async () => {
  await page.click('#filter');
  await page.keyboard.type('$cpu ==');
  await page.keyboard.press('Enter');
  await until(() => !document.querySelector('#wrong').hidden);
  assert.match(await text('#wrong'), /\^/);
  assert.equal((await fragment()).filter, undefined);
  await page.click('#filter', { clickCount: 3 });
  await page.keyboard.type('$cpu == 0');
  await page.keyboard.press('Enter');
  await until(() => document.querySelector('#wrong').hidden);
  await until(() => {
    const cpus = [...document.querySelectorAll('#records tbody tr.can td:nth-child(4)')].map((cell) => cell.textContent);
    return cpus.length > 3 && cpus.every((cpu) => cpu === '0');
  });
});
await step('latencies: a table, a picture, and a way from one to its moment', async () => {
  await page.click('[data-tab="latencies"]');
  await until(() => document.querySelectorAll('#latencies tbody tr').length > 0);
  await isDrawn('#latencies canvas');
  await shot('latencies');
  await page.click('[data-tab="worst"]');
  await until(() => document.querySelectorAll('#worst tbody tr').length > 0);
  await until(() => [...document.querySelectorAll('#worst .cause')].some((cell) => /\d %\)/.test(cell.textContent)));
  const before = await fragment();
  await shot('worst');
  await page.click('#worst tbody tr');
  await until((from) => new URLSearchParams(location.hash.slice(1)).get('from') !== from, before.from);
  assert.ok((await fragment()).a && (await fragment()).b);
});
await step('beside the worst one is its explanation, whose threads and times are links', async () => {
  await until(() => /Where the time went/.test(document.querySelector('#explain').textContent) && !document.querySelector('#explain').hasAttribute('aria-busy'));
  assert.ok((await text('#explain .headline')).length > 20);
  // The parts of the bar are the whole.
  const widths = await page.$$eval('#explain .budget i', (parts) => parts.map((part) => parseFloat(part.style.width)));
  assert.ok(Math.abs(widths.reduce((sum, width) => sum + width, 0) - 100) < 0.5, String(widths));
  await shot('explain');
  const own = (await fragment()).tid;
  const others = await page.$$eval('#explain .link', (all) => all.map((link) => link.textContent));
  assert.ok(others.some((name) => /\[\d+\]$/.test(name)), others.join('; '));
  const other = others.find((name) => /\[\d+\]$/.test(name) && !name.endsWith(`[${own}]`));
  if (other) {
    await page.evaluate((other) => [...document.querySelectorAll('#explain .link')].find((link) => link.textContent === other).click(), other);
    await until((own) => new URLSearchParams(location.hash.slice(1)).get('tid') !== own, own);
    await page.keyboard.press('u');
    await until((own) => new URLSearchParams(location.hash.slice(1)).get('tid') === own, own);
  }
  await page.keyboard.press('e');
  await until(() => document.querySelector('#explain').hidden);
  await page.keyboard.press('e');
  await until(() => !document.querySelector('#explain').hidden);
});
await step('the critical path is drawn over the threads, and listed', async () => {
  await page.keyboard.press('Home');
  await page.keyboard.press('Escape');
  await page.evaluate((shell) => document.querySelector(`#labels [data-key="tid${shell}"]`).click(), shell);
  const ink = () =>
    page.evaluate(() => {
      const canvas = document.querySelector('#plot');
      const probe = document.createElement('canvas').getContext('2d');
      probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--ink').trim();
      probe.fillRect(0, 0, 1, 1);
      const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      let count = 0;
      for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) count++;
      return count;
    });
  /** Until the ink is what it should be; when it was last, and now. */
  const inkUntil = async (isReached, what) => {
    const end = Date.now() + 20_000;
    for (let last = await ink(); ; ) {
      await new Promise((done) => setTimeout(done, 250));
      const now = await ink();
      if (isReached(now, last)) return now;
      assert.ok(Date.now() < end, `${what}: ${last}, ${now}`);
      last = now;
    }
  };
  const without = await inkUntil((now, last) => now === last, 'the rows are drawn');
  await page.keyboard.press('c');
  await until(() => document.querySelectorAll('#critical tbody tr').length > 0);
  assert.equal((await fragment()).critical, 'on');
  await until(() => document.querySelectorAll('#critical .number').length > 0);
  const drawn = await inkUntil((now) => now > without + 50, 'the line is there when it is on');
  await shot('critical');
  await page.keyboard.press('c');
  await until(() => !new URLSearchParams(location.hash.slice(1)).get('critical'));
  await inkUntil((now) => now < drawn - 50, 'the line is gone when it is off');
});
await step('a field is chosen, and its values are drawn on the axis of the time line', async () => {
  await page.keyboard.press('6');
  await until(() => document.querySelectorAll('#value-event option').length > 0);
  const event = await page.$$eval('#value-event option', (options) => options.map(({ value }) => value).find((value) => value.endsWith('sched_switch')));
  await page.select('#value-event', event);
  await page.select('#value-field', 'next_prio');
  await page.click('#value-add');
  await until(() => /\d to /.test(document.querySelector('#values .value-label')?.textContent ?? ''));
  // Values that do not change within a pixel have one colour.
  const inked = await page.$eval('#values canvas', (canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((byte, at) => at % 4 === 3 && byte > 0));
  assert.ok(inked, 'something is drawn');
  assert.match(await text('#values .value-label'), /sched_switch\.next_prio.*\d to −?\d/);
  assert.equal((await fragment()).values, `${event}.next_prio`);
  await shot('values');
  await page.click('#values .value .ib');
  await until(() => document.querySelectorAll('#values .value').length === 0);
});
await step('a trace without spans says so where the flame graph would be', async () => {
  await page.keyboard.press('7');
  await until(() => /No span ends in this window/.test(document.querySelector('#flame').textContent));
});
await step('results of the laboratory have a page: what was measured, histograms, tails', async () => {
  await page.click('#to-laboratory');
  await until(() => document.querySelectorAll('#laboratory tbody tr').length > 1);
  for (const chart of [1, 2]) await isDrawn(`#laboratory .chart:nth-child(${chart}) canvas`);
  await shot('laboratory');
  const drawn = await page.$$eval('#laboratory input:checked', (boxes) => boxes.length);
  await page.click('#laboratory input:checked');
  await until((drawn) => document.querySelectorAll('#laboratory input:checked').length === drawn - 1, drawn);
  await page.click('#to-timeline');
});
await step('every mark of the legend is there to be seen', async () => {
  const marks = await page.$$eval('#legend .item', (items) => items.map((item) => ({ text: item.textContent, width: item.firstChild.offsetWidth, height: item.firstChild.offsetHeight })));
  for (const means of ['sleeps', 'not known', 'doubtful', 'records lost', 'real-time', 'merged']) assert.ok(marks.some(({ text }) => text.includes(means)), means);
  assert.deepEqual(marks.filter(({ width, height }) => !width || !height), []);
});
await step('statistics, keys, themes, and the address is the view', async () => {
  await page.keyboard.press('4');
  await until(() => document.querySelectorAll('#statistics tbody tr').length > 0);
  const isBy = (head) => until((head) => document.querySelector('#statistics th')?.textContent === head, head);
  // Of the window: half of the trace has fewer records than all of it. A filter leaves that number as it is.
  const counted = () =>
    page.evaluate(() => Number((/([\d\p{Zs}]+) records in this window/u.exec(document.querySelector('#statistics').textContent)?.[1] ?? '').replace(/\D/g, '')));
  const untilCounted = async (isIt) => {
    const end = Date.now() + 60_000;
    for (let count = await counted(); !isIt(count); count = await counted()) {
      assert.ok(Date.now() < end, `${count} records in the window`);
      await new Promise((done) => setTimeout(done, 50));
    }
  };
  const look = (from, to) => page.evaluate((from, to) => (location.hash = location.hash.replace(/from=-?\d+/, `from=${from}`).replace(/to=-?\d+/, `to=${to}`)), from, to);
  await page.click('[data-group="cpu"]');
  await isBy('CPU');
  await page.click('[data-sort="records"]');
  await until(() => location.hash.includes('stats=cpu.records'));
  const { info, to } = await page.evaluate(async () => (await fetch('q/summary?format=json')).json());
  await look('0', String(to));
  await untilCounted((count) => count === info.records);
  await look('0', String(Math.floor(to / 2)));
  await untilCounted((count) => count > 0 && count < info.records);
  await page.click('[data-group="thread"]');
  await isBy('Thread');
  await page.click('#statistics tbody tr');
  await until(() => /[&#]tid=\d/.test(location.hash));
  await shot('statistics');
  await page.click('[data-group="event"]');
  await isBy('Event');
  await page.keyboard.press('?');
  assert.equal(await page.$eval('#help', (help) => help.hidden), false);
  await page.keyboard.press('Escape');
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const first = await theme();
  await page.keyboard.press('T');
  assert.notEqual(await theme(), first);
  await isDrawn('#plot');
  await shot('light');
  await page.keyboard.press('T');
  const view = await fragment();
  await page.reload();
  await until(() => document.body.dataset.page === 'timeline');
  assert.deepEqual(await fragment(), view);
});
await step('nothing went wrong in the page', () => assert.deepEqual(wrong.filter((text) => !/404|400|422/.test(text)), []));
await end();
