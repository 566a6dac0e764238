/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What things are called: stacks by the function that asked for the memory, streams, pools.
 */
import { Snapshot } from '../data/model.js';
import { Child, el } from '../ui/dom.js';
import { count } from './units.js';

/** The last parts of a path, as many as fit. */
export function shortPlace(place: string, length = 48): string {
    if (place.length <= length) {
        return place;
    }
    const parts = place.split('/');
    let result = parts.pop() ?? '';
    while (parts.length > 0 && result.length + parts[parts.length - 1]!.length + 1 <= length - 2) {
        result = `${parts.pop()!}/${result}`;
    }
    return `\u2026/${result}`;
}

export const baseName = (place: string) => place.split('/').pop()!;

/** One byte for each index, one place later, because -1 is an index too: whether its text, in
 * small letters, has the query. */
export function matching(length: number, text: (index: number) => string, query: string):
    Uint8Array {
    const result = new Uint8Array(length + 1);
    for (let index = 0; index < length; index++) {
        result[index + 1] = text(index).includes(query) ? 1 : 0;
    }
    return result;
}

export interface StackName { name: string; place: string; callers: string }

export class Names {
    private readonly stacks = new Map<number, StackName>();
    private readonly keys: string[] = [];
    private readonly searchTexts: string[] = [];

    /** Without `all`, stacks are named by the frames of the program's own code, where the snapshot
     * says which those are. */
    constructor(private readonly snapshot: Snapshot, private readonly all = false) {}

    private framesOf(stack: number): Int32Array | undefined {
        return (this.all ? undefined : this.snapshot.shown?.[stack]) ??
            this.snapshot.stacks[stack];
    }

    /** Stack 0 is what is not known. */
    stack(stack: number): StackName {
        let name = this.stacks.get(stack);
        if (!name) {
            name = this.makeStack(stack);
            this.stacks.set(stack, name);
        }
        return name;
    }

    private makeStack(stack: number): StackName {
        const frames = this.framesOf(stack);
        if (!frames || frames.length === 0) {
            return { name: 'No stack recorded', place: '', callers: this.snapshot.frames.length > 0
                ? 'allocated before stacks were recorded' : '' };
        }
        const at = (index: number) => this.snapshot.frames[frames[index]!]!;
        const callers = Array.from(frames.subarray(1, 4), (frame) =>
            this.snapshot.frames[frame]!.name);
        return {
            name: at(0).name, place: at(0).place,
            callers: callers.length > 0 ? `from ${callers.join(', from ')}` : '',
        };
    }

    /** File and line of the frames that name a stack; the function where no file is known. */
    spots(stack: number): string[] {
        return Array.from(this.framesOf(stack) ?? [], (frame) => {
            const { name, place } = this.snapshot.frames[frame]!;
            return place ? baseName(place) : name;
        });
    }

    /** What the innermost frame is in: a library or the program; of an interpreter's code, the
     * file. */
    module(stack: number): { module: string; path: string } {
        const innermost = this.framesOf(stack)?.[0];
        const frame = innermost === undefined ? undefined : this.snapshot.frames[innermost];
        const path = frame ? frame.module || frame.place.replace(/:\d+$/, '') : '';
        return { module: path.split('/').pop() || (frame ? 'No module known'
            : 'No stack recorded'), path };
    }

    /** A text that is equal for equal stacks of two snapshots. */
    stackKey(stack: number): string {
        return this.keys[stack] ??= Array.from(this.framesOf(stack) ?? [], (frame) => {
            const { name, place } = this.snapshot.frames[frame]!;
            return `${name}\u0001${place}`;
        }).join('\u0002');
    }

    /** All that a search may find in a stack, in small letters. */
    stackSearchText(stack: number): string {
        return this.searchTexts[stack] ??= this.stackKey(stack).toLowerCase();
    }

    stream(stream: number): string {
        return this.snapshot.streams[stream]?.name ?? 'no stream';
    }

    pool(pool: number): string {
        return this.snapshot.pools[pool]?.name ?? 'no pool';
    }

    /** The frames one below the other, for the details of a row. */
    frames(stack: number): HTMLElement {
        const frames = this.framesOf(stack);
        if (!frames || frames.length === 0) {
            return el('p', { class: 'note' }, this.snapshot.historyMode === 'full'
                ? 'No stack is known for this: it happened before stacks were recorded.'
                : 'No stack is known: they are recorded with the setting history:full.');
        }
        const more = this.snapshot.stacks[stack]!.length - frames.length;
        return el('ol', { class: 'stack' }, ...Array.from(frames, (index): Child => {
            const frame = this.snapshot.frames[index]!;
            return el('li', {}, frame.name, ' ', el('small', {}, frame.place));
        }), more > 0 && el('li', { class: 'note' }, `${count(more)} more of the framework and ` +
            'the interpreter; \u201cAll frames\u201d on top shows them'));
    }
}
