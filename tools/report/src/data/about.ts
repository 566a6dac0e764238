/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure snapshot html --title --figures` put beside the snapshot: a title, and amounts to
 * compare. Data from a command line as from any file: what is of another type is left out.
 */
import { visible } from './document.js';

export interface Figure { name: string; bytes: number }
export interface About { title: string; figures: Figure[] }

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
    return { title: typeof title === 'string' ? visible(title) : '', figures };
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
