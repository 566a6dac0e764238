/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bands as pixels. A frame is what a window of so many columns shows: a record for each column,
 * the sums of all classes there, and the bands that are large and long enough to be told apart.
 * Each column is filled from below, group by group: first the bands of the group in the order of
 * their beginnings, then one patch for all that is smaller or shorter. So a frame costs its
 * pixels, however many records there are, and a column is exactly as high as what is live there.
 */
import { Bands, ClassSums } from '../data/bands.js';
import { lowerBound } from '../data/decimate.js';

/** Rows that a band has to have before a line parts it from the one above. */
const LINED_ROWS = 4;
/** Columns that it has to last before it is a band of its own. */
const COLUMNS_LEAST = 2;

/** What a frame is of. Amounts from `low` to `high` fill the rows. */
export interface Window {
    axis: Float64Array | null; begin: number; end: number; columns: number; rows: number;
    low: number; high: number;
}

/** As pixels: what a class is filled with, what every other band of it is, so that neighbours
 * without a line between them are told apart, the line above a band, and the two colours of the
 * stripes of what waits on top. */
export interface Palette {
    fill: Uint32Array; other: Uint32Array; line: Uint32Array; waiting: readonly [number, number];
}

/** One column of a band that is pointed out. */
export interface Slice { column: number; top: number; bottom: number }

/** What lies at a place of a frame. */
export interface Hit { record: number; group: number; band: number | null; bytes: number }

export class Frame {
    readonly samples: Int32Array;
    private readonly amounts: Float64Array;
    /** In the order in which they are stacked, with the columns they are in. */
    private readonly order: Int32Array;
    private readonly firstColumn: Int32Array;
    private readonly lastColumn: Int32Array;

    constructor(private readonly bands: Bands, private readonly sums: ClassSums,
                readonly window: Window) {
        const { axis, begin, end, columns, rows, low, high } = window;
        this.samples = bands.samples(axis, begin, end, columns);
        this.amounts = sums.at(this.samples);
        const found = bands.find(axis, begin, end, COLUMNS_LEAST * (end - begin) / columns,
            (high - low) / rows);
        // Those from before the history lie below the others of their group.
        const { records, length } = bands;
        const keys = Float64Array.from(found, (band) => (sums.ofBand(band) >> 1) * length +
            (band < records ? band + length - records : band - records)).sort();
        this.order = Int32Array.from(keys, (key) => {
            const place = key % length;
            const old = length - records;
            return place < old ? place + records : place - old;
        });
        const samples = Float64Array.from(this.samples);
        this.firstColumn = this.order.map((band) => lowerBound(samples, bands.start(band)));
        this.lastColumn = this.order.map((band) => lowerBound(samples, bands.end[band]!));
    }

    private get groups(): number {
        return this.sums.count >> 1;
    }

    /** Calls back for the parts of one column from below: bands, and patches of a class. */
    private walk(column: number, call: (bytes: number, kind: number, band: number | null) =>
        void): void {
        const { amounts, sums, order, firstColumn, lastColumn, bands } = this;
        const left = amounts.slice(column * sums.count, (column + 1) * sums.count);
        let i = 0;
        for (let group = 0; group < this.groups; group++) {
            for (; i < order.length && sums.ofBand(order[i]!) >> 1 === group; i++) {
                if (firstColumn[i]! <= column && column < lastColumn[i]!) {
                    const kind = sums.ofBand(order[i]!);
                    const bytes = bands.bytes(order[i]!);
                    left[kind]! -= bytes;
                    call(bytes, kind, order[i]!);
                }
            }
            for (const kind of [2 * group, 2 * group + 1]) {
                call(Math.max(0, left[kind]!), kind, null);
            }
        }
    }

    /** What lies `amount` bytes high in a column; null above all. */
    hit(column: number, amount: number): Hit | null {
        let height = 0;
        let found: Hit | null = null;
        this.walk(column, (bytes, kind, band) => {
            height += bytes;
            if (!found && amount < height && bytes > 0) {
                found = { record: this.samples[column]!, group: kind >> 1, band, bytes };
            }
        });
        return found;
    }

    /** The bands of a column from below, each with the amount it begins at. */
    column(column: number): { band: number; from: number; bytes: number }[] {
        const result: { band: number; from: number; bytes: number }[] = [];
        let height = 0;
        this.walk(column, (bytes, _kind, band) => {
            if (band !== null) {
                result.push({ band, from: height, bytes });
            }
            height += bytes;
        });
        return result;
    }

    private row(amount: number): number {
        const { rows, low, high } = this.window;
        const row = rows - Math.round((amount - low) * rows / (high - low));
        return Math.min(rows, Math.max(0, row));
    }

    /** All columns at once, band by band. Pixels that nothing covers stay as they are. Returns
     * where one band is. */
    paint(pixels: Uint32Array, palette: Palette, chosen: number | null): Slice[] {
        const { order, firstColumn, lastColumn, amounts, sums, bands } = this;
        const { columns } = this.window;
        const height = new Float64Array(columns);
        const left = amounts.slice();
        const slices: Slice[] = [];
        const fill = (column: number, from: number, to: number, colour: number, line: number) => {
            const bottom = this.row(from);
            const top = this.row(to);
            let at = top * columns + column;
            let row = top;
            if (line !== colour && bottom - top >= LINED_ROWS) {
                pixels[at] = line;
                at += columns;
                row++;
            }
            for (; row < bottom; row++, at += columns) {
                pixels[at] = colour;
            }
        };
        let i = 0;
        for (let group = 0; group < this.groups; group++) {
            for (; i < order.length && sums.ofBand(order[i]!) >> 1 === group; i++) {
                const kind = sums.ofBand(order[i]!);
                const bytes = bands.bytes(order[i]!);
                const colour = (i & 1 ? palette.other : palette.fill)[kind]!;
                const line = palette.line[kind]!;
                for (let column = firstColumn[i]!; column < lastColumn[i]!; column++) {
                    const from = height[column]!;
                    height[column] = from + bytes;
                    left[column * sums.count + kind]! -= bytes;
                    fill(column, from, from + bytes, colour, line);
                    if (order[i] === chosen) {
                        slices.push({ column, top: this.row(from + bytes),
                                      bottom: this.row(from) });
                    }
                }
            }
            for (let kind = 2 * group; kind < 2 * group + 2; kind++) {
                const colour = palette.fill[kind]!;
                for (let column = 0; column < columns; column++) {
                    const bytes = left[column * sums.count + kind]!;
                    if (bytes > 0) {
                        fill(column, height[column]!, height[column]! + bytes, colour, colour);
                        height[column]! += bytes;
                    }
                }
            }
        }
        this.paintWaiting(pixels, height, palette.waiting);
        return slices;
    }

    private paintWaiting(pixels: Uint32Array, height: Float64Array,
                         [first, second]: readonly [number, number]): void {
        const { retired } = this.bands.history;
        const { columns } = this.window;
        this.samples.forEach((sample, column) => {
            const bytes = sample < 0 ? 0 : retired[sample]!;
            const bottom = this.row(height[column]!);
            for (let row = this.row(height[column]! + bytes); row < bottom; row++) {
                pixels[row * columns + column] = (row + column) % 6 < 4 ? first : second;
            }
        });
    }
}
