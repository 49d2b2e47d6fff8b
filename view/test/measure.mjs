// SPDX-License-Identifier: MIT OR Apache-2.0
// What the page costs in a real browser, for bench/view: time until the first whole picture, script time of frames while
// it is panned and zoomed, heap over random navigation. Usage: node test/measure.mjs ADDRESS SECONDS.
// Prints a JSON object: picture_ms, picture_is_whole, rows, frames_ms, heap_mib, steps.
import { drive, executablePath } from './drive.mjs';

const [address, seconds] = process.argv.slice(2);
if (!address || !executablePath) {
  console.error('it needs an address and chromium');
  process.exit(2);
}
const { browser, page, until } = await drive();
// So high that a hundred rows are drawn.
await page.setViewport({ width: 1600, height: 4400 });
const session = await page.createCDPSession();
await session.send('Performance.enable');

/** Questions that have no answer yet. */
let open = 0;
page.on('request', (request) => request.url().includes('/q/') && open++);
for (const end of ['requestfinished', 'requestfailed']) page.on(end, (request) => request.url().includes('/q/') && open--);

/** A browser that has just started is busy with itself for so long, ms. */
const REST_MS = 4000;

/** Milliseconds until rows of CPUs and threads are drawn and nothing is asked any more, two minutes at most. */
async function picture() {
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  const begin = performance.now();
  await page.goto(`${address}#page=timeline`);
  const isWhole = () => {
    const names = [...document.querySelectorAll('#labels .label .name')].map((label) => label.textContent);
    return names.some((name) => name.startsWith('CPU ')) && names.some((name) => /\[\d+\]$/.test(name));
  };
  // A trace that is too large for a picture in time is measured all the same, in parts of it.
  const is_whole = await until(isWhole, 120_000).then(() => true, () => false);
  for (let still = 0; still < 3; ) {
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    still = open <= 0 ? still + 1 : 0;
    if (performance.now() - begin > 120_000) break;
  }
  return { picture_ms: performance.now() - begin, picture_is_whole: is_whole && open <= 0 };
}

/** Script time of each frame in which script ran: outermost calls between two begins of a frame, of the page's thread. */
function frames(trace) {
  const { traceEvents } = JSON.parse(trace);
  const named = (name) => traceEvents.filter((event) => event.name === name);
  // Not every chromium tells of frames; a frame in which script ran has callbacks at its begin.
  const begins = named('BeginMainThreadFrame').length ? named('BeginMainThreadFrame') : named('FireAnimationFrame');
  if (!begins.length) throw new Error('chromium told of no frame');
  const calls = traceEvents.filter((event) => event.ph === 'X' && ['FunctionCall', 'EvaluateScript', 'FireAnimationFrame', 'TimerFire', 'EventDispatch', 'RunMicrotasks', 'V8.GCScavenger', 'MinorGC', 'MajorGC'].includes(event.name));
  const busiest = new Map();
  for (const event of begins) busiest.set(`${event.pid} ${event.tid}`, (busiest.get(`${event.pid} ${event.tid}`) ?? 0) + 1);
  const own = [...busiest].sort((a, b) => b[1] - a[1])[0]?.[0];
  const of = (event) => `${event.pid} ${event.tid}` === own;
  const starts = begins.filter(of).map((event) => event.ts).sort((a, b) => a - b);
  const sums = new Map();
  let end = -Infinity;
  for (const { ts, dur = 0 } of calls.filter(of).sort((a, b) => a.ts - b.ts || (b.dur ?? 0) - (a.dur ?? 0))) {
    // Inside of one that is counted already.
    if (ts + dur <= end) continue;
    const from = Math.max(ts, end);
    end = ts + dur;
    let [low, high] = [0, starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= from) low = middle + 1;
      else high = middle;
    }
    sums.set(low, (sums.get(low) ?? 0) + (end - from) / 1000);
  }
  return [...sums.values()];
}

async function heapMib() {
  await session.send('HeapProfiler.collectGarbage');
  const { metrics } = await session.send('Performance.getMetrics');
  return metrics.find((metric) => metric.name === 'JSHeapUsedSize').value / 2 ** 20;
}

let seed = 1;
const random = () => (seed = (seed * 48271) % 0x7fffffff) / 0x7fffffff;

const { picture_ms, picture_is_whole } = await picture();
// Into a part of the trace: an ordinary view of it, with all rows.
const { from, to } = await page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
const whole = Number(to) - Number(from);
const go = (from, to, more = '') => page.evaluate((hash) => (location.hash = hash), `#page=timeline&from=${Math.round(from)}&to=${Math.round(to)}${more}`);
await go(whole * 0.5, whole * 0.5 + Math.min(whole * 0.4, 20e6));
await until(() => document.querySelectorAll('#labels .label').length > 4, 60_000);
await new Promise((resolve) => setTimeout(resolve, 3000));
const rows = await page.$$eval('#labels .label', (labels) => labels.length);

const CATEGORIES = ['devtools.timeline', 'disabled-by-default-devtools.timeline', 'disabled-by-default-devtools.timeline.frame', 'v8', 'v8.execute'];
await page.tracing.start({ categories: CATEGORIES });
const box = await (await page.$('#plot')).boundingBox();
await page.mouse.move(box.x + box.width * 0.4, box.y + 200);
for (let step = 0; step < 200; step++) {
  if (step % 2) await page.mouse.wheel({ deltaY: random() < 0.5 ? 60 : -60 });
  else await page.keyboard.press(random() < 0.5 ? 'd' : 'a');
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
}
const frames_ms = frames(Buffer.from(await page.tracing.stop()).toString());

const heap_mib = [];
const tabs = ['records', 'latencies', 'worst', 'statistics'];
let steps = 0;
const until_ms = performance.now() + Number(seconds) * 1000;
let next = 0;
while (performance.now() < until_ms) {
  // Mostly near: a window that takes the server long is left before its answer, as a user would.
  const ns = Math.max(1000, 1000 * (whole / 1000) ** (random() * 0.8));
  const begin = random() * (whole - ns);
  await go(begin, begin + ns, `&tab=${tabs[Math.floor(random() * tabs.length)]}`);
  steps++;
  await new Promise((resolve) => setTimeout(resolve, 400));
  if (performance.now() >= next) {
    heap_mib.push(await heapMib());
    next = performance.now() + Math.max(2000, Number(seconds) * 25);
  }
}
heap_mib.push(await heapMib());
await browser.close();
console.log(JSON.stringify({ picture_ms, picture_is_whole, rows, frames_ms, heap_mib, steps }));
