/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a device's memory is, from its blocks alone: the left side of the accounting equation.
 * Blocks of a pool that sleeps count as asleep, whatever their state.
 */
import { Share, SHARES } from '../ui/colours.js';
import { Device, LIVE, RETIRED, Snapshot, STATES } from './model.js';

export interface Accounting {
    bytes: Record<Share, number>;
    /** All shares together: reserved and asleep. */
    total: number;
    liveBlocks: number; waitingBlocks: number; freeRuns: number; largestFree: number;
}

/** Pools whose memory is given back for now. */
export function sleepingPools(snapshot: Snapshot): boolean[] {
    return snapshot.pools.map((pool) => pool.state === 'asleep');
}

export function accountingOf(snapshot: Snapshot, device: Device): Accounting {
    const asleep = sleepingPools(snapshot);
    const shares = Object.fromEntries(SHARES.map((share) => [share, 0])) as Record<Share, number>;
    const result: Accounting = {
        bytes: shares, total: 0, liveBlocks: 0, waitingBlocks: 0, freeRuns: 0, largestFree: 0,
    };
    const { state, bytes, requested, pool, length } = device.blocks;
    for (let block = 0; block < length; block++) {
        const size = bytes[block]!;
        const code = state[block]!;
        result.total += size;
        if (code === LIVE) {
            result.liveBlocks++;
        } else if (code === RETIRED) {
            result.waitingBlocks++;
        }
        if (asleep[pool[block]!]) {
            shares.asleep += size;
        } else if (code === LIVE) {
            shares.live += requested[block]!;
            shares.slack += size - requested[block]!;
        } else {
            shares[STATES[code]!] += size;
            if (STATES[code] === 'free') {
                result.freeRuns++;
                result.largestFree = Math.max(result.largestFree, size);
            }
        }
    }
    return result;
}
