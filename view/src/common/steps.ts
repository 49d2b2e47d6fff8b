// SPDX-License-Identifier: MIT OR Apache-2.0
// Work that can be left and gone on with: layout of a large answer takes longer than a frame may. Pure: who waits, and how,
// is passed in.

/** A step is what lies between two `yield`: well below a millisecond. */
export type Steps<T> = Generator<undefined, T, undefined>;

/** Rows of a table in a step. */
export const STEP_ROWS = 128;

/** All of it, at once. */
export function finished<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** What is asked in between. */
export interface Pace {
  /** Waits for the next frame; false: the work is not wanted any more. */
  goOn: () => Promise<boolean>;
  /** ms. */
  clock: () => number;
  /** ms of work in a frame. */
  most_ms: number;
}

/** All of it, in parts; null where it was given up. */
export async function inParts<T>(steps: Steps<T>, { goOn, clock, most_ms }: Pace): Promise<T | null> {
  for (;;) {
    if (!(await goOn())) return null;
    for (const until = clock() + most_ms; ; ) {
      const { done, value } = steps.next();
      if (done) return value;
      if (clock() >= until) break;
    }
  }
}
