// SPDX-License-Identifier: MIT OR Apache-2.0
// Asking the server. Of each kind of question only the newest matters: an older one is aborted, which ends its work.

import { Answer, decode } from './columns.js';

/** What the server says of a question that it cannot answer. */
export class Refused extends Error {
  constructor(
    readonly kind: string,
    message: string,
    readonly parameter: string | null,
    readonly hint: string | null,
  ) {
    super(message);
  }
}

/** The server is not there. */
export class Unreachable extends Error {}

export type Parameters = Record<string, string | number | bigint | readonly (string | number)[] | null | undefined>;

/** The address of a question, relative to the page. */
export function address(question: string, parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || value === '') continue;
    const isRepeated = name === 'filter' || name === 'span' || name === 'is';
    if (Array.isArray(value) && isRepeated) value.forEach((one) => query.append(name, String(one)));
    else query.set(name, Array.isArray(value) ? value.join(',') : String(value));
  }
  const text = query.toString();
  return text ? `q/${question}?${text}` : `q/${question}`;
}

/** Questions of a page, by slot: a part of the page that shows one answer at a time. */
export class Client {
  protected readonly running = new Map<string, AbortController>();
  /** Is told when the server goes away and comes back. */
  onReachable: (isReachable: boolean, why: string) => void = () => {};
  private isReachable = true;

  /** `prefix`: in front of the addresses of questions; `o/1/` for the first one of other traces. */
  constructor(private readonly prefix = '') {}

  /** Asks. Null where a newer question of the same slot came meanwhile. */
  async ask(slot: string, question: string, parameters: Parameters): Promise<Answer | null> {
    this.running.get(slot)?.abort();
    const control = new AbortController();
    this.running.set(slot, control);
    try {
      const answer = await this.fetch(question, parameters, control.signal);
      return control.signal.aborted ? null : answer;
    } catch (error) {
      if (control.signal.aborted) return null;
      throw error;
    } finally {
      if (this.running.get(slot) === control) this.running.delete(slot);
    }
  }

  /** Whether an answer is on its way. */
  isBusy(slot: string): boolean {
    return this.running.has(slot);
  }

  protected async fetch(question: string, parameters: Parameters, signal: AbortSignal): Promise<Answer> {
    for (let attempt = 0; ; attempt++) {
      let response: Response;
      try {
        response = await fetch(this.prefix + address(question, parameters), { signal });
      } catch (error) {
        if (signal.aborted) throw error;
        this.say(false);
        await wait(Math.min(4000, 250 * 2 ** attempt), signal);
        continue;
      }
      if (response.status !== 404) this.say(true);
      if (response.ok) return decode(await response.arrayBuffer());
      if (response.status === 503) {
        await wait(100 * (attempt + 1), signal);
        continue;
      }
      const error = await refusal(response);
      if (error instanceof Unreachable) this.say(false, error.message);
      throw error;
    }
  }

  /** Says whether the server answers. */
  say(isReachable: boolean, why = ''): void {
    if (this.isReachable === isReachable && !why) return;
    this.isReachable = isReachable;
    this.onReachable(isReachable, why);
  }
}

export async function refusal(response: Response): Promise<Error> {
  if (response.status === 404 && !response.headers.get('content-type')?.includes('json')) {
    return new Unreachable('This address is of a kymo view that has ended. Use the address that the new one prints. The last picture stays.');
  }
  try {
    const { error } = (await response.json()) as { error: { kind: string; message: string; parameter: string | null; hint: string | null } };
    return new Refused(error.kind, error.message, error.parameter, error.hint);
  } catch {
    return new Error(`the server answered ${response.status}`);
  }
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(new DOMException('aborted', 'AbortError'));
    });
  });
}
