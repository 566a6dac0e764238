/* SPDX-License-Identifier: Apache-2.0 */
/* What the checker found: a row for each finding, with the stacks of all that it is about. */
import { App, View } from '../app.js';
import { Finding, Findings, Frame, Side } from '../data/findings.js';
import { Child, el } from '../ui/dom.js';
import { DataTable } from '../ui/table.js';
import { bytes, count, plural } from '../text/units.js';

export const KIND_WORDS: Record<string, string> = {
    use_after_free: 'used after it was freed',
    free_in_use: 'freed while work that nothing orders uses it',
    use_before_allocation: 'used by work that is not ordered after its allocation',
    reuse_without_order:
        'was another block, and is used by work that is not ordered after its allocation',
    out_of_bounds: 'used behind its end',
    race: 'used by two operations that nothing orders, one of which writes',
    double_free: 'freed twice', wrong_free: 'freed by an address that is not its beginning',
};

function frameItem(frame: Frame): Child {
    return el('li', {}, frame.text, ' ', el('small', {}, frame.place));
}

function sideBlock(side: Side): Child {
    const by = `${side.what} by ${side.call}${side.kernel ? ` of ${side.kernel}` : ''}` +
        `${side.stream ? ` on ${side.stream}` : ''}, thread ${side.thread}`;
    return el('div', {}, el('h3', {}, by),
        side.frames.length > 0 ? el('ol', { class: 'stack' }, ...side.frames.map(frameItem))
            : el('p', { class: 'note' }, 'No stack is known.'));
}

/** The place that somebody would change first: where the later thing happened. */
function placeOf(finding: Finding): Child {
    const frame = finding.sides[finding.sides.length - 1]?.frames[0];
    return frame ? el('span', {}, el('span', { class: 'name-main' }, frame.text),
        el('div', { class: 'name-sub' }, frame.place)) : '\u2013';
}

export class FindingsView implements View {
    readonly root = el('div', {});

    constructor(app: App) {
        const findings = app.findings ??
            { isChecked: false, waste: null, list: [], launches: 0, unread: 0 };
        const certain = findings.list.filter((one) => one.certain).length;
        const heading = findings.list.length === 0 ? 'Nothing was found'
            : `${plural(certain, 'certain finding')}, ` +
              `${count(findings.list.length - certain)} possible`;
        this.root.append(el('section', { class: 'card' },
            el('div', { class: 'head' }, el('h2', {}, heading)),
            el('p', { class: 'note' }, this.note(findings)),
            findings.list.length > 0 && this.table(findings.list)));
    }

    private note({ launches, unread }: Findings): string {
        return `${plural(launches, 'kernel launch', 'kernel launches')} seen, ` +
            `${count(unread)} of which could not be read. What is possible only rests on a word ` +
            'that may be no address, or the program also orders work by means that are not seen.';
    }

    private table(list: Finding[]): HTMLElement {
        const table = new DataTable<Finding>({
            caption: 'Findings', sortBy: 0, empty: '',
            columns: [
                { title: 'Finding', order: (one) => one.number,
                  cell: (one) => el('span', { class: one.certain ? 'verdict bad' : 'verdict' },
                      `${one.number}, ${one.certain ? 'certain' : 'possible'}`) },
                { title: 'What', kind: 'wide', order: (one) => one.kind,
                  cell: (one) => KIND_WORDS[one.kind] ?? one.kind },
                { title: 'Where', kind: 'wide',
                  order: (one) => one.sides[one.sides.length - 1]?.frames[0]?.text ?? '',
                  cell: placeOf },
                { title: 'Block', kind: 'number', order: (one) => one.bytes,
                  cell: (one) => el('span', { title: one.block }, bytes(one.bytes)) },
            ],
            details: (one) => el('div', {},
                el('p', {}, `Block ${one.block} of ${count(one.bytes)} bytes, device ` +
                    `${one.device}, process ${one.pid}.`),
                ...one.sides.map(sideBlock),
                el('h3', {}, 'Missing'), el('p', {}, one.missing)),
            detailsLabel: (one) => `Finding ${one.number}`,
        });
        table.set(list);
        return table.root;
    }
}
