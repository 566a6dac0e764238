/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot as the report holds it: one typed array a column, split by device, so that a view
 * never skips over another device's rows. Indexes refer to the lists of the Snapshot (pools,
 * streams, stacks, strings) whatever the device; -1 refers to nothing. docs/snapshots.md says what
 * the fields mean.
 */

export const STATES = ['live', 'retired', 'binned', 'free', 'releasing', 'growing'] as const;
export const LIVE = 0, RETIRED = 1;

export const KINDS = [
    'alloc', 'free', 'retire', 'reuse', 'grow', 'map', 'unmap', 'move_in', 'move_out', 'oom',
    'pool_made', 'pool_ended', 'capture_begin', 'capture_end', 'capture_abort', 'launch',
    'launch_over', 'sleep', 'wake', 'mark', 'snapshot', 'left_out', 'other',
] as const;
export type Kind = typeof KINDS[number];
export const KIND = Object.fromEntries(KINDS.map((kind, code) => [kind, code])) as
    Record<Kind, number>;

export const WAIT_KINDS = ['use', 'free_sync', 'export', 'graph', 'capture'] as const;

export interface Frame { name: string; place: string; module: string }

export interface Pool {
    device: number; number: number; name: string; kind: string; state: string;
    /** The name that it shares with other pools; empty without one. */
    tag: string;
    reservedBytes: number; asleepBytes: number; limitBytes: number | null; chunks: number;
    settled: boolean;
}

export interface Stream { device: number; handle: string; name: string; ended: boolean }

export interface Segments {
    length: number;
    address: Float64Array; bytes: Float64Array; pool: Int32Array; stream: Int32Array;
    small: Uint8Array; firstBlock: Int32Array; blocks: Int32Array; arena: Int32Array;
}

export interface Blocks {
    length: number;
    address: Float64Array; bytes: Float64Array; requested: Float64Array; state: Uint8Array;
    /** Of the allocation. */
    time: Float64Array; stack: Int32Array;
    /** Of the segment that the block lies in. */
    pool: Int32Array; stream: Int32Array; segment: Int32Array;
}

export interface Waits {
    length: number;
    block: Int32Array; kind: Uint8Array; stream: Int32Array; mark: Float64Array;
    since: Float64Array; graph: Float64Array;
}

export interface Audit {
    found: number; own: number; kept: number; shared: number; loose: number; freed: number;
    unmapped: number; unread: number;
}

export interface Graph {
    number: number; name: string; pool: number; state: string; blocks: number; reused: number;
    launches: number; keptBlocks: number; keptBytes: number; audit: Audit | null;
}

export interface History {
    length: number;
    time: Float64Array; kind: Uint8Array; address: Float64Array; bytes: Float64Array;
    requested: Float64Array; pool: Int32Array; stream: Int32Array; thread: Int32Array;
    reason: Int32Array; mark: Int32Array; stack: Int32Array; value: Float64Array;
    /** Of a free, retire or reuse: the record of the allocation that it ends. Of an allocation: of
     * its free. -1 if there is none in the history. */
    pair: Int32Array;
    /** After the record: bytes that owners asked for, bytes that wait, physical bytes. */
    live: Float64Array; retired: Float64Array; reserved: Float64Array;
    /** Whether records have times; those of some converted files have none. */
    timed: boolean;
    /** Record after which most was live; -1 without records. */
    peak: number;
    /** Whether counting backwards from the picture went below zero: records are missing. */
    incomplete: boolean;
}

export interface Device {
    index: number; name: string; memoryBytes: number; memoryFreeBytes: number | null;
    reservedBytes: number; reservedPeakBytes: number; asleepBytes: number;
    limitBytes: number | null; ooms: number; retries: number;
    segments: Segments; blocks: Blocks; waits: Waits; graphs: Graph[]; history: History;
}

export interface Snapshot {
    fileName: string; fileBytes: number;
    writer: { name: string; version: string };
    reason: string; pid: number; program: string;
    takenNs: number;
    /** Time of day; 0 if not known. */
    takenEpochMs: number;
    driver: string; simulated: boolean;
    settings: [string, string][];
    strings: string[]; frames: Frame[]; stacks: Int32Array[];
    /** The frames of each stack by which it is named; null: all of them. */
    shown: Int32Array[] | null;
    pools: Pool[]; streams: Stream[]; reasons: string[];
    historyMode: string; written: number; overwritten: number; missed: number;
    /** Records of blocks that `tenure snapshot html` left out: the smallest and shortest-lived. A
     * record of kind left_out stands for those between its neighbours. */
    leftOut: number;
    devices: Device[];
}

/** A mistake in the file, in words for the person who opened it. */
export class SnapshotError extends Error {}
