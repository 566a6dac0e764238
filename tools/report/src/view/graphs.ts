/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA graphs: their pools, what they keep from outside, and what the audit of their addresses
 * found.
 */
import { App, View } from '../app.js';
import { Audit, Graph } from '../data/model.js';
import { Child, el } from '../ui/dom.js';
import { DataTable } from '../ui/table.js';
import { bytes, count, plural } from '../text/units.js';

const AUDIT_WORDS: readonly (readonly [keyof Audit, string, boolean])[] = [
    ['own', 'of its own pool', false],
    ['kept', 'from outside, kept for it', false],
    ['shared', 'of a pool that it shares', false],
    ['loose', 'live, but nothing keeps them for the graph', true],
    ['freed', 'already freed: another owner may write there', true],
    ['unmapped', 'with no memory behind: a launch would fault', true],
    ['unread', 'of nodes that could not be read', true],
];

function verdict(audit: Audit | null): HTMLElement {
    if (!audit) {
        return el('span', { class: 'verdict' }, 'not audited');
    }
    const bad = audit.freed + audit.unmapped + audit.loose;
    if (bad > 0) {
        return el('span', { class: 'verdict bad' },
            `\u2716 ${plural(bad, 'address', 'addresses')} not safe`);
    }
    return audit.unread > 0
        ? el('span', { class: 'verdict bad' }, `? ${plural(audit.unread, 'node')} not read`)
        : el('span', { class: 'verdict good' }, '\u2714 safe');
}

function auditDetails(audit: Audit | null): HTMLElement {
    if (!audit) {
        return el('p', { class: 'note' }, 'tnr_graph_audit has not been called for this graph.');
    }
    const line = ([key, words, bad]: typeof AUDIT_WORDS[number]): Child =>
        audit[key] > 0 && el('li', { class: bad ? 'verdict bad' : null },
            `${count(audit[key])} ${words}`);
    return el('div', {},
        el('p', {}, `The audit found ${plural(audit.found, 'managed address',
            'managed addresses')} in the graph's nodes:`),
        el('ul', {}, ...AUDIT_WORDS.map(line)));
}

export class GraphsView implements View {
    readonly root = el('div', {});

    constructor(private readonly app: App) {
        const { graphs } = app.device;
        if (graphs.length === 0) {
            this.root.append(el('section', { class: 'card' },
                el('div', { class: 'head' }, el('h2', {}, 'No graphs')),
                el('p', { class: 'note' }, 'No CUDA graph that was captured through Tenure ' +
                    'existed when the snapshot was taken.')));
            return;
        }
        this.root.append(this.card(graphs));
    }

    private poolText(graph: Graph): Child {
        const pool = this.app.snapshot.pools[graph.pool];
        return pool ? el('span', {}, pool.name, el('div', { class: 'name-sub' },
            `${bytes(pool.reservedBytes)} reserved` +
            (pool.asleepBytes > 0 ? `, ${bytes(pool.asleepBytes)} asleep` : '')))
            : 'none of its own';
    }

    private card(graphs: Graph[]): HTMLElement {
        const { snapshot } = this.app;
        const table = new DataTable<Graph>({
            caption: 'Graphs', sortBy: 0, empty: '',
            columns: [
                { title: 'Graph', kind: 'wide', order: (graph) => graph.number,
                  cell: (graph) => el('span', {}, el('span', { class: 'name-main' }, graph.name),
                      el('div', { class: 'name-sub' }, `number ${graph.number}, ${graph.state}`)) },
                { title: 'Audit', order: (graph) => graph.audit
                    ? graph.audit.freed + graph.audit.unmapped + graph.audit.loose : -1,
                  cell: (graph) => verdict(graph.audit) },
                { title: 'Pool', order: (graph) =>
                    snapshot.pools[graph.pool]?.reservedBytes ?? 0,
                  cell: (graph) => this.poolText(graph) },
                { title: 'Blocks', kind: 'number', order: (graph) => graph.blocks,
                  hint: 'Handed out in the capture',
                  cell: (graph) => el('span', {
                      title: `${count(graph.reused)} of them in memory that another had had`,
                  }, count(graph.blocks)) },
                { title: 'Keeps', kind: 'number', order: (graph) => graph.keptBytes,
                  hint: 'Blocks from outside that it refers to',
                  cell: (graph) => graph.keptBlocks > 0
                      ? `${bytes(graph.keptBytes)} in ${count(graph.keptBlocks)}` : '\u2013' },
                { title: 'Launches', kind: 'number', order: (graph) => graph.launches,
                  cell: (graph) => count(graph.launches) },
            ],
            details: (graph) => auditDetails(graph.audit),
            detailsLabel: (graph) => `Audit of ${graph.name}`,
        });
        table.set(graphs);
        return el('section', { class: 'card' },
            el('div', { class: 'head' }, el('h2', {}, plural(graphs.length, 'CUDA graph'))),
            el('p', { class: 'note' }, 'A graph\'s memory keeps its addresses until the graph is ' +
                'destroyed and its last launch is over. Blocks from outside that its nodes refer ' +
                'to are kept for as long.'), table.root);
    }
}
