/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as people read them. Amounts of bytes are binary and have one unit in a page (GiB, where
 * they are large); the exact number goes into a title or a table beside them. Times are chosen by
 * size.
 */

/** Between a number and its unit: a space where no line ends. */
const NARROW = '\u00a0';
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

function significant(value: number): string {
    const size = Math.abs(value);
    // 999.6 would print as 1000: the caller picks the next unit before that.
    const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
    return value.toFixed(digits);
}

function unitOf(value: number): number {
    let unit = 0;
    for (; Math.abs(value) >= 1024 && unit < BYTE_UNITS.length - 1; unit++) {
        value /= 1024;
    }
    return unit;
}

function inUnit(value: number, unit: number): string {
    const amount = value / 1024 ** unit, size = Math.abs(amount);
    const digits = unit === 0 || size >= 999.95 ? 0 : size >= 99.995 ? 1 : 2;
    return `${amount.toFixed(digits)}${NARROW}${BYTE_UNITS[unit]}`;
}

let pageUnit = 0;

/** Says what the page's largest amount is. */
export function setPage(most: number): void {
    pageUnit = unitOf(most);
}

/** An amount, by the rule of alloc/base/bytes_text.h: all of a page have one unit, but for those of
 * which it would say nothing. */
export function bytes(value: number): string {
    const scale = 1024 ** pageUnit;
    const isOdd = Math.abs(value) < Math.floor(scale / 100) || Math.abs(value) >= 1024 * scale;
    return inUnit(value, isOdd ? unitOf(value) : pageUnit);
}

/** The size of one thing, a block or a request: in its own unit. */
export function sizeText(value: number): string {
    return inUnit(value, unitOf(value));
}

/** The same in the unit that suits `largest`: amounts that are compared have one unit. */
export function bytesBeside(value: number, largest: number): string {
    return inUnit(value, unitOf(largest));
}

/** What stands at a scale's ticks: one unit for all, and as many digits as their steps need. */
export function byteTicks(splits: readonly number[]): string[] {
    const step = splits.length > 1 ? splits[1]! - splits[0]! : 0;
    const unit = step >= 1024 ** pageUnit / 8 ? pageUnit
        : unitOf(Math.max(0, ...splits));
    return splits.map((value) =>
        `${Number((value / 1024 ** unit).toFixed(3))}${NARROW}${BYTE_UNITS[unit]}`);
}

/** With a sign, for differences. */
export function signedBytes(value: number): string {
    return value > 0 ? `+${bytes(value)}` : value < 0 ? `\u2212${bytes(-value)}` : `0${NARROW}B`;
}

export function count(value: number): string {
    return value.toLocaleString('en-US');
}

export function signedCount(value: number): string {
    return value > 0 ? `+${count(value)}` : value < 0 ? `\u2212${count(-value)}` : '0';
}

export function plural(value: number, one: string, many = `${one}s`): string {
    return `${count(value)} ${value === 1 ? one : many}`;
}

export function percent(part: number, whole: number): string {
    if (whole <= 0) {
        return '0 %';
    }
    const value = (100 * part) / whole;
    if (value === 0 || value >= 9.95) {
        return `${Math.round(value)} %`;
    }
    return value < 0.1 ? '<\u00a00.1\u00a0%' : `${value.toFixed(1)} %`;
}

const TIME_UNITS: readonly (readonly [number, string])[] = [
    [1e9, 's'], [1e6, 'ms'], [1e3, '\u00b5s'], [1, 'ns'],
];

/** A span of time given in ns. */
export function duration(ns: number): string {
    const size = Math.abs(ns);
    if (size >= 5999.5e9) {
        return `${significant(ns / 3600e9)}${NARROW}h`;
    }
    if (size >= 99.95e9) {
        const seconds = Math.round(size / 1e9);
        return `${ns < 0 ? '\u2212' : ''}${Math.floor(seconds / 60)} min ${seconds % 60} s`;
    }
    for (const [scale, unit] of TIME_UNITS) {
        if (size >= scale * 0.9995) {
            return `${significant(ns / scale)}${NARROW}${unit}`;
        }
    }
    return `0${NARROW}s`;
}

/** A point of time given in ns since the process's start, with as many digits as `step` needs, in
 * the unit that suits `largest`: points of one scale have one unit. */
export function moment(ns: number, step = 1e6, largest = 2e9): string {
    const [scale, unit] = TIME_UNITS.find(([size]) => largest >= 2 * size) ?? [1, 'ns'];
    const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(Math.max(step, 1) / scale))));
    return `${(ns / scale).toLocaleString('en-US', {
        minimumFractionDigits: digits, maximumFractionDigits: digits })}${NARROW}${unit}`;
}

/** Where a scale has its ticks: multiples of 1, 2 or 5 times a power of ten, `least` or more apart,
 * and at most about `most` of them. */
export function roundSplits(low: number, high: number, most: number, least = 0): number[] {
    const rough = Math.max((high - low) / Math.max(1, most), least, Number.MIN_VALUE);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5].find((factor) => factor * power >= rough * (1 - 1e-9)) ?? 10);
    const result: number[] = [];
    for (let at = Math.ceil(low / step); at * step <= high; at++) {
        result.push(at * step);
    }
    return result;
}

/** Ticks at powers of two apart, which are round in binary units. */
export function byteSplits(low: number, high: number): number[] {
    const step = 2 ** Math.ceil(Math.log2(Math.max(1, (high - low) / 6)));
    const result: number[] = [];
    for (let value = Math.ceil(low / step) * step; value <= high; value += step) {
        result.push(value);
    }
    return result;
}

export function hex(value: number): string {
    return `0x${value.toString(16)}`;
}

/** Epoch ns as the reader's own date and time. */
export function date(epochMs: number): string {
    return new Date(epochMs).toLocaleString(undefined, {
        year: 'numeric', month: 'short', day: 'numeric',
        hour: '2-digit', minute: '2-digit', second: '2-digit',
    });
}

/** What a person types for an address: hexadecimal with 0x, or twelve and more hex digits. */
export function parseAddress(text: string): number | null {
    const found = /^(?:0x([0-9a-f]{1,13})|([0-9a-f]{9,13}))$/i.exec(text.trim());
    return found ? parseInt(found[1] ?? found[2]!, 16) : null;
}
