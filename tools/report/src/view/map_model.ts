/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The geometry and colours of the address map. Segments are laid end to end in the order of
 * addresses, which leaves out the vast unmapped stretches between them; a *place* is a byte's
 * number in that line. The line is broken into rows like a text.
 */
import { sleepingPools } from '../data/accounting.js';
import { App } from '../app.js';
import { LIVE, RETIRED, STATES } from '../data/model.js';
import { lowerBound } from '../data/decimate.js';
import { CATEGORY_COLOURS, resolveColour, Share, SHARE_WORDS, SHARES, shareVariable }
    from '../ui/colours.js';

export const COLOURINGS = ['state', 'stream', 'pool', 'stack'] as const;
export type Colouring = typeof COLOURINGS[number];

/** One colour of the legend. */
export interface Category { name: string; css: string; bytes: number; blocks: number }

/** Where every block is on the line. */
export class Layout {
    /** Place of the first byte of each block; one more at the end, for the whole. */
    readonly start: Float64Array;
    readonly total: number;

    constructor(app: App) {
        const { bytes, length } = app.device.blocks;
        this.start = new Float64Array(length + 1);
        let place = 0;
        for (let block = 0; block < length; block++) {
            this.start[block] = place;
            place += bytes[block]!;
        }
        this.start[length] = place;
        this.total = place;
    }

    /** The block at a place, which must be below the total. */
    blockAt(place: number): number {
        const next = lowerBound(this.start, place + 0.5);
        return Math.max(0, Math.min(this.start.length - 2, next - 1));
    }
}

/** Which category each block has, and the colours. */
export class Paint {
    readonly categories: Category[] = [];
    readonly category: Uint8Array;
    /** Red, green, blue of each category, one after the other. */
    readonly rgb: Float64Array;

    constructor(app: App, readonly colouring: Colouring) {
        this.category = new Uint8Array(app.device.blocks.length);
        if (colouring === 'state') {
            this.byState(app);
        } else {
            this.byOwner(app, colouring);
        }
        this.rgb = Float64Array.from(this.categories.flatMap(({ css }) => resolveColour(css)));
    }

    private byState(app: App): void {
        // On the map a block is one piece: rounding is part of live blocks.
        const shares: Share[] = SHARES.filter((share) => share !== 'slack');
        const ofState = STATES.map((state) => shares.indexOf(state as Share));
        const asleep = sleepingPools(app.snapshot);
        const { blocks } = app.device;
        for (const share of shares) {
            this.categories.push({ name: SHARE_WORDS[share].name, bytes: 0, blocks: 0,
                                   css: `var(${shareVariable(share)})` });
        }
        for (let block = 0; block < blocks.length; block++) {
            this.count(block, asleep[blocks.pool[block]!] ? shares.indexOf('asleep')
                : ofState[blocks.state[block]!]!, blocks.bytes[block]!);
        }
    }

    private count(block: number, category: number, bytes: number): void {
        this.category[block] = category;
        const entry = this.categories[category]!;
        entry.bytes += bytes;
        entry.blocks++;
    }

    /** Live and waiting blocks by whose they are; the largest owners have colours. */
    private byOwner(app: App, colouring: Exclude<Colouring, 'state'>): void {
        const { blocks } = app.device;
        const owner = blocks[colouring];
        const owned = (block: number): boolean =>
            blocks.state[block] === LIVE || blocks.state[block] === RETIRED;
        const sums = new Map<number, number>();
        for (let block = 0; block < blocks.length; block++) {
            if (owned(block)) {
                const key = owner[block]!;
                sums.set(key, (sums.get(key) ?? 0) + blocks.bytes[block]!);
            }
        }
        const ranked = [...sums].sort((a, b) => b[1] - a[1]).map(([key]) => key);
        const named = ranked.slice(0, CATEGORY_COLOURS.length);
        const place = new Map(named.map((key, index) => [key, index]));
        const nameOf = (key: number): string => colouring === 'stream' ? app.names.stream(key)
            : colouring === 'pool' ? app.names.pool(key) : app.names.stack(key).name;
        named.forEach((key, index) => this.categories.push(
            { name: nameOf(key), css: CATEGORY_COLOURS[index]!, bytes: 0, blocks: 0 }));
        const rest = this.categories.push(
            { name: `${ranked.length - named.length} others`, css: 'var(--other)', bytes: 0,
              blocks: 0 }) - 1;
        const unused = this.categories.push(
            { name: 'Not in use', css: 'var(--free)', bytes: 0, blocks: 0 }) - 1;
        for (let block = 0; block < blocks.length; block++) {
            this.count(block, owned(block) ? place.get(owner[block]!) ?? rest : unused,
                blocks.bytes[block]!);
        }
    }
}

export interface Picture {
    columns: number; rows: number; rowHeight: number; gap: number;
    /** Places of the first byte and of the one after the last. */
    begin: number; end: number;
    background: [number, number, number]; edge: [number, number, number];
    /** Blocks to show at full strength, the others faint; null for all. */
    chosen: Uint8Array | null;
    selected: number;
}

/** How much of a block's colour is left where others are chosen. */
const FAINT = 0.16;
/** Pixels that a block needs for an edge of its own. */
const EDGE_FROM = 4;

/** The colours of the pixels of one row, mixed by the bytes that each pixel stands for. */
function paintRow(app: App, layout: Layout, paint: Paint, picture: Picture, row: number,
                  line: Uint32Array): void {
    const { columns, rows, begin, end, background, edge, chosen, selected } = picture;
    const perPixel = (end - begin) / (columns * rows);
    const { start } = layout;
    const { segment } = app.device.blocks;
    const last = start.length - 2;
    let block = layout.blockAt(begin + row * columns * perPixel);
    let edgeBlock = -1;
    for (let x = 0; x < columns; x++) {
        const from = begin + (row * columns + x) * perPixel;
        const to = Math.min(from + perPixel, layout.total);
        let red = 0, green = 0, blue = 0, weight = 0;
        while (block < last && start[block + 1]! <= from) {
            block++;
        }
        const firstBlock = block;
        for (let at = block; at <= last && start[at]! < to; at++) {
            const share = Math.min(to, start[at + 1]!) - Math.max(from, start[at]!);
            const rgb = paint.category[at]! * 3;
            const strength = chosen && !chosen[at] ? FAINT : 1;
            red += share * mix(paint.rgb[rgb]!, background[0], strength);
            green += share * mix(paint.rgb[rgb + 1]!, background[1], strength);
            blue += share * mix(paint.rgb[rgb + 2]!, background[2], strength);
            weight += share;
            block = at;
        }
        // A wide block gets an edge at its first pixel; a segment's first block a stronger one.
        const wide = start[block]! >= from && block !== edgeBlock &&
            (start[block + 1]! - start[block]!) >= EDGE_FROM * perPixel && block > 0;
        if (wide && weight > 0) {
            edgeBlock = block;
            const newSegment = segment[block] !== segment[block - 1];
            const strength = newSegment ? 1 : 0.55;
            red = mix(edge[0], red / weight, strength);
            green = mix(edge[1], green / weight, strength);
            blue = mix(edge[2], blue / weight, strength);
            weight = 1;
        }
        if (selected >= firstBlock && selected <= block && weight > 0) {
            red = mix(255 - background[0], red / weight, 0.45);
            green = mix(255 - background[1], green / weight, 0.45);
            blue = mix(255 - background[2], blue / weight, 0.45);
            weight = 1;
        }
        line[x] = weight > 0
            ? pack(red / weight, green / weight, blue / weight) : pack(...background);
    }
}

function mix(a: number, b: number, part: number): number {
    return a * part + b * (1 - part);
}

/** In the order of bytes that image data has on every machine browsers run on. */
function pack(red: number, green: number, blue: number): number {
    return (0xff000000 | (blue & 0xff) << 16 | (green & 0xff) << 8 | (red & 0xff)) >>> 0;
}

export function paintMap(app: App, layout: Layout, paint: Paint, picture: Picture,
                         context: CanvasRenderingContext2D): void {
    const { columns, rows, rowHeight, gap, background } = picture;
    const height = rows * (rowHeight + gap);
    const image = context.createImageData(columns, height);
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(pack(...background));
    const line = new Uint32Array(columns);
    for (let row = 0; row < rows; row++) {
        paintRow(app, layout, paint, picture, row, line);
        for (let y = 0; y < rowHeight; y++) {
            pixels.set(line, (row * (rowHeight + gap) + y) * columns);
        }
    }
    context.putImageData(image, 0, 0);
}
