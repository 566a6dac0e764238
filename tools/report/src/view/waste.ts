/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory lay unused, by the place that allocated it: a row for each, with what to do about
 * it, and a bar of the time for which its memory was held.
 */
import { App, View } from '../app.js';
import { Idle, Place, Waste } from '../data/findings.js';
import { Child, el } from '../ui/dom.js';
import { DataTable } from '../ui/table.js';
import { bytes, count, percent, plural } from '../text/units.js';

export const ADVICE: Record<Idle, string> = {
    never_used: 'do without this', before_first_use: 'allocate this later',
    between_uses: 'park this', after_last_use: 'free this earlier',
};
const WORDS: Record<Idle, string> = {
    never_used: 'no use was seen', before_first_use: 'before the first use',
    between_uses: 'between uses', after_last_use: 'after the last use',
};
/* The order of a block's life; what is left of the bar is in use. */
const COLOURS: readonly (readonly [Idle, string])[] = [
    ['never_used', '#d55e00'], ['before_first_use', '#e69f00'], ['between_uses', '#0072b2'],
    ['after_last_use', '#cc79a7'],
];

/** "park this: 3.1 GiB, idle for 80 % of the time". */
export function idleWords(place: Place): string {
    const state = place.idle === 'never_used' ? 'unused' : 'idle';
    return `${ADVICE[place.idle]}: ${bytes(place.bytes)}, ${state} for ` +
        `${percent(place.idleHeld, place.held)} of the time`;
}

function partsText(place: Place): string {
    return COLOURS.filter(([idle]) => place.parts[idle] > 0)
        .map(([idle]) => `${percent(place.parts[idle], place.held)} ${WORDS[idle]}`).join(', ');
}

function barOf(place: Place): Child {
    const bar = el('div', { class: 'share', role: 'img', 'aria-label': partsText(place),
                            title: partsText(place) });
    for (const [idle, colour] of COLOURS) {
        const part = el('i', {});
        part.style.width = `${place.held > 0 ? 100 * place.parts[idle] / place.held : 0}%`;
        part.style.minWidth = place.parts[idle] > 0 ? '2px' : '0';
        part.style.backgroundColor = colour;
        bar.append(part);
    }
    return bar;
}

function nameOf(place: Place): Child {
    const frame = place.frames[0];
    return frame ? el('span', {}, el('span', { class: 'name-main' }, frame.text),
        el('div', { class: 'name-sub' }, frame.place)) : '\u2013';
}

function keyItem([idle, colour]: readonly [Idle, string]): Child {
    const key = el('i', { class: 'key' });
    key.style.backgroundColor = colour;
    return el('li', {}, key, ` ${WORDS[idle]}: ${ADVICE[idle]}`);
}

export class WasteView implements View {
    readonly root = el('div', {});

    constructor(app: App) {
        const waste = app.findings?.waste;
        if (!waste) {
            return;
        }
        const worth = waste.places.filter((one) => one.worth);
        this.root.append(el('section', { class: 'card' },
            el('div', { class: 'head' }, el('h2', {}, worth.length === 0 ? 'Nothing was wasted'
                : `${plural(worth.length, 'place')} left memory idle, ` +
                  `${percent(waste.idleHeld, waste.held)} of all memory and time`)),
            el('p', { class: 'note' }, this.note(waste)),
            waste.places.length > 0 && el('ul', { class: 'legend' }, ...COLOURS.map(keyItem)),
            waste.places.length > 0 && this.table(waste.places)));
    }

    private note({ shortestMs, launches, unread }: Waste): string {
        return `Idle is what had no use for ${count(shortestMs)} ms or more. Blocks are weighted ` +
            `by their sizes. ${plural(launches, 'kernel launch', 'kernel launches')} seen, ` +
            `${count(unread)} of which could not be read: their uses are missing here.`;
    }

    private table(places: Place[]): HTMLElement {
        const table = new DataTable<Place>({
            caption: 'Memory that lay unused', sortBy: 3, empty: '',
            columns: [
                { title: 'What to do', order: (one) => ADVICE[one.idle],
                  cell: (one) => el('span', { class: one.worth ? 'verdict bad' : 'verdict' },
                      ADVICE[one.idle]) },
                { title: 'Allocated at', kind: 'wide',
                  order: (one) => one.frames[0]?.text ?? '', cell: nameOf },
                { title: 'At once', kind: 'number', order: (one) => one.bytes,
                  cell: (one) => bytes(one.bytes) },
                { title: 'Idle', kind: 'number', order: (one) => one.idleHeld,
                  cell: (one) => el('span', { title: partsText(one) },
                      percent(one.idleHeld, one.held)) },
                { title: 'Of the time it was held', kind: 'wide',
                  order: (one) => one.held > 0 ? one.idleHeld / one.held : 0,
                  cell: barOf },
            ],
            details: (one) => el('div', {},
                el('p', {}, `${idleWords(one)}: ${partsText(one)}. ` +
                    `${plural(one.blocks, 'block')}, process ${one.pid}.`),
                el('h3', {}, `allocated by ${one.call}`),
                el('ol', { class: 'stack' }, ...one.frames.map((frame) =>
                    el('li', {}, frame.text, ' ', el('small', {}, frame.place))))),
            detailsLabel: (one) => idleWords(one),
        });
        table.set(places);
        return table.root;
    }
}
