// SPDX-License-Identifier: MIT OR Apache-2.0
// A trace that is being written: the server tells what is new, and the picture goes there until the user moves. The same
// question that waits for news tells at once when the server goes away, of a trace that is whole, too.

import { byId } from '../common/dom.js';
import { duration, grouped } from '../common/time.js';
import { type Client, refusal } from '../query/api.js';
import type { App } from './app.js';
import { type View, MIN_LENGTH } from './view.js';

/** What the server tells. Times in decimal ns since 1970, or ns. */
export interface News {
  number: number;
  /** `whole`: it was whole when it was opened; `ended`: nothing more is written. */
  state: 'whole' | 'live' | 'ended';
  base: string;
  /** Behind the newest record, ns after the base. */
  to: number;
  records: number | null;
  lost: { records: number; packets: number; places: number } | null;
  /** Why the trace cannot be read now. */
  problem: string | null;
  /** How old the newest record is, by the clock of the server. */
  behind_ns: number | null;
}

/** What is followed first, ns: a short window is drawn soon. */
export const FOLLOWED = 5_000_000_000n;
/** The table of records, the overview and the like are renewed so often, ms. */
const SLOW_MS = 1000;
/** A page that does not follow asks for news so often, ms; one that follows waits for a picture so long at most, and one
 * that nobody sees so long. */
const APART_MS = 200;
const PICTURE_MS = 2000;
/** Older than this, nothing is being recorded, or it does not arrive, ns. */
const QUIET_NS = 2_000_000_000;

/** Checks what the server sent. */
export function newsOf(json: unknown): News {
  const news = json as Partial<News> | null;
  const isNumber = (value: unknown): boolean => value === null || (typeof value === 'number' && Number.isFinite(value));
  const isKnown = news?.state === 'whole' || news?.state === 'live' || news?.state === 'ended';
  const isWhole = isKnown && typeof news.number === 'number' && typeof news.to === 'number' && /^-?\d+$/.test(news.base ?? '');
  if (!isWhole || !isNumber(news.records ?? null) || !isNumber(news.behind_ns ?? null)) throw new Error('the server sent something else than news');
  return { records: null, lost: null, problem: null, behind_ns: null, ...news } as News;
}

/** The window at the newest record: as long as the one before, but not longer than all there is. */
export function edgeOf(view: View, to: bigint): View {
  const length = view.to - view.from;
  const end = to > MIN_LENGTH ? to : MIN_LENGTH;
  const from = end - length;
  return { ...view, from: from > 0n ? from : 0n, to: end };
}

/** All of a trace that has just begun, from the begin of the view on; null once that is as long as what is followed. */
export function filling(view: View, to: bigint): View | null {
  const length = to - view.from;
  if (length >= FOLLOWED) return null;
  return { ...view, to: length > MIN_LENGTH ? to : view.from + MIN_LENGTH };
}

/** How old the newest record is, and whether that is usual. */
export function behindText(news: News, waited_ms: number): string {
  if (news.state === 'ended') return 'has ended';
  if (news.behind_ns === null) return 'no record yet';
  const ns = Math.max(0, news.behind_ns + waited_ms * 1e6);
  const text = ns < QUIET_NS ? `${(ns / 1e9).toFixed(1)} s behind` : `nothing new for ${duration(Math.round(ns / 1e9) * 1e9)}`;
  return news.problem ? `${text}: ${news.problem}` : text;
}

export function lostText(lost: News['lost']): string {
  if (!lost || (!lost.records && !lost.packets)) return '';
  const packets = lost.packets ? ` and ${grouped(lost.packets)} packets` : '';
  return `${grouped(lost.records)} records${packets} lost`;
}

/** The page of a trace without records knows nothing of it: it begins anew. */
function restart(): void {
  history.replaceState(null, '', location.pathname);
  location.reload();
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Follows a trace. */
export class Live {
  private readonly box = byId('live');
  private readonly button = byId('follow');
  private news: News | null = null;
  /** When the news came, ms. */
  private at = 0;
  private slowAt = -Infinity;
  /** The picture that is being made. */
  private picture: Promise<void> | null = null;
  private isBehind = false;
  /** All there is is shown, as long as that is short: the address says nothing of a window. */
  private isFilling = !location.hash.includes('from=');
  /** The address says so, or says nothing. */
  private readonly wantsEdge = !location.hash.includes('from=') || new URLSearchParams(location.hash.slice(1)).get('live') === '1';

  constructor(
    private readonly app: App,
    /** What shows all of the trace is told of more, now and then. */
    private readonly grown: () => void,
  ) {
    this.button.addEventListener('click', () => this.toggle());
    app.onMoved = () => this.pause();
    app.onPainted = (to) => {
      // For who measures how long it takes from a record to its pixel.
      if (this.news?.state !== 'whole') document.body.dataset['edge'] = String(app.base + to);
    };
    setInterval(() => this.tell(), 200);
    void this.listen();
  }

  /** Follows, or stays. */
  toggle(): void {
    const { app, news } = this;
    if (!news || news.state === 'whole') return app.say('the trace is whole: there is nothing to follow');
    if (app.isFollowing) return this.pause();
    if (news.state === 'ended') app.say('the trace has ended: this is its end');
    app.go(edgeOf({ ...this.followed(), page: 'timeline' }, BigInt(Math.round(news.to))));
    this.start(news.state === 'live');
  }

  /** The view, if it is a part; of all there is, its end. */
  private followed(): View {
    const { view, whole } = this.app;
    const isAll = view.to - view.from >= ((whole.to - whole.from) * 9n) / 10n;
    return isAll && whole.to > FOLLOWED ? { ...view, from: view.to - FOLLOWED } : view;
  }

  private start(isLive = true): void {
    const { app } = this;
    app.isFollowing = isLive;
    if (isLive) app.extra.set('live', '1');
    app.show(edgeOf(this.followed(), app.whole.to));
    this.tell();
  }

  private pause(): void {
    this.app.extra.delete('live');
    if (!this.app.isFollowing) return;
    this.app.isFollowing = this.isFilling = false;
    this.tell();
  }

  private async listen(): Promise<void> {
    const { client } = this.app;
    for (let after: number | null = null, failures = 0; ; ) {
      try {
        const response = await fetch(after === null ? 'live' : `live?after=${after}`);
        if (response.ok) {
          const news = newsOf(await response.json());
          client.say(true);
          [after, failures] = [news.number, 0];
          this.take(news);
          await this.ready();
          continue;
        }
        const error = await refusal(response);
        client.say(false, error.message);
        // Another kymo listens there: it knows nothing of this address, and will not.
        if (response.status === 404) return this.end(client, error);
      } catch {
        client.say(false);
      }
      // Without a number it is answered at once: that the server is back is seen then, and not with the next news.
      after = null;
      failures++;
      await pause(Math.min(4000, 250 * 2 ** failures));
    }
  }

  /**
   * Done when the next news can be shown. The server looks at the trace when it is asked: so the answer is as new as can
   * be, and no look is made that nobody sees.
   */
  private async ready(): Promise<void> {
    const { news, app } = this;
    if (!news || news.state !== 'live') return;
    // Nobody sees a page behind another one.
    if (document.hidden) await pause(PICTURE_MS);
    else if (app.isFollowing) await Promise.race([this.picture, pause(PICTURE_MS)]);
    else await pause(APART_MS);
  }

  private end(client: Client, error: Error): void {
    this.app.isFollowing = false;
    this.news = null;
    client.say(false, error.message);
  }

  private take(news: News): void {
    const { app } = this;
    const isFirst = this.news === null;
    const wasLive = this.news?.state === 'live';
    const before = this.news?.to;
    [this.news, this.at] = [news, performance.now()];
    this.box.hidden = news.state === 'whole';
    if (news.state === 'whole') return;
    if (news.records && !Number(app.summary.head.info['records'] ?? 0)) return restart();
    app.grow(BigInt(news.base), BigInt(Math.round(news.to)));
    if (news.records !== null) byId('count').textContent = `${grouped(news.records)} records`;
    if (isFirst && news.state === 'live' && this.wantsEdge) this.start();
    if (news.to !== before) {
      this.slow();
      if (app.isFollowing) this.follow();
    }
    if (wasLive && news.state === 'ended') {
      app.say('the trace has ended');
      void this.follow().then(() => this.pause());
    }
    this.tell();
  }

  /** Draws what is new, one picture after the other: a picture that is on its way is not given up for the next. */
  private follow(): Promise<void> {
    this.isBehind = true;
    this.picture ??= this.pictures().finally(() => (this.picture = null));
    return this.picture;
  }

  private async pictures(): Promise<void> {
    while (this.isBehind && this.app.isFollowing && this.news) {
      this.isBehind = false;
      const to = BigInt(Math.round(this.news.to));
      const filled = this.isFilling ? filling(this.app.view, to) : null;
      this.isFilling = filled !== null;
      this.app.show(filled ?? edgeOf(this.app.view, to));
      await this.app.drawn;
    }
  }

  private slow(): void {
    const now = performance.now();
    if (now - this.slowAt < SLOW_MS) return;
    this.slowAt = now;
    this.grown();
  }

  private tell(): void {
    const { news, app, box } = this;
    if (!news || news.state === 'whole') return;
    const behind = behindText(news, performance.now() - this.at);
    byId('behind').textContent = behind;
    byId('live-lost').textContent = lostText(news.lost);
    box.dataset['state'] = news.state === 'ended' ? 'ended' : news.problem ? 'problem' : app.isFollowing ? 'following' : 'paused';
    this.button.textContent = news.state === 'ended' ? 'Ended' : app.isFollowing ? 'Live' : 'Paused';
    this.button.setAttribute('aria-pressed', String(app.isFollowing));
    this.button.title = app.isFollowing ? 'Pause (l); moving the picture pauses it, too' : 'Follow the newest record (l)';
  }
}
