/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands above all views: where the memory is, said in one sentence, drawn as one bar, and
 * what deserves a look.
 */
import { App, ViewName } from '../app.js';
import { holdersOf } from '../data/holders.js';
import { KIND } from '../data/model.js';
import { Child, el } from '../ui/dom.js';
import { Share, SHARE_WORDS, SHARES, shareVariable } from '../ui/colours.js';
import { adviceFor, allocatorName, isConverted } from '../text/advice.js';
import { bytes, bytesBeside, count, date, duration, percent, plural, sizeText }
    from '../text/units.js';
import { idleWords } from './waste.js';

function listText(parts: Child[][]): Child[] {
    return parts.flatMap((part, index) => {
        const before = index === 0 ? '' : index === parts.length - 1
            ? parts.length > 2 ? ', and ' : ' and ' : ', ';
        return [before, ...part];
    });
}

const strong = (text: string): HTMLElement => el('b', {}, text);

/** Below this share of the whole a part is not worth a place in the sentence. */
const WORTH_SAYING = 0.005;

function headline(app: App): HTMLElement {
    const { device, accounting } = app;
    const { bytes: shares, total } = accounting;
    const heading = el('h1', {});
    if (total === 0) {
        heading.append(`${holderWord(app)} has reserved no memory on `,
            strong(deviceName(app)), '.');
        return heading;
    }
    const parts: Child[][] = [];
    parts.push([strong(bytes(shares.live)),
                ` is live in ${plural(accounting.liveBlocks, 'block')}`]);
    if (shares.retired > total * WORTH_SAYING) {
        parts.push([strong(bytes(shares.retired)), ' waits for other work']);
    }
    const spare = shares.free + shares.binned;
    if (spare > total * WORTH_SAYING) {
        parts.push([strong(bytes(spare)), ' is free for reuse']);
    }
    if (shares.asleep > 0) {
        parts.push([strong(bytes(shares.asleep)), ' is asleep']);
    }
    heading.append(`${holderWord(app)} has reserved `, strong(bytes(device.reservedBytes)),
        isLimited(app) ? ` of its limit of ${bytes(roomOf(app))} on ${deviceName(app)}: `
            : device.memoryBytes > 0
            ? ` of the ${bytes(device.memoryBytes)} of ${deviceName(app)}: `
            : ` on ${deviceName(app)}: `);
    for (const child of listText(parts)) {
        heading.append(child as Node | string);
    }
    heading.append('.');
    return heading;
}

/** A limit below what the device has is what there is. */
function isLimited({ device }: Pick<App, 'device'>): boolean {
    return device.limitBytes !== null && device.memoryBytes > 0 &&
        device.limitBytes < device.memoryBytes;
}

function roomOf({ device }: Pick<App, 'device'>): number {
    return isLimited({ device }) ? device.limitBytes! : device.memoryBytes;
}

/** What an allocation that failed could still have had: of Tenure's, limits count. */
function leftWords(app: App): string {
    return isConverted(app.snapshot) ? 'were free on the device then'
        : isLimited(app) ? `were left of the limit of ${bytes(roomOf(app))} then`
            : 'could still be had then';
}

function deviceName(app: App): string {
    const { device } = app;
    return device.name ? `GPU ${device.index} (${device.name})` : `GPU ${device.index}`;
}

function holderWord({ snapshot }: App): string {
    return isConverted(snapshot) ? allocatorName(snapshot) : 'Tenure';
}

/** The second sentence: the largest holder and the peak. */
function lead(app: App): HTMLElement {
    const { snapshot, device, accounting } = app;
    const line = el('p', { class: 'lead' });
    const holders = holdersOf(snapshot, app.names, device, 'stack');
    const known = holders.find((holder) => holder.stack > 0 && holder.live > 0);
    if (known) {
        const { place } = app.names.stack(known.stack);
        line.append('The largest holder is ', strong(known.name), place ? ` (${place})` : '',
            ` with ${bytes(known.live)}, ${percent(known.live, accounting.bytes.live)} of what ` +
            'is live. ');
    } else {
        const [first] = holdersOf(snapshot, app.names, device, 'stream');
        if (first && first.live > 0) {
            line.append('No call stacks were recorded ' +
                `(${adviceFor(snapshot).stacks} records them); by stream, `, strong(first.name),
                ` holds most: ${bytes(first.live)}, ` +
                `${percent(first.live, accounting.bytes.live)} of what is live. `);
        }
    }
    const { peak, live, time, timed } = device.history;
    if (peak >= 0) {
        const ago = snapshot.takenNs - time[peak]!;
        line.append('The most that was live at once in the recorded history was ',
            strong(bytes(live[peak]!)),
            !timed ? '. ' : ago > 0 ? `, ${duration(ago)} before this snapshot. `
                : ', at this snapshot. ');
    }
    line.append(reasonText(snapshot.reason),
        snapshot.takenEpochMs > 0 ? `: ${date(snapshot.takenEpochMs)}, by ` : ' by ',
        allocatorName(snapshot),
        snapshot.simulated ? ', on the simulated device.' : '.');
    return line;
}

function reasonText(reason: string): string {
    switch (reason) {
    case 'oom': return 'Taken when an allocation failed';
    case 'exit': return 'Taken when the program ended';
    case 'signal': return 'Taken on a signal';
    case 'converted': return 'Written';
    default: return 'Taken';
    }
}

/** Whether the parts of what Tenure holds would be too small to tell apart on a bar that stands for
 * the whole device. */
function isSmall({ device, accounting }: App): boolean {
    return accounting.total < 0.12 * roomOf({ device });
}

function shareBar(app: App): HTMLElement {
    const { accounting } = app;
    const whole = isSmall(app) ? accounting.total
        : Math.max(accounting.total, roomOf(app));
    const bar = el('div', { class: 'share', role: 'img', 'aria-label': shareText(app) });
    for (const share of SHARES) {
        const size = accounting.bytes[share];
        if (size > 0) {
            const part = el('i', {
                class: share === 'retired' || share === 'asleep' ? 'pattern' : null,
                title: `${SHARE_WORDS[share].name}: ${bytes(size)}`, 'data-share': share,
            });
            part.style.width = `${100 * size / whole}%`;
            part.style.backgroundColor = `var(${shareVariable(share)})`;
            bar.append(part);
        }
    }
    const { others } = restOf(app);
    if (others !== null && others > 0 && !isSmall(app) && !isLimited(app)) {
        const part = el('i', { title: `Others: ${bytes(others)}`, class: 'others' });
        part.style.width = `${100 * others / whole}%`;
        bar.append(part);
    }
    return bar;
}

/** What the device has beyond the total: in use by others, and free. The first is not known where
 * the snapshot does not say how much was free. */
function restOf({ device, accounting }: App): { others: number | null; free: number } {
    const rest = Math.max(0, device.memoryBytes - accounting.total);
    return device.memoryFreeBytes === null ? { others: null, free: rest }
        : { others: Math.max(0, rest - device.memoryFreeBytes),
            free: Math.min(rest, device.memoryFreeBytes) };
}

function shareText(app: App): string {
    return SHARES.filter((share) => app.accounting.bytes[share] > 0)
        .map((share) => `${SHARE_WORDS[share].name} ${bytes(app.accounting.bytes[share])}`)
        .join(', ');
}

function legendEntry(share: Share, size: number): HTMLElement {
    const { name, meaning } = SHARE_WORDS[share];
    const key = el('i', { class: 'key' });
    key.style.backgroundColor = `var(${shareVariable(share)})`;
    return el('li', { title: `${name}: ${meaning}. ${count(size)} bytes`, 'data-share': share },
        key, el('span', {}, name), el('b', { 'data-bytes': size }, bytes(size)));
}

function shareLegend(app: App): HTMLElement {
    const { device, accounting } = app;
    const legend = el('ul', { class: 'legend', 'aria-label': 'Where the memory is' },
        ...SHARES.filter((share) => accounting.bytes[share] > 0)
            .map((share) => legendEntry(share, accounting.bytes[share])));
    if (isLimited(app) && roomOf(app) > accounting.total) {
        legend.append(el('li', { title: 'What the limit leaves' },
            el('i', { class: 'key outline' }), el('span', {}, 'Left of the limit'),
            el('b', {}, bytes(roomOf(app) - accounting.total))));
    } else if (!isLimited(app) && device.memoryBytes > accounting.total) {
        const { others, free } = restOf(app);
        const entry = (kind: string, name: string, size: number, meaning: string) =>
            legend.append(el('li', { title: meaning }, el('i', { class: `key ${kind}` }),
                el('span', {}, isSmall(app) ? `${name} (not drawn)` : name),
                el('b', { 'data-bytes': size }, bytes(size))));
        if (others !== null && others > 0) {
            entry('others', 'Others on the GPU', others, 'Other processes, and what the driver ' +
                'keeps for itself and for this one: contexts, kernels, buffers');
        }
        entry('outline', others === null ? 'Others on the GPU, or free' : 'Free on the GPU', free,
            others === null ? 'The snapshot does not say how much of it was free' : 'Unused');
    }
    return legend;
}

interface Finding { warn: boolean; text: Child[]; view?: ViewName; action?: string }

function findings(app: App): Finding[] {
    const { snapshot, device, accounting } = app;
    const found: Finding[] = [];
    const { history } = device;
    const oom = history.kind.lastIndexOf(KIND.oom);
    if (oom >= 0) {
        found.push({
            warn: true, view: 'records', action: 'Show it',
            text: [`An allocation of ${sizeText(history.bytes[oom]!)} failed` +
                (history.timed
                    ? ` ${duration(snapshot.takenNs - history.time[oom]!)} before the snapshot`
                    : '') + '; ' +
                `${bytes(history.value[oom]!)} ${leftWords(app)}. `],
        });
    } else if (device.ooms > 0) {
        found.push({
            warn: true,
            text: [`${plural(device.ooms, 'allocation')} failed for lack of memory so far. `],
        });
    }
    const idle = app.findings?.waste?.places.filter((one) => one.worth)
        .sort((a, b) => b.idleHeld - a.idleHeld)[0];
    if (idle) {
        const text = idleWords(idle);
        found.push({ warn: true, view: 'waste', action: 'Idle memory',
                     text: [`${text[0]!.toUpperCase()}${text.slice(1)}. `] });
    }
    const { retired, free } = accounting.bytes;
    if (retired > 0) {
        found.push({
            warn: retired > 0.05 * accounting.total, view: 'waiting', action: 'What waits',
            text: [`${bytes(retired)} in ${plural(accounting.waitingBlocks, 'freed block')} ` +
                'cannot be reused yet, because other streams, graphs or captures may still use ' +
                'it. '],
        });
    }
    if (free > 0.02 * accounting.total && accounting.freeRuns > 1) {
        found.push({
            warn: accounting.largestFree < 0.1 * free, view: 'map', action: 'Show the map',
            text: [`Free memory is in ${plural(accounting.freeRuns, 'run')}; the largest has ` +
                `${bytes(accounting.largestFree)} of ${bytes(free)}. ` +
                (isConverted(snapshot) ? '' : 'Its chunks can move to where they are needed. ')],
        });
    }
    const spare = free + accounting.bytes.binned;
    if (spare > 0.5 * accounting.total) {
        found.push({
            warn: false,
            text: [`More than half of what is reserved, ${bytes(spare)}, is kept for reuse; ` +
                `${adviceFor(snapshot).trim} gives what is idle back to the device. `],
        });
    }
    const unsafe = device.graphs.filter((graph) =>
        graph.audit && graph.audit.loose + graph.audit.freed + graph.audit.unmapped > 0);
    if (unsafe.length > 0) {
        found.push({
            warn: true, view: 'graphs', action: 'Show the graphs',
            text: [`${plural(unsafe.length, 'graph')} refer${unsafe.length === 1 ? 's' : ''} to ` +
                'memory that is not safe, as the audit found. '],
        });
    }
    if (snapshot.overwritten + snapshot.missed > 0) {
        const missed = snapshot.missed > 0
            ? ` ${plural(snapshot.missed, 'record')} could not be written.` : '';
        found.push({
            warn: snapshot.missed > 0,
            text: [`The history holds the last ${count(device.history.length)} records; ` +
                `${count(snapshot.overwritten)} older ones were overwritten.${missed} `],
        });
    }
    const { contradicting } = app.about ?? { contradicting: 0 };
    if (contradicting > 0) {
        found.push({
            warn: true,
            text: [`The history has holes: ${count(contradicting)} of its records do not fit ` +
                'what is there at the end. What this page says of earlier moments, the peak ' +
                'among them, may be too little or too much. '],
        });
    }
    if (snapshot.leftOut > 0) {
        found.push({
            warn: false,
            text: [`This report leaves ${plural(snapshot.leftOut, 'record')} out, those of the ` +
                'smallest and shortest-lived blocks: no browser holds them all. Amounts and ' +
                'peaks are exact all the same. '],
        });
    }
    return found;
}

function findingList(app: App): HTMLElement | null {
    const all = findings(app);
    if (all.length === 0) {
        return null;
    }
    return el('ul', { class: 'findings', 'aria-label': 'What deserves a look' },
        ...all.map(({ warn, text, view, action }) => el('li', {},
            el('span', { class: warn ? 'mark warn' : 'mark', role: 'img',
                         'aria-label': warn ? 'warning' : 'note' }, warn ? '!' : 'i'),
            el('span', {}, ...text, view && action && el('button', {
                type: 'button', class: 'link',
                onclick: () => app.go(view, view === 'records' ? { query: 'oom' } : {}),
            }, action)))));
}

/** What was put beside the snapshot to be compared, each with what it is of the first. */
function figureList({ about }: App): HTMLElement | null {
    const figures = about?.figures ?? [];
    if (figures.length === 0) {
        return null;
    }
    const largest = Math.max(...figures.map((figure) => figure.bytes), 1);
    const base = figures[0]!.bytes;
    return el('ul', { class: 'figures', 'aria-label': 'Compared at the peak' },
        ...figures.map((figure, i) => {
            const bar = el('i', {});
            bar.style.width = `${100 * figure.bytes / largest}%`;
            return el('li', { title: `${figure.name}: ${count(figure.bytes)} bytes` },
                el('span', {}, figure.name), el('span', { class: 'bar-line' }, bar),
                el('b', {}, bytesBeside(figure.bytes, largest)),
                i > 0 && base > 0 ? ` ${(figure.bytes / base).toFixed(3)}` : null);
        }));
}

export function drawSummary(app: App): Child[] {
    return [headline(app), lead(app), shareBar(app), shareLegend(app), figureList(app),
        findingList(app)];
}
