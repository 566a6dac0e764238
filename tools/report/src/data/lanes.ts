/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as lanes: which bands a window shows in each, in which row, and how much is live in it.
 * Where there are more bands than can be drawn, the largest are, and the sums have all.
 */
import { Bands, Classes, ClassSums } from './bands.js';
import { freeAgain, memoryOf } from './owners.js';
import { KIND } from './model.js';

const BARS_MAX = 1200;

export interface Bar { band: number; lane: number; row: number; from: number; to: number;
    /** Where its memory is free again: later than `to` if it waited. */
    free: number }

export interface Lane { stream: number; allocations: number }

/** Streams that anything happened to, or that graphs were launched on, those with most allocations
 * first, at most 250. */
export function lanesOf(bands: Bands, streamOf: (band: number) => number): Lane[] {
    const counts = new Map<number, number>();
    const { kind, stream, length } = bands.history;
    for (let i = 0; i < length; i++) {
        if (kind[i] === KIND.alloc) {
            counts.set(stream[i]!, (counts.get(stream[i]!) ?? 0) + 1);
        } else if ((kind[i] === KIND.launch || kind[i] === KIND.launch_over) && stream[i]! >= 0) {
            counts.set(stream[i]!, counts.get(stream[i]!) ?? 0);
        }
    }
    for (let band = bands.records; band < bands.length; band++) {
        const of = streamOf(band);
        counts.set(of, counts.get(of) ?? 0);
    }
    return [...counts].map(([of, allocations]) => ({ stream: of, allocations }))
        .sort((a, b) => b.allocations - a.allocations || a.stream - b.stream).slice(0, 250);
}

/** Lanes as classes; the last is for the streams that have none. */
export class LaneClasses implements Classes {
    readonly count: number;
    readonly leftOut = null;
    private readonly laneOf = new Map<number, number>();

    constructor(lanes: readonly Lane[], private readonly streamOf: (band: number) => number) {
        this.count = lanes.length + 1;
        lanes.forEach(({ stream }, lane) => this.laneOf.set(stream, lane));
    }

    of(band: number): number {
        return this.laneOf.get(this.streamOf(band)) ?? this.count - 1;
    }
}

/** The bands to draw one by one; those of `always` are among them if they are in the window. */
export function barsOf(bands: Bands, sums: ClassSums, axis: Float64Array | null, begin: number,
                       end: number, columns: number, rows: number,
                       always: ReadonlySet<number>): Bar[] {
    const width = (end - begin) / columns;
    let found = bands.find(axis, begin, end, 2 * width, 1, 4 * BARS_MAX);
    for (let least = 512; found.length > BARS_MAX; least *= 2) {
        found = found.filter((band) => bands.bytes(band) >= least);
    }
    const chosen = new Set(found);
    for (const band of always) {
        if (bands.place(axis, bands.start(band)) <= end &&
            bands.place(axis, bands.end[band]!) >= begin) {
            chosen.add(band);
        }
    }
    // Rows are few: those that must be there take them first, then what begins and ends here.
    const inside = (place: number) => Number(place > begin && place < end);
    const rank = (band: number) => (always.has(band) ? 4 : 0) +
        inside(bands.place(axis, bands.start(band))) + inside(bands.place(axis, bands.end[band]!));
    const inOrder = [...chosen].map((band) => ({ band, rank: rank(band) }))
        .sort((a, b) => b.rank - a.rank || bands.start(a.band) - bands.start(b.band));
    const taken = new Map<number, [number, number][]>();
    const bars: Bar[] = [];
    for (const { band } of inOrder) {
        const lane = sums.ofBand(band);
        const from = bands.place(axis, bands.start(band));
        const to = bands.place(axis, bands.end[band]!);
        const again = freeAgain(bands, band);
        const free = again >= 0 ? Math.max(to, bands.place(axis, again))
            : waitsStill(bands, band) ? bands.place(axis, bands.records) : to;
        const row = freeRow(lane * rows, from, Math.max(free, from + width), rows, taken);
        if (row >= 0) {
            bars.push({ band, lane, row, from, to, free });
        }
    }
    return bars;
}

/** Whether it was freed, and its memory is not free yet. */
function waitsStill(bands: Bands, band: number): boolean {
    const end = bands.end[band]!;
    return end < bands.records && bands.history.kind[end] === KIND.retire;
}

/** A row of a lane that is empty in a stretch, which is then taken; -1: none is. */
function freeRow(first: number, from: number, to: number, rows: number,
                 taken: Map<number, [number, number][]>): number {
    for (let row = 0; row < rows; row++) {
        const stretches = taken.get(first + row) ?? [];
        if (stretches.every(([low, high]) => to <= low || high <= from)) {
            stretches.push([from, to]);
            taken.set(first + row, stretches);
            return row;
        }
    }
    return -1;
}

/** For each address, the band that had it last; or none. */
export function bandsAt(bands: Bands, addresses: readonly number[]): (number | null)[] {
    const result = addresses.map((): number | null => null);
    const look = (band: number) => {
        const { address, bytes } = memoryOf(bands, band);
        addresses.forEach((one, i) => {
            if (result[i] === null && one >= address && one < address + bytes) {
                result[i] = band;
            }
        });
    };
    if (addresses.length > 0) {
        for (let band = bands.records - 1; band >= 0; band--) {
            if (bands.end[band]! > 0) {
                look(band);
            }
        }
        for (let band = bands.records; band < bands.length; band++) {
            look(band);
        }
    }
    return result;
}
