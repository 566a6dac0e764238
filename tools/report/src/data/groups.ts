/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which group a band is of, and whether a filter dims it: the classes that bands are drawn by. The
 * ten that hold most at the peak have colours of their own, the rest is one group. A class is twice
 * the group's number, and one more if it is dimmed.
 *
 * Groups are stacked in the order of their numbers: at the bottom the one whose blocks live
 * longest, so that what stays (weights) is level ground under what grows or comes and goes.
 */
import { matching, Names } from '../text/names.js';
import { parseAddress } from '../text/units.js';
import { Bands, Classes } from './bands.js';
import { describe, Group, Holder, holdersOf, Keys, keysOf } from './holders.js';
import { Snapshot } from './model.js';

const COLOURED = 10;

/** `rank`: which of those that hold most it is, from 0. */
export interface BandGroup { name: string; note: string; spot: string; peakBytes: number;
    isRest: boolean; rank: number }

/** What is not dimmed: all that a text fits, and one group if one is chosen. */
export interface Filter { text: string; group: number | null }

export class Grouping implements Classes {
    readonly groups: BandGroup[];
    readonly count: number;
    readonly leftOut: number | null;
    private readonly keys: Keys;
    private groupOfKey: Uint8Array;
    private readonly fits: (band: number) => boolean;

    constructor(private readonly bands: Bands, group: Group, snapshot: Snapshot, names: Names,
                private readonly filter: Filter) {
        const { device } = bands;
        this.keys = keysOf(device, group, snapshot);
        const holders = holdersOf(snapshot, names, device, group, device.history.peak)
            .filter((one) => one.live > 0);
        const shown = holders.slice(0, COLOURED);
        const { meaning } = this.keys;
        const ranks = new Map(shown.map((one, rank) => [one.key, rank]));
        const rankOfKey = Array.from(meaning, (key) =>
            ranks.get(describe(group, key, names, snapshot).key) ?? shown.length);
        this.groupOfKey = Uint8Array.from(rankOfKey);
        const spots = spotsApart(shown, names);
        const order = this.longestFirst(shown.length);
        this.groups = order.map((rank) => {
            const { name, note, live } = shown[rank]!;
            return { name, note, spot: spots[rank]!, peakBytes: live, isRest: false, rank };
        });
        const place = new Map(order.map((rank, at) => [rank, at]));
        this.groupOfKey = Uint8Array.from(rankOfKey, (rank) => place.get(rank) ?? shown.length);
        const others = rankOfKey.includes(shown.length);
        const isThin = snapshot.leftOut > 0;
        if (others || isThin) {
            const { live, peak } = device.history;
            const known = shown.reduce((sum, one) => sum + one.live, 0);
            this.groups.push({
                name: 'All others', spot: '', isRest: true, rank: shown.length,
                note: isThin ? 'and blocks that this report leaves out' : '',
                peakBytes: isThin ? Math.max(0, (live[peak] ?? 0) - known)
                    : holders.slice(COLOURED).reduce((sum, one) => sum + one.live, 0),
            });
        }
        this.count = 2 * this.groups.length;
        this.leftOut = isThin ? this.count - 2 : null;
        this.fits = textFits(bands, snapshot, names, filter.text.trim());
    }

    /** The groups by how long the blocks live that are live at the peak, by their bytes. */
    private longestFirst(groups: number): number[] {
        const { bands } = this;
        const { peak } = bands.history;
        const lives = new Float64Array(groups), amounts = new Float64Array(groups);
        const add = (band: number) => {
            const group = this.groupOf(band);
            if (group < groups && bands.isAlive(band, peak)) {
                const bytes = bands.bytes(band);
                lives[group]! += bytes * (bands.end[band]! - bands.start(band));
                amounts[group]! += bytes;
            }
        };
        for (let band = bands.records; band < bands.length; band++) {
            add(band);
        }
        for (let band = 0; band <= peak; band++) {
            if (bands.end[band]! > peak) {
                add(band);
            }
        }
        const mean = (group: number) => lives[group]! / Math.max(1, amounts[group]!);
        return Array.from({ length: groups }, (_, group) => group)
            .sort((a, b) => mean(b) - mean(a) || a - b);
    }

    groupOf(band: number): number {
        const owner = this.bands.owner(band);
        return this.groupOfKey['block' in owner ? this.keys.ofBlock[owner.block]!
            : this.keys.ofRecord[owner.record]!]!;
    }

    of(band: number): number {
        const group = this.groupOf(band);
        const dimmed = (this.filter.group !== null && this.filter.group !== group) ||
            !this.fits(band);
        return 2 * group + (dimmed ? 1 : 0);
    }
}

/** The spots of holders; with the first caller that differs where another has the same. */
function spotsApart(holders: readonly Holder[], names: Names): string[] {
    const all = holders.map(({ stack }) => stack > 0 ? names.spots(stack) : []);
    return holders.map(({ name, spot }, at) => {
        const twins = all.filter((_, other) => other !== at &&
            holders[other]!.name === name && holders[other]!.spot === spot);
        const apart = (least: number) => all[at]!.findIndex((caller, depth) =>
            twins.filter((twin) => twin[depth] !== caller).length >= least);
        const depth = twins.length === 0 ? undefined
            : [apart(twins.length), apart(1)].find((one) => one > 0);
        return depth !== undefined ? `${spot} < ${all[at]![depth]}` : spot;
    });
}

/** Whether a text, or an address, is of a band: of its stack, stream or pool. */
function textFits(bands: Bands, snapshot: Snapshot, names: Names, query: string):
    (band: number) => boolean {
    const { history, blocks } = bands.device;
    if (query === '') {
        return () => true;
    }
    const place = parseAddress(query);
    if (place !== null) {
        return (band) => {
            const owner = bands.owner(band);
            const [table, row] = 'block' in owner ? [blocks, owner.block] as const
                : [history, owner.record] as const;
            return place >= table.address[row]! && place < table.address[row]! + table.bytes[row]!;
        };
    }
    const text = query.toLowerCase();
    const stacks = matching(snapshot.stacks.length, (i) => names.stackSearchText(i), text);
    const streams = matching(snapshot.streams.length, (i) => names.stream(i).toLowerCase(), text);
    const pools = matching(snapshot.pools.length, (i) => `${names.pool(i)} ${
        snapshot.pools[i]!.tag}`.toLowerCase(), text);
    return (band) => {
        const owner = bands.owner(band);
        const [table, row] = 'block' in owner ? [blocks, owner.block] as const
            : [history, owner.record] as const;
        // The stack of a free says who freed, not whose memory it was.
        const stack = band >= bands.records && 'record' in owner ? 0 : table.stack[row]!;
        return (stacks[stack + 1]! | streams[table.stream[row]! + 1]! |
            pools[table.pool[row]! + 1]!) !== 0;
    };
}
