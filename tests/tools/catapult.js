// SPDX-License-Identifier: MIT OR Apache-2.0
// catapult.js VIEWER.html TRACE.json: what the importer of Chrome's trace viewer (catapult) makes of a file, as JSON:
// its warnings, and the threads with their names, slices and those of them that did not finish. VIEWER.html is the
// viewer in one page; of its scripts, those that only draw fail here, and are left out.
'use strict';
const fs = require('fs');
const vm = require('vm');

const page = fs.readFileSync(process.argv[2], 'utf8');
const quiet = () => {};
const scope = {
  console: { log: quiet, warn: quiet, error: quiet, info: quiet, time: quiet, timeEnd: quiet }, performance, setTimeout,
};
scope.global = scope.self = scope;
vm.createContext(scope);
const scripts = [...page.matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g)].map(([, text]) => text);
// The page's modules are one behind the other in one script.
for (const module of scripts.flatMap((text) => text.split("'use strict';"))) {
  try {
    vm.runInContext(`'use strict';${module}`, scope);
  } catch {
    // Draws.
  }
  if (scope.tr) scope.tr.isHeadless = true;
  // A library for long texts puts itself into the window that it is given.
  if (scope.window && scope.window.oboe) scope.oboe = scope.window.oboe;
  delete scope.window;
}
scope.text = fs.readFileSync(process.argv[3], 'utf8');
process.stdout.write(vm.runInContext(`(() => {
  const model = new tr.Model();
  const options = new tr.importer.ImportOptions();
  options.shiftWorldToZero = false;
  options.showImportWarnings = false;
  new tr.importer.Import(model, options).importTraces([text]);
  const threads = model.getAllThreads().map((thread) => {
    const slices = thread.sliceGroup.slices;
    return {
      pid: thread.parent.pid, tid: thread.tid, name: thread.name || '', process: thread.parent.name || '',
      unfinished: slices.filter((slice) => slice.didNotFinish).length, slices: slices.map((slice) => slice.title),
    };
  });
  return JSON.stringify({ warnings: model.importWarnings.map((warning) => warning.message), threads });
})()`, scope));
