/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the JSON document (docs/snapshots.md) to the model. Checks what the views rely on: the
 * format and version, the presence of each list, and that every index refers to something; one
 * that does not becomes -1. Unknown keys and columns are ignored, as the format asks.
 */
import { Dictionary, Table, Value } from './json.js';
import {
    Blocks, Device, Frame, Graph, History, KIND, KINDS, Pool, Segments, Snapshot,
    SnapshotError, STATES, Stream, WAIT_KINDS, Waits,
} from './model.js';

function dictionary(value: Value | undefined, name: string): Dictionary {
    if (value === null || typeof value !== 'object' || Array.isArray(value) ||
        value instanceof Table) {
        throw new SnapshotError(`The snapshot has no object "${name}".`);
    }
    return value;
}

function list(value: Value | undefined, name: string): Value[] {
    if (!Array.isArray(value)) {
        throw new SnapshotError(`The snapshot has no list "${name}".`);
    }
    return value;
}

function table(value: Value | undefined, name: string, columns: readonly string[]): Table {
    if (!(value instanceof Table)) {
        throw new SnapshotError(`The snapshot has no table "${name}": "columns", then "rows".`);
    }
    for (const column of columns) {
        if (!value.numbers.has(column) && value.length > 0) {
            throw new SnapshotError(`The table "${name}" has no column of numbers "${column}".`);
        }
    }
    return value;
}

/** Characters that have no look of their own, or turn the direction of what follows: shown as
 * their code, so that a name is seen as it is. */
const INVISIBLE =
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

export function visible(value: string): string {
    return value.replace(INVISIBLE, (character) =>
        `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const text = (value: Value | undefined): string => typeof value === 'string' ? visible(value) : '';
const number = (value: Value | undefined): number => typeof value === 'number' ? value : 0;
const numberOrNull = (value: Value | undefined): number | null =>
    typeof value === 'number' ? value : null;

/** An index column: what refers to nothing in a list of `limit` becomes `missing`. */
function indexes(column: Float64Array, limit: number, missing = -1): Int32Array {
    const result = new Int32Array(column.length);
    for (let i = 0; i < column.length; i++) {
        const index = column[i]!;
        result[i] = index >= 0 && index < limit ? index : missing;
    }
    return result;
}

/** Codes of a document's own list of names, as codes of ours. */
function codes(value: Value | undefined, ours: readonly string[], other: number): number[] {
    return list(value, 'names').map((name) => {
        const code = ours.indexOf(text(name));
        return code < 0 ? other : code;
    });
}

function translate(column: Float64Array, map: readonly number[], other: number): Uint8Array {
    const result = new Uint8Array(column.length);
    for (let i = 0; i < column.length; i++) {
        result[i] = map[column[i]!] ?? other;
    }
    return result;
}

/** The rows of a column whose numbers `rows` lists. */
function pick<T extends Float64Array | Int32Array | Uint8Array>(column: T, rows: Int32Array): T {
    const result = new (column.constructor as new (length: number) => T)(rows.length);
    for (let i = 0; i < rows.length; i++) {
        result[i] = column[rows[i]!]!;
    }
    return result;
}

function rowsWhere(length: number, test: (row: number) => boolean): Int32Array {
    const rows = new Int32Array(length);
    let used = 0;
    for (let row = 0; row < length; row++) {
        if (test(row)) {
            rows[used++] = row;
        }
    }
    return rows.slice(0, used);
}

function readFrames(value: Value | undefined, strings: string[]): Frame[] {
    const frames = table(value, 'frames', ['function', 'file', 'line', 'module', 'offset']);
    const string = (column: string, row: number): string =>
        strings[frames.column(column)[row]!] ?? '';
    return Array.from({ length: frames.length }, (_, row) => {
        // PyTorch writes "??" for the file of a function that the linker alone knows.
        const file = string('file', row).replace(/^\?\?$/, '');
        const line = frames.column('line')[row]!;
        const module = string('module', row);
        const offset = frames.column('offset')[row]!;
        const inModule = module ? `${module}+0x${offset.toString(16)}` : '';
        return {
            name: string('function', row) || inModule || '(unknown function)',
            place: file ? (line > 0 ? `${file}:${line}` : file) : inModule,
            module,
        };
    });
}

/** Lists of frames. */
function readStacks(value: Value | undefined, name: string, frames: Frame[]): Int32Array[] {
    return list(value, name).map((stack) =>
        indexes(Float64Array.from(list(stack, `${name}[]`).map(number)), frames.length)
            .filter((frame) => frame >= 0));
}

function readPool(value: Value): Pool {
    const pool = dictionary(value, 'pools[]');
    const name = text(pool['name']);
    return {
        device: number(pool['device']), number: number(pool['number']),
        name: name || (pool['kind'] === 'default' ? 'default' : `pool ${number(pool['number'])}`),
        kind: text(pool['kind']), state: text(pool['state']), tag: text(pool['tag']),
        reservedBytes: number(pool['reserved_bytes']), asleepBytes: number(pool['asleep_bytes']),
        limitBytes: numberOrNull(pool['limit_bytes']), chunks: number(pool['chunks']),
        settled: pool['settled'] !== false,
    };
}

function streamName(kind: string, handle: string, thread: number): string {
    switch (kind) {
    case 'legacy': return 'legacy default stream';
    case 'per_thread': return `default stream of thread ${thread}`;
    case 'graph': return 'graph pools';
    default: return `stream ${handle}`;
    }
}

function readStream(value: Value): Stream {
    const stream = dictionary(value, 'streams[]');
    const ended = stream['ended'] === true;
    const handle = text(stream['handle']);
    const kind = streamName(text(stream['kind']), handle, number(stream['thread']));
    const given = text(stream['name']);
    const name = given ? `${given} (${kind})` : kind;
    return {
        device: number(stream['device']), handle, ended,
        name: ended ? `${name} (destroyed)` : name,
    };
}

function readGraph(value: Value, pools: number): Graph & { device: number } {
    const graph = dictionary(value, 'graphs[]');
    const pool = numberOrNull(graph['pool']) ?? -1;
    let audit = null;
    if (graph['audit'] !== null && graph['audit'] !== undefined) {
        const sums = dictionary(graph['audit'], 'audit');
        audit = {
            found: number(sums['found']), own: number(sums['own']), kept: number(sums['kept']),
            shared: number(sums['shared']), loose: number(sums['loose']),
            freed: number(sums['freed']), unmapped: number(sums['unmapped']),
            unread: number(sums['unread']),
        };
    }
    return {
        device: number(graph['device']), number: number(graph['number']),
        name: text(graph['name']) || `graph ${number(graph['number'])}`,
        pool: pool < pools ? pool : -1, state: text(graph['state']),
        blocks: number(graph['blocks']), reused: number(graph['reused']),
        launches: number(graph['launches']), keptBlocks: number(graph['kept_blocks']),
        keptBytes: number(graph['kept_bytes']), audit,
    };
}

const SEGMENT_COLUMNS =
    ['address', 'bytes', 'pool', 'stream', 'small', 'first_block', 'blocks', 'arena'];
const BLOCK_COLUMNS = ['address', 'bytes', 'requested_bytes', 'state', 'time_ns', 'stack'];
const WAIT_COLUMNS = ['block', 'kind', 'stream', 'mark_number', 'since_ns', 'graph'];
const HISTORY_COLUMNS = ['time_ns', 'kind', 'address', 'bytes', 'requested_bytes', 'pool', 'stream',
    'thread', 'reason', 'mark', 'stack', 'value'];

/** All rows of the document, before they are split by device. */
interface Whole {
    segments: Segments; blocks: Blocks; waits: Waits; history: Raw;
}
/** What follows from the others, but for amounts that a thinned history has itself. */
type Raw = Omit<History, Derived> & Partial<Pick<History, 'live' | 'retired' | 'reserved'>>;
type Derived = 'pair' | 'live' | 'retired' | 'reserved' | 'timed' | 'peak' | 'incomplete';

function readSegments(root: Dictionary, shared: Snapshot, blocks: number): Segments {
    const rows = table(root['segments'], 'segments', SEGMENT_COLUMNS);
    const segments: Segments = {
        length: rows.length, address: rows.column('address'), bytes: rows.column('bytes'),
        pool: indexes(rows.column('pool'), shared.pools.length),
        stream: indexes(rows.column('stream'), shared.streams.length),
        small: Uint8Array.from(rows.column('small')),
        firstBlock: Int32Array.from(rows.column('first_block')),
        blocks: Int32Array.from(rows.column('blocks')),
        arena: Int32Array.from(rows.column('arena')),
    };
    let next = 0;
    for (let row = 0; row < rows.length; row++) {
        if (segments.firstBlock[row] !== next || segments.blocks[row]! < 0) {
            throw new SnapshotError(`Segment ${row} begins with block ` +
                `${segments.firstBlock[row]}, but the segments before it have ${next}.`);
        }
        next += segments.blocks[row]!;
    }
    if (next !== blocks) {
        throw new SnapshotError(`The segments have ${next} blocks, but the table has ${blocks}.`);
    }
    return segments;
}

function readBlocks(root: Dictionary, shared: Snapshot): Blocks {
    const rows = table(root['blocks'], 'blocks', BLOCK_COLUMNS);
    return {
        length: rows.length, address: rows.column('address'), bytes: rows.column('bytes'),
        requested: rows.column('requested_bytes'),
        state: translate(rows.column('state'), codes(root['states'], STATES, 3), 3),
        time: rows.column('time_ns'),
        stack: indexes(rows.column('stack'), shared.stacks.length, 0),
        pool: new Int32Array(rows.length), stream: new Int32Array(rows.length),
        segment: new Int32Array(rows.length),
    };
}

function readWaits(root: Dictionary, shared: Snapshot, blocks: number): Waits {
    const rows = table(root['waits'], 'waits', WAIT_COLUMNS);
    return {
        length: rows.length, block: indexes(rows.column('block'), blocks),
        kind: translate(rows.column('kind'), codes(root['wait_kinds'], WAIT_KINDS, 0), 0),
        stream: indexes(rows.column('stream'), shared.streams.length),
        mark: rows.column('mark_number'), since: rows.column('since_ns'),
        graph: rows.column('graph'),
    };
}

function readHistory(rows: Table, root: Dictionary, shared: Snapshot): Whole['history'] {
    table(rows, 'history', HISTORY_COLUMNS);
    const other = KIND.other;
    return {
        length: rows.length, time: rows.column('time_ns'),
        kind: translate(rows.column('kind'), codes(root['kinds'], KINDS, other), other),
        address: rows.column('address'), bytes: rows.column('bytes'),
        requested: rows.column('requested_bytes'),
        pool: indexes(rows.column('pool'), shared.pools.length),
        stream: indexes(rows.column('stream'), shared.streams.length),
        thread: Int32Array.from(rows.column('thread')),
        reason: indexes(rows.column('reason'), shared.reasons.length, 0),
        mark: indexes(rows.column('mark'), shared.strings.length, 0),
        stack: indexes(rows.column('stack'), shared.stacks.length, 0),
        value: rows.column('value'),
        ...rows.has('live') && { live: rows.column('live'), retired: rows.column('retired'),
                                 reserved: rows.column('reserved') },
    };
}

/** Each block learns of its segment, and so of its pool and stream. */
function placeBlocks(segments: Segments, blocks: Blocks): void {
    for (let row = 0; row < segments.length; row++) {
        const first = segments.firstBlock[row]!;
        const end = first + segments.blocks[row]!;
        blocks.segment.fill(row, first, end);
        blocks.pool.fill(segments.pool[row]!, first, end);
        blocks.stream.fill(segments.stream[row]!, first, end);
    }
}

function columnsOf<T extends { length: number }>(whole: T, rows: Int32Array): T {
    const result: Record<string, unknown> = { length: rows.length };
    for (const [name, column] of Object.entries(whole)) {
        if (name !== 'length') {
            result[name] = pick(column as unknown as Float64Array, rows);
        }
    }
    return result as unknown as T;
}

/** Row numbers of the whole table, as those of a part. */
function renumber(references: Int32Array, rows: Int32Array, whole: number): void {
    const place = new Int32Array(whole).fill(-1);
    rows.forEach((row, index) => { place[row] = index; });
    references.forEach((row, index) => { references[index] = row < 0 ? -1 : place[row]!; });
}

/** One device's part of everything. With one device there is nothing to split. */
function devicePart(whole: Whole, shared: Snapshot, index: number): Whole {
    if (shared.devices.length === 1) {
        return whole;
    }
    const ofPool = shared.pools.map((pool) => pool.device === index);
    const ofStream = shared.streams.map((stream) => stream.device === index);
    const mine = (pool: number, stream: number): boolean =>
        pool >= 0 ? ofPool[pool]! : stream >= 0 && ofStream[stream]!;
    const { segments, blocks, waits, history } = whole;
    const segmentRows = rowsWhere(segments.length,
        (row) => mine(segments.pool[row]!, segments.stream[row]!));
    const blockRows = rowsWhere(blocks.length,
        (row) => mine(blocks.pool[row]!, blocks.stream[row]!));
    const isMine = new Uint8Array(blocks.length);
    blockRows.forEach((row) => { isMine[row] = 1; });
    const waitRows = rowsWhere(waits.length, (row) => isMine[waits.block[row]!] === 1);
    // What is of no device (marks, snapshots) is in the history of each.
    const historyRows = rowsWhere(history.length, (row) => {
        const pool = history.pool[row]!, stream = history.stream[row]!;
        return (pool < 0 && stream < 0) || mine(pool, stream);
    });
    const part: Whole = {
        segments: columnsOf(segments, segmentRows), blocks: columnsOf(blocks, blockRows),
        waits: columnsOf(waits, waitRows), history: columnsOf(history, historyRows),
    };
    renumber(part.blocks.segment, segmentRows, segments.length);
    renumber(part.segments.firstBlock, blockRows, blocks.length);
    renumber(part.waits.block, blockRows, blocks.length);
    return part;
}

function checkFormat(root: Dictionary): void {
    if (root['format'] !== 'tenure-snapshot') {
        throw new SnapshotError('This is JSON, but no Tenure snapshot: "format" is not ' +
            '"tenure-snapshot". To open another tool\'s snapshot, convert it first: ' +
            'tenure snapshot convert IN OUT.json');
    }
    if (root['version'] !== 1) {
        throw new SnapshotError(`This snapshot has version ${String(root['version'])}, and this ` +
            'report reads version 1. Make the report with the Tenure that wrote the snapshot.');
    }
}

function readShared(root: Dictionary, historyFields: Dictionary): Snapshot {
    const process = dictionary(root['process'], 'process');
    const time = dictionary(root['time'], 'time');
    const driver = dictionary(root['driver'], 'driver');
    const writer = dictionary(root['writer'] ?? {}, 'writer');
    const takenNs = number(time['taken_ns']);
    const zeroUs = number(time['zero_epoch_us']);
    const strings = list(root['strings'], 'strings').map(text);
    const frames = readFrames(root['frames'], strings);
    return {
        fileName: '', fileBytes: 0,
        writer: { name: text(writer['name']), version: text(writer['version']) },
        reason: text(root['reason']), pid: number(process['pid']),
        program: text(process['program']), takenNs,
        takenEpochMs: zeroUs > 0 ? zeroUs / 1e3 + takenNs / 1e6 : 0,
        driver: text(driver['path']), simulated: driver['simulated'] === true,
        settings: Object.entries(dictionary(root['settings'], 'settings'))
            .map(([key, value]) => [key, String(value)]),
        strings, frames,
        stacks: readStacks(root['stacks'], 'stacks', frames),
        shown: root['shown'] === undefined ? null : readStacks(root['shown'], 'shown', frames),
        pools: list(root['pools'], 'pools').map(readPool),
        streams: list(root['streams'], 'streams').map(readStream),
        reasons: list(root['reasons'], 'reasons').map(text),
        historyMode: text(historyFields['mode']), written: number(historyFields['written']),
        overwritten: number(historyFields['overwritten']), missed: number(historyFields['missed']),
        leftOut: number(historyFields['left_out'] ?? 0),
        devices: [],
    };
}

function emptyDevice(value: Value): Device {
    const device = dictionary(value, 'devices[]');
    return {
        index: number(device['index']), name: text(device['name']),
        memoryBytes: number(device['memory_bytes']),
        memoryFreeBytes: numberOrNull(device['memory_free_bytes']),
        reservedBytes: number(device['reserved_bytes']),
        reservedPeakBytes: number(device['reserved_peak_bytes']),
        asleepBytes: number(device['asleep_bytes']),
        limitBytes: numberOrNull(device['limit_bytes']),
        ooms: number(device['ooms']), retries: number(device['retries']),
        graphs: [],
    } as unknown as Device;
}

/** The model of a document. `derive` fills in what follows from a device's history. */
export function readDocument(document: Value,
                             derive: (history: Raw, device: Device,
                                      pools: readonly Pool[]) => History): Snapshot {
    const root = dictionary(document, 'snapshot');
    checkFormat(root);
    const historyTable = table(root['history'], 'history', HISTORY_COLUMNS);
    const shared = readShared(root, historyTable.fields);
    const blocks = readBlocks(root, shared);
    const segments = readSegments(root, shared, blocks.length);
    placeBlocks(segments, blocks);
    const whole: Whole = {
        segments, blocks, waits: readWaits(root, shared, blocks.length),
        history: readHistory(historyTable, root, shared),
    };
    const graphs = list(root['graphs'], 'graphs')
        .map((graph) => readGraph(graph, shared.pools.length));
    shared.devices = list(root['devices'], 'devices').map(emptyDevice);
    if (shared.devices.length === 0) {
        throw new SnapshotError('The snapshot has no device: nothing was allocated before it was ' +
            'taken.');
    }
    for (const device of shared.devices) {
        const part = devicePart(whole, shared, device.index);
        device.segments = part.segments;
        device.blocks = part.blocks;
        device.waits = part.waits;
        device.graphs = graphs.filter((graph) => graph.device === device.index);
        device.history = derive(part.history, device, shared.pools);
    }
    return shared;
}
