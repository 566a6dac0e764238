/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds memory: sums over live and waiting blocks by stack, function, module, stream, pool or
 * size, in the picture or, with the history, at any record before it.
 */
import { baseName, Names } from '../text/names.js';
import { sizeText } from '../text/units.js';
import { Device, KIND, LIVE, RETIRED, Snapshot } from './model.js';

export const GROUPS = ['stack', 'function', 'module', 'stream', 'pool', 'tag', 'size'] as const;
export type Group = typeof GROUPS[number];

/** Those that tell anything apart: few programs use tags, and without frames there are no modules.
 */
export function groupsOf(snapshot: Snapshot): Group[] {
    const hasTags = snapshot.pools.some((pool) => pool.tag !== '');
    return GROUPS.filter((group) => (group !== 'tag' || hasTags) &&
        (group !== 'module' || snapshot.frames.length > 0));
}

export interface Holder {
    /** Equal for the same holder in two snapshots. */
    key: string;
    name: string; note: string;
    /** The file and line that tell it from others of its name, without folders; or nothing. */
    spot: string;
    /** Bytes that were asked for in live blocks, how many blocks, and rounding in them. */
    live: number; blocks: number; slack: number; largest: number;
    waiting: number; waitingBlocks: number;
    /** A stack that the holder stands for, or -1. */
    stack: number;
}

/** Between the parts of a key: no name has it, since control characters are shown as codes. */
const APART = '\u0001';

/**
 * Which holder each block and each record belongs to, as small numbers, so that sums over a million
 * records are additions into an array. Made once for a device and a grouping.
 */
export interface Keys {
    /** What the numbers stand for: stacks, streams, pools (-1 is number 0), or sizes. */
    meaning: ArrayLike<number>;
    ofBlock: Int32Array;
    /** Of the memory that a record is about: of the allocation, for a free. */
    ofRecord: Int32Array;
}

const keysOfDevice = new WeakMap<Device, Map<Group, Keys>>();

export function keysOf(device: Device, group: Group, snapshot: Snapshot): Keys {
    const kept = keysOfDevice.get(device) ?? new Map<Group, Keys>();
    keysOfDevice.set(device, kept);
    // Functions and modules are put together from stacks when the holders get their names, tags
    // from pools.
    const of = group === 'function' || group === 'module' ? 'stack'
        : group === 'tag' ? 'pool' : group;
    let keys = kept.get(of);
    if (!keys) {
        keys = of === 'size' ? sizeKeys(device) : indexKeys(device, of, snapshot);
        kept.set(of, keys);
    }
    return keys;
}

function indexKeys(device: Device, group: 'stack' | 'stream' | 'pool', snapshot: Snapshot): Keys {
    const { blocks, history } = device;
    const count = { stack: snapshot.stacks, stream: snapshot.streams, pool: snapshot.pools }[group]
        .length;
    const ofBlock = blocks[group].map((index) => index + 1);
    const ofRecord = history[group].map((index) => index + 1);
    if (group === 'stack') {
        for (let i = 0; i < history.length; i++) {
            if (history.kind[i] !== KIND.alloc) {
                const allocation = history.pair[i]!;
                ofRecord[i] = allocation < 0 ? 1 : history.stack[allocation]! + 1;
            }
        }
    }
    return { meaning: Int32Array.from({ length: count + 1 }, (_, i) => i - 1), ofBlock, ofRecord };
}

function sizeKeys({ blocks, history }: Device): Keys {
    const sizes: number[] = [];
    const known = new Map<number, number>();
    const number = (requested: Float64Array): Int32Array => {
        const result = new Int32Array(requested.length);
        // A size often follows itself.
        let last = -1, key = -1;
        for (let i = 0; i < requested.length; i++) {
            const size = requested[i]!;
            if (size !== last) {
                last = size;
                key = known.get(size) ?? sizes.push(size) - 1;
                known.set(size, key);
            }
            result[i] = key;
        }
        return result;
    };
    return { meaning: sizes, ofBlock: number(blocks.requested),
             ofRecord: number(history.requested) };
}

/** Sums by the numbers of Keys. */
class Sums {
    readonly live: Float64Array; readonly blocks: Float64Array; readonly slack: Float64Array;
    readonly largest: Float64Array; readonly waiting: Float64Array;
    readonly waitingBlocks: Float64Array;

    constructor(length: number) {
        this.live = new Float64Array(length);
        this.blocks = new Float64Array(length);
        this.slack = new Float64Array(length);
        this.largest = new Float64Array(length);
        this.waiting = new Float64Array(length);
        this.waitingBlocks = new Float64Array(length);
    }

    addBlocks(device: Device, keys: Int32Array): void {
        const { state, bytes, requested, length } = device.blocks;
        const { live, blocks, slack, largest, waiting, waitingBlocks } = this;
        for (let block = 0; block < length; block++) {
            const code = state[block]!;
            const key = keys[block]!;
            if (code === LIVE) {
                const size = requested[block]!;
                live[key]! += size;
                blocks[key]!++;
                slack[key]! += bytes[block]! - size;
                largest[key] = Math.max(largest[key]!, size);
            } else if (code === RETIRED) {
                waiting[key]! += bytes[block]!;
                waitingBlocks[key]!++;
            }
        }
    }

    /** Takes back what happened after a record. What is live is exact; the largest block and the
     * rounding are not known for the past and become 0. */
    undoAfter(device: Device, keys: Int32Array, moment: number): void {
        const { kind, bytes, requested, value, length } = device.history;
        const { live, blocks, waiting, waitingBlocks } = this;
        this.slack.fill(0);
        this.largest.fill(0);
        for (let i = length - 1; i > moment; i--) {
            const key = keys[i]!;
            switch (kind[i]) {
            case KIND.alloc: live[key]! -= requested[i]!; blocks[key]!--; break;
            case KIND.free: live[key]! += requested[i]!; blocks[key]!++; break;
            case KIND.retire:
                live[key]! += requested[i]!;
                blocks[key]!++;
                waiting[key]! -= bytes[i]!;
                waitingBlocks[key]!--;
                break;
            case KIND.reuse: waiting[key]! += bytes[i]!; waitingBlocks[key]!++; break;
            case KIND.grow: live[key]! -= value[i]!; break;
            default: break;
            }
        }
    }
}

export type Description = Pick<Holder, 'key' | 'name' | 'note' | 'spot'>;

export function describe(group: Group, number: number, names: Names, snapshot: Snapshot):
    Description {
    switch (group) {
    case 'stack': {
        const { name, place, callers } = names.stack(number);
        return { key: names.stackKey(number), name, spot: baseName(place),
                 note: [place, callers].filter(Boolean).join('  ') };
    }
    case 'function': {
        const { name, place } = names.stack(number);
        const file = place.replace(/:\d+$/, '');
        return { key: name + APART + file, name, note: file, spot: baseName(file) };
    }
    case 'module': {
        const { module, path } = names.module(number);
        return { key: path, name: module, note: path === module ? '' : path, spot: '' };
    }
    case 'stream': {
        const name = names.stream(number);
        return { key: name, name, note: '', spot: '' };
    }
    case 'pool': {
        const pool = snapshot.pools[number];
        return { key: `${pool?.number}${APART}${pool?.name}`, name: names.pool(number),
                 note: pool ? `${pool.kind} pool, number ${pool.number}` : '', spot: '' };
    }
    case 'tag': {
        const tag = snapshot.pools[number]?.tag ?? '';
        return { key: tag, name: tag || 'no tag', note: '', spot: '' };
    }
    case 'size':
        return { key: String(number), name: `blocks of ${sizeText(number)}`,
                 note: `${number} bytes each`, spot: '' };
    }
}

/** Gives the sums their names. Two numbers may mean the same: two stacks from one function, or a
 * stream's handle again. */
function nameSums(sums: Sums, keys: Keys, group: Group, names: Names, snapshot: Snapshot):
    Holder[] {
    const byKey = new Map<string, Holder>();
    for (let i = 0; i < keys.meaning.length; i++) {
        if (sums.blocks[i]! <= 0 && sums.waitingBlocks[i]! <= 0) {
            continue;
        }
        const number = keys.meaning[i]!;
        const described = describe(group, number, names, snapshot);
        const holder = byKey.get(described.key) ?? {
            ...described, live: 0, blocks: 0, slack: 0, largest: 0, waiting: 0, waitingBlocks: 0,
            stack: group === 'stack' ? number : -1,
        };
        holder.live += sums.live[i]!;
        holder.blocks += sums.blocks[i]!;
        holder.slack += sums.slack[i]!;
        holder.largest = Math.max(holder.largest, sums.largest[i]!);
        holder.waiting += sums.waiting[i]!;
        holder.waitingBlocks += sums.waitingBlocks[i]!;
        byKey.set(described.key, holder);
    }
    return [...byKey.values()];
}

/** All holders, those of most live bytes first. `moment` is a record's number; null is now. */
export function holdersOf(snapshot: Snapshot, names: Names, device: Device, group: Group,
                          moment: number | null = null): Holder[] {
    const keys = keysOf(device, group, snapshot);
    const sums = new Sums(keys.meaning.length);
    sums.addBlocks(device, keys.ofBlock);
    if (moment !== null) {
        sums.undoAfter(device, keys.ofRecord, moment);
    }
    return nameSums(sums, keys, group, names, snapshot)
        .sort((a, b) => b.live - a.live || b.waiting - a.waiting);
}
