/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bands of the timeline: what they are coloured by, the legend, the filter, and the band that
 * is chosen. The timeline has the window and the axes, and says where to draw.
 */
import { App } from '../app.js';
import { Bands, bandsOf, ClassSums } from '../data/bands.js';
import { Group, groupsOf } from '../data/holders.js';
import { BandGroup, Filter, Grouping } from '../data/groups.js';
import { CATEGORY_COLOURS, resolveColour } from '../ui/colours.js';
import { Child, choice, el, fill } from '../ui/dom.js';
import { bytes } from '../text/units.js';
import { bandDetail, bandText } from './band_words.js';
import { Frame, Hit, Palette, Slice, Window } from './bands.js';
import { GROUP_WORDS } from './group_words.js';

/** How much of the page's colour is in what is dimmed; of the text's in a line, and in every other
 * band. */
const DIMMED = 0.82, LINE = 0.45, OTHER = 0.13;

type Colour = readonly [number, number, number];

const mix = (a: Colour, b: Colour, part: number): Colour =>
    [0, 1, 2].map((i) => Math.round(a[i]! * (1 - part) + b[i]! * part)) as unknown as Colour;

/** Of a pixel as canvases have them: the bytes red, green, blue, opaque. */
const pixel = ([red, green, blue]: Colour): number =>
    (255 << 24 | blue << 16 | green << 8 | red) >>> 0;

export class BandsChart {
    readonly controls = el('div', { class: 'band-controls' });
    readonly legend = el('ul', { class: 'legend', 'aria-label': 'Legend: what is live at the ' +
        'peak, by colour. A click dims the others.' });
    readonly detail = el('div', { 'aria-live': 'polite' });
    private readonly input = el('input', {
        type: 'search', placeholder: 'Function, stream, pool, 0x address\u2026',
        'aria-label': 'Dim all bands but those that fit', oninput: () => this.filterBy(),
    });
    private readonly filter: Filter = { text: '', group: null };
    private readonly canvas = document.createElement('canvas');
    private sums: ClassSums | null = null;
    private grouping: Grouping | null = null;
    private palette: Palette | null = null;
    private frame: Frame | null = null;
    private shown = '';
    private slices: Slice[] = [];
    private chosen: number | null = null;

    constructor(private readonly app: App, private group: Group,
                private readonly changed: () => void, private readonly moved: (record: number) =>
                    void) {
        fill(this.controls,
            choice('Colour by', groupsOf(app.snapshot).map((one) =>
                [one, GROUP_WORDS[one]] as const), group, (one) => {
                this.group = one;
                this.filter.group = null;
                this.regroup();
            }), this.input);
        this.input.value = '';
    }

    get bands(): Bands {
        return bandsOf(this.app.device);
    }

    private filterBy(): void {
        this.filter.text = this.input.value;
        this.regroup();
    }

    private regroup(): void {
        this.grouping = null;
        this.frame = null;
        this.shown = '';
        this.changed();
    }

    /** Colours are of the theme: they are looked up again when it changes. */
    forgetColours(): void {
        this.palette = null;
        this.shown = '';
    }

    private prepare(): { grouping: Grouping; sums: ClassSums } {
        if (!this.grouping || !this.sums) {
            const { snapshot, names } = this.app;
            this.grouping = new Grouping(this.bands, this.group, snapshot, names, this.filter);
            this.sums = new ClassSums(this.bands, this.grouping);
            this.palette = null;
            this.drawLegend(this.grouping.groups);
        }
        this.palette ??= this.makePalette(this.grouping.groups.length);
        return { grouping: this.grouping, sums: this.sums };
    }

    private colourOf(group: number): string {
        const { isRest, rank } = this.grouping!.groups[group]!;
        return isRest ? 'var(--other)' : CATEGORY_COLOURS[rank % CATEGORY_COLOURS.length]!;
    }

    private makePalette(groups: number): Palette {
        const [card, text] = [resolveColour('var(--card)'), resolveColour('var(--text)')];
        const palette: Palette = {
            fill: new Uint32Array(2 * groups), other: new Uint32Array(2 * groups),
            line: new Uint32Array(2 * groups),
            waiting: [pixel(resolveColour('var(--retired)')), pixel(card)],
        };
        for (let group = 0; group < groups; group++) {
            const colour = resolveColour(this.colourOf(group));
            [colour, mix(colour, card, DIMMED)].forEach((one, dimmed) => {
                palette.fill[2 * group + dimmed] = pixel(one);
                palette.other[2 * group + dimmed] = pixel(mix(one, dimmed ? card : text, OTHER));
                palette.line[2 * group + dimmed] = pixel(mix(one, dimmed ? card : text, LINE));
            });
        }
        return palette;
    }

    private drawLegend(groups: BandGroup[]): void {
        const focused = this.legend.contains(document.activeElement)
            ? document.activeElement!.getAttribute('data-group') : null;
        const byRank = groups.map((_, group) => group)
            .sort((a, b) => groups[a]!.rank - groups[b]!.rank);
        fill(this.legend, ...byRank.map((group) => {
            const { name, note, spot, peakBytes } = groups[group]!;
            const key = el('i', { class: 'key' });
            key.style.backgroundColor = this.colourOf(group);
            return el('li', {}, el('button', {
                type: 'button', 'data-group': group, title: note ? `${name} ${note}` : name,
                'aria-pressed': String(this.filter.group === group),
                onclick: () => {
                    this.filter.group = this.filter.group === group ? null : group;
                    this.regroup();
                },
            }, key, el('span', {}, name, spot && el('small', {}, ` ${spot}`)),
            el('b', { 'data-bytes': peakBytes }, bytes(peakBytes))));
        }), this.bands.history.retired.some((bytes) => bytes > 0) && this.waitingEntry());
        if (focused !== null) {
            this.legend.querySelector<HTMLElement>(`[data-group="${focused}"]`)?.focus();
        }
    }

    private waitingEntry(): HTMLElement {
        const key = el('i', { class: 'key pattern' });
        key.style.backgroundColor = 'var(--retired)';
        return el('li', {}, key, el('span', {}, 'Waiting: on top'));
    }

    /** Draws into a rectangle of a canvas, in its own pixels. */
    draw(ctx: CanvasRenderingContext2D, box: { left: number; top: number },
         window: Window): void {
        const { columns, rows } = window;
        if (columns < 1 || rows < 1) {
            return;
        }
        const { sums } = this.prepare();
        const shown = [window.begin, window.end, columns, rows, window.low, window.high,
            window.axis !== null, this.chosen].join(' ');
        if (!this.frame || this.shown !== shown) {
            this.frame = new Frame(this.bands, sums, window);
            this.canvas.width = columns;
            this.canvas.height = rows;
            const image = new ImageData(columns, rows);
            this.slices = this.frame.paint(new Uint32Array(image.data.buffer), this.palette!,
                this.chosen);
            this.canvas.getContext('2d')!.putImageData(image, 0, 0);
            this.shown = shown;
        }
        ctx.drawImage(this.canvas, box.left, box.top);
        this.drawChosen(ctx, box);
    }

    /** The edges of the chosen band. */
    private drawChosen(ctx: CanvasRenderingContext2D, box: { left: number; top: number }): void {
        const { slices } = this;
        if (slices.length === 0) {
            return;
        }
        ctx.save();
        ctx.translate(box.left, box.top);
        ctx.beginPath();
        for (const { column, top } of slices) {
            ctx.lineTo(column, top);
            ctx.lineTo(column + 1, top);
        }
        for (let i = slices.length - 1; i >= 0; i--) {
            const { column, bottom } = slices[i]!;
            ctx.lineTo(column + 1, bottom);
            ctx.lineTo(column, bottom);
        }
        ctx.closePath();
        const [red, green, blue] = resolveColour('var(--text)');
        ctx.strokeStyle = `rgb(${red}, ${green}, ${blue})`;
        ctx.lineWidth = 2 * devicePixelRatio;
        ctx.stroke();
        ctx.restore();
    }

    hit(column: number, amount: number): Hit | null {
        const { frame } = this;
        return frame && column >= 0 && column < frame.samples.length
            ? frame.hit(column, amount) : null;
    }

    /** What is pointed at, for the tip. */
    tip(hit: Hit): Child {
        return el('div', {}, hit.band !== null ? bandText(this.app, this.bands, hit.band)
            : `${this.grouping!.groups[hit.group]!.name}: ${bytes(hit.bytes)} in blocks too ` +
              'small or too brief to draw here; zoom in');
    }

    choose(band: number | null): void {
        this.chosen = band;
        fill(this.detail, band !== null && bandDetail(this.app, this.bands, band, (other) => {
            this.choose(other);
            this.moved(Math.max(0, this.bands.start(other)));
        }, el('button', {
            type: 'button', onclick: () => this.app.go('lanes', { band }),
        }, 'Show in the lanes')));
        this.changed();
    }

    /** The band above or below the chosen one after a record, as they are stacked. */
    step(record: number, by: number, leastBytes: number): void {
        const { sums } = this.prepare();
        const stacked = new Frame(this.bands, sums, {
            axis: null, begin: record, end: record, columns: 1, rows: 1, low: 0, high: leastBytes,
        }).column(0);
        if (stacked.length > 0) {
            const now = stacked.findIndex(({ band }) => band === this.chosen);
            const next = now < 0 ? (by > 0 ? 0 : stacked.length - 1)
                : Math.min(stacked.length - 1, Math.max(0, now + by));
            this.choose(stacked[next]!.band);
        }
    }
}
