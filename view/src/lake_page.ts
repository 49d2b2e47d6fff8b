// SPDX-License-Identifier: MIT OR Apache-2.0
// The page over a lake [spec/view.md 11]: asks, and puts the parts together.

import { button, byId, clean, el, link, onFrame, renewed } from './common/dom.js';
import { type Look } from './common/looks.js';
import { palette } from './common/palette.js';
import { type Picture, drawn } from './common/shapes.js';
import { chooseTheme, switchTheme } from './common/theme.js';
import { grouped } from './common/time.js';
import { contents, labelsOf } from './lake/contents.js';
import { LakeCopy } from './lake/copy.js';
import { type Group, type Trend, type WorstRow, groupsOf, trendsOf, worstOf } from './lake/data.js';
import { walkDays } from './lake/days.js';
import { histogram, sampleLine, tails, trend, visible } from './lake/layout.js';
import { changeTable, groupCsv, groupTable, trendCsv, worstCsv, worstTable } from './lake/tables.js';
import { KEYS, type LakeView, QUANTILES, QUANTILE_NAMES, type QuantileName, chosen, conditionName, dayText, fromLakeFragment, isDay, keyName, keyText, onlyGroup, toLakeFragment, toggled, VALUES, valueName } from './lake/view.js';
import { Client, type Parameters, Refused } from './query/api.js';
import type { Answer } from './query/columns.js';

/** The longest samples that are listed. */
const ROWS = 50;
/** ms to the first repetition of a question that nobody answered, and at most. */
const AGAIN_MS = 1000;
const AGAIN_MS_MAX = 8000;

const LEGEND: readonly (readonly [mark: string, means: string])[] = [
  ['dot', 'a day'],
  ['hollow', 'a day with lost records: the value lies on the dashed line'],
  ['loss', 'records were lost on that day'],
  ['change', 'the level changes: first day of the new one; ? lost records may explain it'],
  ['level', 'median between two changes'],
];

type Section = 'contents' | 'distribution' | 'trend' | 'worst';

class LakePage {
  /** The newest fragment; `data-shown` of the body is the one of which everything is shown. */
  private address = location.hash;
  private view = fromLakeFragment(this.address);
  private readonly client = new Client('l/');
  private contentsAnswer: Answer | null = null;
  private kinds: [what: string, samples: number][] = [];
  private groups: Group[] | null = null;
  private groupNotes: string[] = [];
  private trends: Trend[] | null = null;
  private trendNotes: string[] = [];
  private worst: WorstRow[] | null = null;
  private readonly asking = new Set<Section | 'kinds'>();
  /** How often each part was asked for: only the newest answer counts. */
  private readonly asked = new Map<Section | 'kinds', number>();
  private readonly stale = new Set<Section>();
  private readonly redrawSoon = onFrame(() => this.draw());
  private readonly copy: LakeCopy;

  constructor() {
    chooseTheme();
    this.client.onReachable = (isReachable, why) => this.gone(isReachable ? '' : why || 'kymo view does not answer. What is shown stays; the page goes on when it comes back.');
    const picture = (section: string, place: number) => () => byId(section).querySelectorAll('svg.picture')[place] as SVGElement | null;
    this.copy = new LakeCopy(
      {
        tables: {
          Distribution: () => this.groups && groupCsv(this.groups),
          Trend: () => this.trends && trendCsv(this.trends),
          Worst: () => this.worst && worstCsv(this.worst),
        },
        pictures: { Histogram: picture('distribution', 0), Tails: picture('distribution', 1), 'Trend picture': picture('trend', 0) },
      },
      (text, isWrong) => this.say(text, isWrong),
    );
    this.listen();
    void this.readContents();
    this.ask(null);
  }

  private listen(): void {
    addEventListener('hashchange', () => {
      const before = this.view;
      this.address = location.hash;
      this.view = fromLakeFragment(this.address);
      this.ask(before);
    });
    const choose = (id: 'what' | 'by' | 'values' | 'first' | 'last' | 'quantile'): void => {
      const input = byId<HTMLInputElement | HTMLSelectElement>(id);
      input.addEventListener('change', () => {
        const isWrong = (id === 'first' || id === 'last') && input.value !== '' && !isDay(input.value);
        if (isWrong) this.say(`${input.value} is no day: write it as 2026-11-27`, true);
        else this.go({ ...this.view, hide: id === 'by' ? [] : this.view.hide, [id]: input.value } as LakeView);
      });
    };
    for (const id of ['what', 'by', 'values', 'first', 'last', 'quantile'] as const) choose(id);
    byId('again').addEventListener('click', () => this.again());
    byId('to-copies').addEventListener('click', () => this.copy.toggle());
    byId('theme').addEventListener('click', () => this.switchTheme());
    byId('keys').addEventListener('click', () => this.help());
    addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.redraw('distribution', 'trend')).observe(byId('lake'));
    const main = byId('lake');
    // What is drawn anew under a pointer that rests says nothing: the keyboard may have said something meanwhile.
    let rest = '';
    main.addEventListener('pointerover', ({ target, clientX, clientY }) => {
      const place = `${clientX} ${clientY}`;
      if (place !== rest && target instanceof SVGElement && target.dataset['tip']) this.say(target.dataset['tip']);
      rest = place;
    });
    main.addEventListener('click', ({ target }) => {
      const day = target instanceof SVGElement ? target.dataset['day'] : undefined;
      if (day !== undefined) this.chooseDay(Number(day));
    });
  }

  private key(event: KeyboardEvent): void {
    const isTyping = event.target instanceof HTMLInputElement && event.target.type !== 'checkbox';
    if (event.ctrlKey || event.metaKey || event.altKey || (isTyping && event.key !== 'Escape')) return;
    const actions: Record<string, () => void> = {
      r: () => this.again(),
      y: () => this.copy.toggle(),
      T: () => this.switchTheme(),
      '?': () => this.help(),
      Escape: () => ['copies', 'help'].forEach((id) => (byId(id).hidden = true)),
    };
    actions[event.key]?.();
  }

  private help(): void {
    const box = byId('help');
    if (!box.childNodes.length) {
      const keys = { r: 'read the lake again', y: 'copy or save what is shown', T: 'light or dark', '?': 'these keys', Esc: 'close', 'Alt ←': 'what was shown before' };
      box.append(el('h2', '', 'Keys'), el('dl', 'keys', ...Object.entries(keys).flatMap(([key, does]) => [el('dt', '', el('kbd', '', key)), el('dd', '', does)])));
    }
    box.hidden = !box.hidden;
  }

  private switchTheme(): void {
    switchTheme();
    this.redraw('distribution', 'trend');
  }

  private say(text: string, isWrong = false): void {
    const status = byId('status');
    status.textContent = clean(text);
    status.className = isWrong ? 'wrong' : '';
  }

  private gone(text: string): void {
    byId('gone').textContent = text;
    byId('gone').hidden = !text;
    document.body.classList.toggle('stale', Boolean(text));
  }

  private go(view: LakeView): void {
    location.hash = toLakeFragment(view);
  }

  private chooseDay(day: number): void {
    const text = dayText(day);
    this.go({ ...this.view, first: text, last: text });
  }

  /** Reads the manifests anew, then asks all. */
  private again(): void {
    void this.readContents().then(() => this.ask(null));
  }

  private async readContents(): Promise<void> {
    const answer = await this.question('contents', {});
    if (!answer) return;
    this.contentsAnswer = answer;
    document.title = `${clean(String(answer.head.info['lake'] ?? 'lake'))} - kymo view`;
    byId('name').textContent = clean(String(answer.head.info['lake'] ?? ''));
    renewed(byId('contents'), ...contents(answer, (key, value) => this.go({ ...this.view, is: [...new Set([...this.view.is, `label:${key}=${value}`])] })));
    this.choices();
  }

  /** Asks what a change of the view makes different. */
  private ask(before: LakeView | null): void {
    this.choices();
    const isSame = (a: LakeView, b: LakeView): boolean => JSON.stringify(chosen(a)) === JSON.stringify(chosen(b));
    const { view } = this;
    if (!before || !isSame(before, view)) {
      void this.part('kinds', { ...chosen(view), what: undefined, by: undefined, values: undefined }, (answer) => this.takeKinds(answer));
      void this.part('distribution', chosen(view), (answer) => {
        this.groups = groupsOf(answer);
        this.groupNotes = notesOf(answer);
      });
      void this.part('worst', { ...chosen(view), values: undefined, limit: ROWS }, (answer) => (this.worst = worstOf(answer)));
    }
    if (!before || !isSame(before, view) || before.quantile !== view.quantile) {
      void this.part('trend', { ...chosen(view), quantile: view.quantile }, (answer) => {
        this.trends = trendsOf(answer);
        this.trendNotes = trendNotes(answer);
      });
    }
    this.redraw('distribution', 'trend');
  }

  private takeKinds(answer: Answer): void {
    const of = answer.table('kinds');
    this.kinds = Array.from({ length: of.rows }, (_, row) => [of.text('what', row) ?? '', of.number('samples', row) ?? 0]);
    this.choices();
  }

  /** One question; its answer is taken and drawn. */
  private async part(section: Exclude<Section, 'contents'> | 'kinds', parameters: Parameters, take: (answer: Answer) => void): Promise<void> {
    const answer = await this.question(section, parameters);
    if (!answer) return;
    take(answer);
    if (section !== 'kinds') this.redraw(section);
  }

  /** Asks until there is an answer, or it is none; null also where a newer question came meanwhile. */
  private async question(section: Section | 'kinds', parameters: Parameters): Promise<Answer | null> {
    const number = (this.asked.get(section) ?? 0) + 1;
    const isNewest = (): boolean => this.asked.get(section) === number;
    this.asked.set(section, number);
    this.asking.add(section);
    this.progress();
    try {
      for (let wait = AGAIN_MS; ; wait = Math.min(AGAIN_MS_MAX, 2 * wait)) {
        try {
          const answer = await this.client.ask(section, section, parameters);
          if (answer) this.gone('');
          return isNewest() ? answer : null;
        } catch (error) {
          const isEnded = error instanceof Refused && (error.kind === 'ended' || error.kind === 'gone');
          if (!isEnded) throw error;
          this.gone(`${error.message}. What is shown stays; the page asks again.`);
          await new Promise((resolve) => setTimeout(resolve, wait));
          if (!isNewest()) return null;
        }
      }
    } catch (error) {
      if (isNewest()) this.refuse(section, error);
      return null;
    } finally {
      if (isNewest()) this.asking.delete(section);
      this.progress();
    }
  }

  private refuse(section: Section | 'kinds', error: unknown): void {
    const text = clean(error instanceof Error ? error.message : String(error));
    const hint = (error as { hint?: string | null }).hint;
    if (section === 'kinds') return;
    if (section === 'distribution') this.groups = null;
    if (section === 'trend') this.trends = null;
    if (section === 'worst') this.worst = null;
    renewed(byId(section), el('p', 'wrong', hint ? `${text}: ${hint}` : text));
  }

  /** What is asked, and whether all that the address names is shown. */
  private progress(): void {
    if (this.asking.size) delete document.body.dataset['shown'];
    else this.redraw();
    const parts = [...this.asking].filter((part) => part !== 'kinds');
    byId('window').textContent = parts.length ? `Reading: ${parts.join(', ')}` : '';
    for (const part of ['distribution', 'trend', 'worst'] as const) byId(part).setAttribute('aria-busy', String(this.asking.has(part)));
  }

  /** What can be chosen, and what is. */
  private choices(): void {
    const { view } = this;
    const kinds = this.kinds.some(([what]) => what === view.what) ? this.kinds : [[view.what, 0] as [string, number], ...this.kinds];
    options('what', kinds.map(([what, samples]) => [what, samples ? `${what} (${grouped(samples)})` : what]), view.what);
    const labels = this.contentsAnswer ? [...labelsOf(this.contentsAnswer).keys()].map((key): [string, string] => [`label:${key}`, `label ${key}`]) : [];
    const keys: [string, string][] = [...Object.entries(KEYS), ...labels];
    options('by', keys.some(([key]) => key === view.by) ? keys : [[view.by, keyName(view.by)], ...keys], view.by);
    options('values', VALUES.map((most) => [most, `${most} at most`]), view.values);
    options('quantile', QUANTILES.map((name) => [name, QUANTILE_NAMES[name]]), view.quantile);
    for (const id of ['first', 'last'] as const) byId<HTMLInputElement>(id).value = view[id];
    const remove = (condition: string): HTMLElement => el('span', 'chip', conditionName(condition), button('×', `Without ${conditionName(condition)}`, () => this.go({ ...view, is: view.is.filter((one) => one !== condition) })));
    byId('conditions').replaceChildren(...view.is.map(remove));
  }

  private redraw(...sections: Section[]): void {
    sections.forEach((section) => this.stale.add(section));
    this.redrawSoon();
  }

  private draw(): void {
    const isStale = (section: Section): boolean => this.stale.delete(section);
    const colours = palette();
    const family = getComputedStyle(document.body).fontFamily;
    const width = Math.max(320, byId('lake').clientWidth - 48);
    const half = width > 900 ? (width - 16) / 2 : width;
    const figure = (made: Picture, about: string): HTMLElement => {
      const picture = drawn(made, colours, family);
      picture.classList.add('picture');
      return el('figure', 'chart', el('figcaption', '', el('b', '', made.title), ` ${about}`), picture);
    };
    const { view, groups, trends, worst } = this;
    if (isStale('distribution') && groups) {
      const shown = visible(groups, view.hide);
      renewed(
        byId('distribution'),
        el('h2', '', `${view.what} by ${keyText(view.by)}`),
        ...this.groupNotes.map((note) => el('p', 'note', note)),
        el('div', 'pair', figure(histogram(shown, half), 'Share of the samples; both axes are logarithmic.'), figure(tails(shown, half), 'Share of the samples; both axes are logarithmic.')),
        el('div', 'wide', groupTable(groups, view, colours, { only: (value) => this.go(onlyGroup(view, value)), toggle: (value) => this.go(toggled(view, value)) })),
        el('p', 'note', 'Samples of one trace are not independent of one another, and neither are traces of one host: a difference between groups means something where several hosts and traces show it.'),
      );
    }
    if (isStale('trend') && trends) this.drawTrend(trends, width, figure);
    if (isStale('worst') && worst) {
      const table = worst.length ? el('div', 'wide', worstTable(worst, view.what, (text) => this.say(text))) : el('p', 'note', 'No samples.');
      renewed(byId('worst'), el('h2', '', 'The longest samples'), table);
    }
    if (!this.asking.size) document.body.dataset['shown'] = this.address;
  }

  private drawTrend(trends: readonly Trend[], width: number, figure: (picture: Picture, about: string) => HTMLElement): void {
    const { view } = this;
    const name = QUANTILE_NAMES[view.quantile as QuantileName];
    const shown = visible(trends, view.hide);
    const drawnTrends = shown.map(({ of }) => of);
    const hasChanges = drawnTrends.some(({ changes }) => changes.length);
    const whole = view.first || view.last ? link('Show all days', () => this.go({ ...view, first: '', last: '' })) : null;
    const days = figure(trend(shown, name, width), 'A click on a day, or Enter, chooses it; arrows go from day to day. A gap is a day without samples.');
    const picture = days.querySelector('svg');
    if (picture) walkDays(picture, (day) => this.chooseDay(day), (tip) => this.say(tip));
    renewed(
      byId('trend'),
      el('h2', '', `${name} over days`, whole),
      days,
      legend(shown.map(({ of, look }) => el('span', 'item', line(look), valueName(of.value)))),
      ...drawnTrends.filter(({ why }) => why !== null).map(({ value, why }) => el('p', 'note', `${valueName(value)}: ${why}.`)),
      ...this.trendNotes.map((note) => el('p', 'note', note)),
      hasChanges ? el('div', 'wide', changeTable(drawnTrends, (day) => this.chooseDay(day))) : '',
    );
  }
}

/** A short line as in the pictures. */
function line(look: Look): SVGElement {
  const made = drawn(sampleLine(look), palette(), '');
  made.setAttribute('aria-hidden', 'true');
  return made;
}

function legend(groups: readonly HTMLElement[]): HTMLElement {
  return el('div', 'legend', ...groups, ...LEGEND.map(([mark, means]) => el('span', 'item', el('i', `sw l-${mark}`), means)));
}

function options(id: string, list: readonly (readonly [value: string, text: string])[], value: string): void {
  const select = byId<HTMLSelectElement>(id);
  // A list that is open stays open.
  const isSame = select.length === list.length && list.every(([value, text], place) => select.options[place]?.value === value && select.options[place].text === text);
  if (isSame) {
    select.value = value;
    return;
  }
  const made = list.map(([value, text]) => {
    const option = el('option', '', text);
    option.value = value;
    return option;
  });
  select.replaceChildren(...made);
  select.value = value;
}

function notesOf(answer: Answer): string[] {
  const [groups, leftOut] = [Number(answer.head.info['groups'] ?? 0), Number(answer.head.info['left_out'] ?? 0)];
  const shown = answer.table('groups').rows;
  const more = groups > shown ? [`${grouped(shown)} of ${grouped(groups)} groups: those with most samples. ${grouped(leftOut)} samples are of the others.`] : [];
  return [...more, ...answer.head.notes];
}

function trendNotes(answer: Answer): string[] {
  const { info } = answer.head;
  const [tested, noDay] = [Number(info['tested'] ?? 0), Number(info['no_day'] ?? 0)];
  const level = 'If no level changed, the probability that any change is shown is at most 5 %, as far as days are independent of one another.';
  return [tested ? level : '', noDay ? `${grouped(noDay)} samples have no day: their clock does not count from 1970.` : ''].filter(Boolean);
}

new LakePage();
