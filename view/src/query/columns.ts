// SPDX-License-Identifier: MIT OR Apache-2.0
// Answers of the server: a head in JSON and typed columns [spec/view.md 2]. Decoding copies nothing.

/** An array of one column. */
export type Column =
  | BigInt64Array
  | BigUint64Array
  | Float64Array
  | Float32Array
  | Int32Array
  | Uint32Array
  | Uint16Array
  | Uint8Array;

type TypeName = 'i64' | 'u64' | 'f64' | 'f32' | 'i32' | 'u32' | 'u16' | 'u8' | 'text';

interface ColumnHead {
  name: string;
  type: TypeName;
  offset: number;
}

interface TableHead {
  name: string;
  rows: number;
  columns: ColumnHead[];
}

/** What is missing in a window. */
export interface Lost {
  records: number;
  packets: number;
  places: number;
}

/** The head of each answer; `base` in decimal ns since 1970, `from` and `to` in ns after it. */
export interface Head {
  question: string;
  version: number;
  base: string;
  from: number;
  to: number;
  lost: Lost;
  notes: string[];
  info: Record<string, unknown>;
  texts: string[];
  tables: TableHead[];
}

const MAGIC = 'KYMOCOL1';
export const VERSION = 1;
const NULL_U32 = 0xffffffff;
const NULL_I32 = -0x80000000;
const NULL_I64 = -(2n ** 63n);
const NULL_U64 = 2n ** 64n - 1n;
/** What stands for null in a column of numbers; of floats it is NaN. */
const NULLS: Readonly<Record<TypeName, number>> = { i64: NaN, u64: NaN, f64: NaN, f32: NaN, i32: NULL_I32, u32: NULL_U32, u16: 0xffff, u8: 0xff, text: NULL_U32 };

/** One table of an answer. */
export class Table {
  private readonly byName = new Map<string, { type: TypeName; data: Column }>();

  constructor(
    readonly name: string,
    readonly rows: number,
    private readonly texts: readonly string[],
    columns: readonly { name: string; type: TypeName; data: Column }[],
  ) {
    for (const column of columns) this.byName.set(column.name, column);
  }

  private column(name: string): { type: TypeName; data: Column } {
    const found = this.byName.get(name);
    if (!found) throw new Error(`the table ${this.name} has no column ${name}: the page is of another kymo`);
    return found;
  }

  /** The array of a column with numbers below 2^53. */
  numbers(name: string): Float64Array | Float32Array | Int32Array | Uint32Array | Uint16Array | Uint8Array {
    const { data } = this.column(name);
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
      throw new Error(`${this.name}.${name} has 64 bits: use offsets()`);
    }
    return data;
  }

  /** Times or durations as numbers after `from`; NaN for null. For drawing: exact within 2^53 ns of `from`. */
  offsets(name: string, from = 0n): Float64Array {
    const { data } = this.column(name);
    const out = new Float64Array(data.length);
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
      const none = data instanceof BigInt64Array ? NULL_I64 : NULL_U64;
      for (let i = 0; i < data.length; i++) {
        const value = data[i] ?? none;
        out[i] = value === none ? NaN : Number(value - from);
      }
    } else {
      for (let i = 0; i < data.length; i++) out[i] = (data[i] ?? NaN) - Number(from);
    }
    return out;
  }

  /** A value of 64 bits; null where there is none. */
  big(name: string, row: number): bigint | null {
    const { data } = this.column(name);
    const value = data[row];
    if (typeof value !== 'bigint') return value === undefined ? null : BigInt(Math.round(value));
    const none = data instanceof BigInt64Array ? NULL_I64 : NULL_U64;
    return value === none ? null : value;
  }

  /** A number; null where there is none. Of 64 bits it is rounded. */
  number(name: string, row: number): number | null {
    const { data, type } = this.column(name);
    const value = data[row];
    if (value === undefined) return null;
    if (typeof value === 'bigint') {
      const big = this.big(name, row);
      return big === null ? null : Number(big);
    }
    return value === NULLS[type] || Number.isNaN(value) ? null : value;
  }

  has(name: string): boolean {
    return this.byName.has(name);
  }

  /** Some rows, in that order. `changed`: the values of one column, instead of its own. */
  pick(rows: readonly number[], changed: { name: string; values: readonly number[] } | null = null): Table {
    const columns = [...this.byName].map(([name, { type, data }]) => {
      if (name === changed?.name) return { name, type, data: Uint32Array.from(changed.values) as Column };
      const picked = new (data.constructor as new (length: number) => Column)(rows.length);
      rows.forEach((row, at) => (picked[at] = data[row] as never));
      return { name, type, data: picked };
    });
    return new Table(this.name, rows.length, this.texts, columns);
  }

  /** A text; null where there is none. */
  text(name: string, row: number): string | null {
    const at = this.number(name, row);
    return at === null ? null : (this.texts[at] ?? null);
  }
}

/** A decoded answer. */
export class Answer {
  private readonly byName = new Map<string, Table>();

  constructor(
    readonly head: Head,
    tables: readonly Table[],
  ) {
    for (const table of tables) this.byName.set(table.name, table);
  }

  /** The same with another head, and with these tables instead of its own of their names. */
  derived(head: Partial<Head>, tables: readonly Table[] = []): Answer {
    const others = [...this.byName.values()].filter((own) => !tables.some((table) => table.name === own.name));
    return new Answer({ ...this.head, ...head }, [...others, ...tables]);
  }

  /** Its tables. */
  tables(): Table[] {
    return [...this.byName.values()];
  }

  /** A table; an empty one where the answer does not have it. */
  table(name: string): Table {
    const found = this.byName.get(name);
    if (!found) throw new Error(`the answer to ${this.head.question} has no table ${name}: the page is of another kymo`);
    return found;
  }
}

/** Decodes a frame. Throws where it is none. */
export function decode(buffer: ArrayBuffer): Answer {
  const bytes = new DataView(buffer);
  const magic = buffer.byteLength >= 16 ? new TextDecoder().decode(new Uint8Array(buffer, 0, 8)) : '';
  if (magic !== MAGIC) throw new Error('the server sent something else than columns');
  const headBytes = bytes.getUint32(8, true);
  const data = bytes.getUint32(12, true);
  if (16 + headBytes > buffer.byteLength || data > buffer.byteLength) throw new Error('the answer was cut short');
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 16, headBytes))) as Head;
  if (head.version !== VERSION) throw new Error('the page is of another kymo: load it again');
  const tables = head.tables.map((table) => {
    const columns = table.columns.map(({ name, type, offset }) => ({ name, type, data: column(buffer, type, data + offset, table.rows) }));
    return new Table(table.name, table.rows, head.texts, columns);
  });
  return new Answer(head, tables);
}

function column(buffer: ArrayBuffer, type: TypeName, at: number, rows: number): Column {
  switch (type) {
    case 'i64':
      return new BigInt64Array(buffer, at, rows);
    case 'u64':
      return new BigUint64Array(buffer, at, rows);
    case 'f64':
      return new Float64Array(buffer, at, rows);
    case 'f32':
      return new Float32Array(buffer, at, rows);
    case 'i32':
      return new Int32Array(buffer, at, rows);
    case 'u32':
    case 'text':
      return new Uint32Array(buffer, at, rows);
    case 'u16':
      return new Uint16Array(buffer, at, rows);
    case 'u8':
      return new Uint8Array(buffer, at, rows);
  }
}
