/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page's side of reading: what is embedded in the report, and the worker. The worker's program
 * is part of this file's bundle (see build.mjs) and is started from a blob, since a file on disk
 * may not start another.
 */
import workerProgram from 'worker:./worker.ts';

import { Snapshot, SnapshotError } from './model.js';
import { Progress, readSnapshot, Source } from './read.js';
import type { Answer } from './worker.js';

function startWorker(): Worker | null {
    try {
        const url = URL.createObjectURL(new Blob([workerProgram], { type: 'text/javascript' }));
        const worker = new Worker(url);
        URL.revokeObjectURL(url);
        return worker;
    } catch {
        return null; // refused by the browser's policy: read on the page instead
    }
}

function ask(worker: Worker, source: Source, progress: Progress): Promise<Snapshot> {
    return new Promise((resolve, reject) => {
        worker.onmessage = (event: MessageEvent<Answer>) => {
            const answer = event.data;
            if ('progress' in answer) {
                progress(answer.progress.what, answer.progress.part);
                return;
            }
            worker.terminate();
            if ('snapshot' in answer) {
                resolve(answer.snapshot as Snapshot);
            } else {
                reject(answer.known ? new SnapshotError(answer.error)
                    : new SnapshotError(`The snapshot could not be read: ${answer.error}`));
            }
        };
        worker.onerror = (event) => {
            worker.terminate();
            reject(new SnapshotError(`The snapshot could not be read: ${event.message}`));
        };
        worker.postMessage(source);
    });
}

export function load(source: Source, progress: Progress): Promise<Snapshot> {
    const worker = startWorker();
    return worker ? ask(worker, source, progress) : readSnapshot(source, progress);
}

/** The snapshot that `tenure snapshot html` put into this file, if it did; `suffix` is "" for the
 * first and "-b" for the one to compare with. Its text is taken out of the page, which need not
 * keep it twice. */
export function embedded(suffix: '' | '-b'): Source | null {
    for (const kind of ['json', 'gzipBase64'] as const) {
        const element = document.getElementById(
            `tenure-data${kind === 'json' ? '' : '-gz'}${suffix}`);
        const text = element?.textContent?.trim();
        if (element && text) {
            element.textContent = '';
            return { name: element.dataset['name'] ?? '', [kind]: text };
        }
    }
    return null;
}
