// SPDX-License-Identifier: MIT OR Apache-2.0
// trace_processor.js FOLDER TRACE QUERY...: loads a trace into Perfetto's trace processor and prints the rows of each
// SQL query as JSON, an array of arrays for each. FOLDER has `engine_bundle.js` and the `.wasm` files beside it, as
// Perfetto's user interface is built: the worker is run here with a message port of our own.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [folder, trace, ...queries] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;

function varint(value) {
  const out = [];
  for (value = BigInt(value); value >= 0x80n; value >>= 7n) out.push(Number(value & 0x7fn) | 0x80);
  out.push(Number(value));
  return Buffer.from(out);
}
const integer = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);

/** The fields of a message: number and value, in order. */
function* fields(buffer) {
  let at = 0;
  const number = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < buffer.length) {
    const head = Number(number());
    if ((head & 7) === 0) yield [head >> 3, number()];
    else if ((head & 7) === 1) yield [head >> 3, buffer.subarray(at, (at += 8))];
    else {
      const length = Number(number());
      yield [head >> 3, buffer.subarray(at, (at += length))];
    }
  }
}

/** Rows of a batch of cells. */
function cells(batch, found) {
  const [kinds, ints, floats, texts] = [[], [], [], []];
  for (const [field, value] of fields(batch)) {
    if (field === 1) kinds.push(...value);
    if (field === 2) for (const [, int] of fields(Buffer.concat(unpack(value)))) ints.push(int);
    if (field === 3) for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
    if (field === 5) texts.push(...value.toString('utf8').split('\0'));
  }
  for (const kind of kinds) {
    if (kind === 2) found.push(Number(BigInt.asIntN(64, ints.shift())));
    else if (kind === 3) found.push(floats.shift());
    else if (kind === 4) found.push(texts.shift());
    else found.push(null);
  }
}

/** Packed integers as fields of their own. */
function unpack(packed) {
  const out = [];
  let from = 0;
  packed.forEach((byte, at) => {
    if (byte < 0x80) {
      out.push(Buffer.from([8]), packed.subarray(from, at + 1));
      from = at + 1;
    }
  });
  return out;
}

async function main() {
  // What the worker loads, it loads from the folder.
  const read = (name) => fs.readFileSync(path.join(folder, path.basename(String(name))));
  class Request {
    open(_, name) { this.name = name; }
    send() {
      const { buffer, byteOffset, byteLength } = read(this.name);
      this.response = buffer.slice(byteOffset, byteOffset + byteLength);
    }
  }
  const said = [];
  const say = (...args) => said.push(args.join(' '));
  const scope = {
    WorkerGlobalScope: function () {}, XMLHttpRequest: Request, URL, performance, crypto, TextDecoder, TextEncoder,
    setTimeout,
    console: { log: say, warn: say, error: say, info: say }, location: { href: 'http://x/y' },
  };
  scope.self = scope;
  vm.createContext(scope);
  vm.runInContext(read('engine_bundle.js').toString(), scope);
  let replies = [];
  const port = { postMessage: (data) => replies.push(Buffer.from(data)) };
  scope.onmessage({ data: port });
  // It is ready when what it has to do now is done.
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  let sequence = 0;
  const ask = (method, ...more) => {
    replies = [];
    const message = Buffer.concat([integer(1, sequence++), integer(2, method), ...more]);
    const array = vm.runInContext('Uint8Array', scope).from(bytes(1, message));
    port.onmessage({ data: array });
    return [...fields(Buffer.concat(replies))].map(([, reply]) => reply);
  };
  const data = fs.readFileSync(trace);
  for (let at = 0; at < data.length; at += 1 << 24) {
    for (const reply of ask(APPEND, bytes(101, data.subarray(at, at + (1 << 24))))) check(reply, 201);
  }
  ask(FINALIZE);
  const results = queries.map((query) => {
    const [columns, found] = [[], []];
    for (const reply of ask(QUERY, bytes(103, bytes(1, Buffer.from(query))))) {
      for (const [field, value] of fields(reply)) {
        if (field !== 203) continue;
        for (const [part, inner] of fields(value)) {
          if (part === 1) columns.push(inner.toString());
          if (part === 2 && inner.length) throw new Error(`${query}: ${inner}`);
          if (part === 3) cells(inner, found);
        }
      }
    }
    const rows = [];
    for (let at = 0; at < found.length; at += columns.length) rows.push(found.slice(at, at + columns.length));
    return rows;
  });
  process.stdout.write(JSON.stringify({ results, said }));
}

/** Fails where a result tells an error. */
function check(reply, result) {
  for (const [field, value] of fields(reply)) {
    if (field !== result) continue;
    for (const [part, inner] of fields(value)) if (part === 2 && inner.length) throw new Error(String(inner));
  }
}

/** A page of the worker's source is in its errors. */
function fail(error) {
  process.stderr.write(`${String(error.stack).split('\n').map((line) => line.slice(0, 200)).join('\n')}\n`);
  process.exit(1);
}

process.on('uncaughtException', fail);
main().catch(fail);
