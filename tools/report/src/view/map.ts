/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address map: every byte that Tenure holds, in the order of addresses, coloured by what it is
 * or whose it is. Zoom, point, select a block; below, the segments as a table.
 */
import { App, Target, View } from '../app.js';
import { resolveColour } from '../ui/colours.js';
import { choice, el, fill, oncePerFrame } from '../ui/dom.js';
import { DataTable } from '../ui/table.js';
import { hideTip, showTip } from '../ui/tip.js';
import { LIVE, RETIRED } from '../data/model.js';
import { bytes, count, hex, percent, plural } from '../text/units.js';
import { blockDetail, blockTip, waitsByBlock } from './describe.js';
import { Colouring, COLOURINGS, Layout, Paint, paintMap, Picture } from './map_model.js';

const ROWS = 26;
const ROW_HEIGHT = 13;
const ROW_GAP = 3;
const ZOOM_STEP = 2;
/** Least bytes that a window shows: beyond that there is nothing more to see. */
const LEAST_WINDOW = 64 * 1024;

const COLOURING_WORDS: Record<Colouring, string> = {
    state: 'State', stream: 'Stream', pool: 'Pool', stack: 'Call stack',
};

interface SegmentRow {
    segment: number; live: number; waiting: number; unused: number; largest: number;
}

export class MapView implements View {
    readonly root = el('div', {});
    private readonly layout: Layout;
    private paint: Paint | null = null;
    private colouring: Colouring = 'state';
    private readonly canvas = el('canvas', {
        tabindex: 0, role: 'application', 'aria-roledescription': 'map',
        'aria-label': 'Address map. Left and right select blocks, plus and minus zoom, 0 shows ' +
            'all. The selected block is described below.',
    });
    private readonly legend = el('ul', { class: 'legend', 'aria-label': 'Legend of the map' });
    private readonly ruler = el('div', { class: 'map-ruler' });
    private readonly detail = el('div', { 'aria-live': 'polite' });
    private readonly waits: Map<number, number[]>;
    private begin = 0;
    private end: number;
    private selected = -1;
    private chosen: Uint8Array | null = null;
    private chosenCategory = -1;
    private readonly drawSoon = oncePerFrame(() => this.draw());

    constructor(private readonly app: App) {
        this.layout = new Layout(app);
        this.end = this.layout.total;
        this.waits = waitsByBlock(app);
        if (this.layout.total === 0) {
            this.root.append(el('p', { class: 'nothing' }, 'No memory is reserved.'));
            return;
        }
        this.root.append(this.mapCard(), this.segmentCard());
        this.listen();
    }

    private mapCard(): HTMLElement {
        const button = (text: string, label: string, run: () => void) =>
            el('button', { type: 'button', title: label, 'aria-label': label, onclick: run }, text);
        const options = COLOURINGS.map((one) => [one, COLOURING_WORDS[one]] as const);
        return el('section', { class: 'card' },
            el('div', { class: 'head' },
                el('h2', {}, 'Every byte, in the order of addresses'),
                choice('Colour by', options, this.colouring, (colouring) => {
                    this.colouring = colouring;
                    this.choose(-1);
                    this.paint = null;
                    this.drawSoon();
                }),
                el('span', { class: 'buttons' },
                    button('\u2212', 'Zoom out (-)', () => this.zoom(ZOOM_STEP)),
                    button('+', 'Zoom in (+)', () => this.zoom(1 / ZOOM_STEP)),
                    button('All', 'Show all (0)', () => this.setWindow(0, this.layout.total)))),
            this.legend, this.ruler, el('div', { class: 'map' }, this.canvas), this.detail);
    }

    /* ---- the window ---- */

    private setWindow(begin: number, end: number): void {
        const { total } = this.layout;
        const span = Math.min(total, Math.max(Math.min(total, LEAST_WINDOW), end - begin));
        this.begin = Math.min(Math.max(0, begin + (end - begin - span) / 2), total - span);
        this.end = this.begin + span;
        this.drawSoon();
    }

    private zoom(factor: number, about?: number): void {
        const place = about ?? (this.selected >= 0
            ? (this.layout.start[this.selected]! + this.layout.start[this.selected + 1]!) / 2
            : (this.begin + this.end) / 2);
        const span = (this.end - this.begin) * factor;
        const part = place >= this.begin && place <= this.end
            ? (place - this.begin) / (this.end - this.begin) : 0.5;
        this.setWindow(place - part * span, place + (1 - part) * span);
    }

    private pan(rows: number): void {
        const step = rows * (this.end - this.begin) / ROWS;
        this.setWindow(this.begin + step, this.end + step);
    }

    private showBlock(block: number, zoom: boolean): void {
        const { start } = this.layout;
        this.selected = block;
        const size = start[block + 1]! - start[block]!;
        const span = zoom ? Math.min(this.end - this.begin, Math.max(size * 40, LEAST_WINDOW))
            : this.end - this.begin;
        if (zoom || start[block + 1]! <= this.begin || start[block]! >= this.end) {
            const middle = start[block]! + size / 2;
            this.setWindow(middle - span / 2, middle + span / 2);
        }
        this.drawDetail();
        this.drawSoon();
    }

    private showSegment(segment: number): void {
        const { firstBlock, blocks } = this.app.device.segments;
        const first = firstBlock[segment]!;
        this.setWindow(this.layout.start[first]!, this.layout.start[first + blocks[segment]!]!);
        this.canvas.scrollIntoView({ block: 'center' });
    }

    /* ---- drawing ---- */

    private picture(): Picture {
        const ratio = Math.min(2, devicePixelRatio || 1);
        return {
            columns: Math.max(100, Math.round(this.canvas.clientWidth * ratio)), rows: ROWS,
            rowHeight: Math.round(ROW_HEIGHT * ratio), gap: Math.round(ROW_GAP * ratio),
            begin: this.begin, end: this.end,
            background: resolveColour('var(--card)'), edge: resolveColour('var(--card)'),
            chosen: this.chosen, selected: this.selected,
        };
    }

    private draw(): void {
        if (this.canvas.clientWidth === 0) {
            return;
        }
        if (!this.paint) {
            this.paint = new Paint(this.app, this.colouring);
            this.drawLegend();
        }
        const picture = this.picture();
        this.canvas.width = picture.columns;
        this.canvas.height = picture.rows * (picture.rowHeight + picture.gap);
        paintMap(this.app, this.layout, this.paint, picture, this.canvas.getContext('2d')!);
        this.drawRuler();
    }

    private drawLegend(): void {
        fill(this.legend, ...this.paint!.categories.map((category, index) => {
            if (category.blocks === 0) {
                return null;
            }
            const key = el('i', { class: 'key' });
            key.style.backgroundColor = category.css;
            return el('li', {}, el('button', {
                type: 'button', 'aria-pressed': String(this.chosenCategory === index),
                title: `Show only this: ${plural(category.blocks, 'block')}, ` +
                    `${count(category.bytes)} bytes`,
                onclick: () => this.choose(this.chosenCategory === index ? -1 : index),
            }, key, el('span', {}, category.name),
            el('b', { 'data-bytes': category.bytes }, bytes(category.bytes))));
        }));
    }

    /** Shows one category at full strength, or all with -1. */
    private choose(category: number): void {
        this.chosenCategory = category;
        this.chosen = category < 0 ? null
            : this.paint!.category.map((one) => one === category ? 1 : 0);
        if (this.paint) {
            this.drawLegend();
        }
        this.drawSoon();
    }

    private drawRuler(): void {
        const { address } = this.app.device.blocks;
        const { start } = this.layout;
        const addressAt = (place: number): number => {
            const block = this.layout.blockAt(place);
            return address[block]! + Math.floor(place - start[block]!);
        };
        const span = this.end - this.begin;
        fill(this.ruler,
            el('span', {}, hex(addressAt(this.begin))),
            el('span', {}, `${bytes(span)} shown, ${bytes(span / ROWS)} a row`),
            el('span', {}, hex(addressAt(Math.max(this.begin, this.end - 1)))));
    }

    private drawDetail(): void {
        fill(this.detail, this.selected < 0 ? null
            : blockDetail(this.app, this.selected, this.waits.get(this.selected) ?? []));
    }

    /* ---- input ---- */

    private placeOf(event: MouseEvent): number | null {
        const box = this.canvas.getBoundingClientRect();
        const row = Math.floor((event.clientY - box.top) / (box.height / ROWS));
        const part = (event.clientX - box.left) / box.width;
        if (row < 0 || row >= ROWS || part < 0 || part >= 1) {
            return null;
        }
        const place = this.begin + (row + part) / ROWS * (this.end - this.begin);
        return place < this.layout.total ? place : null;
    }

    private listen(): void {
        this.canvas.addEventListener('pointermove', (event) => {
            const place = this.placeOf(event);
            if (place === null) {
                hideTip();
            } else {
                showTip(event.clientX, event.clientY,
                    ...blockTip(this.app, this.layout.blockAt(place)));
            }
        });
        this.canvas.addEventListener('pointerleave', hideTip);
        this.canvas.addEventListener('click', (event) => {
            const place = this.placeOf(event);
            if (place !== null) {
                this.showBlock(this.layout.blockAt(place), false);
            }
        });
        this.canvas.addEventListener('dblclick', (event) => {
            const place = this.placeOf(event);
            if (place !== null) {
                this.zoom(1 / 8, place);
            }
        });
        this.canvas.addEventListener('wheel', (event) => {
            if (event.ctrlKey || event.metaKey) {
                event.preventDefault();
                this.zoom(Math.exp(event.deltaY * 0.004), this.placeOf(event) ?? undefined);
            }
        }, { passive: false });
    }

    key(event: KeyboardEvent): boolean {
        if (this.layout.total === 0) {
            return false;
        }
        const last = this.layout.start.length - 2;
        switch (event.key) {
        case '+': case '=': this.zoom(1 / ZOOM_STEP); return true;
        case '-': this.zoom(ZOOM_STEP); return true;
        case '0': this.setWindow(0, this.layout.total); return true;
        case 'ArrowLeft': this.showBlock(Math.max(0, this.selected - 1), false); return true;
        case 'ArrowRight': this.showBlock(Math.min(last, this.selected + 1), false); return true;
        case 'ArrowUp':
            if (document.activeElement !== this.canvas) {
                return false;
            }
            this.pan(-4);
            return true;
        case 'ArrowDown':
            if (document.activeElement !== this.canvas) {
                return false;
            }
            this.pan(4);
            return true;
        default: return false;
        }
    }

    /* ---- segments ---- */

    private segmentRows(): SegmentRow[] {
        const { segments, blocks } = this.app.device;
        const rows: SegmentRow[] = Array.from({ length: segments.length }, (_, segment) =>
            ({ segment, live: 0, waiting: 0, unused: 0, largest: 0 }));
        for (let block = 0; block < blocks.length; block++) {
            const row = rows[blocks.segment[block]!]!;
            const size = blocks.bytes[block]!;
            if (blocks.state[block] === LIVE) {
                row.live += size;
            } else if (blocks.state[block] === RETIRED) {
                row.waiting += size;
            } else {
                row.unused += size;
                row.largest = Math.max(row.largest, size);
            }
        }
        return rows;
    }

    private segmentCard(): HTMLElement {
        const { segments } = this.app.device;
        const size = (row: SegmentRow): number => segments.bytes[row.segment]!;
        const table = new DataTable<SegmentRow>({
            caption: 'Segments', sortBy: 2, shown: 15, empty: 'There are none.',
            columns: [
                { title: 'Address', order: (row) => segments.address[row.segment]!,
                  cell: (row) => el('button', {
                      type: 'button', class: 'link mono',
                      onclick: () => this.showSegment(row.segment),
                  }, hex(segments.address[row.segment]!)) },
                { title: 'In use', hint: 'Live and waiting, of the segment',
                  order: (row) => (row.live + row.waiting) / size(row),
                  cell: (row) => usage(row, size(row)) },
                { title: 'Size', kind: 'number', order: size, cell: (row) => bytes(size(row)) },
                { title: 'Live', kind: 'number', order: (row) => row.live,
                  hint: 'Blocks in use, with what rounding costs',
                  cell: (row) => bytes(row.live) },
                { title: 'Waiting', kind: 'number', order: (row) => row.waiting,
                  cell: (row) => row.waiting > 0 ? bytes(row.waiting) : '\u2013' },
                { title: 'Unused', kind: 'number', order: (row) => row.unused,
                  cell: (row) => bytes(row.unused) },
                { title: 'Largest gap', kind: 'number', order: (row) => row.largest,
                  cell: (row) => row.largest > 0 ? bytes(row.largest) : '\u2013' },
                { title: 'Blocks', kind: 'number', order: (row) => segments.blocks[row.segment]!,
                  cell: (row) => count(segments.blocks[row.segment]!) },
                { title: 'Pool', order: (row) => this.app.names.pool(segments.pool[row.segment]!),
                  cell: (row) => this.app.names.pool(segments.pool[row.segment]!) },
                { title: 'Stream',
                  order: (row) => this.app.names.stream(segments.stream[row.segment]!),
                  cell: (row) => this.app.names.stream(segments.stream[row.segment]!) },
            ],
        });
        table.set(this.segmentRows());
        return el('section', { class: 'card' },
            el('div', { class: 'head' }, el('h2', {}, plural(segments.length, 'segment'))),
            el('p', { class: 'note' }, 'A segment is a stretch of addresses with memory in all ' +
                'of it, of one pool and stream. A click on an address shows it in the map.'),
            table.root);
    }

    /* ---- from outside ---- */

    shown(target: Target): void {
        if (this.layout.total === 0) {
            return;
        }
        if (target.block !== undefined) {
            this.showBlock(target.block, true);
        } else if (target.segment !== undefined) {
            this.showSegment(target.segment);
        }
        this.draw();
    }

    redraw(): void {
        this.paint = null;
        this.draw();
    }
}

/** A meter of what a segment's bytes are. */
function usage(row: SegmentRow, size: number): HTMLElement {
    const part = (share: number, variable: string) => {
        const bar = el('i', {});
        bar.style.width = `${100 * share / size}%`;
        bar.style.minWidth = share > 0 ? '2px' : '0';
        bar.style.borderRadius = '0';
        bar.style.backgroundColor = `var(${variable})`;
        return bar;
    };
    return el('span', {
        class: 'meter', role: 'img',
        'aria-label': `${percent(row.live, size)} live, ${percent(row.waiting, size)} waiting`,
    }, part(row.live, '--live'), part(row.waiting, '--retired'));
}
