/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds memory: sums over live and waiting blocks by stack, function, stream, pool or size,
 * in the picture or, with the history, at any record before it.
 */
import { Names } from '../text/names.js';
import { bytes as bytesText } from '../text/units.js';
import { Device, KIND, LIVE, RETIRED, Snapshot } from './model.js';

export const GROUPS = ['stack', 'function', 'stream', 'pool', 'size'] as const;
export type Group = typeof GROUPS[number];

export interface Holder {
    /** Equal for the same holder in two snapshots. */
    key: string;
    name: string; note: string;
    /** Bytes that were asked for in live blocks, how many blocks, and rounding in them. */
    live: number; blocks: number; slack: number; largest: number;
    waiting: number; waitingBlocks: number;
    /** A stack that the holder stands for, or -1. */
    stack: number;
}

/** Text that is hardly in a name, to put keys together. */
const APART = '\u0001';

/** Gives each block or record its holder. Numbers are found first and texts made once each. */
class Grouping {
    readonly holders: Holder[] = [];
    /** By stack, stream or pool, from -1 on; sizes are too far apart for a list. */
    private readonly byIndex: (Holder | undefined)[] = [];
    private readonly bySize = new Map<number, Holder>();
    private readonly byKey = new Map<string, Holder>();

    constructor(private readonly group: Group, private readonly names: Names,
                private readonly snapshot: Snapshot) {}

    of(stack: number, stream: number, pool: number, requested: number): Holder {
        if (this.group === 'size') {
            let holder = this.bySize.get(requested);
            if (!holder) {
                holder = this.make(requested);
                this.bySize.set(requested, holder);
            }
            return holder;
        }
        const index = this.group === 'stream' ? stream : this.group === 'pool' ? pool : stack;
        return this.byIndex[index + 1] ??= this.make(index);
    }

    /** Two numbers may mean the same: two stacks from one function, a stream's handle again. */
    private make(number: number): Holder {
        const { key, name, note } = this.describe(number);
        const known = this.byKey.get(key);
        if (known) {
            return known;
        }
        const holder = {
            key, name, note, live: 0, blocks: 0, slack: 0, largest: 0, waiting: 0,
            waitingBlocks: 0, stack: this.group === 'stack' ? number : -1,
        };
        this.byKey.set(key, holder);
        this.holders.push(holder);
        return holder;
    }

    private describe(number: number): { key: string; name: string; note: string } {
        switch (this.group) {
        case 'stack': {
            const { name, place, callers } = this.names.stack(number);
            return { key: this.names.stackKey(number), name,
                     note: [place, callers].filter(Boolean).join('  ') };
        }
        case 'function': {
            const { name, place } = this.names.stack(number);
            const file = place.replace(/:\d+$/, '');
            return { key: name + APART + file, name, note: file };
        }
        case 'stream': {
            const name = this.names.stream(number);
            return { key: name, name, note: '' };
        }
        case 'pool': {
            const pool = this.snapshot.pools[number];
            return { key: `${pool?.number}${APART}${pool?.name}`, name: this.names.pool(number),
                     note: pool ? `${pool.kind} pool, number ${pool.number}` : '' };
        }
        case 'size':
            return { key: String(number), name: `blocks of ${bytesText(number)}`,
                     note: `${number} bytes each` };
        }
    }
}

function addBlocks(grouping: Grouping, device: Device): void {
    const { state, bytes, requested, stack, stream, pool, length } = device.blocks;
    for (let block = 0; block < length; block++) {
        const code = state[block]!;
        if (code > RETIRED) {
            continue;
        }
        const size = requested[block]!;
        const holder = grouping.of(stack[block]!, stream[block]!, pool[block]!, size);
        if (code === LIVE) {
            holder.live += size;
            holder.blocks++;
            holder.slack += bytes[block]! - size;
            holder.largest = Math.max(holder.largest, size);
        } else {
            holder.waiting += bytes[block]!;
            holder.waitingBlocks++;
        }
    }
}

/** Takes back what happened after a record. What is live is exact; the largest block and the
 * rounding are not known for the past and become 0. */
function undoAfter(grouping: Grouping, device: Device, moment: number): void {
    const { kind, bytes, requested, stack, stream, pool, pair, value, length } = device.history;
    for (const holder of grouping.holders) {
        holder.slack = holder.largest = 0;
    }
    for (let i = length - 1; i > moment; i--) {
        const code = kind[i]!;
        if (code > KIND.grow) {
            continue;
        }
        const owner = code === KIND.alloc ? i : pair[i]!;
        const size = requested[i]!;
        const holder = grouping.of(owner < 0 ? 0 : stack[owner]!, stream[i]!, pool[i]!, size);
        switch (code) {
        case KIND.alloc: holder.live -= size; holder.blocks--; break;
        case KIND.free: holder.live += size; holder.blocks++; break;
        case KIND.retire:
            holder.live += size;
            holder.blocks++;
            holder.waiting -= bytes[i]!;
            holder.waitingBlocks--;
            break;
        case KIND.reuse: holder.waiting += bytes[i]!; holder.waitingBlocks++; break;
        default: holder.live -= value[i]!; break;
        }
    }
}

/** All holders, those of most live bytes first. `moment` is a record's number; null is now. */
export function holdersOf(snapshot: Snapshot, names: Names, device: Device, group: Group,
                          moment: number | null = null): Holder[] {
    const grouping = new Grouping(group, names, snapshot);
    addBlocks(grouping, device);
    if (moment !== null) {
        undoAfter(grouping, device, moment);
    }
    return grouping.holders
        .filter((holder) => holder.blocks > 0 || holder.waitingBlocks > 0)
        .sort((a, b) => b.live - a.live || b.waiting - a.waiting);
}
