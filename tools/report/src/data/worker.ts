/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker: reads one snapshot, then ends. Arrays are handed over, not copied.
 */
import { SnapshotError } from './model.js';
import { readSnapshot, Source } from './read.js';

export type Answer =
    | { progress: { what: string; part: number } }
    | { snapshot: unknown }
    | { error: string; known: boolean };

const scope = self as unknown as {
    onmessage: (event: MessageEvent<Source>) => void;
    postMessage(answer: Answer, transfer?: Transferable[]): void;
};

/* Below this a copy costs less than handing over. */
const HAND_OVER_BYTES = 4096;

/** Every large buffer that can be reached from the model, each once. */
function buffersOf(value: unknown, found: Set<ArrayBuffer>): void {
    if (ArrayBuffer.isView(value)) {
        if (value.buffer.byteLength >= HAND_OVER_BYTES) {
            found.add(value.buffer as ArrayBuffer);
        }
    } else if (Array.isArray(value)) {
        // The lists of texts are long and have no arrays in them.
        if (typeof value[0] === 'object') {
            value.forEach((item) => buffersOf(item, found));
        }
    } else if (value !== null && typeof value === 'object') {
        Object.values(value).forEach((item) => buffersOf(item, found));
    }
}

scope.onmessage = async (event) => {
    try {
        const snapshot = await readSnapshot(event.data,
            (what, part) => scope.postMessage({ progress: { what, part } }));
        const buffers = new Set<ArrayBuffer>();
        buffersOf(snapshot, buffers);
        scope.postMessage({ snapshot }, [...buffers]);
    } catch (error) {
        scope.postMessage({
            error: error instanceof Error ? error.message : String(error),
            known: error instanceof SnapshotError,
        });
    }
};
