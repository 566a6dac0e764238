/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search in the bar on top: functions and files, addresses, streams, pools, graphs and marks.
 * Results come while typing, in a list that the arrow keys walk; Enter goes there.
 */
import { App } from '../app.js';
import { holdersOf } from '../data/holders.js';
import { KIND, LIVE, RETIRED } from '../data/model.js';
import { byId, el, fill } from '../ui/dom.js';
import { bytes, count, hex, parseAddress, plural, sizeText } from '../text/units.js';
import { holderMatches } from './holders.js';
import { findRecords } from './records.js';
import { KINDS } from '../data/model.js';
import { stateWord } from './describe.js';

const PER_GROUP = 5;
/** While a person types, results wait for this long a pause. */
const PAUSE_MS = 90;

interface Result { title: string; note: string; amount: string; go(): void }
interface ResultGroup { name: string; results: Result[] }

function blockOf(app: App, address: number): number {
    const { address: starts, bytes: sizes, length } = app.device.blocks;
    let low = 0, high = length;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (starts[middle]! <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const block = low - 1;
    return block >= 0 && address < starts[block]! + sizes[block]! ? block : -1;
}

function addressResults(app: App, address: number): ResultGroup[] {
    const { blocks } = app.device;
    const block = blockOf(app, address);
    const found: Result[] = [];
    if (block >= 0) {
        const inside = address - blocks.address[block]!;
        found.push({
            title: `${stateWord(blocks.state[block]!)} block at ${hex(blocks.address[block]!)}`,
            note: `${inside > 0 ? `${count(inside)} bytes into it; ` : ''}` +
                app.names.stack(blocks.stack[block]!).name,
            amount: sizeText(blocks.bytes[block]!), go: () => app.go('map', { block }),
        });
    }
    const records = findRecords(app, KINDS, hex(address));
    if (records.length > 0) {
        found.push({
            title: 'History of this address', note: 'all records about memory that includes it',
            amount: plural(records.length, 'record'), go: () => app.go('records', { address }),
        });
    }
    return [{ name: 'Address', results: found }];
}

function holderResults(app: App, query: string): ResultGroup {
    const holders = holdersOf(app.snapshot, app.names, app.device, 'stack')
        .filter((holder) => holder.stack > 0 && holderMatches(app, holder, query));
    const results = holders.slice(0, PER_GROUP).map((holder): Result => ({
        title: holder.name, note: holder.note, amount: bytes(holder.live),
        go: () => app.go('holders', { query: holder.name }),
    }));
    if (holders.length > PER_GROUP) {
        const live = holders.reduce((sum, holder) => sum + holder.live, 0);
        results.push({
            title: `All ${count(holders.length)} holders with \u201c${query}\u201d`, note: '',
            amount: bytes(live), go: () => app.go('holders', { query }),
        });
    }
    return { name: 'Holders now', results };
}

/** Streams and pools, with what they hold. */
function placeResults(app: App, query: string): ResultGroup {
    const results = (['stream', 'pool'] as const).flatMap((group) =>
        holdersOf(app.snapshot, app.names, app.device, group)
            .filter((holder) => holder.name.toLowerCase().includes(query))
            .map((holder): Result => ({
                title: holder.name, note: `${group}, ${plural(holder.blocks, 'live block')}`,
                amount: bytes(holder.live),
                go: () => app.go('records', { query: holder.name }),
            })));
    return { name: 'Streams and pools', results: results.slice(0, PER_GROUP) };
}

function graphResults(app: App, query: string): ResultGroup {
    const results = app.device.graphs
        .filter((graph) => `${graph.name} graph ${graph.number}`.toLowerCase().includes(query))
        .slice(0, PER_GROUP).map((graph): Result => ({
            title: graph.name, note: `graph ${graph.number}, ${graph.state}`,
            amount: plural(graph.launches, 'launch', 'launches'), go: () => app.go('graphs'),
        }));
    return { name: 'Graphs', results };
}

function markResults(app: App, query: string): ResultGroup {
    const { history } = app.device;
    const results: Result[] = [];
    for (let i = history.length - 1; i >= 0 && results.length < PER_GROUP; i--) {
        if (history.kind[i] === KIND.mark) {
            const text = app.snapshot.strings[history.mark[i]!]!;
            if (text.toLowerCase().includes(query)) {
                const record = i;
                results.push({
                    title: text, note: 'mark in the history', amount: bytes(history.live[i]!),
                    go: () => app.go('timeline', { record }),
                });
            }
        }
    }
    return { name: 'Marks', results };
}

function recordResults(app: App, query: string): ResultGroup {
    const found = findRecords(app, KINDS, query);
    return {
        name: 'History', results: found.length === 0 ? [] : [{
            title: `All records with \u201c${query}\u201d`, note: '',
            amount: plural(found.length, 'record'), go: () => app.go('records', { query }),
        }],
    };
}

/** Blocks whose requested or whole size is exactly the number that was typed. */
function sizeResults(app: App, query: string): ResultGroup {
    const size = Number(query);
    const { blocks } = app.device;
    let live = 0, first = -1;
    for (let block = 0; Number.isInteger(size) && size > 0 && block < blocks.length; block++) {
        if ((blocks.state[block] === LIVE || blocks.state[block] === RETIRED) &&
            (blocks.requested[block] === size || blocks.bytes[block] === size)) {
            live++;
            first = first < 0 ? block : first;
        }
    }
    return {
        name: 'Sizes', results: live === 0 ? [] : [{
            title: `Blocks of ${count(size)} bytes`, note: 'the first of them, in the map',
            amount: plural(live, 'block'), go: () => app.go('map', { block: first }),
        }],
    };
}

export function findAll(app: App, text: string): ResultGroup[] {
    const query = text.trim().toLowerCase();
    const address = parseAddress(query);
    const groups = address !== null ? addressResults(app, address) : [
        ...(/^\d+$/.test(query) ? [sizeResults(app, query)] : []),
        holderResults(app, query), placeResults(app, query), graphResults(app, query),
        markResults(app, query), recordResults(app, query),
    ];
    return groups.filter((group) => group.results.length > 0);
}

export class Search {
    private readonly input = byId('search') as HTMLInputElement;
    private readonly list = byId('found');
    private results: Result[] = [];
    private current = -1;
    private timer = 0;

    constructor(private readonly app: () => App | null) {
        this.input.addEventListener('input', () => {
            clearTimeout(this.timer);
            this.timer = window.setTimeout(() => this.find(), PAUSE_MS);
        });
        this.input.addEventListener('focus', () => this.find());
        this.input.addEventListener('keydown', (event) => this.key(event));
        document.addEventListener('pointerdown', (event) => {
            if (!(event.target as Element).closest('.search')) {
                this.close();
            }
        });
        this.input.addEventListener('blur', () => {
            // A click on a result takes the focus away first.
            window.setTimeout(() => {
                if (document.activeElement !== this.input) {
                    this.close();
                }
            }, 150);
        });
    }

    enable(): void {
        this.input.disabled = false;
    }

    private find(): void {
        const app = this.app();
        const text = this.input.value;
        if (!app || text.trim().length < 2) {
            this.close();
            return;
        }
        const groups = findAll(app, text);
        this.results = groups.flatMap((group) => group.results);
        this.current = this.results.length > 0 ? 0 : -1;
        let index = 0;
        fill(this.list, ...groups.flatMap((group) => [
            el('div', { class: 'found-group', role: 'presentation' }, group.name),
            ...group.results.map((result) => this.item(result, index++)),
        ]), this.results.length === 0 &&
            el('div', { class: 'found-none' }, `Nothing has \u201c${text.trim()}\u201d in it.`));
        this.list.hidden = false;
        this.input.setAttribute('aria-expanded', 'true');
        this.mark();
    }

    private item(result: Result, index: number): HTMLElement {
        return el('div', {
            class: 'found-item', role: 'option', id: `found-${index}`,
            onclick: () => this.choose(index),
        }, el('span', {}, result.title), el('span', { class: 'number' }, result.amount),
        result.note && el('small', {}, result.note));
    }

    private mark(): void {
        this.list.querySelectorAll('.found-item').forEach((item, index) => {
            item.setAttribute('aria-selected', String(index === this.current));
            if (index === this.current) {
                item.scrollIntoView({ block: 'nearest' });
            }
        });
        if (this.current >= 0) {
            this.input.setAttribute('aria-activedescendant', `found-${this.current}`);
        } else {
            this.input.removeAttribute('aria-activedescendant');
        }
    }

    private choose(index: number): void {
        const result = this.results[index];
        this.close();
        this.input.blur();
        result?.go();
    }

    private key(event: KeyboardEvent): void {
        const { length } = this.results;
        switch (event.key) {
        case 'ArrowDown': case 'ArrowUp':
            event.preventDefault();
            if (length > 0) {
                const step = event.key === 'ArrowDown' ? 1 : length - 1;
                this.current = (this.current + step) % length;
                this.mark();
            }
            break;
        case 'Enter':
            event.preventDefault();
            clearTimeout(this.timer);
            this.find();
            this.choose(this.current);
            break;
        case 'Escape':
            this.close();
            this.input.blur();
            break;
        default: break;
        }
    }

    private close(): void {
        this.list.hidden = true;
        this.input.setAttribute('aria-expanded', 'false');
        this.input.removeAttribute('aria-activedescendant');
    }
}
