/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of who holds memory in the picture: by call stack, function, stream, pool or size,
 * sorted by any column, narrowed by a text.
 */
import { App, Target, View } from '../app.js';
import { Group, Holder, holdersOf } from '../data/holders.js';
import { Pool } from '../data/model.js';
import { Child, choice, el, fill } from '../ui/dom.js';
import { DataTable } from '../ui/table.js';
import { bytes, count, percent, plural } from '../text/units.js';
import { defaultGroup, groupOptions } from './group_words.js';

export function meter(part: number, whole: number, variable: string): HTMLElement {
    const bar = el('i', {});
    bar.style.width = `${whole > 0 ? Math.min(100, 100 * part / whole) : 0}%`;
    bar.style.backgroundColor = `var(${variable})`;
    bar.style.minWidth = part > 0 ? '2px' : '0';
    return el('span', { class: 'meter', 'aria-hidden': 'true' }, bar);
}

export function holderName(holder: Holder): Child {
    return el('span', { title: holder.name.length > 60 ? holder.name : null },
        el('span', { class: 'name-main' }, holder.name),
        holder.note && el('div', { class: 'name-sub' }, holder.note));
}

/** What a person may look for in a holder: its texts, or any frame of its stack. */
export function holderMatches(app: App, holder: Holder, query: string): boolean {
    if (`${holder.name}\n${holder.note}`.toLowerCase().includes(query)) {
        return true;
    }
    return holder.stack > 0 &&
        app.names.stackSearchText(holder.stack).includes(query);
}

export class HoldersView implements View {
    readonly root = el('div', {});
    private readonly table: DataTable<Holder>;
    private readonly note = el('p', { class: 'note', 'aria-live': 'polite' });
    private readonly filter = el('input', {
        type: 'search', placeholder: 'Narrow by name\u2026', 'aria-label': 'Narrow the holders',
        oninput: () => this.update(),
    });
    private readonly head = el('div', { class: 'head' });
    private group: Group;
    private holders: Holder[] = [];

    constructor(private readonly app: App) {
        this.group = defaultGroup(app);
        this.table = this.makeTable();
        this.root.append(el('section', { class: 'card' }, this.head, this.note, this.table.root),
            this.poolCard());
        this.drawHead();
        this.regroup();
    }

    private drawHead(): void {
        fill(this.head, el('h2', {}, 'Who holds memory'),
            choice('By', groupOptions(this.app.snapshot), this.group, (group) => {
                this.group = group;
                this.regroup();
            }), this.filter);
    }

    private makeTable(): DataTable<Holder> {
        const { accounting } = this.app;
        const live = accounting.bytes.live;
        return new DataTable<Holder>({
            caption: 'Holders of memory', sortBy: 1, empty: 'Nothing that fits is held.',
            columns: [
                { title: 'Holder', kind: 'wide', order: (holder) => holder.name.toLowerCase(),
                  cell: holderName },
                { title: 'Live', kind: 'number', order: (holder) => holder.live,
                  hint: 'Bytes that were asked for and not freed',
                  cell: (holder) => el('span', {
                      'data-bytes': holder.live, title: `${count(holder.live)} bytes`,
                  }, bytes(holder.live)) },
                { title: 'Share', order: (holder) => holder.live,
                  cell: (holder) => el('span', {}, meter(holder.live, live, '--live'), ' ',
                      el('span', { class: 'number' }, percent(holder.live, live))) },
                { title: 'Blocks', kind: 'number', order: (holder) => holder.blocks,
                  cell: (holder) => count(holder.blocks) },
                { title: 'Largest', kind: 'number', order: (holder) => holder.largest,
                  cell: (holder) => bytes(holder.largest) },
                { title: 'Waiting', kind: 'number', order: (holder) => holder.waiting,
                  hint: 'Freed, but others may still use it',
                  cell: (holder) => holder.waiting > 0
                      ? el('span', { 'data-bytes': holder.waiting }, bytes(holder.waiting))
                      : '\u2013' },
                { title: 'Rounding', kind: 'number', order: (holder) => holder.slack,
                  hint: 'Lost to rounding and alignment', cell: (holder) => bytes(holder.slack) },
            ],
            details: (holder) => this.details(holder),
            detailsLabel: (holder) => `More about ${holder.name}`,
        });
    }

    /** The pools as such: their state and limits, which no holder shows. */
    private poolCard(): HTMLElement {
        const { snapshot, device } = this.app;
        const pools = snapshot.pools.filter((pool) =>
            pool.device === device.index && pool.kind !== 'ended');
        const table = new DataTable<Pool>({
            caption: 'Pools', sortBy: 2, empty: 'There are none.',
            columns: [
                { title: 'Pool', kind: 'wide', order: (pool) => pool.name.toLowerCase(),
                  cell: (pool) => el('span', {}, el('span', { class: 'name-main' }, pool.name),
                      el('div', { class: 'name-sub' },
                          `${pool.kind} pool, number ${pool.number}`)) },
                { title: 'State', order: (pool) => pool.state,
                  cell: (pool) => pool.state.replace('_', ' ') },
                { title: 'Reserved', kind: 'number', order: (pool) => pool.reservedBytes,
                  hint: 'Physical memory', cell: (pool) => bytes(pool.reservedBytes) },
                { title: 'Asleep', kind: 'number', order: (pool) => pool.asleepBytes,
                  hint: 'Given back until the pool wakes',
                  cell: (pool) => pool.asleepBytes > 0 ? bytes(pool.asleepBytes) : '\u2013' },
                { title: 'Chunks', kind: 'number', order: (pool) => pool.chunks,
                  cell: (pool) => count(pool.chunks) },
                { title: 'Limit', kind: 'number', order: (pool) => pool.limitBytes ?? Infinity,
                  cell: (pool) => pool.limitBytes === null ? 'none' : bytes(pool.limitBytes) },
            ],
        });
        table.set(pools);
        return el('section', { class: 'card' },
            el('div', { class: 'head' }, el('h2', {}, plural(pools.length, 'pool'))), table.root);
    }

    private details(holder: Holder): HTMLElement {
        if (this.group === 'stack') {
            return this.app.names.frames(holder.stack);
        }
        return this.parts(holder);
    }

    /** What a holder that is no stack consists of, by stack. */
    private parts(holder: Holder): HTMLElement {
        const { app } = this;
        const { blocks } = app.device;
        const sums = new Map<number, { live: number; blocks: number }>();
        const inHolder = this.membership(holder);
        for (let block = 0; block < blocks.length; block++) {
            if (blocks.state[block] === 0 && inHolder(block)) {
                const stack = blocks.stack[block]!;
                const sum = sums.get(stack) ?? { live: 0, blocks: 0 };
                sum.live += blocks.requested[block]!;
                sum.blocks++;
                sums.set(stack, sum);
            }
        }
        const ranked = [...sums].sort((a, b) => b[1].live - a[1].live).slice(0, 10);
        return el('ol', { class: 'stack' }, ...ranked.map(([stack, sum]) => {
            const { name, place } = app.names.stack(stack);
            return el('li', {}, `${bytes(sum.live)} in ${plural(sum.blocks, 'block')}: ${name} `,
                el('small', {}, place));
        }));
    }

    private membership(holder: Holder): (block: number) => boolean {
        const { app, group } = this;
        const { blocks } = app.device;
        if (group === 'size') {
            return (block) => String(blocks.requested[block]) === holder.key;
        }
        if (group === 'function') {
            const cached = new Map<number, boolean>();
            return (block) => {
                const stack = blocks.stack[block]!;
                let known = cached.get(stack);
                if (known === undefined) {
                    const { name, place } = app.names.stack(stack);
                    known = name === holder.name && place.replace(/:\d+$/, '') === holder.note;
                    cached.set(stack, known);
                }
                return known;
            };
        }
        if (group === 'module') {
            return (block) => app.names.module(blocks.stack[block]!).path === holder.key;
        }
        const column = group === 'pool' ? blocks.pool : blocks.stream;
        const name = (index: number) =>
            group === 'pool' ? app.names.pool(index) : app.names.stream(index);
        return (block) => name(column[block]!) === holder.name;
    }

    private regroup(): void {
        const { app } = this;
        this.holders = holdersOf(app.snapshot, app.names, app.device, this.group);
        this.update();
    }

    private update(): void {
        const query = this.filter.value.trim().toLowerCase();
        const rows = query
            ? this.holders.filter((holder) => holderMatches(this.app, holder, query))
            : this.holders;
        const live = rows.reduce((sum, holder) => sum + holder.live, 0);
        const blocks = rows.reduce((sum, holder) => sum + holder.blocks, 0);
        fill(this.note, `${plural(rows.length, 'holder')}${query ? ' that fit' : ''}: ` +
            `${bytes(live)} live in ${plural(blocks, 'block')}.`);
        this.table.set(rows);
    }

    shown(target: Target): void {
        if (target.query !== undefined) {
            this.filter.value = target.query;
            if (target.stream !== undefined) {
                this.group = 'stream';
            }
            this.drawHead();
            this.regroup();
        }
    }
}
