/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure snapshot html` left out of a window of time, and the command that brings it.
 */
import { App } from '../app.js';
import { KIND } from '../data/model.js';
import { el, fill } from '../ui/dom.js';
import { count, plural } from '../text/units.js';

export class LeftOutNote {
    readonly root = el('p', { class: 'note left-out', hidden: true });
    /** How many are left out before each record; null if none are. */
    private readonly before: Float64Array | null = null;

    constructor(private readonly app: App) {
        const { history } = app.device;
        if (app.snapshot.leftOut === 0) {
            return;
        }
        this.before = new Float64Array(history.length + 1);
        for (let i = 0; i < history.length; i++) {
            this.before[i + 1] = this.before[i]! +
                (history.kind[i] === KIND.left_out ? history.value[i]! : 0);
        }
    }

    /** The window shows these records, the last with them. */
    show(first: number, last: number): void {
        const { before, app } = this;
        const out = before ? before[last + 1]! - before[first]! : 0;
        this.root.hidden = out === 0;
        if (out === 0) {
            return;
        }
        const { time, timed } = app.device.history;
        // Rounded outwards, so that the window is inside.
        const seconds = (ns: number, up: number) =>
            ((Math.floor(ns / 1000) + up) / 1e6).toFixed(6);
        const times = timed ? ` --from ${seconds(time[first]!, 0)} --to ${seconds(time[last]!, 1)}`
            : ` --records ${count(app.device.history.length + out).replaceAll(',', '')}`;
        fill(this.root, `${plural(out, 'record')} of what is shown ${out === 1 ? 'is' : 'are'} ` +
            'left out of this report. A report that has them: ',
        el('code', {}, `tenure snapshot html ${app.snapshot.fileName} OUT${times}`));
    }
}
