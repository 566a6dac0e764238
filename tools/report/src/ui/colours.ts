/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which colour means what. States have fixed colours, the ones of the style sheet. Streams, pools
 * and stacks get colours by their share: the ten that hold most are told apart, the rest is grey.
 */

/** Ten that stay apart for people with any common colour blindness, on white and on black. */
export const CATEGORY_COLOURS = [
    '#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#7a5bb0', '#b0a51f',
    '#8c5a3c', '#44aa99',
] as const;

/** The words that the report uses for where bytes are. */
export const SHARES = ['live', 'slack', 'retired', 'binned', 'free', 'releasing', 'growing',
    'asleep'] as const;
export type Share = typeof SHARES[number];

export const SHARE_WORDS: Record<Share, { name: string; meaning: string }> = {
    live: { name: 'Live', meaning: 'handed out and not freed' },
    slack: { name: 'Rounding', meaning: 'lost to rounding and alignment inside live blocks' },
    retired: { name: 'Waiting', meaning: 'freed, but another stream, a graph or a capture may ' +
        'still use it' },
    binned: { name: 'Binned', meaning: 'freed, kept by exact size for the fastest reuse' },
    free: { name: 'Free', meaning: 'free runs, reused by later allocations' },
    releasing: { name: 'Releasing', meaning: 'on its way back to the driver' },
    growing: { name: 'Growing', meaning: 'being taken from the driver at this very moment' },
    asleep: { name: 'Asleep', meaning: 'addresses of pools that gave their memory back until they '
        + 'wake' },
};

/** The style sheet's name of a share's colour. */
export function shareVariable(share: Share): string {
    return share === 'releasing' || share === 'growing' ? '--other' : `--${share}`;
}

/** A style colour resolved for the theme in use, as red, green and blue. */
export function resolveColour(colour: string): [number, number, number] {
    const probe = document.createElement('span');
    probe.style.color = colour;
    document.body.appendChild(probe);
    const resolved = getComputedStyle(probe).color;
    probe.remove();
    const numbers = resolved.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0];
    return [numbers[0] ?? 0, numbers[1] ?? 0, numbers[2] ?? 0];
}

export function resolveCss(variable: string): string {
    const [red, green, blue] = resolveColour(`var(${variable})`);
    return `rgb(${red}, ${green}, ${blue})`;
}
