/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of graphs, from their records to their ends. The end of one was seen at the time of its
 * record, which says how long before that the launch was recorded: docs/snapshots.md.
 */
import { History, KIND } from './model.js';

export interface Launch {
    stream: number;
    /** Number of the graph; -1 if the record of the launch was overwritten. */
    graph: number;
    /** Places on the axis of time, or of records; the same if the end was not seen. */
    from: number; to: number; ended: boolean;
    /** How long it was until the end was seen. */
    ns: number }

/** In the order in which they began or, if that is not in the history, were seen to be over. */
export function launchesOf(history: History): Launch[] {
    const { kind, time, value, stream, pool, length, timed } = history;
    const open = new Map<string, Launch>();
    const result: Launch[] = [];
    const key = (at: number, record: number) => `${at} ${stream[record]} ${pool[record]}`;
    for (let i = 0; i < length; i++) {
        if (kind[i] === KIND.launch) {
            const place = timed ? time[i]! : i;
            const launch = { stream: stream[i]!, graph: value[i]!, from: place, to: place,
                             ended: false, ns: 0 };
            open.set(key(time[i]!, i), launch);
            result.push(launch);
        } else if (kind[i] === KIND.launch_over && value[i]! >= 0) {
            const began = time[i]! - value[i]!;
            const launch = open.get(key(began, i)) ?? {
                stream: stream[i]!, graph: -1, from: timed ? Math.max(0, began) : i, to: 0,
                ended: false, ns: 0 };
            if (launch.graph < 0) {
                result.push(launch);
            }
            launch.to = timed ? time[i]! : i;
            launch.ended = true;
            launch.ns = value[i]!;
            open.delete(key(began, i));
        }
    }
    return result;
}
