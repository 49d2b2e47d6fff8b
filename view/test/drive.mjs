// SPDX-License-Identifier: MIT OR Apache-2.0
// A real browser for tests: starts it, counts steps, and notes what goes wrong in the page.
import { existsSync } from 'node:fs';
import puppeteer from 'puppeteer-core';

/** Where the browser is; none where there is none. */
export const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

/**
 * From a record's publication to its pixel, over some seconds of a running session: the ms of each ms of records, sorted,
 * and the pictures: when the newest record was drawn, and when it was published (ms since 1970).
 */
export async function delays(page, seconds) {
  const pictures = await page.evaluate(async (ms) => {
    const seen = [];
    const begin = performance.now();
    while (performance.now() - begin < ms) {
      const now = await new Promise((resolve) => requestAnimationFrame(() => resolve(performance.timeOrigin + performance.now())));
      const edge = Number(BigInt(document.body.dataset.edge ?? '0') / 1000n) / 1000;
      if (edge && edge !== seen.at(-1)?.edge) seen.push({ now, edge });
    }
    return seen;
  }, seconds * 1000);
  const all = [];
  // What was published between two edges was drawn with the later one.
  for (let i = 1; i < pictures.length; i++) for (let at = pictures[i - 1].edge; at < pictures[i].edge; at++) all.push(pictures[i].now - at);
  all.sort((a, b) => a - b);
  return { all, pictures };
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
    }
  };
  const end = async () => {
    await browser.close();
    console.log(`${counts.passed} passed, ${counts.failed} failed, 0 skipped`);
    process.exit(counts.failed ? 1 : 0);
  };
  const until = (what, timeout = 20000, ...args) => page.waitForFunction(what, { timeout }, ...args);
  const text = (selector) => page.$eval(selector, (found) => found.textContent);
  const fragment = () => page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  return { browser, page, wrong, step, end, until, settled, text, fragment };
}
