/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of the history, page by page, narrowed by kind and by text or address. Narrowing
 * goes over all records at once: the texts are matched first, so that a record costs a look-up.
 */
import { App, Target, View } from '../app.js';
import { KIND, KINDS, Kind } from '../data/model.js';
import { Child, el, fill } from '../ui/dom.js';
import { adviceFor } from '../text/advice.js';
import { bytes, count, duration, hex, moment, parseAddress, plural, sizeText }
    from '../text/units.js';
import { matching } from '../text/names.js';
import { KIND_WORDS, ownerStack } from './describe.js';

const PAGE = 50;

const KIND_GROUPS: readonly (readonly [string, string, readonly Kind[]])[] = [
    ['all', 'Everything', KINDS],
    ['blocks', 'Blocks', ['alloc', 'free', 'retire', 'reuse', 'grow']],
    ['alloc', 'Allocations', ['alloc']],
    ['memory', 'Physical memory', ['map', 'unmap', 'move_in', 'move_out', 'sleep',
        'wake']],
    ['graphs', 'Graphs', ['capture_begin', 'capture_end', 'capture_abort', 'launch',
        'launch_over']],
    ['marks', 'Marks', ['mark', 'snapshot']],
    ['oom', 'Out of memory', ['oom']],
];

/** The numbers of the records that fit, in order. */
export function findRecords(app: App, kinds: readonly Kind[], query: string): Int32Array {
    const { history } = app.device;
    const { kind, address, bytes: size, stack, stream, pool, mark, pair, length } = history;
    const wanted = new Uint8Array(KINDS.length);
    kinds.forEach((one) => { wanted[KIND[one]] = 1; });
    const result = new Int32Array(length);
    let used = 0;
    const place = parseAddress(query);
    if (query === '' || place !== null) {
        for (let i = 0; i < length; i++) {
            if (wanted[kind[i]!] && (place === null ||
                (place >= address[i]! && place < address[i]! + Math.max(1, size[i]!)))) {
                result[used++] = i;
            }
        }
        return result.slice(0, used);
    }
    const text = query.toLowerCase();
    const { snapshot, names } = app;
    const stacks = matching(snapshot.stacks.length, (i) => names.stackSearchText(i), text);
    const streams = matching(snapshot.streams.length, (i) => names.stream(i).toLowerCase(),
        text);
    const pools = matching(snapshot.pools.length, (i) => names.pool(i).toLowerCase(), text);
    // Each record has the mark that was in force; only setting one counts as a find.
    const marks = matching(snapshot.strings.length, (i) =>
        snapshot.strings[i]!.toLowerCase(), text);
    const kindTexts = matching(KINDS.length, (i) => `${KINDS[i]} ${KIND_WORDS[KINDS[i]!]}`,
        text);
    for (let i = 0; i < length; i++) {
        const code = kind[i]!;
        const other = pair[i]!;
        if (wanted[code] && (kindTexts[code + 1]! | stacks[stack[i]! + 1]! |
            streams[stream[i]! + 1]! | pools[pool[i]! + 1]! |
            (code === KIND.mark ? marks[mark[i]! + 1]! : 0) |
            (other >= 0 ? stacks[stack[other]! + 1]! : 0))) {
            result[used++] = i;
        }
    }
    return result.slice(0, used);
}

export class RecordsView implements View {
    readonly root = el('div', {});
    private readonly note = el('p', { class: 'note', 'aria-live': 'polite' });
    private readonly table = el('div', {});
    private readonly filter = el('input', {
        type: 'search', placeholder: 'Function, stream, mark, 0x address\u2026',
        'aria-label': 'Narrow the records', oninput: () => this.find(),
    });
    private readonly kinds = el('select', {
        'aria-label': 'Kinds of record', onchange: () => this.find(),
    }, ...KIND_GROUPS.map(([value, text]) => el('option', { value }, text)));
    private found: Int32Array = new Int32Array(0);
    private page = 0;
    private marked = -1;

    constructor(private readonly app: App) {
        if (app.device.history.length === 0) {
            this.root.append(el('p', { class: 'nothing' }, 'No history was recorded. ' +
                `${adviceFor(app.snapshot).history}.`));
            return;
        }
        this.root.append(el('section', { class: 'card' },
            el('div', { class: 'head' }, el('h2', {}, 'History'), this.kinds, this.filter),
            this.note, this.table));
        this.find();
    }

    private find(): void {
        const kinds = KIND_GROUPS.find(([value]) => value === this.kinds.value)![2];
        this.found = findRecords(this.app, kinds, this.filter.value.trim());
        this.page = 0;
        this.marked = -1;
        this.draw();
    }

    private draw(): void {
        const { snapshot, device } = this.app;
        const { found } = this;
        const lost = snapshot.overwritten > 0
            ? `; ${count(snapshot.overwritten)} older ones were overwritten` : '';
        const out = snapshot.leftOut > 0
            ? `; ${count(snapshot.leftOut)} of small blocks are not in this report` : '';
        fill(this.note, found.length === device.history.length
            ? `${plural(found.length, 'record')}${lost}${out}.`
            : `${count(found.length)} of ${plural(device.history.length, 'record')} fit` +
                `${lost}${out}.`);
        if (found.length === 0) {
            fill(this.table, el('p', { class: 'nothing' }, 'No record fits.'));
            return;
        }
        const rows = Array.from(found.subarray(this.page * PAGE, (this.page + 1) * PAGE));
        const headings = ['Record', 'Time', 'What', 'Size', 'Address', 'Stream', 'Pool', 'Thread',
            'Lived', 'By'];
        fill(this.table,
            el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Records' },
                el('table', { 'aria-label': 'Records of the history' },
                    el('thead', {}, el('tr', {}, ...headings.map((text) =>
                        el('th', { scope: 'col', class: numeric(text) }, text)))),
                    el('tbody', {}, ...rows.map((record) => this.row(record))))),
            this.pager());
    }

    private row(record: number): HTMLElement {
        const { history } = this.app.device;
        const { names } = this.app;
        const kind = KINDS[history.kind[record]!]!;
        const stack = ownerStack(this.app, record);
        const address = history.address[record]!;
        const size = history.bytes[record]!;
        const cell = (text: Child, kindOfCell?: string) => el('td', { class: kindOfCell }, text);
        return el('tr', {
            'data-record': record, 'aria-current': record === this.marked ? 'true' : null,
        },
        cell(el('button', {
            type: 'button', class: 'link', title: 'Show it in the timeline',
            onclick: () => this.app.go('timeline', { record }),
        }, count(record + 1)), 'number'),
        cell(history.timed ? moment(history.time[record]!, 1000) : '\u2013', 'number'),
        cell(this.whatText(record, kind)),
        cell(size > 0 ? el('span', { title: `${count(size)} bytes` }, sizeText(size)) : '',
            'number'),
        cell(address > 0 ? el('button', {
            type: 'button', class: 'link mono', title: 'All records of this address',
            onclick: () => this.showAddress(address),
        }, hex(address)) : ''),
        cell(history.stream[record]! >= 0 ? names.stream(history.stream[record]!) : ''),
        cell(history.pool[record]! >= 0 ? names.pool(history.pool[record]!) : ''),
        cell(count(history.thread[record]!), 'number'),
        cell(this.lifeText(record), 'number'),
        el('td', { class: 'wide' }, stack > 0 ? this.stackText(stack) : ''));
    }

    private stackText(stack: number): HTMLElement {
        const { name, place } = this.app.names.stack(stack);
        return el('span', {}, name, ' ', el('span', { class: 'name-sub' }, place));
    }

    private whatText(record: number, kind: Kind): Child {
        const { history } = this.app.device;
        const reason = this.app.snapshot.reasons[history.reason[record]!];
        const value = history.value[record]!;
        const mark = this.app.snapshot.strings[history.mark[record]!];
        const extra = kind === 'mark' ? `\u201c${mark}\u201d`
            : kind === 'oom' ? `${bytes(value)} were available`
                : kind === 'launch_over' ? `${duration(value)} after it`
                    : /^(capture|launch)/.test(kind) ? `graph ${value}` : reason;
        return el('span', {}, el('span', { class: kind === 'oom' ? 'verdict bad' : null },
            KIND_WORDS[kind]), extra ? el('span', { class: 'name-sub' }, ` ${extra}`) : null);
    }

    /** From allocation to free, where both are in the history. */
    private lifeText(record: number): string {
        const { kind, pair, time } = this.app.device.history;
        const other = pair[record]!;
        if (other < 0 || !this.app.device.history.timed) {
            return '';
        }
        const life = kind[record] === KIND.alloc ? time[other]! - time[record]!
            : time[record]! - time[other]!;
        return duration(life);
    }

    private pager(): HTMLElement | null {
        const pages = Math.ceil(this.found.length / PAGE);
        if (pages <= 1) {
            return null;
        }
        const button = (text: string, page: number) => el('button', {
            type: 'button', disabled: page < 0 || page >= pages || page === this.page,
            onclick: () => {
                this.page = page;
                this.draw();
            },
        }, text);
        return el('nav', { class: 'pager', 'aria-label': 'Pages of records' },
            button('First', 0), button('Previous', this.page - 1),
            el('span', {}, `page ${count(this.page + 1)} of ${count(pages)}`),
            button('Next', this.page + 1), button('Last', pages - 1));
    }

    private showAddress(address: number): void {
        this.kinds.value = 'all';
        this.filter.value = hex(address);
        this.find();
    }

    shown(target: Target): void {
        if (this.app.device.history.length === 0) {
            return;
        }
        if (target.address !== undefined) {
            this.showAddress(target.address);
        } else if (target.query !== undefined) {
            const isKind = KIND_GROUPS.some(([value]) => value === target.query);
            this.kinds.value = isKind ? target.query : 'all';
            this.filter.value = isKind ? '' : target.query;
            this.find();
        } else if (target.record !== undefined) {
            this.kinds.value = 'all';
            this.filter.value = '';
            this.find();
            this.page = Math.floor(target.record / PAGE);
            this.marked = target.record;
            this.draw();
            this.root.querySelector(`[data-record="${target.record}"]`)
                ?.scrollIntoView({ block: 'center' });
        }
    }
}

function numeric(heading: string): string | null {
    return ['Record', 'Time', 'Size', 'Thread', 'Lived'].includes(heading) ? 'number' : null;
}
