/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two snapshots beside each other: what grew, what shrank, by holder. The one that was taken
 * first is the one before, whichever was opened first.
 */
import { accountingOf } from '../data/accounting.js';
import { App, View } from '../app.js';
import { Group, Holder, holdersOf } from '../data/holders.js';
import { Device, Snapshot } from '../data/model.js';
import { Names } from '../text/names.js';
import { choice, el, fill } from '../ui/dom.js';
import { SHARE_WORDS, SHARES } from '../ui/colours.js';
import { DataTable } from '../ui/table.js';
import { bytes, count, date, duration, percent, plural, signedBytes, signedCount }
    from '../text/units.js';
import { defaultGroup, groupOptions } from './group_words.js';
import { holderName } from './holders.js';

interface Side { snapshot: Snapshot; names: Names; device: Device }
interface Difference { holder: Holder; before: Holder | null; after: Holder | null;
    bytes: number; blocks: number }

/** Memory that can be had again: more of it is no growth to worry about. */
const SPARE: ReadonlySet<string> = new Set(['free', 'binned', 'asleep', 'releasing']);

export class CompareView implements View {
    readonly root = el('div', {});
    private group: Group;

    constructor(private readonly app: App) {
        this.group = defaultGroup(app);
        this.draw();
    }

    private draw(): void {
        const { app } = this;
        if (!app.other) {
            fill(this.root, el('section', { class: 'card' },
                el('div', { class: 'head' }, el('h2', {}, 'Compare with another snapshot')),
                el('p', { class: 'note' }, 'Open a second snapshot of the same program to see ' +
                    'what grew and what shrank between the two, by call stack, stream, pool or ' +
                    'size. A leak is what only grows.'),
                el('div', { class: 'more' }, el('button', {
                    type: 'button', id: 'compare-open', onclick: () => app.openOther(),
                }, 'Choose a snapshot\u2026'), ' or drop one anywhere on the page.')));
            return;
        }
        const other = app.other.devices.find((device) => device.index === app.device.index);
        if (!other) {
            fill(this.root, el('p', { class: 'problem' },
                `The other snapshot has no GPU ${app.device.index}.`));
            return;
        }
        const mine: Side = { snapshot: app.snapshot, names: app.names, device: app.device };
        const names = new Names(app.other, app.allFrames);
        const theirs: Side = { snapshot: app.other, names, device: other };
        const inOrder = app.other.takenEpochMs <= app.snapshot.takenEpochMs;
        const [before, after] = inOrder ? [theirs, mine] : [mine, theirs];
        const differences = this.differences(before, after);
        fill(this.root, this.sumsCard(before, after, differences),
            this.holdersCard(differences));
    }

    private differences(before: Side, after: Side): Difference[] {
        const byKey = new Map<string, Difference>();
        const add = (holders: Holder[], side: 'before' | 'after') => {
            for (const holder of holders) {
                const row = byKey.get(holder.key) ??
                    { holder, before: null, after: null, bytes: 0, blocks: 0 };
                row[side] = holder;
                const sign = side === 'after' ? 1 : -1;
                row.bytes += sign * holder.live;
                row.blocks += sign * holder.blocks;
                byKey.set(holder.key, row);
            }
        };
        add(holdersOf(before.snapshot, before.names, before.device, this.group), 'before');
        add(holdersOf(after.snapshot, after.names, after.device, this.group), 'after');
        return [...byKey.values()];
    }

    private sentence(before: Side, after: Side, rows: Difference[]): string {
        const change = rows.reduce((sum, row) => sum + row.bytes, 0);
        const [first, second] = [before.snapshot.takenEpochMs, after.snapshot.takenEpochMs];
        const apart = first > 0 ? ` after ${duration((second - first) * 1e6)}`
            : ' in the second one';
        if (change === 0 && rows.every((row) => row.bytes === 0)) {
            return `Nothing that is live changed${first > 0 ? apart : ''}.`;
        }
        const direction = change >= 0 ? 'more' : 'less';
        const most = rows.reduce((a, b) => Math.sign(change || 1) * b.bytes >
            Math.sign(change || 1) * a.bytes ? b : a);
        const share = change !== 0 && Math.abs(most.bytes) <= Math.abs(change)
            ? ` (${percent(most.bytes / change, 1)} of the change)` : '';
        return `${bytes(Math.abs(change))} ${direction} is live${apart}; most of it by ` +
            `${most.holder.name}: ${signedBytes(most.bytes)}${share}.`;
    }

    private sumsCard(before: Side, after: Side, rows: Difference[]): HTMLElement {
        const first = accountingOf(before.snapshot, before.device);
        const second = accountingOf(after.snapshot, after.device);
        const line = (name: string, a: number, b: number, key: string) =>
            el('tr', { 'data-share': key }, el('td', {}, name),
                el('td', { class: 'number' }, bytes(a)), el('td', { class: 'number' }, bytes(b)),
                el('td', { class: `number ${SPARE.has(key) ? '' : tone(b - a)}`,
                           'data-bytes': b - a },
                    signedBytes(b - a)));
        const shares = SHARES.filter((share) => first.bytes[share] > 0 || second.bytes[share] > 0);
        return el('section', { class: 'card' },
            el('div', { class: 'head' }, el('h2', {}, 'What changed'),
                el('button', { type: 'button', class: 'quiet',
                               onclick: () => this.app.openOther() }, 'Another snapshot\u2026')),
            el('p', { id: 'compare-sentence' }, this.sentence(before, after, rows)),
            el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Sums' },
                el('table', { 'aria-label': 'Sums of both snapshots' },
                    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, ''),
                        el('th', { scope: 'col', class: 'number', title: before.snapshot.fileName },
                            `Before: ${whichText(before.snapshot)}`),
                        el('th', { scope: 'col', class: 'number', title: after.snapshot.fileName },
                            `After: ${whichText(after.snapshot)}`),
                        el('th', { scope: 'col', class: 'number' }, 'Change'))),
                    el('tbody', {},
                        ...shares.map((share) => line(SHARE_WORDS[share].name, first.bytes[share],
                            second.bytes[share], share)),
                        line('Reserved from the device', before.device.reservedBytes,
                            after.device.reservedBytes, 'reserved')))));
    }

    private holdersCard(rows: Difference[]): HTMLElement {
        const changed = rows.filter((row) => row.bytes !== 0 || row.blocks !== 0);
        const table = new DataTable<Difference>({
            caption: 'Holders that changed', sortBy: 1, empty: 'No holder changed.',
            columns: [
                { title: 'Holder', kind: 'wide', order: (row) => row.holder.name,
                  cell: (row) => holderName(row.holder) },
                { title: 'Change', kind: 'number', order: (row) => row.bytes,
                  hint: 'Of live bytes: after, less before',
                  cell: (row) => el('span', { class: tone(row.bytes), 'data-bytes': row.bytes },
                      signedBytes(row.bytes)) },
                { title: 'Blocks', kind: 'number', order: (row) => row.blocks,
                  cell: (row) => signedCount(row.blocks) },
                { title: 'Before', kind: 'number', order: (row) => row.before?.live ?? 0,
                  cell: (row) => row.before ? bytes(row.before.live) : '\u2013' },
                { title: 'After', kind: 'number', order: (row) => row.after?.live ?? 0,
                  cell: (row) => row.after ? bytes(row.after.live) : '\u2013' },
            ],
        });
        table.set(changed);
        return el('section', { class: 'card' },
            el('div', { class: 'head' },
                el('h2', {}, `${plural(changed.length, 'holder')} changed`),
                choice('By', groupOptions(this.app.snapshot), this.group, (group) => {
                    this.group = group;
                    this.draw();
                    this.root.querySelector<HTMLElement>('input:checked')?.focus();
                })),
            el('p', { class: 'note' }, `${count(rows.length - changed.length)} others hold the ` +
                'same as before.'), table.root);
    }
}

/** When it was taken; its file's name where that is not known. */
function whichText(snapshot: Snapshot): string {
    return snapshot.takenEpochMs > 0 ? date(snapshot.takenEpochMs) : snapshot.fileName;
}

/** Growth is what one looks for; the sign says it too, not the colour alone. */
function tone(change: number): string {
    return change > 0 ? 'up' : change < 0 ? 'down' : '';
}
