/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure run --check` or `--waste` found, which `tenure snapshot html --findings` put beside
 * the snapshot.
 * The lines are data from a file as any other: what is missing or of another type is left out, and
 * texts are made visible before they are shown.
 */
import { visible } from './document.js';

export interface Frame { text: string; place: string; }

/** One thing that was done with the block. */
export interface Side {
    what: string; call: string; kernel: string; stream: string; thread: number; frames: Frame[];
}

export interface Finding {
    number: number; pid: number; kind: string; certain: boolean;
    block: string; bytes: number; device: number; missing: string; sides: Side[];
}

export const IDLES = ['never_used', 'before_first_use', 'between_uses', 'after_last_use'] as const;
export type Idle = typeof IDLES[number];

/** A place of the program that allocates, and how long its memory lay unused. */
export interface Place {
    pid: number; idle: Idle; worth: boolean; blocks: number; bytes: number;
    /** Byte-seconds: for which the memory was held, of these the idle ones, and each kind. */
    held: number; idleHeld: number; parts: Record<Idle, number>;
    call: string; frames: Frame[];
}

export interface Waste {
    places: Place[];
    /** Byte-seconds of all memory, of all processes. */
    held: number; idleHeld: number;
    shortestMs: number; launches: number; unread: number;
}

export interface Findings {
    /** Whether the check has looked, or what memory lay unused was asked for instead. */
    isChecked: boolean;
    waste: Waste | null;
    list: Finding[];
    /** Launches that were seen, and how many of them could not be read, of all processes. */
    launches: number; unread: number;
}

type Values = Record<string, unknown>;

const SIDES: readonly (readonly [string, string])[] = [
    ['allocated', 'allocated'], ['freed_before', 'the block before freed'], ['earlier', 'earlier'],
    ['later', 'later'],
];

const object = (value: unknown): Values | null =>
    typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Values : null;
const text = (value: unknown): string => typeof value === 'string' ? visible(value) : '';
const number = (value: unknown): number =>
    typeof value === 'number' && Number.isFinite(value) ? value : 0;
const list = (value: unknown): unknown[] => Array.isArray(value) ? value : [];

function frameOf(value: unknown): Frame {
    const from = object(value) ?? {};
    const file = text(from['file']);
    const line = number(from['line']);
    const place = file ? `${file}${line > 0 ? `:${line}` : ''}` : '';
    return { text: (place && text(from['function'])) || text(from['frame']), place };
}

function streamOf(from: Values): string {
    if (number(from['work']) === 0) {
        return '';
    }
    const name = text(from['name']);
    return `stream ${number(from['stream'])}${name ? ` \u201c${name}\u201d` : ''}`;
}

function sideOf(what: string, value: unknown): Side | null {
    const from = object(value);
    return from && {
        what, call: text(from['call']), kernel: text(from['kernel']), stream: streamOf(from),
        thread: number(from['thread']), frames: list(from['stack']).map(frameOf),
    };
}

function findingOf(from: Values): Finding {
    return {
        number: number(from['finding']), pid: number(from['pid']), kind: text(from['kind']),
        certain: from['certain'] === true, block: text(from['block']),
        bytes: number(from['bytes']), device: number(from['device']),
        missing: text(from['missing']),
        sides: SIDES.map(([key, what]) => sideOf(what, from[key]))
            .filter((side): side is Side => side !== null),
    };
}

const idleOf = (from: Values): number => IDLES.reduce((sum, key) => sum + number(from[key]), 0);

function placeOf(from: Values, idle: Idle): Place {
    const made = sideOf('allocated', from['allocated']);
    return {
        pid: number(from['pid']), idle, worth: from['worth'] === true,
        blocks: number(from['blocks']), bytes: number(from['bytes']),
        held: number(from['byte_seconds']), idleHeld: idleOf(from),
        parts: Object.fromEntries(IDLES.map((key) => [key, number(from[key])])) as
            Record<Idle, number>,
        call: made?.call ?? '', frames: made?.frames ?? [],
    };
}

function wasteAdd(all: Findings, from: Values): void {
    const waste = all.waste ??=
        { places: [], held: 0, idleHeld: 0, shortestMs: 0, launches: 0, unread: 0 };
    const idle = IDLES.find((one) => one === from['waste']);
    if (idle) {
        waste.places.push(placeOf(from, idle));
    } else if (from['waste'] === 'summary') {
        waste.held += number(from['byte_seconds']);
        waste.idleHeld += idleOf(from);
        waste.shortestMs = number(from['shortest_ms']);
        waste.launches += number(from['launches']);
        waste.unread += number(from['launches_unread']);
    }
}

export function findingsOf(lines: unknown): Findings {
    const all: Findings = { isChecked: true, waste: null, list: [], launches: 0, unread: 0 };
    for (const value of list(lines)) {
        const from = object(value);
        if (from && 'waste' in from) {
            wasteAdd(all, from);
        } else if (from && 'finding' in from) {
            all.list.push(findingOf(from));
        } else if (from && 'summary' in from) {
            all.launches += number(from['launches']);
            all.unread += number(from['launches_unread']);
        }
    }
    all.isChecked = all.waste === null || all.list.length > 0;
    return all;
}

/** Those that are in this page; null: nobody looked. */
export function embeddedFindings(): Findings | null {
    const element = document.getElementById('tenure-findings');
    const content = element?.textContent;
    if (!element || !content) {
        return null;
    }
    element.textContent = '';
    try {
        return findingsOf(JSON.parse(content));
    } catch {
        return null;
    }
}
