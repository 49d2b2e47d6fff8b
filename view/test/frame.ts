// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes frames as the server does [spec/view.md 2], for tests.

type Values = readonly (number | bigint | null)[];
export type Columns = Record<string, readonly [type: string, values: Values]>;

const SIZES: Record<string, number> = { i64: 8, u64: 8, f64: 8, f32: 4, i32: 4, u32: 4, u16: 2, u8: 1, text: 4 };

function put(view: DataView, at: number, type: string, value: number | bigint | null): void {
  switch (type) {
    case 'i64':
      return view.setBigInt64(at, value === null ? -(2n ** 63n) : BigInt(value), true);
    case 'u64':
      return view.setBigUint64(at, value === null ? 2n ** 64n - 1n : BigInt(value), true);
    case 'f64':
      return view.setFloat64(at, value === null ? NaN : Number(value), true);
    case 'f32':
      return view.setFloat32(at, value === null ? NaN : Number(value), true);
    case 'i32':
      return view.setInt32(at, value === null ? -0x80000000 : Number(value), true);
    case 'u32':
    case 'text':
      return view.setUint32(at, value === null ? 0xffffffff : Number(value), true);
    case 'u16':
      return view.setUint16(at, value === null ? 0xffff : Number(value), true);
    default:
      return view.setUint8(at, value === null ? 255 : Number(value));
  }
}

/** A frame with these tables. */
export function frame(tables: Record<string, Columns>, head: Record<string, unknown> = {}): ArrayBuffer {
  let offset = 0;
  const placed: [at: number, type: string, values: Values][] = [];
  const heads = Object.entries(tables).map(([name, columns]) => {
    let rows = 0;
    const list = Object.entries(columns).map(([name, [type, values]]) => {
      rows = values.length;
      const at = offset;
      placed.push([at, type, values]);
      offset = Math.ceil((at + values.length * (SIZES[type] ?? 1)) / 8) * 8;
      return { name, type, offset: at };
    });
    return { name, rows, columns: list };
  });
  const all = { question: 'test', version: 1, base: '0', from: 0, to: 1000, lost: { records: 0, packets: 0, places: 0 }, notes: [], info: {}, texts: [], ...head, tables: heads };
  const text = new TextEncoder().encode(JSON.stringify(all));
  const data = Math.ceil((16 + text.length) / 8) * 8;
  const buffer = new ArrayBuffer(data + offset);
  const bytes = new DataView(buffer);
  new Uint8Array(buffer).set(new TextEncoder().encode('KYMOCOL1'));
  bytes.setUint32(8, text.length, true);
  bytes.setUint32(12, data, true);
  new Uint8Array(buffer).set(text, 16);
  for (const [at, type, values] of placed) values.forEach((value, row) => put(bytes, data + at + row * (SIZES[type] ?? 1), type, value));
  return buffer;
}
