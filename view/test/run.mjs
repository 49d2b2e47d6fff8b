// SPDX-License-Identifier: MIT OR Apache-2.0
// Bundles the unit tests and runs them with node's own runner.
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const names = (await readdir('test')).filter((name) => name.endsWith('.test.ts'));
const outdir = await mkdtemp(join(tmpdir(), 'kymo-view-'));
try {
  await build({ entryPoints: names.map((name) => join('test', name)), outdir, bundle: true, format: 'esm', platform: 'node', target: 'node18', outExtension: { '.js': '.mjs' } });
  const files = names.map((name) => join(outdir, name.replace(/\.ts$/, '.mjs')));
  process.exitCode = spawnSync(process.execPath, ['--test', '--test-reporter=tap', ...files], { stdio: 'inherit' }).status ?? 1;
} finally {
  await rm(outdir, { recursive: true });
}
