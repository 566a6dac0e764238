/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all views share: the snapshot that is open, the device that is looked at, and the way from
 * one view to another.
 */
import { About } from './data/about.js';
import { Accounting, accountingOf } from './data/accounting.js';
import { Findings } from './data/findings.js';
import { Device, Snapshot } from './data/model.js';
import { Names } from './text/names.js';
import { setPage } from './text/units.js';

export const VIEWS = ['timeline', 'lanes', 'map', 'holders', 'waiting', 'graphs', 'records',
    'compare', 'findings', 'waste'] as const;
export type ViewName = typeof VIEWS[number];

/** What a view is to show; each view takes what it understands. */
export interface Target {
    block?: number; segment?: number; record?: number; address?: number; query?: string;
    stream?: number; band?: number;
}

export interface View {
    readonly root: HTMLElement;
    /** Called each time the view comes up, after it is in the page. */
    shown?(target: Target): void;
    /** Called when sizes or the theme change while it is up. */
    redraw?(): void;
    /** A key that nothing else took; true if the view took it. */
    key?(event: KeyboardEvent): boolean;
}

export interface App {
    readonly snapshot: Snapshot;
    readonly names: Names;
    /** Whether stacks are named by all their frames. */
    readonly allFrames: boolean;
    readonly device: Device;
    readonly accounting: Accounting;
    /** The snapshot to compare with, if one is open. */
    readonly other: Snapshot | null;
    /** What the checker found; null if it did not look. */
    readonly findings: Findings | null;
    /** The title and the amounts that were put beside the snapshot, if they were. */
    readonly about: About | null;
    go(view: ViewName, target?: Target): void;
    openOther(): void;
}

/** `all`: stacks are named by all their frames. */
export function makeContext(snapshot: Snapshot, device: Device, all: boolean): Pick<App,
    'snapshot' | 'device' | 'accounting' | 'names'> {
    // What the device has beyond the program's is no amount of the program's.
    setPage(device.history.reserved.reduce((most, one) => Math.max(most, one),
        Math.max(device.reservedBytes, device.reservedPeakBytes, device.asleepBytes)));
    return {
        snapshot, device, names: new Names(snapshot, all),
        accounting: accountingOf(snapshot, device),
    };
}
