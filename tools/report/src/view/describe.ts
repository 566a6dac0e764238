/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks and records in words, the same in every view.
 */
import { App } from '../app.js';
import { LIVE, KINDS, KIND, RETIRED, STATES, WAIT_KINDS } from '../data/model.js';
import { Child, el } from '../ui/dom.js';
import { count, duration, hex, moment, sizeText } from '../text/units.js';

export const KIND_WORDS: Record<typeof KINDS[number], string> = {
    alloc: 'allocated', free: 'freed', retire: 'freed, waits', reuse: 'free for reuse',
    grow: 'grew in place', map: 'memory taken', unmap: 'memory given back',
    move_in: 'memory moved here', move_out: 'memory moved away', oom: 'out of memory',
    pool_made: 'pool made', pool_ended: 'pool ended',
    capture_begin: 'capture began', capture_end: 'capture ended',
    capture_abort: 'capture aborted', launch: 'graph launched',
    launch_over: 'launch seen to be over',
    sleep: 'pool fell asleep', wake: 'pool woke', mark: 'mark', snapshot: 'snapshot taken',
    left_out: 'left out of this report', other: 'other',
};

const STATE_WORDS: Record<typeof STATES[number], string> = {
    live: 'Live', retired: 'Waiting', binned: 'Binned', free: 'Free', releasing: 'Releasing',
    growing: 'Growing',
};

export function stateWord(state: number): string {
    return STATE_WORDS[STATES[state] ?? 'free'];
}

/** What a row of the table of waits says, in words. */
export function waitText(app: App, wait: number): string {
    const { waits, graphs } = app.device;
    const number = waits.graph[wait]!;
    const graph = graphs.find((one) => one.number === number);
    const graphName = graph ? `graph ${number} (${graph.name})` : `graph ${number}`;
    switch (WAIT_KINDS[waits.kind[wait]!]) {
    case 'use': {
        const mark = waits.mark[wait]!;
        return `work of ${app.names.stream(waits.stream[wait]!)}` +
            (mark >= 0 ? `, up to mark ${count(mark)}` : '');
    }
    case 'free_sync': return 'all work of all streams enqueued before the free';
    case 'export': return 'its exports to be closed, here and in other processes';
    case 'graph': return graphName;
    default: return number >= 0 ? `the capture of ${graphName}` : 'a capture under way';
    }
}

/** Rows of the table of waits for each block, as a map; built once a device. */
export function waitsByBlock(app: App): Map<number, number[]> {
    const { waits } = app.device;
    const result = new Map<number, number[]>();
    for (let wait = 0; wait < waits.length; wait++) {
        const block = waits.block[wait]!;
        const rows = result.get(block);
        if (rows) {
            rows.push(wait);
        } else {
            result.set(block, [wait]);
        }
    }
    return result;
}

export function blockTip(app: App, block: number): Child[] {
    const { blocks } = app.device;
    const state = blocks.state[block]!;
    const owned = state === LIVE || state === RETIRED;
    const { name, place } = app.names.stack(blocks.stack[block]!);
    return [
        el('b', {}, `${stateWord(state)}, ${sizeText(blocks.bytes[block]!)}`),
        owned ? el('div', {}, name, place && ` \u00b7 ${place}`) : null,
        el('div', {}, `${app.names.pool(blocks.pool[block]!)} pool \u00b7 ` +
            app.names.stream(blocks.stream[block]!)),
        el('div', { class: 'mono' }, hex(blocks.address[block]!)),
    ];
}

function facts(...pairs: (readonly [string, Child] | null)[]): HTMLElement {
    return el('dl', { class: 'facts' }, ...pairs.filter((pair) => pair !== null)
        .flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

export function blockDetail(app: App, block: number, waits: readonly number[]): HTMLElement {
    const { blocks } = app.device;
    const state = blocks.state[block]!;
    const address = blocks.address[block]!;
    const size = blocks.bytes[block]!;
    const requested = blocks.requested[block]!;
    const since = blocks.time[block]!;
    const owned = state === LIVE || state === RETIRED;
    return el('div', { class: 'detail' },
        el('h3', {}, `${stateWord(state)} block of ${sizeText(size)}`),
        facts(
            ['Address', el('span', { class: 'mono' },
                `${hex(address)} to ${hex(address + size)}`)],
            ['Size', `${count(size)} bytes` +
                (state === LIVE ? `, ${count(requested)} asked for` : '')],
            ['Memory of', `${app.names.pool(blocks.pool[block]!)} pool, ` +
                app.names.stream(blocks.stream[block]!)],
            since > 0 ? ['Allocated',
                `${duration(app.snapshot.takenNs - since)} before the snapshot, at ` +
                moment(since)] : null,
            waits.length > 0 ? [state === RETIRED ? 'Waits for' : 'Kept by',
                waits.map((wait) => waitText(app, wait)).join('; ')] : null),
        owned ? app.names.frames(blocks.stack[block]!) : null,
        app.device.history.length > 0 && el('button', {
            type: 'button', class: 'link', onclick: () => app.go('records', { address }),
        }, 'History of this address'));
}

/** One record as a line: what, how much, by whom. */
export function recordText(app: App, record: number): string {
    const { history } = app.device;
    const kind = KINDS[history.kind[record]!]!;
    const size = history.bytes[record]!;
    const parts = [KIND_WORDS[kind]];
    if (size > 0) {
        parts.push(sizeText(size));
    }
    const isMark = history.kind[record] === KIND.mark;
    if (isMark) {
        parts.push(`\u201c${app.snapshot.strings[history.mark[record]!]}\u201d`);
    }
    const stack = ownerStack(app, record);
    if (stack > 0) {
        parts.push(`by ${app.names.stack(stack).name}`);
    }
    if (history.stream[record]! >= 0) {
        parts.push(`on ${app.names.stream(history.stream[record]!)}`);
    }
    return parts.join(' ');
}

/** The stack of the allocation that a record is about, or 0. */
export function ownerStack(app: App, record: number): number {
    const { history } = app.device;
    const kind = history.kind[record]!;
    if (kind === KIND.alloc) {
        return history.stack[record]!;
    }
    const pair = history.pair[record]!;
    if (pair >= 0) {
        return history.stack[pair]!;
    }
    // The stack of a free says who freed, not whose memory it was.
    return kind <= KIND.reuse ? 0 : history.stack[record]!;
}
