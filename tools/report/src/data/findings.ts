/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure run --check` found, which `tenure snapshot html --findings` put beside the snapshot.
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

export interface Findings {
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

export function findingsOf(lines: unknown): Findings {
    const all: Findings = { list: [], launches: 0, unread: 0 };
    for (const value of list(lines)) {
        const from = object(value);
        if (from && 'finding' in from) {
            all.list.push(findingOf(from));
        } else if (from && 'summary' in from) {
            all.launches += number(from['launches']);
            all.unread += number(from['launches_unread']);
        }
    }
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
