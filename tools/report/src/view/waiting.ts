/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freed memory that cannot be reused yet, by what it waits for, and each block of it. And live
 * blocks that graphs keep.
 */
import { App, View } from '../app.js';
import { RETIRED, WAIT_KINDS } from '../data/model.js';
import { el } from '../ui/dom.js';
import { DataTable } from '../ui/table.js';
import { bytes, count, duration, hex, plural, sizeText } from '../text/units.js';
import { meter } from './holders.js';
import { waitsByBlock, waitText } from './describe.js';

interface Waiter { text: string; kind: string; bytes: number; blocks: number; oldest: number }

interface WaitingBlock { block: number; waits: number[]; since: number }

/** When a block was freed, as its waits say; -1 if none does. */
function waitingSince(app: App, waits: number[]): number {
    const known = waits.map((wait) => app.device.waits.since[wait]!).filter((time) => time >= 0);
    return known.length > 0 ? Math.min(...known) : -1;
}

export class WaitingView implements View {
    readonly root = el('div', {});
    private readonly waits: Map<number, number[]>;

    constructor(private readonly app: App) {
        this.waits = waitsByBlock(app);
        const retired: number[] = [];
        const { state, length } = app.device.blocks;
        for (let block = 0; block < length; block++) {
            if (state[block] === RETIRED) {
                retired.push(block);
            }
        }
        if (retired.length === 0) {
            this.root.append(el('section', { class: 'card' },
                el('div', { class: 'head' }, el('h2', {}, 'Nothing waits')),
                el('p', { class: 'note' }, 'All freed memory can be reused: no other stream, ' +
                    'graph or capture was still using any when the snapshot was taken.')));
        } else {
            this.root.append(this.waiterCard(retired), this.blockCard(retired));
        }
        const kept = [...this.waits.keys()].filter((block) => state[block] !== RETIRED);
        if (kept.length > 0) {
            this.root.append(this.keptCard(kept));
        }
    }

    private waiters(retired: number[]): Waiter[] {
        const { app } = this;
        const byText = new Map<string, Waiter>();
        for (const block of retired) {
            const waits = this.waits.get(block) ?? [];
            const since = waitingSince(app, waits);
            const texts = new Map(waits.map((wait) => [this.waiterText(wait), wait]));
            if (texts.size === 0) {
                texts.set('about to be free', -1);
            }
            for (const [text, wait] of texts) {
                const kind = wait < 0 ? '' : WAIT_KINDS[app.device.waits.kind[wait]!]!;
                const waiter = byText.get(text) ??
                    { text, kind, bytes: 0, blocks: 0, oldest: Infinity };
                waiter.bytes += app.device.blocks.bytes[block]!;
                waiter.blocks++;
                waiter.oldest = since >= 0 ? Math.min(waiter.oldest, since) : waiter.oldest;
                byText.set(text, waiter);
            }
        }
        return [...byText.values()];
    }

    /** Uses are put together by stream: a stream is what one looks at, not a mark on it. */
    private waiterText(wait: number): string {
        const { waits } = this.app.device;
        return WAIT_KINDS[waits.kind[wait]!] === 'use'
            ? this.app.names.stream(waits.stream[wait]!) : waitText(this.app, wait);
    }

    private waiterCard(retired: number[]): HTMLElement {
        const { app } = this;
        const total = app.accounting.bytes.retired;
        const table = new DataTable<Waiter>({
            caption: 'What freed memory waits for', sortBy: 1, empty: '',
            columns: [
                { title: 'Waits for', kind: 'wide', order: (row) => row.text,
                  cell: (row) => el('span', { class: 'name-main' }, row.text) },
                { title: 'Memory', kind: 'number', order: (row) => row.bytes,
                  cell: (row) => el('span', { 'data-bytes': row.bytes }, bytes(row.bytes)) },
                { title: 'Of all that waits', order: (row) => row.bytes,
                  cell: (row) => meter(row.bytes, total, '--retired') },
                { title: 'Blocks', kind: 'number', order: (row) => row.blocks,
                  cell: (row) => count(row.blocks) },
                { title: 'Longest', kind: 'number',
                  order: (row) => app.snapshot.takenNs - row.oldest,
                  cell: (row) => Number.isFinite(row.oldest)
                      ? duration(app.snapshot.takenNs - row.oldest) : '\u2013' },
            ],
        });
        table.set(this.waiters(retired));
        return el('section', { class: 'card' },
            el('div', { class: 'head' },
                el('h2', {}, `${bytes(total)} in ${plural(retired.length, 'freed block')} ` +
                    'cannot be reused yet')),
            el('p', { class: 'note' }, 'These blocks were freed, but work that was enqueued ' +
                'before may still use them on the device. A block that waits for several is ' +
                'counted with each of them.'), table.root);
    }

    private blockCard(retired: number[]): HTMLElement {
        const { app } = this;
        const { blocks } = app.device;
        const rows = retired.map((block): WaitingBlock => {
            const waits = this.waits.get(block) ?? [];
            return { block, waits, since: waitingSince(app, waits) };
        });
        const table = new DataTable<WaitingBlock>({
            caption: 'Blocks that wait', sortBy: 1, shown: 30, empty: '',
            columns: [
                { title: 'Block', order: (row) => blocks.address[row.block]!,
                  cell: (row) => el('button', {
                      type: 'button', class: 'link mono', title: 'Show it in the map',
                      onclick: () => app.go('map', { block: row.block }),
                  }, hex(blocks.address[row.block]!)) },
                { title: 'Size', kind: 'number', order: (row) => blocks.bytes[row.block]!,
                  cell: (row) => sizeText(blocks.bytes[row.block]!) },
                { title: 'For', kind: 'number', hint: 'Time since it was freed',
                  order: (row) => row.since < 0 ? -1 : app.snapshot.takenNs - row.since,
                  cell: (row) => row.since < 0 ? '\u2013'
                      : duration(app.snapshot.takenNs - row.since) },
                { title: 'Memory of', order: (row) => app.names.stream(blocks.stream[row.block]!),
                  cell: (row) => app.names.stream(blocks.stream[row.block]!) },
                { title: 'Waits for', kind: 'wide',
                  cell: (row) => row.waits.length === 0 ? 'about to be free'
                      : row.waits.map((wait) => waitText(app, wait)).join('; ') },
                { title: 'Allocated by', order: (row) =>
                    app.names.stack(blocks.stack[row.block]!).name,
                  cell: (row) => app.names.stack(blocks.stack[row.block]!).name },
            ],
        });
        table.set(rows);
        return el('section', { class: 'card' },
            el('div', { class: 'head' }, el('h2', {}, 'Blocks that wait')), table.root);
    }

    private keptCard(kept: number[]): HTMLElement {
        const { app } = this;
        const { blocks } = app.device;
        const total = kept.reduce((sum, block) => sum + blocks.bytes[block]!, 0);
        const table = new DataTable<number>({
            caption: 'Live blocks that graphs keep', sortBy: 1, shown: 20, empty: '',
            columns: [
                { title: 'Block', order: (block) => blocks.address[block]!,
                  cell: (block) => el('button', {
                      type: 'button', class: 'link mono',
                      onclick: () => app.go('map', { block }),
                  }, hex(blocks.address[block]!)) },
                { title: 'Size', kind: 'number', order: (block) => blocks.bytes[block]!,
                  cell: (block) => sizeText(blocks.bytes[block]!) },
                { title: 'Kept by', kind: 'wide', cell: (block) =>
                    this.waits.get(block)!.map((wait) => waitText(app, wait)).join('; ') },
                { title: 'Allocated by', cell: (block) =>
                    app.names.stack(blocks.stack[block]!).name },
            ],
        });
        table.set(kept);
        return el('section', { class: 'card' }, el('div', { class: 'head' },
            el('h2', {}, `Graphs keep ${plural(kept.length, 'live block')}, ${bytes(total)}`)),
        el('p', { class: 'note' }, 'Captured graphs refer to these. If they are freed, they wait ' +
            'until the graphs are gone.'), table.root);
    }
}
