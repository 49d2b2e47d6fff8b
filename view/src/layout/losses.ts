// SPDX-License-Identifier: MIT OR Apache-2.0
// Lost records of a window, by where they are missing. Pure.
//
// What is not known, where records of one CPU's kernel are missing:
// - of that CPU: everything. Its row has a hole.
// - of a thread that ran there when the loss began: what it did. Its row has a hole until another record shows it.
// - of any other thread: whether it was woken or ran there. What is shown of it may be wrong: its state is marked `lost`
//   by the server, which is drawn as a hatch over it.
// Where records of a program are missing, spans of its threads may have begun or ended: their rows have a hole.

import { grouped } from '../common/time.js';
import type { Answer } from '../query/columns.js';

/** One stretch with losses; times are ns after the answer's `from`. */
export interface Hole {
  from: number;
  to: number;
  records: number;
  packets: number;
}

/** Stretches that do not overlap, in the order of time. */
export type Holes = readonly Hole[];

export class Losses {
  /** Of the kernel, by CPU. */
  private readonly byCpu = new Map<number, Hole[]>();
  /** Of the kernel, of which the CPU is not known. */
  private readonly anywhere: Hole[] = [];
  /** Of programs. */
  private readonly byProcess = new Map<number, Hole[]>();
  private readonly joinedByCpu = new Map<number, Holes>();

  constructor(answer: Answer) {
    const losses = answer.table('losses');
    const from = BigInt(answer.head.from);
    const [begins, ends] = [losses.offsets('from', from), losses.offsets('to', from)];
    for (let i = 0; i < losses.rows; i++) {
      const [cpu, process] = [losses.number('cpu', i), losses.number('process', i)];
      const hole = { from: begins[i] ?? 0, to: ends[i] ?? 0, records: losses.number('records', i) ?? 0, packets: losses.number('packets', i) ?? 0 };
      if (process !== null) put(this.byProcess, process, hole);
      else if (cpu !== null) put(this.byCpu, cpu, hole);
      else this.anywhere.push(hole);
    }
  }

  /** Where nothing is known of a CPU. */
  ofCpu(cpu: number): Holes {
    const known = this.joinedByCpu.get(cpu);
    if (known) return known;
    const made = joined([...(this.byCpu.get(cpu) ?? []), ...this.anywhere]);
    this.joinedByCpu.set(cpu, made);
    return made;
  }

  /** Where records of a program are missing. */
  ofProcess(process: number): Holes {
    return joined(this.byProcess.get(process) ?? []);
  }

  /** Programs that lost records. */
  processes(): number[] {
    return [...this.byProcess.keys()];
  }

  /** All, wherever they are missing. */
  all(): Holes {
    return joined([...this.byCpu.values(), ...this.byProcess.values()].flat().concat(this.anywhere));
  }
}

function put(of: Map<number, Hole[]>, key: number, hole: Hole): void {
  const list = of.get(key);
  if (list) list.push(hole);
  else of.set(key, [hole]);
}

/** Those that overlap are one. */
function joined(list: readonly Hole[]): Holes {
  const out: Hole[] = [];
  for (const hole of [...list].sort((a, b) => a.from - b.from)) {
    const last = out.at(-1);
    if (!last || hole.from > last.to) out.push({ ...hole });
    else Object.assign(last, { to: Math.max(last.to, hole.to), records: last.records + hole.records, packets: last.packets + hole.packets });
  }
  return out;
}

/** Those that touch a stretch, cut to it; the first is found by halving. */
export function within(holes: Holes, from: number, to: number): Hole[] {
  let [low, high] = [0, holes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((holes[middle]?.to ?? 0) < from) low = middle + 1;
    else high = middle;
  }
  const out: Hole[] = [];
  for (let i = low; i < holes.length; i++) {
    const hole = holes[i];
    if (!hole || hole.from >= to) break;
    out.push({ ...hole, from: Math.max(hole.from, from), to: Math.min(hole.to, to) });
  }
  return out;
}

/** `12 lost`. */
export function countOf({ records, packets }: { records: number; packets: number }): string {
  return packets > 0 ? `${grouped(records)} records and ${grouped(packets)} packets lost` : `${grouped(records)} lost`;
}
