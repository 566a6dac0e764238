/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as lanes over time. A block is a bar from its allocation to its free; what it then
 * waited for other work is a bar of another colour, up to where its memory could be had again.
 * Below the bars of a lane is how much is live in it, and below that the launches of graphs, from
 * the launch to when it was seen to be over; a tick is one whose end was not seen. From the block
 * that is chosen arrows go to who had its memory before and after, in whichever lane, and to the
 * streams that it waits for. Blocks that the checker found something about are marked.
 */
import { App, Target, View } from '../app.js';
import { Bands, bandsOf, ClassSums } from '../data/bands.js';
import { Finding } from '../data/findings.js';
import { Launch, launchesOf } from '../data/launches.js';
import { Bar, bandsAt, barsOf, Lane, LaneClasses, lanesOf } from '../data/lanes.js';
import { memoryOf, nextOwner, previousOwner } from '../data/owners.js';
import { resolveCss } from '../ui/colours.js';
import { append, el, fill, oncePerFrame } from '../ui/dom.js';
import { hideTip, showTip } from '../ui/tip.js';
import { adviceFor } from '../text/advice.js';
import { bytes, count, duration, moment, plural, roundSplits } from '../text/units.js';
import { bandDetail, bandText, placeOf } from './band_words.js';
import { KIND_WORDS as FINDING_WORDS } from './findings.js';

const NAME_ROWS = 22, BAR_ROWS = 11, BARS = 6, AREA_ROWS = 26, GAP = 12, AXIS_ROWS = 22;
const LANE_ROWS = NAME_ROWS + BARS * BAR_ROWS + AREA_ROWS + GAP;
const LAUNCH_TOP = LANE_ROWS - GAP + 2, LAUNCH_ROWS = 6;
const LANES_SHOWN = 16;
const ZOOM_STEP = 2;

interface Colours { live: string; retired: string; text: string; muted: string; line: string;
    problem: string; peak: string; sunken: string; launch: string }

export class LanesView implements View {
    readonly root = el('div', {});
    private readonly bands: Bands;
    private readonly lanes: Lane[];
    private readonly sums: ClassSums;
    private readonly canvas = el('canvas', {
        tabindex: 0, role: 'img', 'aria-label': 'Streams as lanes over time. Left and right ' +
            'move, plus and minus zoom, 0 shows all, comma and full stop go from block to block ' +
            'of the stream.',
    });
    private readonly box = el('div', { class: 'lanes' });
    private readonly labels: HTMLElement[];
    private readonly detail = el('div', { 'aria-live': 'polite' });
    private readonly axis: Float64Array | null;
    private readonly launches: { launch: Launch; lane: number }[];
    /** The last band of each finding's address, where the history has one. */
    private readonly found: { finding: Finding; band: number | null }[];
    private begin = 0;
    private end = 1;
    private bars: Bar[] = [];
    private chosen: number | null = null;
    private colours: Colours | null = null;
    private readonly drawSoon = oncePerFrame(() => this.draw());

    constructor(private readonly app: App) {
        const { history } = app.device;
        this.bands = bandsOf(app.device);
        this.axis = history.timed ? history.time : null;
        const streamOf = (band: number) => placeOf(app, this.bands, band).stream;
        const all = history.length > 0 ? lanesOf(this.bands, streamOf) : [];
        this.lanes = all.slice(0, LANES_SHOWN);
        this.sums = new ClassSums(this.bands, new LaneClasses(this.lanes, streamOf));
        const laneOf = new Map(this.lanes.map(({ stream }, lane) => [stream, lane]));
        this.launches = launchesOf(history).flatMap((launch) => {
            const lane = laneOf.get(launch.stream);
            return lane === undefined ? [] : [{ launch, lane }];
        });
        const findings = (app.findings?.list ?? [])
            .filter(({ device }) => device === app.device.index);
        const places = bandsAt(this.bands, findings.map(({ block }) => Number(block) || -1));
        this.found = findings.map((finding, i) => ({ finding, band: places[i]! }));
        this.labels = this.lanes.map((_lane, i) => {
            const label = el('p', { class: 'lane-name' });
            label.style.top = `${i * LANE_ROWS + 2}px`;
            return label;
        });
        if (history.length === 0) {
            this.root.append(el('p', { class: 'nothing' }, 'No history was recorded. ' +
                `${adviceFor(app.snapshot).history}.`));
            return;
        }
        [this.begin, this.end] = this.full();
        append(this.root, this.card(all.length), this.findingsCard());
        this.listen();
    }

    private card(all: number): HTMLElement {
        const button = (text: string, label: string, run: () => void) =>
            el('button', { type: 'button', title: label, 'aria-label': label, onclick: run }, text);
        const key = (variable: string, name: string) => {
            const swatch = el('i', { class: 'key' });
            swatch.style.backgroundColor = `var(${variable})`;
            return el('li', {}, swatch, el('span', {}, name));
        };
        this.box.append(this.canvas, ...this.labels);
        return el('section', { class: 'card' },
            el('div', { class: 'head' }, el('h2', {}, 'Streams over time'),
                el('span', { class: 'buttons' },
                    button('\u2212', 'Zoom out (-)', () => this.zoom(ZOOM_STEP)),
                    button('+', 'Zoom in (+)', () => this.zoom(1 / ZOOM_STEP)),
                    button('All', 'Show all (0)', () => this.setWindow(...this.full())))),
            el('p', { class: 'note' }, 'A bar is a block; where there are too many, the ' +
                'largest. The area below is all that is live on the stream. Choose a block to ' +
                'see who had its memory before, and who has it next.' +
                (all > this.lanes.length
                    ? ` ${plural(all - this.lanes.length, 'stream')} with fewer allocations ` +
                      'are left out.' : '')),
            el('ul', { class: 'legend', 'aria-label': 'Legend' }, key('--live', 'Allocated'),
                key('--retired', 'Freed, waits for other work'),
                this.launches.length > 0 && key('--launch',
                    'A launch of a graph, until it was seen to be over'),
                this.found.length > 0 && key('--problem', 'The checker found something')),
            this.box, this.detail);
    }

    private findingsCard(): HTMLElement | null {
        if (this.found.length === 0) {
            return null;
        }
        return el('section', { class: 'card' },
            el('div', { class: 'head' }, el('h2', {}, 'What the checker found')),
            el('ul', { class: 'findings' }, ...this.found.map(({ finding, band }) =>
                el('li', {}, el('span', { class: 'mark warn', 'aria-hidden': 'true' }, '!'),
                    el('span', {}, `${finding.number}, ` +
                        `${finding.certain ? 'certain' : 'possible'}: block ${finding.block}, ` +
                        `${FINDING_WORDS[finding.kind] ?? finding.kind}. `,
                    band !== null ? el('button', {
                        type: 'button', class: 'link', 'data-finding': finding.number,
                        onclick: () => this.show(band),
                    }, 'Show it in its lane') : 'The history has no record of it. ',
                    ' ', el('button', {
                        type: 'button', class: 'link', onclick: () => this.app.go('findings'),
                    }, 'Stacks'))))));
    }

    /* ---- the window ---- */

    private full(): [number, number] {
        const { time, length } = this.app.device.history;
        if (!this.axis) {
            return [0, Math.max(1, length)];
        }
        const last = Math.max(time[length - 1]!, this.app.snapshot.takenNs);
        return last > time[0]! ? [time[0]!, last] : [time[0]! - 500, time[0]! + 500];
    }

    private setWindow(begin: number, end: number): void {
        const [low, high] = this.full();
        const least = Math.min(this.axis ? 1000 : 10, high - low);
        const span = Math.min(high - low, Math.max(least, end - begin));
        this.begin = Math.min(Math.max(low, begin + (end - begin - span) / 2), high - span);
        this.end = this.begin + span;
        this.drawSoon();
    }

    /** What is chosen stays where it is, if it is there. */
    private get centre(): number {
        const place = this.chosen === null ? NaN
            : this.bands.place(this.axis, this.bands.start(this.chosen));
        return place >= this.begin && place <= this.end ? place : (this.begin + this.end) / 2;
    }

    private zoom(factor: number, about = this.centre): void {
        this.setWindow(about - (about - this.begin) * factor, about + (this.end - about) * factor);
    }

    private pan(part: number): void {
        const span = this.end - this.begin;
        this.setWindow(this.begin + part * span, this.end + part * span);
    }

    /** Chooses a band, and makes the window such that its life is well in it, from where the owner
     * before let go to where the next one begins. */
    private show(band: number): void {
        this.choose(band);
        const { bands, axis } = this;
        const [before, after] = [previousOwner(bands, band), nextOwner(bands, band)];
        const [from, to] = [bands.start(band), bands.end[band]!].map((record) =>
            bands.place(axis, record)) as [number, number];
        const low = before >= 0 ? bands.place(axis, bands.end[before]!) : from;
        const high = after >= 0 ? bands.place(axis, after) : to;
        const [begin, end] = this.full();
        const span = Math.max(high - low, (end - begin) / 1e6, axis ? 2000 : 4);
        const visible = low > this.begin && high < this.end &&
            to - from > (this.end - this.begin) / 50;
        if (!visible) {
            this.setWindow(low - span / 2, high + span / 2);
        }
    }

    private choose(band: number | null): void {
        this.chosen = band;
        fill(this.detail, band !== null && bandDetail(this.app, this.bands, band,
            (other) => this.show(other), el('button', {
                type: 'button', onclick: () => this.app.go('timeline', { band }),
            }, 'Show in the timeline')));
        this.drawSoon();
    }

    /* ---- drawing ---- */

    private x(place: number): number {
        return (place - this.begin) / (this.end - this.begin) * this.canvas.clientWidth;
    }

    private barTop(bar: Bar): number {
        return bar.lane * LANE_ROWS + NAME_ROWS + bar.row * BAR_ROWS;
    }

    private draw(): void {
        const width = this.box.clientWidth;
        if (width === 0 || this.lanes.length === 0) {
            return;
        }
        const names = ['live', 'retired', 'text', 'muted', 'line', 'problem', 'peak', 'sunken',
            'launch'];
        this.colours ??= Object.fromEntries(names.map((name) =>
            [name, resolveCss(`--${name}`)])) as unknown as Colours;
        const ratio = devicePixelRatio;
        const rows = this.lanes.length * LANE_ROWS + AXIS_ROWS;
        this.box.style.height = `${rows}px`;
        this.canvas.style.height = `${rows}px`;
        this.canvas.width = Math.round(width * ratio);
        this.canvas.height = Math.round(rows * ratio);
        const ctx = this.canvas.getContext('2d')!;
        ctx.scale(ratio, ratio);
        this.drawAreas(ctx, width);
        const marked = new Set(this.found.flatMap(({ band }) => band === null ? [] : [band]));
        const always = new Set(marked);
        for (const band of this.chosen === null ? [] : [this.chosen,
            previousOwner(this.bands, this.chosen), nextOwner(this.bands, this.chosen)]) {
            if (band >= 0) {
                always.add(band);
            }
        }
        this.bars = barsOf(this.bands, this.sums, this.axis, this.begin, this.end,
            Math.max(100, width), BARS, always).filter(({ lane }) => lane < this.lanes.length);
        this.bars.forEach((bar) => this.drawBar(ctx, bar, marked.has(bar.band)));
        this.drawLaunches(ctx, width);
        this.drawArrows(ctx);
        this.drawAxis(ctx, width, rows);
    }

    /** What is live in each lane, and its name with the most of it in the window. */
    private drawAreas(ctx: CanvasRenderingContext2D, width: number): void {
        const columns = Math.max(1, Math.floor(width));
        const samples = this.bands.samples(this.axis, this.begin, this.end, columns);
        const sums = this.sums.at(samples);
        const { live, sunken } = this.colours!;
        this.lanes.forEach(({ stream, allocations }, lane) => {
            const base = lane * LANE_ROWS + NAME_ROWS + BARS * BAR_ROWS + AREA_ROWS;
            let most = 0;
            for (let column = 0; column < columns; column++) {
                most = Math.max(most, sums[column * this.sums.count + lane]!);
            }
            ctx.fillStyle = sunken;
            ctx.fillRect(0, base - AREA_ROWS, width, AREA_ROWS);
            ctx.fillStyle = live;
            ctx.globalAlpha = 0.5;
            for (let column = 0; column < columns && most > 0; column++) {
                const rows = AREA_ROWS * sums[column * this.sums.count + lane]! / most;
                ctx.fillRect(column, base - rows, 1, rows);
            }
            ctx.globalAlpha = 1;
            fill(this.labels[lane]!, el('b', {}, this.app.names.stream(stream)),
                ` ${plural(allocations, 'allocation')} in all, at most ${bytes(most)} live here`);
        });
    }

    private drawBar(ctx: CanvasRenderingContext2D, bar: Bar, isMarked: boolean): void {
        const { live, retired, text, problem } = this.colours!;
        const top = this.barTop(bar);
        const [from, to, free] = [this.x(bar.from), this.x(bar.to), this.x(bar.free)];
        const height = BAR_ROWS - 3;
        ctx.fillStyle = retired;
        if (free > to) {
            ctx.fillRect(to, top, Math.max(1.5, free - to), height);
        }
        ctx.fillStyle = live;
        ctx.fillRect(from, top, Math.max(1.5, to - from), height);
        ctx.fillStyle = text;
        if (this.bands.start(bar.band) >= 0) {
            ctx.fillRect(from, top, 1, height);
        }
        if (isMarked) {
            ctx.fillStyle = problem;
            ctx.fillRect(from, top - 2, Math.max(8, free - from), 3);
        }
        if (bar.band === this.chosen) {
            ctx.strokeStyle = text;
            ctx.lineWidth = 2;
            ctx.strokeRect(from - 1, top - 1, Math.max(4, free - from + 2), height + 2);
        }
    }

    /** What would lie on what is drawn already is left out: there may be a million. */
    private drawLaunches(ctx: CanvasRenderingContext2D, width: number): void {
        const drawn = this.lanes.map(() => -1);
        ctx.fillStyle = this.colours!.launch;
        for (const { launch, lane } of this.launches) {
            if (launch.to < this.begin || launch.from > this.end) {
                continue;
            }
            const from = Math.max(-1, this.x(launch.from));
            const to = Math.min(width + 1, Math.max(from + 1.5, this.x(launch.to)));
            if (to > drawn[lane]! + 0.5) {
                const rows = launch.ended ? LAUNCH_ROWS - 1 : LAUNCH_ROWS;
                ctx.fillRect(from, lane * LANE_ROWS + LAUNCH_TOP, to - from, rows);
                drawn[lane] = to;
            }
        }
    }

    /** From the owner before to the chosen block, and on to the next; to what it waits for. */
    private drawArrows(ctx: CanvasRenderingContext2D): void {
        const bar = this.bars.find(({ band }) => band === this.chosen);
        if (!bar) {
            return;
        }
        const middle = (one: Bar) => this.barTop(one) + (BAR_ROWS - 3) / 2;
        const of = (band: number) => this.bars.find((one) => one.band === band);
        const before = of(previousOwner(this.bands, bar.band));
        const after = of(nextOwner(this.bands, bar.band));
        ctx.lineWidth = 1.5;
        ctx.strokeStyle = ctx.fillStyle = this.colours!.peak;
        if (before) {
            arrow(ctx, this.x(before.free), middle(before), this.x(bar.from), middle(bar));
        }
        if (after) {
            arrow(ctx, this.x(bar.free), middle(bar), this.x(after.from), middle(after));
        }
        for (const lane of this.waitedFor(bar.band)) {
            const y = lane * LANE_ROWS + NAME_ROWS + BARS * BAR_ROWS + AREA_ROWS / 2;
            ctx.strokeStyle = ctx.fillStyle = this.colours!.retired;
            arrow(ctx, this.x(bar.to), middle(bar), Math.min(this.x(this.end) - 4,
                this.x(bar.to) + 40), y);
        }
    }

    /** The lanes of the streams whose work a block of the picture waits for. */
    private waitedFor(band: number): number[] {
        const { waits, blocks } = this.app.device;
        const { address } = memoryOf(this.bands, band);
        const result: number[] = [];
        for (let wait = 0; wait < waits.length; wait++) {
            const block = waits.block[wait]!;
            const lane = this.lanes.findIndex(({ stream }) => stream === waits.stream[wait]);
            if (block >= 0 && blocks.address[block] === address && lane >= 0 &&
                nextOwner(this.bands, band) < 0) {
                result.push(lane);
            }
        }
        return result;
    }

    private drawAxis(ctx: CanvasRenderingContext2D, width: number, rows: number): void {
        const { muted, line } = this.colours!;
        const places = this.axis ? roundSplits(this.begin, this.end, width / 110)
            : roundSplits(this.begin + 1, this.end + 1, width / 110, 1).map((one) => one - 1);
        ctx.font = `12px ${getComputedStyle(document.body).fontFamily}`;
        ctx.fillStyle = muted;
        ctx.strokeStyle = line;
        ctx.lineWidth = 1;
        for (const place of places) {
            const x = Math.round(this.x(place)) + 0.5;
            ctx.globalAlpha = 0.6;
            ctx.beginPath();
            ctx.moveTo(x, 0);
            ctx.lineTo(x, rows - AXIS_ROWS);
            ctx.stroke();
            ctx.globalAlpha = 1;
            const text = this.axis ? moment(place, (places[1] ?? this.end) - places[0]!, this.end)
                : `record ${count(Math.round(place) + 1)}`;
            const wide = ctx.measureText(text).width;
            ctx.fillText(text, Math.min(width - wide, Math.max(0, x - wide / 2)), rows - 6);
        }
    }

    /* ---- input ---- */

    private barAt(event: MouseEvent): Bar | null {
        const box = this.canvas.getBoundingClientRect();
        const x = event.clientX - box.left, y = event.clientY - box.top;
        return this.bars.find((bar) => {
            const top = this.barTop(bar);
            return y >= top - 1 && y < top + BAR_ROWS - 1 && x >= this.x(bar.from) - 2 &&
                x <= Math.max(this.x(bar.free), this.x(bar.from) + 2) + 2;
        }) ?? null;
    }

    /** The latest that is drawn there. */
    private launchAt(event: MouseEvent): Launch | null {
        const box = this.canvas.getBoundingClientRect();
        const x = event.clientX - box.left, y = event.clientY - box.top;
        const lane = Math.floor(y / LANE_ROWS);
        if (y - lane * LANE_ROWS < LAUNCH_TOP - 2) {
            return null;
        }
        return this.launches.findLast((one) => one.lane === lane &&
            x >= this.x(one.launch.from) - 2 && x <= this.x(one.launch.to) + 3)?.launch ?? null;
    }

    private launchText({ graph, ended, ns }: Launch): string {
        const known = this.app.device.graphs.find(({ number }) => number === graph);
        const name = known ? `${known.name} (graph ${graph})`
            : graph < 0 ? 'A graph whose launch was overwritten' : `Graph ${graph}`;
        return `${name}: ${!ended ? 'launched; its end was not seen'
            : this.axis ? `seen to be over ${duration(ns)} after the launch` : 'seen to be over'}`;
    }

    private listen(): void {
        let dragged: { x: number; begin: number; far: boolean } | null = null;
        this.canvas.addEventListener('pointerdown', (event) => {
            dragged = { x: event.clientX, begin: this.begin, far: false };
            this.canvas.setPointerCapture(event.pointerId);
        });
        this.canvas.addEventListener('pointermove', (event) => {
            if (dragged && event.buttons !== 0) {
                const moved = (event.clientX - dragged.x) / this.canvas.clientWidth;
                dragged.far ||= Math.abs(event.clientX - dragged.x) > 4;
                const begin = dragged.begin - moved * (this.end - this.begin);
                if (dragged.far) {
                    this.setWindow(begin, begin + this.end - this.begin);
                }
                return;
            }
            const bar = this.barAt(event);
            const launch = bar ? null : this.launchAt(event);
            if (bar) {
                showTip(event.clientX, event.clientY,
                    el('div', {}, bandText(this.app, this.bands, bar.band)));
            } else if (launch) {
                showTip(event.clientX, event.clientY, el('div', {}, this.launchText(launch)));
            } else {
                hideTip();
            }
        });
        this.canvas.addEventListener('pointerleave', hideTip);
        this.canvas.addEventListener('click', (event) => {
            if (!dragged?.far) {
                this.choose(this.barAt(event)?.band ?? null);
            }
            dragged = null;
        });
        this.canvas.addEventListener('wheel', (event) => {
            if (event.ctrlKey || event.metaKey) {
                event.preventDefault();
                const part = (event.clientX - this.canvas.getBoundingClientRect().left) /
                    this.canvas.clientWidth;
                this.zoom(Math.exp(event.deltaY * 0.004),
                    this.begin + part * (this.end - this.begin));
            }
        }, { passive: false });
    }

    key(event: KeyboardEvent): boolean {
        if (this.lanes.length === 0) {
            return false;
        }
        switch (event.key) {
        case '+': case '=': this.zoom(1 / ZOOM_STEP); return true;
        case '-': this.zoom(ZOOM_STEP); return true;
        case '0': this.setWindow(...this.full()); return true;
        case 'ArrowLeft': this.pan(-0.2); return true;
        case 'ArrowRight': this.pan(0.2); return true;
        case ',': this.step(-1); return true;
        case '.': this.step(1); return true;
        case 'Escape':
            if (this.chosen !== null) {
                this.choose(null);
                return true;
            }
            return false;
        default: return false;
        }
    }

    /** To the block that was allocated before or after the chosen one on its stream; without one,
     * to the first or last that is drawn. */
    private step(by: number): void {
        if (this.chosen === null) {
            const drawn = this.bars.map(({ band }) => band)
                .sort((a, b) => this.bands.start(a) - this.bands.start(b));
            const first = by > 0 ? drawn[0] : drawn[drawn.length - 1];
            if (first !== undefined) {
                this.show(first);
            }
            return;
        }
        const { records } = this.bands;
        const lane = this.sums.ofBand(this.chosen);
        for (let i = this.bands.start(this.chosen) + by; i >= 0 && i < records; i += by) {
            if (this.bands.end[i]! > 0 && this.sums.ofBand(i) === lane) {
                this.show(i);
                return;
            }
        }
    }

    shown(target: Target): void {
        if (target.band !== undefined && this.lanes.length > 0) {
            this.show(target.band);
        }
        this.draw();
    }

    redraw(): void {
        this.colours = null;
        this.draw();
    }
}

function arrow(ctx: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number):
    void {
    const angle = Math.atan2(y2 - y1, x2 - x1);
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.lineTo(x2, y2);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x2, y2);
    for (const side of [-0.45, 0.45]) {
        ctx.lineTo(x2 - 8 * Math.cos(angle + side), y2 - 8 * Math.sin(angle + side));
    }
    ctx.fill();
}
