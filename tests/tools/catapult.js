// SPDX-License-Identifier: MIT OR Apache-2.0
// catapult.js VIEWER.html TRACE.json: what the importer of Chrome's trace viewer (catapult) makes of a file, as JSON:
// its warnings, the number of slices, those that did not finish, and the threads with their names. Runs the scripts of a
// viewer's page as far as they need no window.
'use strict';
const fs = require('fs');
const vm = require('vm');

const page = fs.readFileSync(process.argv[2], 'utf8');
const anything = () => new Proxy(function () {}, {
  get: (_, name) => (name === Symbol.toPrimitive ? () => '' : name === 'length' ? 0 : anything()),
  apply: () => anything(),
  construct: () => anything(),
});
const context = {
  console: { log() {}, warn() {}, error() {}, info() {}, time() {}, timeEnd() {} },
  performance, setTimeout, clearTimeout, TextDecoder, TextEncoder, URL,
  document: anything(), navigator: { userAgent: '', platform: '' }, location: { search: '', hash: '' },
  requestAnimationFrame: () => 0, HTMLElement: function () {}, Polymer: anything(),
};
context.window = context.self = context.global = context;
vm.createContext(context);
for (const [, attributes, text] of page.matchAll(/<script([^>]*)>([\s\S]*?)<\/script>/g)) {
  if (attributes.includes('src=')) continue;
  try {
    vm.runInContext(text, context);
  } catch {
    // A part that draws.
  }
}
context.trace = fs.readFileSync(process.argv[3], 'utf8');
const found = vm.runInContext(`(() => {
  const model = new tr.Model();
  const options = new tr.importer.ImportOptions();
  options.shiftWorldToZero = false;
  options.showImportWarnings = false;
  new tr.importer.Import(model, options).importTraces([trace]);
  const threads = model.getAllThreads().map((thread) => {
    const slices = thread.sliceGroup.slices;
    return {
      pid: thread.parent.pid, tid: thread.tid, name: thread.name || '', process: thread.parent.name || '',
      slices: slices.length, unfinished: slices.filter((slice) => slice.didNotFinish).length,
      names: [...new Set(slices.map((slice) => slice.title))],
    };
  });
  return JSON.stringify({ warnings: model.importWarnings.map((warning) => warning.message), threads });
})()`, context);
process.stdout.write(found);
