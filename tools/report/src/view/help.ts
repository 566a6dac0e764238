/* SPDX-License-Identifier: Apache-2.0 */
/* The dialog of keys and words, and where the numbers come from. */
import { App } from '../app.js';
import { byId, Child, el, fill } from '../ui/dom.js';
import { SHARE_WORDS, SHARES } from '../ui/colours.js';
import { count, sizeText } from '../text/units.js';

const KEYS: readonly (readonly [readonly string[], string])[] = [
    [['/'], 'search'],
    [['1', '\u2026', '8'], 'go to a view'],
    [['\u2190', '\u2192'], 'timeline, lanes: move; map: previous and next block'],
    [['\u2191', '\u2193'], 'timeline: the block above or below, at the moment that is kept'],
    [['+', '\u2212'], 'zoom in and out'],
    [['0'], 'show all'],
    [['p'], 'timeline: go to the peak'],
    [[',', '.'], 'timeline: record by record; lanes: block by block'],
    [['Esc'], 'let go of the moment; close'],
    [['t'], 'light, dark, the system\'s colours'],
    [['o'], 'open another snapshot'],
    [['?'], 'this'],
];

function origin(app: App): Child {
    const { snapshot } = app;
    return el('p', { class: 'note' },
        `${snapshot.program || 'A program'} (process ${snapshot.pid}), ` +
        `driver ${snapshot.driver}. ${sizeText(snapshot.fileBytes)} of data` +
        `${snapshot.fileName ? ` from ${snapshot.fileName}` : ''}. ` +
        `History: ${snapshot.historyMode}, ${count(snapshot.written)} records written.`);
}

export function showHelp(app: App | null): void {
    const dialog = byId('help-dialog') as HTMLDialogElement;
    fill(dialog,
        el('div', { class: 'head' }, el('h2', { id: 'help-title' }, 'Keys and words'),
            el('button', { type: 'button', class: 'quiet', autofocus: true,
                           onclick: () => dialog.close() }, 'Close')),
        el('div', { class: 'two' },
            el('div', {}, el('h3', {}, 'Keys'),
                el('dl', { class: 'keys' }, ...KEYS.flatMap(([keys, words]) => [
                    el('dt', {}, ...keys.flatMap((key): Child[] =>
                        key === '\u2026' ? [' \u2026 ']
                            : [el('kbd', {}, key === '8' && app?.findings ? '9' : key), ' '])),
                    el('dd', {}, words)]))),
            el('div', {}, el('h3', {}, 'Words'),
                el('dl', { class: 'keys' }, ...SHARES.flatMap((share) => [
                    el('dt', {}, SHARE_WORDS[share].name),
                    el('dd', {}, SHARE_WORDS[share].meaning)]),
                el('dt', {}, 'Reserved'), el('dd', {}, 'physical memory taken from the device')))),
        app && el('h3', {}, 'This snapshot'), app && origin(app),
        app && app.snapshot.settings.length > 0 && el('details', {},
            el('summary', {}, 'Settings'),
            el('dl', { class: 'facts' }, ...app.snapshot.settings.flatMap(([key, value]) =>
                [el('dt', {}, key), el('dd', { class: 'mono' }, value || '\u2013')]))));
    if (!dialog.open) {
        dialog.showModal();
    }
}
