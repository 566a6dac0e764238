/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a million records a chart of a thousand pixels needs: for each column of pixels the
 * records where something was highest or lowest, and the last. These are records as they are, not
 * averages, so that a peak of one record is drawn at its full height at any zoom.
 */
import { History } from './model.js';

/** First index in [from, to) of ascending `values` that is not below `value`. */
export function lowerBound(values: Float64Array, value: number, from = 0, to = values.length):
    number {
    while (from < to) {
        const middle = (from + to) >>> 1;
        if (values[middle]! < value) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

/** Up to this many records a column are all kept. */
const KEPT_PER_COLUMN = 5;

/** The extreme records of [from, to), in ascending order. */
function extremes(history: History, from: number, to: number, result: number[]): void {
    const { live, retired, reserved } = history;
    let low = from, high = from, top = from, reservedLow = from, reservedHigh = from;
    let least = live[from]!, most = least, topmost = least + retired[from]!;
    let leastReserved = reserved[from]!, mostReserved = leastReserved;
    for (let i = from + 1; i < to; i++) {
        const value = live[i]!;
        const sum = value + retired[i]!;
        const physical = reserved[i]!;
        if (value < least) { least = value; low = i; }
        if (value > most) { most = value; high = i; }
        if (sum > topmost) { topmost = sum; top = i; }
        if (physical < leastReserved) { leastReserved = physical; reservedLow = i; }
        if (physical > mostReserved) { mostReserved = physical; reservedHigh = i; }
    }
    const picked = [low, high, top, reservedLow, reservedHigh, to - 1].sort((a, b) => a - b);
    picked.forEach((record, i) => {
        if (i === 0 || record !== picked[i - 1]) {
            result.push(record);
        }
    });
}

/**
 * The records to draw between two points of the axis, with the one before and the one after, so
 * that lines reach the edges. `axis` ascends: times, or null for record numbers.
 */
export function decimate(history: History, axis: Float64Array | null, begin: number, end: number,
                         columns: number): number[] {
    const at = (value: number, from: number): number => axis
        ? lowerBound(axis, value, from)
        : Math.min(history.length, Math.max(from, Math.ceil(value)));
    const first = Math.max(0, at(begin, 0) - 1);
    const last = Math.min(history.length, at(end, first) + 2);
    const result: number[] = [];
    const step = (end - begin) / columns;
    let from = first;
    for (let column = 1; column <= columns && from < last; column++) {
        const to = column === columns ? last : Math.min(last, at(begin + column * step, from));
        if (to - from <= KEPT_PER_COLUMN) {
            for (let i = from; i < to; i++) {
                result.push(i);
            }
        } else {
            extremes(history, from, to, result);
        }
        from = to;
    }
    return result;
}
