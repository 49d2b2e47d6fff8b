// SPDX-License-Identifier: MIT OR Apache-2.0
// How late the picture of a running session is, for bench/view: from a record's publication to its pixel, in a real
// browser, while the kernel's scheduler is recorded and shown. Usage: node test/live.mjs KYMO WORK SECONDS; as root; WORK:
// an empty directory. Prints a JSON object: pictures, p50_ms, p95_ms, worst_ms, lost, stages (p50, p95 and samples of each)
// and edges (now and edge of each).
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { delays, drive, executablePath, quantiles } from './drive.mjs';

const [kymo, work, seconds] = process.argv.slice(2);
if (!seconds || !executablePath) {
  console.error('it needs kymo, a directory, seconds and chromium');
  process.exit(2);
}
const session = `kymo-bench-${process.pid}`;
const children = [];
let isRunning = false;

function run(...args) {
  const done = spawnSync(kymo, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
  if (done.status !== 0) throw new Error(`kymo ${args.join(' ')}: ${(done.stderr || done.stdout || String(done.error ?? '')).trim()}`);
  return done.stdout;
}

function start(command, args, stdout) {
  const child = spawn(command, args, { stdio: ['ignore', stdout, 'ignore'] });
  children.push(child);
  return child;
}

/** The address that `kymo view` prints. */
async function address() {
  const child = start(kymo, ['view', session, '--no-open', '--json'], 'pipe');
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (data) => {
      text += data;
      if (text.includes('\n')) resolve(JSON.parse(text).address);
    });
    child.on('error', reject);
    child.on('exit', (status) => reject(new Error(`kymo view ended with ${status}`)));
  });
}

async function measure() {
  run('session', 'start', session, '-k', 'sched', '-o', join(work, 'live'));
  isRunning = true;
  // Two hundred processes a second: all rows change all the time.
  start('sh', ['-c', 'while sleep 0.005; do :; done'], 'ignore');
  const at = await address();
  const { browser, page, until } = await drive();
  try {
    await page.goto(at);
    await until(() => document.querySelector('#live').dataset.state === 'following', 60_000);
    await page.click('#to-timeline');
    await until(() => document.querySelectorAll('#labels .label').length > 2, 60_000);
    // Until the window that is followed is as long as it stays.
    await new Promise((resolve) => setTimeout(resolve, 8000));
    const { all, pictures, stages } = await delays(page, Number(seconds));
    if (all.length < 100) throw new Error(`only ${pictures.length} pictures in ${seconds} s`);
    const of = (share) => all[Math.min(all.length - 1, Math.floor(all.length * share))];
    const lost = await page.$eval('#live-lost', (found) => found.textContent);
    const of_stages = Object.fromEntries(Object.entries(stages).map(([name, list]) => [name, quantiles(list)]));
    return { stages: of_stages, pictures: pictures.length, p50_ms: of(0.5), p95_ms: of(0.95), worst_ms: all.at(-1), lost, edges: pictures };
  } finally {
    await browser.close();
  }
}

// However it ends: a session goes on by itself.
process.on('exit', () => {
  for (const child of children) child.kill('SIGINT');
  if (isRunning) spawnSync(kymo, ['session', 'stop', session], { stdio: 'ignore' });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));
let status = 0;
try {
  console.log(JSON.stringify(await measure()));
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  status = 1;
}
process.exit(status);
