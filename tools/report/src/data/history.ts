/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from the records of a device: which record of an allocation each free belongs to,
 * and how much was live, waiting and reserved after each record. The amounts are counted backwards
 * from the picture, whose sums are exact, because older records may have been overwritten.
 */
import { Device, History, KIND, LIVE, RETIRED } from './model.js';

type Raw = Omit<History, 'pair' | 'live' | 'retired' | 'reserved' | 'timed' | 'peak' |
    'incomplete'> & Partial<Pick<History, 'live' | 'retired' | 'reserved'>>;

/** From an address to a record's number. Open addressing: several times as fast as a Map, whose
 * keys beyond 2^31 are objects of their own. An entry is never taken out, only set to -1. */
class AddressIndex {
    private readonly mask: number;
    private readonly keys: Float64Array;
    private readonly values: Int32Array;

    constructor(entries: number) {
        let room = 1024;
        while (room < entries * 2) {
            room *= 2;
        }
        this.mask = room - 1;
        this.keys = new Float64Array(room).fill(-1);
        this.values = new Int32Array(room).fill(-1);
    }

    private slot(address: number): number {
        // Addresses are multiples of 512 and rarely random: mix both halves of what remains.
        const pages = Math.floor(address / 512);
        let at = (Math.imul(pages | 0, 0x9e3779b1) ^
            Math.imul(Math.floor(pages / 0x100000000), 0x85ebca6b)) >>> 0;
        at = (at ^ (at >>> 15)) & this.mask;
        while (this.keys[at] !== address && this.keys[at] !== -1) {
            at = (at + 1) & this.mask;
        }
        return at;
    }

    get(address: number): number {
        return this.values[this.slot(address)]!;
    }

    set(address: number, record: number): void {
        const at = this.slot(address);
        this.keys[at] = address;
        this.values[at] = record;
    }
}

/** Which record ends which. An address is live at most once at a time, so the latest allocation of
 * it is the one. */
function pairUp(history: Raw): Int32Array {
    const { kind, address, length } = history;
    const pair = new Int32Array(length).fill(-1);
    let allocations = 0;
    for (let i = 0; i < length; i++) {
        if (kind[i] === KIND.alloc) {
            allocations++;
        }
    }
    const latest = new AddressIndex(allocations + 1);
    for (let i = 0; i < length; i++) {
        const code = kind[i]!;
        if (code === KIND.alloc) {
            latest.set(address[i]!, i);
        } else if (code === KIND.free || code === KIND.retire || code === KIND.reuse ||
                   code === KIND.grow) {
            const record = latest.get(address[i]!);
            pair[i] = record;
            if (record >= 0 && (code === KIND.free || code === KIND.retire)) {
                pair[record] = i;
            }
        }
    }
    return pair;
}

export interface Change { live: number; retired: number; reserved: number }

/** What one record changed, into `change`, which is used again for each. */
export function changeOf(history: Raw, record: number, change: Change): void {
    const bytes = history.bytes[record]!;
    const requested = history.requested[record]!;
    change.live = change.retired = change.reserved = 0;
    switch (history.kind[record]) {
    case KIND.alloc: change.live = requested; break;
    case KIND.free: change.live = -requested; break;
    case KIND.retire: change.live = -requested; change.retired = bytes; break;
    case KIND.reuse: change.retired = -bytes; break;
    case KIND.grow: change.live = history.value[record]!; break;
    case KIND.map: case KIND.wake: change.reserved = bytes; break;
    case KIND.unmap: case KIND.sleep: change.reserved = -bytes; break;
    default: break;
    }
}

function sumsNow(device: Device): Change {
    const { state, bytes, requested, length } = device.blocks;
    const sums = { live: 0, retired: 0, reserved: device.reservedBytes };
    for (let block = 0; block < length; block++) {
        if (state[block] === LIVE) {
            sums.live += requested[block]!;
        } else if (state[block] === RETIRED) {
            sums.retired += bytes[block]!;
        }
    }
    return sums;
}

/** The amounts that a thinned history has itself. What is of no device takes those before it. */
function givenAmounts(raw: Raw, amounts: Float64Array): Float64Array {
    const { pool, stream, length } = raw;
    for (let i = 1; i < length; i++) {
        if (pool[i]! < 0 && stream[i]! < 0) {
            amounts[i] = amounts[i - 1]!;
        }
    }
    return amounts.map((amount) => Math.max(0, amount));
}

function givenHistory(raw: Raw): History {
    const live = givenAmounts(raw, raw.live!);
    const timed = raw.length > 0 && raw.time[raw.length - 1]! > 0;
    let peak = raw.length > 0 ? 0 : -1;
    live.forEach((amount, i) => {
        if (amount > live[peak]!) {
            peak = i;
        }
    });
    return { ...raw, pair: pairUp(raw), live, retired: givenAmounts(raw, raw.retired!),
             reserved: givenAmounts(raw, raw.reserved!), timed, peak,
             incomplete: raw.live!.some((amount) => amount < 0) };
}

/** Fills in everything that follows. The device must have its blocks. */
export function deriveHistory(raw: Raw, device: Device): History {
    if (raw.live) {
        return givenHistory(raw);
    }
    const { length } = raw;
    const live = new Float64Array(length);
    const retired = new Float64Array(length);
    const reserved = new Float64Array(length);
    const now = sumsNow(device);
    const change: Change = { live: 0, retired: 0, reserved: 0 };
    let peak = -1;
    let incomplete = false;
    for (let i = length - 1; i >= 0; i--) {
        live[i] = Math.max(0, now.live);
        retired[i] = Math.max(0, now.retired);
        reserved[i] = Math.max(0, now.reserved);
        // At equal heights the earliest counts: that is where it was reached.
        if (peak < 0 || live[i]! >= live[peak]!) {
            peak = i;
        }
        changeOf(raw, i, change);
        now.live -= change.live;
        now.retired -= change.retired;
        now.reserved -= change.reserved;
        incomplete ||= now.live < 0 || now.retired < 0 || now.reserved < 0;
    }
    const timed = length > 0 && raw.time[length - 1]! > 0;
    return { ...raw, pair: pairUp(raw), live, retired, reserved, timed, peak, incomplete };
}
