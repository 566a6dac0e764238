/* SPDX-License-Identifier: Apache-2.0 */
/* What memory can be grouped by, in words, and what it is grouped by at first. */
import { App } from '../app.js';
import { Group, groupsOf } from '../data/holders.js';
import { RETIRED, Snapshot } from '../data/model.js';

export const GROUP_WORDS: Record<Group, string> = {
    stack: 'Call stack', function: 'Function', module: 'Module', stream: 'Stream', pool: 'Pool',
    tag: 'Tag', size: 'Size',
};

export function groupOptions(snapshot: Snapshot): (readonly [Group, string])[] {
    return groupsOf(snapshot).map((group) => [group, GROUP_WORDS[group]] as const);
}

/** Stacks if there are any; else streams, unless all is of one, which says nothing: then sizes. */
export function defaultGroup(app: App): Group {
    const { stack, stream, state, length } = app.device.blocks;
    const streams = new Set<number>();
    for (let block = 0; block < length; block++) {
        if (state[block]! <= RETIRED) {
            if (stack[block]! > 0) {
                return 'stack';
            }
            streams.add(stream[block]!);
        }
    }
    return streams.size === 1 ? 'size' : 'stream';
}
