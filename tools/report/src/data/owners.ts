/* SPDX-License-Identifier: Apache-2.0 */
/* Who had a band's memory before it, and who has it next: from the records, by addresses. */
import { Bands } from './bands.js';
import { KIND } from './model.js';

/** Where a band's memory is. */
export function memoryOf(bands: Bands, band: number): { address: number; bytes: number } {
    const owner = bands.owner(band);
    const { history, blocks } = bands.device;
    if ('block' in owner) {
        return { address: blocks.address[owner.block]!, bytes: blocks.bytes[owner.block]! };
    }
    const row = band < bands.records ? band : owner.record;
    return { address: history.address[row]!, bytes: history.bytes[row]! };
}

/** The band of the allocation that is the next in any of the memory; -1: there is none. */
export function nextOwner(bands: Bands, band: number): number {
    const { address, bytes } = memoryOf(bands, band);
    const { history } = bands;
    for (let i = bands.end[band]!; i < bands.records; i++) {
        if (history.kind[i] === KIND.alloc && history.address[i]! < address + bytes &&
            history.address[i]! + history.bytes[i]! > address) {
            return i;
        }
    }
    return -1;
}

/** The band that ended last in any of the memory before this one began; -1: none is known. */
export function previousOwner(bands: Bands, band: number): number {
    const { address, bytes } = memoryOf(bands, band);
    const { history } = bands;
    for (let i = bands.start(band) - 1; i >= 0; i--) {
        const ended = bands.endedBy(i);
        if (ended >= 0 && history.kind[i] !== KIND.grow && history.address[i]! < address + bytes &&
            history.address[i]! + history.bytes[i]! > address) {
            return ended;
        }
    }
    return -1;
}

/** The record after which a band's memory was free again; -1: not in the history. A block that
 * was freed and waited is free by a record of its own. */
export function freeAgain(bands: Bands, band: number): number {
    const { history } = bands;
    const end = bands.end[band]!;
    if (end >= bands.records || history.kind[end] !== KIND.retire) {
        return end < bands.records && history.kind[end] === KIND.free ? end : -1;
    }
    let reuses = reusesOf.get(bands);
    if (!reuses) {
        reuses = findReuses(bands);
        reusesOf.set(bands, reuses);
    }
    return reuses.get(end) ?? -1;
}

/** From the free of what then waits to the record by which its memory is free again. */
function findReuses({ history }: Bands): Map<number, number> {
    const waiting = new Map<number, number>();
    const reuses = new Map<number, number>();
    for (let i = 0; i < history.length; i++) {
        if (history.kind[i] === KIND.retire) {
            waiting.set(history.address[i]!, i);
        } else if (history.kind[i] === KIND.reuse) {
            const retired = waiting.get(history.address[i]!);
            if (retired !== undefined) {
                reuses.set(retired, i);
                waiting.delete(history.address[i]!);
            }
        }
    }
    return reuses;
}

/** Made when they are first asked for. */
const reusesOf = new WeakMap<Bands, Map<number, number>>();
