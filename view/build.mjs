// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes dist/ of src/: one style sheet; a script and a page for a trace, and for a lake. What is there goes into the kymo
// binary.
import { build } from 'esbuild';
import { copyFile, mkdir } from 'node:fs/promises';

await mkdir('dist', { recursive: true });
await build({
  entryPoints: [
    { in: 'src/main.ts', out: 'app' },
    { in: 'src/lake_page.ts', out: 'lake' },
  ],
  outdir: 'dist',
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  legalComments: 'none',
});
for (const page of ['index.html', 'lake.html']) await copyFile(`src/${page}`, `dist/${page}`);
await copyFile('src/style.css', 'dist/style.css');
