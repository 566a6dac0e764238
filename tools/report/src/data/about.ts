/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure snapshot html` put beside the snapshot: a title and amounts to compare, if there are
 * any, and whether the history has holes. What is of another type is left out.
 */
import { visible } from './document.js';

export interface Figure { name: string; bytes: number }
/** `contradicting`: how many records do not fit what is there at the end. */
export interface About { title: string; figures: Figure[]; contradicting: number }

export function aboutOf(value: unknown): About {
    const from = (value ?? {}) as Record<string, unknown>;
    const figures: Figure[] = [];
    for (const one of Array.isArray(from['figures']) ? from['figures'] as unknown[] : []) {
        const { name, bytes } = (one ?? {}) as Record<string, unknown>;
        if (typeof name === 'string' && typeof bytes === 'number' && bytes >= 0) {
            figures.push({ name: visible(name), bytes });
        }
    }
    const title = from['title'];
    const records = from['contradicting'];
    return { title: typeof title === 'string' ? visible(title) : '', figures,
        contradicting: typeof records === 'number' && records > 0 ? records : 0 };
}

/** What is in this page; null: nothing. */
export function embeddedAbout(): About | null {
    const content = document.getElementById('tenure-about')?.textContent;
    try {
        return content ? aboutOf(JSON.parse(content)) : null;
    } catch {
        return null;
    }
}
