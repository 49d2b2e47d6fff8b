// SPDX-License-Identifier: MIT OR Apache-2.0
// Puts the page together.

import { App } from './app/app.js';
import { Complete } from './app/complete.js';
import { Keys } from './app/keys.js';
import { Live } from './app/live.js';
import { ALONE, OtherApp, clientOf, findOthers } from './app/others.js';
import { SavedClient, savedPage } from './app/saved.js';
import { TABS, type Tab, type View, fromFragment, fromWall } from './app/view.js';
import { byId, clean, el, link } from './common/dom.js';
import { chooseTheme, switchTheme } from './common/theme.js';
import { TIME_FORMATS, duration, grouped } from './common/time.js';
import { Copy } from './draw/copy.js';
import { Beside } from './several/beside.js';
import { Hosts, hostOf, wholeOf } from './several/hosts.js';
import { Critical } from './tabs/critical.js';
import { Details } from './tabs/details.js';
import { Explain } from './tabs/explain.js';
import { Flame } from './tabs/flame.js';
import { Laboratory } from './tabs/laboratory.js';
import { Latencies } from './tabs/latencies.js';
import { Worst } from './tabs/panels.js';
import { Records } from './tabs/records.js';
import { Start } from './tabs/start.js';
import { Statistics } from './tabs/statistics.js';
import { Arrows } from './timeline/arrows.js';
import { Bookmarks } from './timeline/bookmarks.js';
import { legend } from './timeline/legend.js';
import { Overview } from './timeline/overview.js';
import { Timeline } from './timeline/timeline.js';
import { Values } from './timeline/values.js';

const TAB_NAMES: Record<Tab, string> = { records: 'Records', latencies: 'Latencies', worst: 'Worst', statistics: 'Statistics', critical: 'Critical path', values: 'Values', flame: 'Flame graph' };

async function begin(): Promise<void> {
  chooseTheme();
  const status = byId('status');
  const page = await savedPage();
  const host = page ? 0 : hostOf(location.hash);
  const client = page ? new SavedClient(page) : clientOf(host);
  client.onReachable = reachable;
  const [summary, others] = await Promise.all([client.ask('summary', 'summary', {}), page ? ALONE : findOthers()]);
  if (!summary) return;
  const hosts = others.relation === 'hosts' ? await otherHosts(others.names.length, host) : [];
  // Results without a trace have a page of their own.
  const isOnlyResults = summary.head.info['has_results'] === true && !summary.head.info['records'] && !location.hash;
  const app = new App(summary, isOnlyResults ? '#page=laboratory' : fromWall(location.hash, BigInt(summary.head.base)), client, hosts.length ? wholeOf(summary, hosts.map(({ app }) => app.summary)) : page);
  app.say = (text, isWrong = false) => {
    status.textContent = clean(text);
    status.className = isWrong ? 'wrong' : '';
  };
  document.title = `${clean(String(summary.head.info['name'] ?? 'trace'))} - kymo view`;
  byId('name').textContent = clean(String(summary.head.info['name'] ?? ''));
  byId('name').title = byId('name').textContent ?? '';
  byId('count').textContent = `${grouped(Number(summary.head.info['records'] ?? 0))} records`;
  const overview = new Overview(app);
  const timeline = new Timeline(app);
  byId('legend').append(legend());
  const toggle = (): void => {
    switchTheme();
    overview.repaint();
    timeline.repaint();
  };
  for (const part of [new Frame(app), new Start(app), timeline, overview, new Records(app), new Latencies(app), new Worst(app), new Statistics(app), new Details(app), new Explain(app), new Critical(app, timeline), new Arrows(app, timeline), new Values(app), new Flame(app), new Laboratory(app)]) app.add(part);
  const beside = others.relation === 'beside' ? await Beside.of(app) : null;
  if (hosts.length) new Hosts(app, others, host, hosts);
  const live = page ? null : new Live(app, () => overview.grown());
  if (page) page.tell(app);
  const bookmarks = page ? null : new Bookmarks(app);
  if (page) byId('to-notes').hidden = true;
  const copy = new Copy(() => timeline.shown(), String(summary.head.info['name'] ?? ''), (text, isWrong) => app.say(text, isWrong));
  const absent = (what: string) => (): void => app.say(`a saved page ${what}`);
  new Keys(app, toggle, {
    b: () => bookmarks?.toggle(),
    l: live ? () => live.toggle() : absent('is not live'),
    m: bookmarks ? () => bookmarks.add() : absent('keeps no bookmarks'),
    x: () => beside?.toggle(),
    y: () => copy.toggle(),
  });
  // A trace of a lake: the page over it is two levels above.
  byId('to-lake').hidden = page !== null || !/\/t\/[0-9a-f]{32}\/$/.test(location.pathname);
  byId('theme').addEventListener('click', toggle);
  byId('undo').addEventListener('click', () => app.undo());
  byId('redo').addEventListener('click', () => app.redo());
  addEventListener('hashchange', () => {
    if (hosts.length && hostOf(location.hash) !== host) return location.reload();
    app.onMoved();
    app.show(fromFragment(fromWall(location.hash, app.base), app.whole));
  });
}

/** Those but the chosen one, in their order. */
async function otherHosts(count: number, chosen: number): Promise<{ number: number; app: OtherApp }[]> {
  const numbers = Array.from({ length: count }, (_, number) => number).filter((number) => number !== chosen);
  const asked = numbers.map(async (number) => ({ number, app: await OtherApp.of(number) }));
  return (await Promise.all(asked)).flatMap(({ number, app }) => (app ? [{ number, app }] : []));
}

/** The bars around the pages: navigation, filter, tabs. */
class Frame {
  private readonly filter = byId<HTMLInputElement>('filter');
  private readonly match = byId<HTMLInputElement>('match');
  private readonly by = byId<HTMLSelectElement>('by');
  private readonly tabs = byId('tabs');
  private readonly format = byId('format');

  constructor(private readonly app: App) {
    for (const tab of TABS) {
      const made = link(TAB_NAMES[tab], () => app.go({ ...app.view, tab }));
      made.setAttribute('role', 'tab');
      made.dataset['tab'] = tab;
      this.tabs.append(made);
    }
    for (const format of TIME_FORMATS) {
      const made = link(format[0]?.toUpperCase() + format.slice(1), () => app.go({ ...app.view, format }));
      made.dataset['format'] = format;
      this.format.append(made);
    }
    byId('to-start').addEventListener('click', () => app.go({ ...app.view, page: 'start' }));
    byId('to-timeline').addEventListener('click', () => app.go({ ...app.view, page: 'timeline' }));
    const laboratory = byId('to-laboratory');
    laboratory.hidden = app.summary.head.info['has_results'] !== true;
    laboratory.addEventListener('click', () => app.go({ ...app.view, page: 'laboratory' }));
    new Complete(app, this.filter);
    this.filter.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') void this.setFilter();
    });
    this.match.addEventListener('input', () => app.go({ ...app.view, match: this.match.value }, true));
    this.by.addEventListener('change', () => app.go({ ...app.view, by: this.by.value }));
  }

  /** A filter that is none is not taken: the last valid one stays, and the caret says where. */
  private async setFilter(): Promise<void> {
    const { app } = this;
    const wrong = byId('wrong');
    const filter = this.filter.value.trim();
    try {
      if (filter) await app.client.ask('check', 'records', { from: app.at(app.view.from), to: app.at(app.view.to), limit: 1, filter });
      wrong.hidden = true;
      app.go({ ...app.view, page: 'timeline', filter });
    } catch (error) {
      wrong.textContent = error instanceof Error ? clean(error.message.replace(/\n/g, '\u2028')).replace(/\u2028/g, '\n') : String(error);
      wrong.hidden = false;
    }
  }

  changed(view: View): void {
    document.body.dataset['page'] = view.page;
    document.body.dataset['tab'] = view.tab;
    byId('to-start').classList.toggle('on', view.page === 'start');
    byId('to-laboratory').classList.toggle('on', view.page === 'laboratory');
    byId('to-timeline').classList.toggle('on', view.page === 'timeline');
    for (const tab of this.tabs.querySelectorAll<HTMLElement>('[data-tab]')) {
      const isOn = tab.dataset['tab'] === view.tab;
      tab.classList.toggle('on', isOn);
      tab.setAttribute('aria-selected', String(isOn));
    }
    for (const format of this.format.querySelectorAll<HTMLElement>('[data-format]')) format.classList.toggle('on', format.dataset['format'] === view.format);
    if (document.activeElement !== this.filter) this.filter.value = view.filter;
    if (document.activeElement !== this.match) this.match.value = view.match;
    this.by.value = view.by;
    const { times } = this.app;
    const between = view.a === null || view.b === null ? '' : ` · A to B ${duration(Number(view.b - view.a))}`;
    byId('window').textContent = `${times.text(view.from)} to ${times.text(view.to)}${between}`;
  }
}

const GONE = 'kymo view does not answer. The last picture stays; the page goes on when it comes back.';

function reachable(isReachable: boolean, why: string): void {
  byId('gone').hidden = isReachable;
  byId('gone').textContent = why || GONE;
  document.body.classList.toggle('stale', !isReachable);
}

begin().catch((error: unknown) => {
  const text = error instanceof Error ? error.message : String(error);
  byId('start').replaceChildren(el('h1', '', 'The trace cannot be shown'), el('p', 'wrong', clean(text)));
  document.body.dataset['page'] = 'start';
});
