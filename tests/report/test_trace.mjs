/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of recorded programs: each bundled trace is replayed on the simulated device, which
 * writes a snapshot with all of its history, and the report shows what that snapshot says. The
 * largest, llama_generate with 285,000 allocations, is to open in 3 s; how long it took is printed.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';

import { folder, here, launch, makeReport, needBrowser, openPage } from './browser.mjs';

needBrowser();

const TRACES = ['gpt2_train', 'llama_generate', 'moe_infer', 'offload_streams', 'resnet_train',
    'serve_streams'];
let browser;
before(async () => { browser = await launch(); });
after(async () => browser?.close());

for (const trace of TRACES) {
    test(`the report of ${trace}`, async () => {
        const path = join(folder, `${trace}.json`);
        execFileSync(process.env.TENURE, ['replay', '--snapshot', path,
            resolve(here, `../traces/${trace}.csv.gz`)], {
            stdio: ['ignore', 'ignore', 'inherit'],
            env: { ...process.env, TENURE_CONF: 'history_records:1000000' },
        });
        const document = JSON.parse(readFileSync(path, 'utf8'));
        const url = makeReport(`${trace}.html`, path, { gzip: true });
        const start = performance.now();
        const page = await openPage(browser.context, url);
        const opened = performance.now() - start;
        const { rows } = document.history;
        console.log(`${trace}: ${rows.length} records, open after ${opened.toFixed(0)} ms`);

        const shown = await page.$$eval('.summary .legend b[data-bytes]', (found) =>
            found.reduce((sum, one) => sum + Number(one.dataset.bytes), 0));
        const [device] = document.devices;
        assert.equal(shown, device.reserved_bytes + device.asleep_bytes);
        // The whole history is there, so before its first allocation nothing was live.
        assert.equal(document.history.overwritten, 0);
        assert.doesNotMatch(await page.innerText('#panel-timeline'), /Some records are missing/);
        await page.keyboard.press('p');
        for (let view = 2; view <= 7; view++) { // the last is the history
            await page.keyboard.press(String(view));
        }
        assert.ok(await page.isVisible('#panel-records'));
        const count = Number((await page.innerText('#panel-records .note'))
            .match(/^[\d,]+/)[0].replaceAll(',', ''));
        assert.equal(count, rows.length);
        assert.deepEqual(page.trouble, []);
        await page.close();
    });
}
