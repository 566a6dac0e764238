/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the bytes of a file, or the text that is embedded in the report, to the model. Runs in a
 * worker; on the page itself only where a browser refuses workers.
 */
import { readDocument } from './document.js';
import { deriveHistory } from './history.js';
import { JsonError, readJson } from './json.js';
import { Snapshot, SnapshotError } from './model.js';

export interface Source {
    name: string;
    /** A file; or text of the report: JSON, or base64 of JSON compressed with gzip. */
    file?: Blob; json?: string; gzipBase64?: string;
}
export type Progress = (what: string, part: number) => void;

function base64Bytes(text: string): Uint8Array {
    const binary = atob(text.replace(/\s+/g, ''));
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) {
        bytes[i] = binary.charCodeAt(i);
    }
    return bytes;
}

async function sourceBytes(source: Source): Promise<Uint8Array> {
    if (source.file) {
        return new Uint8Array(await source.file.arrayBuffer());
    }
    if (source.json !== undefined) {
        return new TextEncoder().encode(source.json);
    }
    try {
        return base64Bytes(source.gzipBase64 ?? '');
    } catch {
        throw new SnapshotError('The snapshot in this report is damaged: it is not base64. Make ' +
            'the report again, or open the snapshot itself.');
    }
}

async function decompress(bytes: Uint8Array, progress: Progress): Promise<Uint8Array> {
    const reader = new Blob([bytes as BlobPart]).stream()
        .pipeThrough(new DecompressionStream('gzip')).getReader();
    const parts: Uint8Array[] = [];
    let total = 0;
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) {
                break;
            }
            parts.push(value);
            total += value.length;
            progress('Decompressing', 0.15 * Math.min(1, total / (bytes.length * 8)));
        }
    } catch {
        throw new SnapshotError('The file is damaged: it begins like gzip, but does not ' +
            `decompress beyond ${total} bytes. It may have been cut off.`);
    }
    const whole = new Uint8Array(total);
    let at = 0;
    for (const part of parts) {
        whole.set(part, at);
        at += part.length;
    }
    return whole;
}

function refuseOthers(bytes: Uint8Array): void {
    if (bytes.length === 0) {
        throw new SnapshotError('The file is empty.');
    }
    if (bytes[0] === 0x80 || bytes[0] === 0x28) {
        throw new SnapshotError('This looks like a pickle of PyTorch\'s. The report reads ' +
            'Tenure\'s JSON; convert it first: tenure snapshot convert IN.pickle OUT.json');
    }
}

export async function readSnapshot(source: Source, progress: Progress): Promise<Snapshot> {
    let bytes = await sourceBytes(source);
    const fileBytes = bytes.length;
    if (bytes[0] === 0x1f && bytes[1] === 0x8b) {
        bytes = await decompress(bytes, progress);
    }
    refuseOthers(bytes);
    progress('Reading', 0.15);
    let document;
    try {
        document = readJson(bytes, (done) => progress('Reading', 0.15 + 0.6 * done / bytes.length));
    } catch (error) {
        throw error instanceof JsonError ? new SnapshotError(error.message) : error;
    }
    progress('Understanding', 0.8);
    const snapshot = readDocument(document, deriveHistory);
    snapshot.fileName = source.name;
    snapshot.fileBytes = fileBytes;
    return snapshot;
}
