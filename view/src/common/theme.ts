// SPDX-License-Identifier: MIT OR Apache-2.0
// Light or dark: as the browser wants it, until the user chooses.

export function chooseTheme(): void {
  const kept = storage()?.getItem('kymo-theme');
  const isLight = kept ? kept === 'light' : matchMedia('(prefers-color-scheme: light)').matches;
  document.documentElement.dataset['theme'] = isLight ? 'light' : 'dark';
}

export function switchTheme(): void {
  const now = document.documentElement.dataset['theme'] === 'light' ? 'dark' : 'light';
  document.documentElement.dataset['theme'] = now;
  storage()?.setItem('kymo-theme', now);
}

/** A page in a frame, or of a file, may have none. */
function storage(): Storage | null {
  try {
    return localStorage;
  } catch {
    return null;
  }
}
