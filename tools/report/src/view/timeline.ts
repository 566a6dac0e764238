/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline: every block as a band, or what was live, waiting and reserved after each record;
 * the peak, at which it opens; and under the chart who held memory at the moment that is pointed
 * at.
 *
 * uPlot draws; it gets only the records that the width can show (decimate.ts), again after each
 * zoom. The window is [begin, end] on the axis; everything that changes it goes through
 * setWindow().
 */
import uPlot from 'uplot';

import { App, Target, View } from '../app.js';
import { decimate, lowerBound } from '../data/decimate.js';
import { Group, Holder, holdersOf } from '../data/holders.js';
import { History, KIND } from '../data/model.js';
import { resolveCss } from '../ui/colours.js';
import { choice, el, fill, oncePerFrame } from '../ui/dom.js';
import { hideTip, showTip } from '../ui/tip.js';
import { adviceFor } from '../text/advice.js';
import { byteSplits, bytes, byteTicks, count, duration, moment, percent, plural, roundSplits }
    from '../text/units.js';
import { BandsChart } from './bands_chart.js';
import { recordText } from './describe.js';
import { defaultGroup, groupOptions } from './group_words.js';
import { Labels } from './labels.js';
import { LeftOutNote } from './left_out.js';

/** The chart and the strip below it end with the first screen, if that leaves room enough. */
const CHART_LEAST = 320, CHART_MOST = 460;
const BRUSH_HEIGHT = 44, BELOW = BRUSH_HEIGHT + 14;
const HOLDERS_SHOWN = 8;
const ZOOM_STEP = 2;
/** Marks, unless there are so many that nothing else could be seen; their names lie in so many
 * lines, and those that find no room in them are left out. */
const MARKS_DRAWN = 40, MARK_LINES = 4, TICK_ROWS = 8;

type Look = 'bands' | 'amounts';
type Axis = 'time' | 'records';
/** Whether amounts begin at zero, or fill the height with what is live and waiting. */
type Scale = 'zero' | 'fit';
/** A record that the chart has a line for, and its text. */
interface ChartEvent { record: number; colour: string; text: string }

interface Colours { live: string; retired: string; reserved: string; peak: string;
    text: string; muted: string; line: string; free: string }

export class TimelineView implements View {
    readonly root = el('div', {});
    private readonly history: History;
    private readonly chart = el('div', {
        class: 'chart', tabindex: 0, role: 'group', 'aria-roledescription': 'chart',
        'aria-label': 'Timeline of live, waiting and reserved memory, each block a band. Left ' +
            'and right move, plus and minus zoom, 0 shows all, comma and full stop go record by ' +
            'record, up and down go from block to block at the moment that is kept.',
    });
    private readonly brush = el('canvas', { class: 'brush', 'aria-hidden': 'true' });
    private readonly reading = el('p', { class: 'reading', 'aria-live': 'polite' });
    private readonly holders = el('div', {});
    private readonly leftOut: LeftOutNote;
    private plot: uPlot | null = null;
    /** Failures, marks, sleeps: what the chart draws lines for. */
    private readonly events: number[];
    /** What the chart and the strip below it show at the moment, to draw no more than changed. */
    private drawnChart = '';
    private drawnStrip = '';
    private readonly strip = document.createElement('canvas');
    /** Where texts lie in the chart. */
    private labels = new Labels();
    private look: Look = 'bands';
    private readonly amountsLegend = this.legend();
    private readonly bandsChart: BandsChart;
    private axis: Axis = 'time';
    private scale: Scale = 'zero';
    private group: Group;
    private begin = 0;
    private end = 1;
    /** The record that is shown below; null is the picture itself. */
    private record: number | null = null;
    private pinned = false;
    /** What is shown while nothing is pointed at: the peak, since whoever opens a report asks what
     * was there when most was; the picture after Escape. */
    private home: number | null = null;
    private colours!: Colours;
    private readonly drawSoon = oncePerFrame(() => this.draw());
    private readonly readSoon = oncePerFrame(() => this.read());

    constructor(private readonly app: App) {
        this.history = app.device.history;
        this.leftOut = new LeftOutNote(app);
        this.group = defaultGroup(app);
        this.events = eventsOf(this.history);
        this.bandsChart = new BandsChart(app, this.group, () => {
            this.drawnChart = '';
            this.drawSoon();
        }, (record) => this.showRecord(record));
        if (this.history.length === 0) {
            this.root.append(this.noHistory(), this.holdersCard());
            return;
        }
        this.axis = this.history.timed ? 'time' : 'records';
        [this.begin, this.end] = this.full();
        this.record = this.home = this.history.peak;
        this.root.append(this.chartCard(), this.holdersCard());
        this.setLook('bands');
        this.listen();
    }

    private noHistory(): HTMLElement {
        return el('section', { class: 'card' }, el('div', { class: 'head' },
            el('h2', {}, 'No history was recorded')),
        el('p', { class: 'note' }, 'The timeline needs the history of allocations. ' +
            `${adviceFor(this.app.snapshot).history}, and take a snapshot again.`));
    }

    private chartCard(): HTMLElement {
        const button = (text: string, label: string, run: () => void) =>
            el('button', { type: 'button', title: label, 'aria-label': label, onclick: run }, text);
        return el('section', { class: 'card' },
            el('div', { class: 'head' },
                el('h2', {}, 'Memory over time'),
                choice<Look>('Show', [['bands', 'Blocks'], ['amounts', 'Sums']], this.look,
                    (look) => this.setLook(look)),
                choice<Scale>('Scale', [['zero', 'From 0'], ['fit', 'Fit']], this.scale,
                    (scale) => {
                        this.scale = scale;
                        this.drawnChart = '';
                        this.drawSoon();
                    }),
                this.history.timed &&
                    choice<Axis>('Axis', [['time', 'Time'], ['records', 'Records']], this.axis,
                        (axis) => this.setAxis(axis)),
                el('span', { class: 'buttons' },
                    button('\u2212', 'Zoom out (-)', () => this.zoom(ZOOM_STEP)),
                    button('+', 'Zoom in (+)', () => this.zoom(1 / ZOOM_STEP)),
                    button('All', 'Show all (0)', () => this.setWindow(...this.full())),
                    button('Peak', 'Go to the peak (p)', () => this.goToPeak()))),
            this.bandsChart.controls,
            el('div', { class: 'beside' }, el('div', {}, this.chart, this.brush),
                el('div', {}, this.bandsChart.legend, this.amountsLegend)),
            this.leftOut.root, this.reading, this.bandsChart.detail,
            this.history.incomplete && el('p', { class: 'note' }, 'Some records are missing, so ' +
                'amounts near the beginning are lower bounds.'));
    }

    private legend(): HTMLElement {
        const entry = (variable: string, name: string, line: boolean) => {
            const key = el('i', { class: line ? 'key line' : 'key' });
            key.style.backgroundColor = `var(${variable})`;
            return el('li', {}, key, el('span', {}, name));
        };
        return el('ul', { class: 'legend', 'aria-label': 'Legend' },
            entry('--live', 'Live', false), entry('--retired', 'Waiting, on top of live', false),
            entry('--reserved', 'Reserved from the device', true),
            entry('--peak', 'Peak of live', true));
    }

    private holdersCard(): HTMLElement {
        return el('section', { class: 'card' }, this.holders);
    }

    /* ---- the window ---- */

    private full(): [number, number] {
        const { time, length } = this.history;
        if (this.axis === 'records') {
            return [0, Math.max(1, length - 1)];
        }
        const first = time[0]!;
        const last = Math.max(time[length - 1]!, this.app.snapshot.takenNs);
        return last > first ? [first, last] : [first - 500, first + 500];
    }

    private setLook(look: Look): void {
        this.look = look;
        this.amountsLegend.hidden = look === 'bands';
        for (const part of [this.bandsChart.controls, this.bandsChart.legend,
            this.bandsChart.detail]) {
            part.hidden = look !== 'bands';
        }
        this.redraw();
    }

    private setAxis(axis: Axis): void {
        this.axis = axis;
        this.setWindow(...this.full());
    }

    private setWindow(begin: number, end: number): void {
        const [low, high] = this.full();
        const least = this.axis === 'time' ? Math.min(1000, high - low) : Math.min(10, high - low);
        const span = Math.min(high - low, Math.max(least, end - begin));
        this.begin = Math.min(Math.max(low, begin + (end - begin - span) / 2), high - span);
        this.end = this.begin + span;
        this.drawSoon();
    }

    /** Factor above 1 zooms out. `about` stays where it is. */
    private zoom(factor: number, about = this.zoomCentre()): void {
        this.setWindow(about - (about - this.begin) * factor, about + (this.end - about) * factor);
    }

    private zoomCentre(): number {
        const place = this.record === null ? NaN : this.place(this.record);
        return place >= this.begin && place <= this.end ? place : (this.begin + this.end) / 2;
    }

    private pan(part: number): void {
        const span = this.end - this.begin;
        this.setWindow(this.begin + part * span, this.end + part * span);
    }

    private place(record: number): number {
        return this.axis === 'time' ? this.history.time[record]! : record;
    }

    /** The latest record at or before a place on the axis. */
    private recordAt(place: number): number {
        const { time, length } = this.history;
        const record = this.axis === 'time'
            ? lowerBound(time, place + 0.5) - 1 : Math.round(place);
        return Math.min(length - 1, Math.max(0, record));
    }

    private goToPeak(): void {
        this.showRecord(this.history.peak);
    }

    /** Pins a record and brings it into the window. */
    private showRecord(record: number): void {
        this.record = Math.min(this.history.length - 1, Math.max(0, record));
        this.pinned = true;
        const place = this.place(this.record);
        const span = this.end - this.begin;
        if (place < this.begin || place > this.end) {
            this.setWindow(place - span / 2, place + span / 2);
        }
        this.drawSoon();
        this.readSoon();
    }

    /* ---- drawing ---- */

    private readColours(): void {
        const names = ['live', 'retired', 'reserved', 'peak', 'text', 'muted', 'line', 'free'];
        this.colours = Object.fromEntries(names.map((name) => [name, resolveCss(`--${name}`)])) as
            unknown as Colours;
    }

    private data(width: number): uPlot.AlignedData {
        const { live, retired, reserved } = this.history;
        const drawn = decimate(this.history, this.axis === 'time' ? this.history.time : null,
            this.begin, this.end, Math.max(100, Math.round(width)));
        const places = drawn.map((record) => this.place(record));
        // From the last record to the picture nothing changed.
        const { length } = this.history;
        if (this.axis === 'time' && drawn[drawn.length - 1] === length - 1) {
            drawn.push(length - 1);
            places.push(Math.max(this.full()[1], places[places.length - 1]!));
        }
        return [
            places,
            drawn.map((record) => reserved[record]!),
            drawn.map((record) => live[record]! + retired[record]!),
            drawn.map((record) => live[record]!),
        ];
    }

    private series(): uPlot.Series[] {
        const stepped = uPlot.paths.stepped!({ align: 1 });
        const { live, retired, reserved } = this.colours;
        const faint = (colour: string, alpha: number) =>
            colour.replace('rgb(', 'rgba(').replace(')', `, ${alpha})`);
        const common = { paths: stepped, points: { show: false } };
        if (this.look === 'bands') {
            // Bands are drawn below what uPlot draws: of its own only the line above all.
            const none = { ...common, width: 0 };
            return [{}, { ...common, stroke: reserved, width: 1.5 }, none, none];
        }
        return [
            {},
            { ...common, stroke: reserved, width: 1.5, fill: faint(reserved, 0.09) },
            { ...common, stroke: retired, width: 1, fill: retired },
            { ...common, stroke: live, width: 1, fill: live },
        ];
    }

    private options(width: number): uPlot.Options {
        const { muted, line } = this.colours;
        const font = `12px ${getComputedStyle(document.body).fontFamily}`;
        const axis = { stroke: muted, font, grid: { stroke: line, width: 1 },
                       ticks: { stroke: line, width: 1 } };
        return {
            width, height: this.height(), series: this.series(), legend: { show: false },
            scales: {
                x: { time: false, range: () => [this.begin, this.end] },
                y: { range: (plot, _low, high) => this.amounts(plot, high) },
            },
            axes: [
                { ...axis, space: (_plot, _axis, low, high) => this.axisSpace(low, high),
                  splits: (_p, _i, low, high) => this.axisSplits(low, high, width),
                  values: (_plot, splits) => this.axisTexts(splits) },
                { ...axis, size: 76, splits: (_p, _i, low, high) => byteSplits(low, high),
                  values: (_plot, splits) => byteTicks(splits) },
            ],
            cursor: {
                drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false,
            },
            hooks: {
                setSelect: [(plot) => this.selected(plot)],
                setCursor: [(plot) => this.pointed(plot)],
                drawAxes: [(plot) => this.drawBands(plot)],
                draw: [(plot) => this.drawExtras(plot)],
            },
        };
    }

    private height(): number {
        const top = this.chart.getBoundingClientRect().top + scrollY;
        return Math.min(CHART_MOST, Math.max(CHART_LEAST, innerHeight - top - BELOW));
    }

    private amounts(plot: uPlot, high: number): [number, number] {
        const [, , top, live] = plot.data as unknown as (number[] | undefined)[];
        if (this.scale === 'zero' || !live?.length || !top) {
            return [0, Math.max(1, high * 1.06)];
        }
        const least = live.reduce((a, b) => Math.min(a, b));
        const most = top.reduce((a, b) => Math.max(a, b));
        const room = Math.max(512, (most - least) * 0.08);
        return [Math.max(0, least - room), most + room];
    }

    /** Pixels from one text to the next: the closer the look, the longer they are. A digit of the
     * font is 7 wide, and they stand apart. */
    private axisSpace(low: number, high: number): number {
        const longest = this.axisTexts([high, high + (high - low) / 20])[0]!;
        return Math.max(50, longest.length * 7 + 16);
    }

    /** Records are counted from 1 where people read them. */
    private axisSplits(low: number, high: number, width: number): number[] {
        const most = width / this.axisSpace(low, high);
        return this.axis === 'time' ? roundSplits(low, high, most)
            : roundSplits(low + 1, high + 1, most, 1).map((number) => number - 1);
    }

    private axisTexts(splits: number[]): string[] {
        const step = splits.length > 1 ? splits[1]! - splits[0]! : 1;
        return splits.map((value) => this.axis === 'time' ? moment(value, step, this.end)
            : count(Math.round(value) + 1));
    }

    private draw(): void {
        const width = this.chart.clientWidth;
        if (width === 0) {
            return;
        }
        const shown = `${this.axis} ${this.begin} ${this.end} ${width}`;
        if (!this.plot) {
            this.readColours();
            this.plot = new uPlot(this.options(width), this.data(width), this.chart);
            // Who cannot see it has the chart's own label, and the reading below it.
            this.plot.ctx.canvas.setAttribute('aria-hidden', 'true');
            this.plot.over.addEventListener('dblclick', () => this.setWindow(...this.full()));
        } else if (this.drawnChart === shown) {
            this.plot.redraw(false, false);
            return;
        } else {
            if (this.plot.width !== width) {
                this.plot.setSize({ width, height: this.plot.height });
            }
            this.plot.setData(this.data(width), true);
        }
        this.drawnChart = shown;
        this.leftOut.show(this.recordAt(this.begin), this.recordAt(this.end));
        this.drawBrush();
    }

    private drawBands(plot: uPlot): void {
        const { left, top, width, height } = plot.bbox;
        const { min, max } = plot.scales['y']!;
        if (this.look === 'bands' && max! > min!) {
            this.bandsChart.draw(plot.ctx, { left, top }, {
                axis: this.axis === 'time' ? this.history.time : null, begin: this.begin,
                end: this.end, columns: Math.round(width), rows: Math.round(height),
                low: min!, high: max!,
            });
        }
    }

    /** The peak, failures, marks and the pinned record. */
    private drawExtras(plot: uPlot): void {
        const { ctx, bbox } = plot;
        const { peak, live } = this.history;
        const ratio = devicePixelRatio;
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
        ctx.clip();
        ctx.lineWidth = ratio;
        // uPlot leaves its own settings behind.
        ctx.textAlign = 'left';
        ctx.textBaseline = 'alphabetic';
        ctx.font = `${12 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
        const events = this.drawnEvents(plot);
        const peakRow = peak < 0 ? 0 : Math.round(plot.valToPos(live[peak]!, 'y', true)) + 0.5;
        if (peak >= 0) {
            ctx.strokeStyle = this.colours.peak;
            ctx.setLineDash([6 * ratio, 4 * ratio]);
            line(ctx, bbox.left, peakRow, bbox.left + bbox.width, peakRow);
        }
        ctx.setLineDash([2 * ratio, 3 * ratio]);
        for (const { record, colour, text } of events) {
            this.drawUpright(plot, record, colour, text === '' ? TICK_ROWS * ratio : Infinity);
        }
        ctx.setLineDash([]);
        if ((this.pinned || this.record === this.home) && this.record !== null) {
            this.drawUpright(plot, this.record, this.colours.text);
        }
        // Texts after all lines: none goes through a text.
        this.labels = new Labels();
        if (peak >= 0) {
            const left = bbox.left + 5 * ratio;
            this.labels.write(ctx, `peak ${bytes(live[peak]!)}`,
                [{ left, top: peakRow - 16 * ratio }, { left, top: peakRow + 2 * ratio }],
                this.colours.peak);
        }
        for (const event of events.filter(({ text }) => text !== '')) {
            this.labelEvent(plot, event);
        }
        ctx.restore();
    }

    /** What lines are drawn for in the window: failures and marks. Where there are too many marks,
     * they are ticks without a text, one in a column. */
    private drawnEvents(plot: uPlot): ChartEvent[] {
        const { kind, mark } = this.history;
        const inside = this.events.filter((record) =>
            this.place(record) >= this.begin && this.place(record) <= this.end);
        const failures = inside.filter((record) => kind[record] === KIND.oom).slice(-MARKS_DRAWN);
        const others = inside.filter((record) => kind[record] !== KIND.oom);
        const isMany = others.length > MARKS_DRAWN;
        const inColumns = () =>
            [...new Map(others.map((one) => [this.column(plot, one), one])).values()];
        const textOf = (record: number) => kind[record] === KIND.mark
            ? this.app.snapshot.strings[mark[record]!]!
            : kind[record] === KIND.sleep ? 'sleep' : 'wake';
        return [
            ...failures.map((record) =>
                ({ record, colour: this.colours.peak, text: 'out of memory' })),
            ...(isMany ? inColumns() : others).map((record) => ({ record,
                colour: this.colours.muted, text: isMany ? '' : textOf(record).slice(0, 40) })),
        ];
    }

    private column(plot: uPlot, record: number): number {
        return Math.round(plot.valToPos(this.place(record), 'x', true)) + 0.5;
    }

    private drawUpright(plot: uPlot, record: number, colour: string, rows = Infinity): void {
        const x = this.column(plot, record);
        plot.ctx.strokeStyle = colour;
        line(plot.ctx, x, plot.bbox.top, x, plot.bbox.top + Math.min(rows, plot.bbox.height));
    }

    private labelEvent(plot: uPlot, { record, colour, text }: ChartEvent): void {
        const { ctx, bbox } = plot;
        const ratio = devicePixelRatio;
        const x = this.column(plot, record);
        const width = ctx.measureText(text).width + 6 * ratio;
        const isLeft = x + ratio + width > bbox.left + bbox.width;
        const left = isLeft ? x - ratio - width : x + ratio;
        this.labels.write(ctx, text, Array.from({ length: MARK_LINES }, (_, row) =>
            ({ left, top: bbox.top + (2 + 16 * row) * ratio })), colour);
    }

    /** The whole history in small, with the window on it. */
    private drawBrush(): void {
        const ratio = devicePixelRatio;
        const width = this.brush.clientWidth;
        this.brush.width = Math.round(width * ratio);
        this.brush.height = BRUSH_HEIGHT * ratio;
        const ctx = this.brush.getContext('2d')!;
        const [low, high] = this.full();
        const x = (place: number) => (place - low) / (high - low) * width;
        if (this.brush.width > 0) {
            ctx.drawImage(this.stripPicture(width), 0, 0);
        }
        ctx.scale(ratio, ratio);
        ctx.fillStyle = this.colours.text;
        ctx.globalAlpha = 0.18;
        ctx.fillRect(0, 0, x(this.begin), BRUSH_HEIGHT);
        ctx.fillRect(x(this.end), 0, width - x(this.end), BRUSH_HEIGHT);
        ctx.globalAlpha = 1;
        ctx.strokeStyle = this.colours.text;
        ctx.lineWidth = 1.5;
        ctx.strokeRect(x(this.begin) + 0.75, 0.75, Math.max(2, x(this.end) - x(this.begin) - 1.5),
            BRUSH_HEIGHT - 1.5);
    }

    /** What the strip shows below its window: drawn once for a width, an axis and a colour. Filling
     * a line that goes down and up in each column takes longer than all else that a frame does. */
    private stripPicture(width: number): HTMLCanvasElement {
        const ratio = devicePixelRatio;
        const shown = `${this.axis} ${width} ${ratio} ${this.colours.live}`;
        if (this.drawnStrip !== shown) {
            this.strip.width = Math.round(width * ratio);
            this.strip.height = BRUSH_HEIGHT * ratio;
            const ctx = this.strip.getContext('2d')!;
            ctx.scale(ratio, ratio);
            this.fillStrip(ctx, width);
            this.drawnStrip = shown;
        }
        return this.strip;
    }

    private fillStrip(ctx: CanvasRenderingContext2D, width: number): void {
        const { live, reserved, peak, time } = this.history;
        const [low, high] = this.full();
        const records = decimate(this.history, this.axis === 'time' ? time : null, low, high,
            Math.max(100, width));
        const top = records.reduce((most, record) => Math.max(most, reserved[record]!),
            Math.max(1, live[peak]!));
        const x = (place: number) => (place - low) / (high - low) * width;
        ctx.fillStyle = this.colours.live;
        ctx.globalAlpha = 0.55;
        ctx.beginPath();
        ctx.moveTo(0, BRUSH_HEIGHT);
        records.forEach((record, i) => {
            const y = BRUSH_HEIGHT * (1 - 0.92 * live[record]! / top);
            ctx.lineTo(x(this.place(record)), y);
            const next = records[i + 1];
            ctx.lineTo(next === undefined ? width : x(this.place(next)), y);
        });
        ctx.lineTo(width, BRUSH_HEIGHT);
        ctx.fill();
    }

    /* ---- input ---- */

    private listen(): void {
        this.chart.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
        this.chart.addEventListener('click', () => {
            this.pinned = this.record !== null;
            const hit = this.look === 'bands' && this.plot ? this.hitOf(this.plot) : null;
            if (hit?.band != null) {
                this.bandsChart.choose(hit.band);
            }
        });
        this.chart.addEventListener('pointerleave', () => {
            hideTip();
            if (!this.pinned) {
                this.record = this.home;
                this.readSoon();
            }
        });
        let grabbed: number | null = null;
        const toPlace = (event: PointerEvent) => {
            const box = this.brush.getBoundingClientRect();
            const [low, high] = this.full();
            return low + (event.clientX - box.left) / box.width * (high - low);
        };
        this.brush.addEventListener('pointerdown', (event) => {
            const place = toPlace(event);
            const span = this.end - this.begin;
            const inside = place >= this.begin && place <= this.end;
            grabbed = inside ? place - this.begin : span / 2;
            this.brush.setPointerCapture(event.pointerId);
            this.setWindow(place - grabbed, place - grabbed + span);
        });
        this.brush.addEventListener('pointermove', (event) => {
            if (grabbed !== null) {
                const span = this.end - this.begin;
                const place = toPlace(event);
                this.setWindow(place - grabbed, place - grabbed + span);
            }
        });
        this.brush.addEventListener('pointerup', () => { grabbed = null; });
    }

    /** Zooms where the pointer is; with no modifier only sideways wheels act, so that the page can
     * be scrolled over the chart. */
    private wheel(event: WheelEvent): void {
        if (event.ctrlKey || event.metaKey) {
            event.preventDefault();
            const left = event.clientX - this.plot!.over.getBoundingClientRect().left;
            this.zoom(Math.exp(event.deltaY * 0.004), this.plot!.posToVal(left, 'x'));
        } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            event.preventDefault();
            this.pan(event.deltaX / this.chart.clientWidth);
        }
    }

    private selected(plot: uPlot): void {
        const { left, width } = plot.select;
        if (width > 3) {
            this.setWindow(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'));
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }
    }

    private pointed(plot: uPlot): void {
        const left = plot.cursor.left ?? -1;
        const { event } = plot.cursor;
        if (left < 0 || event?.type !== 'mousemove') {
            return;
        }
        const record = this.recordAt(plot.posToVal(left, 'x'));
        this.showAmounts(record, event);
        if (!this.pinned) {
            this.record = record;
            this.readSoon();
        }
    }

    private hitOf(plot: uPlot): ReturnType<BandsChart['hit']> {
        const { left, top } = plot.cursor;
        return this.bandsChart.hit(Math.floor(left! * devicePixelRatio),
            plot.posToVal(top!, 'y'));
    }

    /** The amounts beside the pointer: also of other moments while one is kept. */
    private showAmounts(record: number, { clientX, clientY }: MouseEvent): void {
        const hit = this.look === 'bands' && this.plot ? this.hitOf(this.plot) : null;
        const { live, retired, reserved } = this.history;
        const line = (variable: string, name: string, amount: number) => {
            const swatch = el('i', { class: 'swatch' });
            swatch.style.backgroundColor = `var(${variable})`;
            return el('tr', {}, el('td', {}, swatch, name), el('td', {}, bytes(amount)));
        };
        showTip(clientX, clientY, el('b', {}, this.momentText(record)), el('table', {},
            line('--live', 'Live', live[record]!), line('--retired', 'Waiting', retired[record]!),
            line('--free', 'Reserved', reserved[record]!)), hit && this.bandsChart.tip(hit));
    }

    private momentText(record: number): string {
        if (!this.history.timed) {
            return `After record ${count(record + 1)}`;
        }
        return moment(this.history.time[record]!, (this.end - this.begin) / 1000,
            this.axis === 'time' ? this.end : undefined);
    }

    key(event: KeyboardEvent): boolean {
        if (this.history.length === 0) {
            return false;
        }
        switch (event.key) {
        case '+': case '=': this.zoom(1 / ZOOM_STEP); return true;
        case '-': this.zoom(ZOOM_STEP); return true;
        case '0': this.setWindow(...this.full()); return true;
        case 'ArrowLeft': this.pan(-0.2); return true;
        case 'ArrowRight': this.pan(0.2); return true;
        case 'p': this.goToPeak(); return true;
        case ',': this.showRecord((this.record ?? this.history.length) - 1); return true;
        case '.': this.showRecord((this.record ?? -1) + 1); return true;
        case 'ArrowUp': case 'ArrowDown':
            return this.stepBand(event.key === 'ArrowUp' ? 1 : -1);
        case 'Escape':
            if (this.pinned || this.home !== null) {
                this.unpin();
                return true;
            }
            return false;
        default: return false;
        }
    }

    /** Up and down scroll the page, except in the chart. */
    private stepBand(by: number): boolean {
        if (this.look !== 'bands' || document.activeElement !== this.chart || !this.plot) {
            return false;
        }
        const { min, max } = this.plot.scales['y']!;
        this.record ??= this.history.peak;
        this.pinned = true;
        this.bandsChart.step(this.record, by, (max! - min!) / this.plot.bbox.height);
        this.readSoon();
        return true;
    }

    private unpin(): void {
        this.bandsChart.choose(null);
        this.pinned = false;
        this.record = this.home = null;
        this.drawSoon();
        this.readSoon();
    }

    /* ---- below the chart ---- */

    private read(): void {
        this.drawReading();
        this.drawHolders();
    }

    private drawReading(): void {
        const { history, record } = this;
        if (record === null) {
            fill(this.reading, 'Point at the chart to read it; click to keep the moment. Drag to ' +
                'zoom, double click to see all, ', el('kbd', {}, '?'), ' for keys.');
            return;
        }
        fill(this.reading,
            el('b', {}, this.momentText(record)), ': live ',
            el('b', { 'data-reading': 'live' }, bytes(history.live[record]!)), ', waiting ',
            el('b', { 'data-reading': 'retired' }, bytes(history.retired[record]!)),
            ', reserved ',
            el('b', { 'data-reading': 'reserved' }, bytes(history.reserved[record]!)), '. ',
            el('button', {
                type: 'button', class: 'link', onclick: () => this.app.go('records', { record }),
            }, `Record ${count(record + 1)}`), `: ${recordText(this.app, record)}. `,
            (this.pinned || this.home !== null) && el('button', { type: 'button', class: 'link',
                                          onclick: () => this.unpin() }, 'Let go'));
    }

    private drawHolders(): void {
        const { app, record } = this;
        const holders = holdersOf(app.snapshot, app.names, app.device, this.group, record)
            .filter((holder) => holder.live > 0);
        const total = holders.reduce((sum, holder) => sum + holder.live, 0);
        const ago = record === null ? 0 : app.snapshot.takenNs - app.device.history.time[record]!;
        const head = el('div', { class: 'head' },
            el('h2', {}, record === null ? 'Who holds it at the snapshot'
                : record === app.device.history.peak ? 'Who held it at the peak'
                    : `Who held it ${this.history.timed ? duration(ago)
                        : plural(this.history.length - 1 - record, 'record')} before the snapshot`),
            choice('By', groupOptions(app.snapshot), this.group, (group) => {
                this.group = group;
                this.drawHolders();
            }));
        const focused = this.holders.contains(document.activeElement);
        fill(this.holders, head, holders.length === 0
            ? el('p', { class: 'nothing' }, 'Nothing was live.')
            : el('ol', { class: 'holders-list' },
                ...holders.slice(0, HOLDERS_SHOWN).map((holder) => holderItem(holder, total))),
        holders.length > HOLDERS_SHOWN && el('p', { class: 'note' },
            `${plural(holders.length - HOLDERS_SHOWN, 'more holder')} with ` +
            bytes(holders.slice(HOLDERS_SHOWN).reduce((sum, one) => sum + one.live, 0)) + '. ',
            el('button', { type: 'button', class: 'link', onclick: () => app.go('holders') },
                'All holders of the snapshot')));
        if (focused) {
            this.holders.querySelector<HTMLElement>('input:checked')?.focus();
        }
    }

    shown(target: Target): void {
        if (target.band !== undefined) {
            this.bandsChart.choose(target.band);
            this.showRecord(Math.max(0, this.bandsChart.bands.start(target.band)));
        } else if (target.record !== undefined) {
            this.showRecord(target.record);
        }
        if (this.history.length > 0) {
            this.draw();
        }
        this.read();
    }

    redraw(): void {
        if (this.history.length > 0) {
            this.plot?.destroy();
            this.plot = null;
            this.drawnChart = '';
            this.bandsChart.forgetColours();
            this.draw();
        }
    }
}

function eventsOf({ kind, length }: History): number[] {
    const drawn = new Set([KIND.oom, KIND.mark, KIND.sleep, KIND.wake]);
    const events: number[] = [];
    for (let i = 0; i < length; i++) {
        if (kind[i]! >= KIND.oom && drawn.has(kind[i]!)) {
            events.push(i);
        }
    }
    return events;
}

function line(ctx: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.lineTo(x2, y2);
    ctx.stroke();
}

function holderItem(holder: Holder, total: number): HTMLElement {
    const bar = el('i', {});
    bar.style.width = `${total > 0 ? 100 * holder.live / total : 0}%`;
    return el('li', { title: `${plural(holder.blocks, 'block')}, ${count(holder.live)} bytes` },
        el('span', { class: 'what' }, el('span', { class: 'name-main' }, holder.name),
            holder.note && el('small', {}, holder.note)),
        el('b', { class: 'number', 'data-bytes': holder.live }, bytes(holder.live)),
        el('span', { class: 'number' }, percent(holder.live, total)),
        el('span', { class: 'bar-line' }, bar));
}
