// SPDX-License-Identifier: MIT OR Apache-2.0
// A real browser for tests: starts it, counts steps, and notes what goes wrong in the page.
import { existsSync } from 'node:fs';
import puppeteer from 'puppeteer-core';

/** Where the browser is; none where there is none. */
export const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

/**
 * From a record's publication to its pixel, over some seconds of a running session: the ms of each ms of records, sorted,
 * the pictures: when the newest record was drawn, and when it was published (ms since 1970), and the ms of each stage.
 */
export async function delays(page, seconds) {
  const { pictures, requests } = await page.evaluate(async (ms) => {
    const seen = [];
    performance.clearResourceTimings();
    performance.setResourceTimingBufferSize(1e6);
    const begin = performance.now();
    while (performance.now() - begin < ms) {
      const now = await new Promise((resolve) => requestAnimationFrame(() => resolve(performance.timeOrigin + performance.now())));
      const edge = Number(BigInt(document.body.dataset.edge ?? '0') / 1000n) / 1000;
      if (edge && edge !== seen.at(-1)?.edge) seen.push({ now, edge });
    }
    const at = (time) => performance.timeOrigin + time;
    const requests = performance.getEntriesByType('resource').map((of) => ({ name: of.name, from: at(of.startTime), to: at(of.responseEnd) }));
    return { pictures: seen, requests };
  }, seconds * 1000);
  const all = [];
  // What was published between two edges was drawn with the later one.
  for (let i = 1; i < pictures.length; i++) for (let at = pictures[i - 1].edge; at < pictures[i].edge; at++) all.push(pictures[i].now - at);
  all.sort((a, b) => a - b);
  return { all, pictures, stages: stages(pictures, requests) };
}

/** ms of each stage of a picture [spec/view.md 7], sorted. Questions about the whole window are on their way beside them. */
function stages(pictures, requests) {
  const pixels = (of) => Number(new URL(of.name).searchParams.get('pixels') ?? NaN);
  const widest = Math.max(...requests.map(pixels).filter(Number.isFinite), 0);
  const strips = requests.filter((of) => pixels(of) < widest / 2).sort((a, b) => a.to - b.to);
  const found = { picture: [], live: [], questions: strips.map((of) => of.to - of.from), frame: [] };
  for (const of of requests) if (/\/live\?after=/.test(of.name)) found.live.push(of.to - of.from);
  for (let i = 1; i < pictures.length; i++) {
    found.picture.push(pictures[i].now - pictures[i - 1].now);
    const answered = strips.filter((of) => of.to <= pictures[i].now).at(-1);
    if (answered) found.frame.push(pictures[i].now - answered.to);
  }
  for (const list of Object.values(found)) list.sort((a, b) => a - b);
  return found;
}

/** p50 and p95 of a sorted list, where it is long enough. */
export function quantiles(list) {
  const of = (share) => Math.round(list[Math.min(list.length - 1, Math.floor(list.length * share))] * 10) / 10;
  return list.length < 20 ? null : { p50: of(0.5), p95: of(0.95), samples: list.length };
}

/** A page, and what tests do with it. `isWatched`: longest tasks and breaches of the policy are noted in the page. */
export async function drive() {
  const browser = await puppeteer.launch({ executablePath, headless: true, args: ['--no-sandbox', '--disable-gpu'] });
  const page = await browser.newPage();
  await page.setViewport({ width: 1600, height: 1000 });
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(String(error)));
  page.on('dialog', (dialog) => {
    wrong.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.evaluateOnNewDocument(() => {
    globalThis.seen = { breaches: [], longestMs: 0 };
    addEventListener('securitypolicyviolation', (event) => globalThis.seen.breaches.push(`${event.violatedDirective} ${event.blockedURI}`));
    new PerformanceObserver((list) => {
      for (const task of list.getEntries()) globalThis.seen.longestMs = Math.max(globalThis.seen.longestMs, task.duration);
    }).observe({ entryTypes: ['longtask'] });
  });
  // Questions that wait for an answer. The page also waits for news all the time, which is no question.
  const asked = new Set();
  page.on('request', (request) => request.url().includes('/q/') && asked.add(request));
  for (const end of ['requestfinished', 'requestfailed']) page.on(end, (request) => asked.delete(request));
  page.on('framenavigated', () => asked.clear());
  /** Until nothing was asked for so many ms. */
  const settled = async (idle, timeout) => {
    const end = Date.now() + timeout;
    for (let since = Date.now(); Date.now() - since < idle; await new Promise((resolve) => setTimeout(resolve, 20))) {
      if (Date.now() > end) throw new Error(`questions are asked for ${timeout} ms`);
      if (asked.size) since = Date.now();
    }
  };
  const counts = { passed: 0, failed: 0 };
  const step = async (name, go) => {
    try {
      await go();
      counts.passed++;
      console.log(`ok ${name}`);
    } catch (error) {
      counts.failed++;
      console.log(`FAILED ${name}: ${error.message}`);
      const places = String(error.stack).split('\n').filter((line) => /\/test\/\w+\.mjs:/.test(line) && !line.includes('drive.mjs'));
      console.log(`  in ${places.map((line) => line.replace(/.*\/test\/|\)$/g, '')).join(', from ') || 'an unknown line'}`);
      await page.evaluate(() => `${location.hash}; status: ${document.querySelector('#status')?.textContent ?? ''}`).then(
        (of) => console.log(`  the page: ${of}`),
        () => console.log('  the page does not answer'),
      );
    }
  };
  const end = async () => {
    await browser.close();
    console.log(`${counts.passed} passed, ${counts.failed} failed, 0 skipped`);
    process.exit(counts.failed ? 1 : 0);
  };
  const until = (what, timeout = 20000, ...args) => page.waitForFunction(what, { timeout }, ...args);
  /** Rows of CPUs and of threads: their questions are answered one by one, in any order. */
  const hasRows = (cpus, threads, timeout = 20000) =>
    until(
      (cpus, threads) => document.querySelectorAll('#labels [data-key^="cpu"]').length >= cpus && document.querySelectorAll('#labels [data-key^="tid"]').length >= threads,
      timeout,
      cpus,
      threads,
    );
  const text = (selector) => page.$eval(selector, (found) => found.textContent);
  const fragment = () => page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  return { browser, page, wrong, step, end, until, hasRows, settled, text, fragment };
}
