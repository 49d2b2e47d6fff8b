// SPDX-License-Identifier: MIT OR Apache-2.0
// Days of a trend by keyboard [spec/view.md 11]: one day is in the order of Tab, and arrows lead to the others.

export interface Day {
  group: number;
  day: number;
}

/** Where a key leads from the day at `place`: its place among all days, sorted by group and day; null: nowhere. */
export function nextDay(days: readonly Day[], place: number, key: string): number | null {
  const from = days[place];
  if (!from) return null;
  const places = days.map((_, at) => at);
  const own = places.filter((at) => days[at]?.group === from.group);
  const at = own.indexOf(place);
  switch (key) {
    case 'ArrowLeft':
      return own[at - 1] ?? null;
    case 'ArrowRight':
      return own[at + 1] ?? null;
    case 'Home':
      return own[0] ?? null;
    case 'End':
      return own.at(-1) ?? null;
    case 'ArrowUp':
    case 'ArrowDown': {
      const groups = [...new Set(days.map(({ group }) => group))];
      const other = groups[groups.indexOf(from.group) + (key === 'ArrowUp' ? -1 : 1)];
      if (other === undefined) return null;
      const apart = (place: number): number => Math.abs((days[place]?.day ?? 0) - from.day);
      const others = places.filter((at) => days[at]?.group === other);
      return others.reduce((best, at) => (apart(at) < apart(best) ? at : best), others[0] ?? place);
    }
    default:
      return null;
  }
}

/** Makes the days of a picture buttons. `show`: what one says, when it has the focus. */
export function walkDays(picture: SVGElement, choose: (day: number) => void, show: (tip: string) => void): void {
  const dots = [...picture.querySelectorAll<SVGElement>('circle[data-day]')];
  const number = (dot: SVGElement, name: string): number => Number(dot.dataset[name] ?? 0);
  const dayOf = (dot: SVGElement): Day => ({ group: number(dot, 'group'), day: number(dot, 'day') });
  dots.sort((one, other) => number(one, 'group') - number(other, 'group') || number(one, 'day') - number(other, 'day'));
  const days = dots.map(dayOf);
  // What is inside of an image is not told to who hears the page.
  picture.setAttribute('role', 'group');
  dots.forEach((dot, place) => {
    dot.setAttribute('role', 'button');
    dot.setAttribute('aria-label', dot.dataset['tip'] ?? '');
    dot.setAttribute('tabindex', place ? '-1' : '0');
    dot.addEventListener('focus', () => {
      dots.forEach((other) => other.setAttribute('tabindex', other === dot ? '0' : '-1'));
      show(dot.dataset['tip'] ?? '');
    });
    dot.addEventListener('keydown', (event) => {
      const next = nextDay(days, place, event.key);
      if (event.key === 'Enter' || event.key === ' ') choose(number(dot, 'day'));
      else if (next !== null) dots[next]?.focus();
      else return;
      event.preventDefault();
    });
  });
}
