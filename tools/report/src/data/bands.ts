/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks as bands over time. A band is a stretch of a block's life in which its size stays: from
 * the record that allocated it, or let it grow, to the one that freed it or let it grow again. A
 * band has the number of the record that it begins with; those that were there before the history
 * began have the numbers after the last record.
 *
 * A picture of W columns and H rows asks for the state at one record of each column, the one at
 * which most was live, so that a peak has its full height at any zoom. Bands that last a column
 * and are a row high are found one by one; there are at most W times H of them, however many
 * records there are, because the index has bands by how long and how large they are. The others
 * count in the sums of their class, which are exact.
 */
import { lowerBound } from './decimate.js';
import { Device, History, KIND, LIVE } from './model.js';

/** Sums of the classes are kept for each so many records. */
const STEP = 64;
const LEVEL_BITS = 6;
/** Powers of two that a duration and a size can have. */
const EXPONENTS = 64;
/** Above it, longer and larger bands are asked for: a frame must end. */
const FOUND_MAX = 60_000;

const float = new Float64Array(1);
const words = new Uint32Array(float.buffer);

/** The power of two below a number that is at least 1. */
function exponent(value: number): number {
    float[0] = value;
    return Math.min(EXPONENTS - 1, Math.max(0, ((words[1]! >>> 20) & 0x7ff) - 1023));
}

/** The highest of any stretch of an array, found in the time of its logarithm. */
export class Peaks {
    private readonly levels: Int32Array[] = [];

    constructor(private readonly values: Float64Array) {
        for (let length = values.length; length > 1;) {
            const below = this.levels[this.levels.length - 1];
            const parts = Math.ceil(length / (1 << LEVEL_BITS));
            const level = new Int32Array(parts);
            for (let part = 0; part < parts; part++) {
                const first = part << LEVEL_BITS;
                const last = Math.min(length, first + (1 << LEVEL_BITS));
                let best = below ? below[first]! : first;
                for (let i = first + 1; i < last; i++) {
                    const at = below ? below[i]! : i;
                    if (values[at]! > values[best]!) {
                        best = at;
                    }
                }
                level[part] = best;
            }
            this.levels.push(level);
            length = parts;
        }
    }

    /** The first of the highest in [from, to), which is not empty. */
    highest(from: number, to: number): number {
        const { values } = this;
        let best = from;
        const look = (at: number) => {
            const higher = values[at]! - values[best]!;
            if (higher > 0 || (higher === 0 && at < best)) {
                best = at;
            }
        };
        let level = -1, low = from, high = to;
        for (;;) {
            const below = this.levels[level];
            const at = (i: number) => below ? below[i]! : i;
            const side = 1 << LEVEL_BITS;
            if (high - low < 2 * side || level + 1 >= this.levels.length) {
                for (let i = low; i < high; i++) {
                    look(at(i));
                }
                return best;
            }
            for (; low % side !== 0; low++) {
                look(at(low));
            }
            for (; high % side !== 0; high--) {
                look(at(high - 1));
            }
            low >>= LEVEL_BITS;
            high >>= LEVEL_BITS;
            level++;
        }
    }
}

/** Bands by how long they last and how large they are, each kind in the order of their beginnings.
 * `first[duration * EXPONENTS + size]` is where a kind begins. */
interface Index { order: Int32Array; first: Int32Array }

/** Which class a band counts in: small numbers, for colours. */
export interface Classes {
    count: number;
    of(band: number): number;
    /** The class of what has no bands, since the history was thinned; null: everything has. */
    leftOut: number | null;
}

export class Bands {
    readonly history: History;
    readonly records: number;
    /** All bands that there may be: records, then those from before. */
    readonly length: number;
    /** The record that ends a band; the number of records if none does. 0: it is no band. */
    readonly end: Int32Array;
    /** Of those from before the history: the block (from 0) or else the record (~ it) that tells
     * of it, and its bytes. */
    private readonly old: { source: number; bytes: number; end: number }[];
    /** Bytes of bands that begin by growing. */
    private readonly grownBytes = new Map<number, number>();
    /** The band that each record ends, where it is not the one of the pair. */
    private readonly ends = new Map<number, number>();
    private readonly peaks: Peaks;
    private readonly indexes = new Map<string, Index>();

    constructor(readonly device: Device) {
        const { history } = device;
        this.history = history;
        this.records = history.length;
        const end = new Int32Array(history.length);
        this.old = this.findEnds(end);
        this.length = history.length + this.old.length;
        this.end = new Int32Array(this.length);
        this.end.set(end);
        this.old.forEach((one, i) => {
            this.end[history.length + i] = one.end;
            if (one.end < history.length) {
                this.ends.set(one.end, history.length + i);
            }
        });
        this.peaks = new Peaks(history.live);
    }

    private findEnds(end: Int32Array): { source: number; bytes: number; end: number }[] {
        const { kind, pair, address, requested, value, length } = this.history;
        const old: { source: number; bytes: number; end: number }[] = [];
        // What an allocation, or an address from before the history, is after it grew.
        const grown = new Map<number, number>(), grownAddress = new Map<number, number>();
        const close = (band: number, record: number) => {
            end[band] = record;
            this.ends.set(record, band);
        };
        for (let i = 0; i < length; i++) {
            const code = kind[i]!;
            const own = pair[i]!;
            if (code === KIND.alloc) {
                end[i] = own >= 0 ? own : length;
            } else if (code === KIND.grow) {
                const before = own >= 0 ? grown.get(own) ?? own
                    : grownAddress.get(address[i]!) ?? -1;
                if (before >= 0) {
                    close(before, i);
                } else {
                    old.push({ source: ~i, bytes: requested[i]! - value[i]!, end: i });
                }
                this.grownBytes.set(i, before >= 0 ? this.bytes(before) + value[i]!
                    : requested[i]!);
                end[i] = length;
                (own >= 0 ? grown.set(own, i) : grownAddress.set(address[i]!, i));
            } else if (code === KIND.free || code === KIND.retire) {
                const last = own >= 0 ? grown.get(own) : grownAddress.get(address[i]!);
                if (last !== undefined) {
                    close(last, i);
                    grownAddress.delete(address[i]!);
                } else if (own < 0) {
                    old.push({ source: ~i, bytes: requested[i]!, end: i });
                }
            }
        }
        this.pictureBands(end, old);
        return old.sort((a, b) => b.end - a.end);
    }

    /** Blocks of the picture whose allocation is not in the history. An allocation that no record
     * ended, and that the picture has no block of, is no band: nobody knows how long it was. */
    private pictureBands(end: Int32Array, old: { source: number; bytes: number; end: number }[]):
        void {
        const { blocks } = this.device;
        const { address, length } = this.history;
        const live = new Map<number, number>();
        for (let block = 0; block < blocks.length; block++) {
            if (blocks.state[block] === LIVE) {
                live.set(blocks.address[block]!, block);
            }
        }
        for (let i = length - 1; i >= 0; i--) {
            if (end[i] === length && !live.delete(address[i]!)) {
                end[i] = 0;
            }
        }
        for (const block of live.values()) {
            old.push({ source: block, bytes: blocks.requested[block]!, end: length });
        }
    }

    start(band: number): number {
        return band < this.records ? band : -1;
    }

    bytes(band: number): number {
        if (band >= this.records) {
            return this.old[band - this.records]!.bytes;
        }
        // Few blocks grow, and this is asked millions of times.
        const grown = this.grownBytes.size > 0 ? this.grownBytes.get(band) : undefined;
        return grown ?? this.history.requested[band]!;
    }

    /** The record that tells whose a band is: that of its allocation, or, of one from before the
     * history, ~ the block of the picture, or the record that ended it. */
    owner(band: number): { record: number } | { block: number } {
        if (band >= this.records) {
            const { source } = this.old[band - this.records]!;
            return source >= 0 ? { block: source } : { record: ~source };
        }
        const { kind, pair } = this.history;
        return { record: kind[band] === KIND.grow && pair[band]! >= 0 ? pair[band]! : band };
    }

    /** The band that a record ends, or -1. */
    endedBy(record: number): number {
        const { kind, pair } = this.history;
        const code = kind[record];
        if (code !== KIND.free && code !== KIND.retire && code !== KIND.grow) {
            return -1;
        }
        const other = this.ends.size > 0 ? this.ends.get(record) : undefined;
        const band = other ?? (code === KIND.grow ? -1 : pair[record]!);
        return band >= 0 && this.end[band] === record ? band : -1;
    }

    /** Whether it is there after a record. */
    isAlive(band: number, record: number): boolean {
        return this.start(band) <= record && record < this.end[band]!;
    }

    /** Where on an axis: times, or null for record numbers. */
    place(axis: Float64Array | null, record: number): number {
        if (!axis) {
            return record;
        }
        return axis[Math.min(this.records - 1, Math.max(0, record))]!;
    }

    private duration(axis: Float64Array | null, band: number): number {
        return Math.max(1, this.place(axis, this.end[band]!) - this.place(axis, this.start(band)));
    }

    private index(axis: Float64Array | null): Index {
        const name = axis ? 'time' : 'records';
        let index = this.indexes.get(name);
        if (!index) {
            index = this.makeIndex(axis);
            this.indexes.set(name, index);
        }
        return index;
    }

    private makeIndex(axis: Float64Array | null): Index {
        const first = new Int32Array(EXPONENTS * EXPONENTS + 1);
        const kindOf = (band: number) => exponent(this.duration(axis, band)) * EXPONENTS +
            exponent(Math.max(1, this.bytes(band)));
        const each = (call: (band: number) => void) => {
            for (let band = this.records; band < this.length; band++) {
                call(band);
            }
            for (let band = 0; band < this.records; band++) {
                if (this.end[band]! > 0) {
                    call(band);
                }
            }
        };
        each((band) => { first[kindOf(band) + 1]!++; });
        for (let i = 1; i < first.length; i++) {
            first[i]! += first[i - 1]!;
        }
        const next = first.slice();
        const order = new Int32Array(first[first.length - 1]!);
        each((band) => { order[next[kindOf(band)]!++] = band; });
        return { order, first };
    }

    /** The record to show in each of so many columns of a window; -1 is before the first. */
    samples(axis: Float64Array | null, begin: number, end: number, columns: number): Int32Array {
        const { records } = this;
        const result = new Int32Array(columns);
        const at = (place: number, from: number) => axis ? lowerBound(axis, place, from)
            : Math.min(records, Math.max(from, Math.ceil(place)));
        let from = at(begin, 0);
        for (let column = 0; column < columns; column++) {
            const to = column + 1 === columns ? Math.max(from, at(end + (axis ? 1 : 0.5), from))
                : at(begin + (column + 1) * (end - begin) / columns, from);
            result[column] = to > from ? this.peaks.highest(from, to) : from - 1;
            from = to;
        }
        return result;
    }

    /** Bands of a window that are worth a look of their own: at least so long and so large, and,
     * where they are more than `most`, still longer and larger. In no order. */
    find(axis: Float64Array | null, begin: number, end: number, leastDuration: number,
         leastBytes: number, most = FOUND_MAX): Int32Array {
        const { order, first } = this.index(axis);
        const found: number[] = [];
        for (let long = exponent(Math.max(1, leastDuration)); long < EXPONENTS; long++) {
            for (let large = exponent(Math.max(1, leastBytes)); large < EXPONENTS; large++) {
                const kind = long * EXPONENTS + large;
                const last = first[kind + 1]!;
                for (let i = this.firstAfter(axis, order, first[kind]!, last,
                    begin - 2 ** (long + 1)); i < last; i++) {
                    const band = order[i]!;
                    if (this.place(axis, this.start(band)) > end) {
                        break;
                    }
                    if (this.bytes(band) >= leastBytes &&
                        this.place(axis, this.end[band]!) >= begin) {
                        found.push(band);
                    }
                }
                if (found.length > most) {
                    return this.find(axis, begin, end, leastDuration * 2, leastBytes * 2, most);
                }
            }
        }
        return Int32Array.from(found);
    }

    private firstAfter(axis: Float64Array | null, order: Int32Array, low: number, high: number,
                       place: number): number {
        while (low < high) {
            const middle = (low + high) >>> 1;
            if (this.place(axis, this.start(order[middle]!)) < place) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }
}

const made = new WeakMap<Device, Bands>();

/** Those of a device, made when they are first asked for. */
export function bandsOf(device: Device): Bands {
    const bands = made.get(device) ?? new Bands(device);
    made.set(device, bands);
    return bands;
}

/** What is live in each class after any record, from sums that are kept every STEP records. */
export class ClassSums {
    private readonly kept: Float64Array;
    /** The class of the band that each record begins or ends. */
    readonly ofRecord: Uint8Array;
    readonly count: number;

    constructor(private readonly bands: Bands, private readonly classes: Classes) {
        const { records } = bands;
        this.count = classes.count;
        this.ofRecord = new Uint8Array(records);
        this.kept = new Float64Array((Math.floor(records / STEP) + 1) * this.count);
        const now = new Float64Array(this.count);
        for (let band = records; band < bands.length; band++) {
            now[classes.of(band)]! += bands.bytes(band);
        }
        this.kept.set(now);
        for (let record = 0; record < records; record++) {
            const ended = bands.endedBy(record);
            if (ended >= 0) {
                this.ofRecord[record] = this.ofBand(ended);
            }
            if (bands.end[record]! > 0) {
                this.ofRecord[record] = classes.of(record);
            }
            this.step(now, record);
            if ((record + 1) % STEP === 0) {
                this.kept.set(now, (record + 1) / STEP * this.count);
            }
        }
    }

    ofBand(band: number): number {
        return band < this.bands.records ? this.ofRecord[band]! : this.classes.of(band);
    }

    private step(now: Float64Array, record: number): void {
        const { bands } = this;
        const { kind, requested } = bands.history;
        const code = kind[record]!;
        if (code > KIND.grow || code === KIND.reuse) {
            return;
        }
        const ended = bands.endedBy(record);
        if (ended >= 0) {
            now[this.ofBand(ended)]! -= bands.bytes(ended);
        }
        if (bands.end[record]! > 0) {
            now[this.ofRecord[record]!]! += code === KIND.alloc ? requested[record]!
                : bands.bytes(record);
        }
    }

    /** Blocks that were left out count in the amounts, and have no bands. */
    private addLeftOut(sums: Float64Array, column: number, sample: number): void {
        const { count } = this;
        if (this.classes.leftOut !== null && sample >= 0) {
            let known = 0;
            for (let i = 0; i < count; i++) {
                known += sums[column * count + i]!;
            }
            sums[column * count + this.classes.leftOut]! +=
                Math.max(0, this.bands.history.live[sample]! - known);
        }
    }

    /** For each of these records, which ascend, the sums of all classes, one after the other. */
    at(samples: Int32Array): Float64Array {
        const { count, kept } = this;
        const result = new Float64Array(samples.length * count);
        const now = new Float64Array(count);
        let done = -2;
        samples.forEach((sample, column) => {
            const part = Math.floor((sample + 1) / STEP);
            if (done < part * STEP - 1) {
                now.set(kept.subarray(part * count, (part + 1) * count));
                done = part * STEP - 1;
            }
            while (done < sample) {
                this.step(now, ++done);
            }
            result.set(now, column * count);
            this.addLeftOut(result, column, sample);
        });
        return result;
    }
}
