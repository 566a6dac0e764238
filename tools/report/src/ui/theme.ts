/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Light, dark, or what the system says. The choice is kept where the browser allows it; a file
 * opened from disk may not have a place for it.
 */
const KEY = 'tenure-report-theme';
const THEMES = ['system', 'light', 'dark'] as const;
type Theme = typeof THEMES[number];

const TEXTS: Record<Theme, string> = { system: '\u25d0', light: '\u2600', dark: '\u263e' };

function stored(): Theme {
    try {
        const value = localStorage.getItem(KEY) as Theme | null;
        return value && THEMES.includes(value) ? value : 'system';
    } catch {
        return 'system';
    }
}

export class ThemeSwitch {
    private theme: Theme = stored();

    constructor(private readonly button: HTMLElement, private readonly changed: () => void) {
        this.apply();
        button.addEventListener('click', () => this.next());
        matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
    }

    next(): void {
        this.theme = THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]!;
        try {
            localStorage.setItem(KEY, this.theme);
        } catch {
            // Without storage the choice lasts as long as the page.
        }
        this.apply();
        this.changed();
    }

    private apply(): void {
        const root = document.documentElement;
        if (this.theme === 'system') {
            root.removeAttribute('data-theme');
        } else {
            root.setAttribute('data-theme', this.theme);
        }
        const words = this.theme === 'system' ? 'as the system' : this.theme;
        this.button.textContent = TEXTS[this.theme];
        this.button.setAttribute('aria-label', `Colours: ${words}. Change`);
        this.button.title = `Colours: ${words} (t)`;
    }
}
