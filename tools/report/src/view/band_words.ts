/* SPDX-License-Identifier: Apache-2.0 */
/* A band in words, and the ways from it: the same in the timeline and in the lanes. */
import { App } from '../app.js';
import { Bands } from '../data/bands.js';
import { KIND } from '../data/model.js';
import { freeAgain, memoryOf, nextOwner, previousOwner } from '../data/owners.js';
import { Child, el } from '../ui/dom.js';
import { count, duration, hex, moment, sizeText } from '../text/units.js';
import { ownerStack, waitText } from './describe.js';

interface Place { stack: number; stream: number; pool: number }

export function placeOf(app: App, bands: Bands, band: number): Place {
    const owner = bands.owner(band);
    const { blocks, history } = app.device;
    if ('block' in owner) {
        const { block } = owner;
        return { stack: blocks.stack[block]!, stream: blocks.stream[block]!,
                 pool: blocks.pool[block]! };
    }
    const { record } = owner;
    return { stack: ownerStack(app, record), stream: history.stream[record]!,
             pool: history.pool[record]! };
}

/** When, or after which record where there are no times. */
function when(app: App, record: number): string {
    const { time, timed } = app.device.history;
    return timed ? `at ${moment(time[record]!, 1000)}` : `by record ${count(record + 1)}`;
}

function reasonOf(app: App, record: number): string {
    const reason = app.snapshot.reasons[app.device.history.reason[record]!];
    return reason ? `: ${reason}` : '';
}

/** How a band ended, and when its memory was free again, and why it could be. */
function endText(app: App, bands: Bands, band: number): string {
    const end = bands.end[band]!;
    const { history, waits, blocks } = app.device;
    if (end >= bands.records) {
        return 'live at the snapshot';
    }
    if (history.kind[end] === KIND.grow) {
        return `grew ${when(app, end)}`;
    }
    if (history.kind[end] === KIND.free) {
        return `freed ${when(app, end)}, free for reuse at once${reasonOf(app, end)}`;
    }
    const again = freeAgain(bands, band);
    if (again >= 0) {
        const waited = history.timed
            ? ` after ${duration(history.time[again]! - history.time[end]!)}` : '';
        return `freed ${when(app, end)}, then waited for other work; free for reuse` +
            `${waited}${reasonOf(app, again)}`;
    }
    const { address } = memoryOf(bands, band);
    const words: string[] = [];
    for (let wait = 0; wait < waits.length; wait++) {
        if (blocks.address[waits.block[wait]!] === address) {
            words.push(waitText(app, wait));
        }
    }
    return `freed ${when(app, end)}, and waits` +
        (words.length > 0 ? ` for ${words.join('; ')}` : ' still');
}

/** One line: what, by whom, where, how long. */
export function bandText(app: App, bands: Bands, band: number): string {
    const { stack, stream, pool } = placeOf(app, bands, band);
    const { name, place } = app.names.stack(stack);
    const start = bands.start(band);
    const { history } = app.device;
    const end = bands.end[band]!;
    const lived = history.timed && start >= 0 && end < bands.records
        ? `, lived ${duration(history.time[end]! - history.time[start]!)}` : '';
    return `${sizeText(bands.bytes(band))} by ${name}${place && ` (${place})`} on ` +
        `${app.names.stream(stream)}, ${app.names.pool(pool)} pool: ` +
        (start < 0 ? 'from before the history' : `allocated ${when(app, start)}`) +
        `, ${endText(app, bands, band)}${lived}`;
}

/** The line, and buttons to where it goes on. `choose` shows another band. */
export function bandDetail(app: App, bands: Bands, band: number,
                           choose: (band: number) => void, more: Child = null): HTMLElement {
    const { address, bytes: size } = memoryOf(bands, band);
    const { stack } = placeOf(app, bands, band);
    const [before, after] = [previousOwner(bands, band), nextOwner(bands, band)];
    const way = (text: string, other: number) => other >= 0 && el('button', {
        type: 'button', onclick: () => choose(other),
        'aria-label': `${text}: ${bandText(app, bands, other)}`,
    }, `${text}: ${app.names.stack(placeOf(app, bands, other).stack).name}`);
    return el('div', { class: 'detail', 'data-band': band },
        el('h3', {}, `Block at ${hex(address)}, ${sizeText(size)}`),
        el('p', {}, `${bandText(app, bands, band)}.`),
        app.names.frames(stack),
        el('span', { class: 'buttons' },
            way('Previous owner', before), way('Next owner', after), more,
            el('button', { type: 'button', onclick: () => app.go('records', { address }) },
                'History of this address')));
}
