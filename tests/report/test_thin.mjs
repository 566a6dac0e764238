/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histories that are longer than what a browser can hold: `tenure snapshot html --records N` leaves
 * blocks out, and every amount stays what it is. Against the report of the whole.
 *
 * Seen to fail: with the sums of a gap taken at its end instead of its highest record; with the
 * least blocks kept and the others left out; without what is left out in the sums of the bands.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { twoDevices } from './documents.mjs';
import { folder, generated, loadModules } from './modules.mjs';

const report = await loadModules('data/read', 'data/bands', 'data/groups', 'text/names',
    'data/model');
const { KIND } = report;

/** What the report of a snapshot holds, as the page reads it. */
async function reportOf(text, ...options) {
    const path = `${folder}/thin.json`, page = `${folder}/thin.html`;
    writeFileSync(path, text);
    execFileSync(process.env.TENURE, ['snapshot', 'html', path, page, '--template',
        process.env.TENURE_REPORT, ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
    const [, gz, data] = readFileSync(page, 'utf8')
        .match(/id="tenure-data(-gz)?" data-name="[^"]*">([^<]+)</);
    return report.readSnapshot({ name: 'x', [gz ? 'gzipBase64' : 'json']: data }, () => {});
}

/** The records that tell of a block in the whole, by what a thinned history has of them. */
const nameOf = (history, i) => [history.time[i], history.kind[i], history.address[i],
    history.bytes[i], history.thread[i]].join(' ');

function checkDevice(whole, thin, most) {
    const rows = [...Array(thin.length).keys()];
    assert.ok(thin.length <= most, `${thin.length} rows`);
    let left = 0, at = 0;
    for (const i of rows) {
        if (thin.kind[i] === KIND.left_out) {
            // Of those between, one has these amounts, and none more.
            const between = [...Array(thin.value[i]).keys()].map((step) => at + step);
            left += thin.value[i];
            at += thin.value[i];
            const most = Math.max(...between.map((one) => whole.live[one]));
            assert.equal(thin.live[i], most);
            assert.ok(between.some((one) => whole.time[one] === thin.time[i] &&
                whole.live[one] === most && whole.retired[one] === thin.retired[i] &&
                whole.reserved[one] === thin.reserved[i]));
            continue;
        }
        assert.equal(nameOf(thin, i), nameOf(whole, at));
        for (const amount of ['live', 'retired', 'reserved']) {
            assert.equal(thin[amount][i], whole[amount][at], `${amount} after ${at}`);
        }
        at++;
    }
    assert.equal(at, whole.length);
    assert.equal(thin.live[thin.peak], whole.live[whole.peak]);
    return left;
}

/** Bytes times records of each block that both begin and end in the history. */
function worths(history, chosen) {
    const result = [];
    for (let i = 0; i < history.length; i++) {
        if (history.kind[i] === KIND.alloc && history.pair[i] >= 0 && chosen(i)) {
            result.push(history.requested[i] * (history.pair[i] - i));
        }
    }
    return result;
}

for (const [what, text] of [['one device', generated('--records', '6000', '--blocks', '300')],
    ['two devices', JSON.stringify(twoDevices(JSON.parse(
        generated('--records', '6000', '--blocks', '300', '--seed', '2'))))]]) {
    test(`amounts stay exact: ${what}`, async () => {
        const whole = await reportOf(text);
        assert.equal(whole.leftOut, 0);
        for (const most of [4000, 1500]) {
            const thin = await reportOf(text, '--records', String(most));
            assert.ok(thin.leftOut > 0);
            let left = 0;
            thin.devices.forEach((device, i) => {
                left += checkDevice(whole.devices[i].history, device.history, most);
            });
            assert.equal(left, thin.leftOut);
        }
    });
}

test('the largest and longest stay, and the rest is in the bands', async () => {
    const text = generated('--records', '6000', '--blocks', '300');
    const whole = await reportOf(text), thin = await reportOf(text, '--records', '2000');
    thin.devices.forEach((device, i) => {
        const { history } = device;
        const before = whole.devices[i].history;
        const kept = new Set([...Array(history.length).keys()].map((one) =>
            nameOf(history, one)));
        const out = worths(before, (one) => !kept.has(nameOf(before, one)));
        const inside = worths(before, (one) => kept.has(nameOf(before, one)));
        assert.ok(out.length > 0 && inside.length > 0);
        // Classes of worth are a sixteenth wide, and a wait lengthens a block.
        const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
        assert.ok(median(out) < median(inside));
        const bands = report.bandsOf(device);
        const sums = new report.ClassSums(bands, new report.Grouping(bands, 'stack', thin,
            new report.Names(thin), { text: '', group: null }));
        const samples = Int32Array.from(Array(history.length).keys());
        const classes = sums.at(samples);
        for (const sample of samples) {
            const all = classes.subarray(sample * sums.count, (sample + 1) * sums.count)
                .reduce((sum, one) => sum + one, 0);
            assert.equal(all, history.live[sample], `after ${sample}`);
        }
    });
});
