// SPDX-License-Identifier: MIT OR Apache-2.0
// What the pages load is small: all built files together, compressed. make bench-view prints the number.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

const DIST = 'dist';
const BYTES_MAX = 400_000;

test('all files of the pages together are below 400 kB, compressed', { skip: existsSync(DIST) ? false : 'the page is not built' }, () => {
  const names = readdirSync(DIST);
  for (const name of ['index.html', 'app.js', 'lake.html', 'lake.js', 'style.css']) assert.ok(names.includes(name), name);
  const bytes = names.reduce((sum, name) => sum + gzipSync(readFileSync(join(DIST, name)), { level: 9 }).length, 0);
  assert.ok(bytes < BYTES_MAX, `${bytes} bytes`);
});
