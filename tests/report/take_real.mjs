/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures of real runs, from what tests/gpu/shots.sh has written on a GPU:
 *
 *     TENURE=build/bin/tenure TENURE_REPORT=build/share/tenure/report.html \
 *     TENURE_CHROMIUM=/usr/bin/chromium \
 *     TENURE_REPORT_TEST_MODULES=build/npm/report_tests/node_modules \
 *     node tests/report/take_real.mjs FOLDER docs/images
 *
 * It writes real-train.png, real-oom.png, real-lanes.png and real-top.png, and fails where a page
 * does not show what its picture is for.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { folder, launch, needBrowser, openPage, TEMPLATE } from './browser.mjs';

needBrowser();
const [from, out] = process.argv.slice(2);
const browser = await launch({ viewport: { width: 1280, height: 900 } });

async function take(page, name) {
    await page.waitForTimeout(300);
    await page.screenshot({ path: join(out, `real-${name}.png`) });
    await page.close();
    console.log(`real-${name}.png`);
}

async function open(name, title) {
    const report = join(folder, `${name}.html`);
    execFileSync(process.env.TENURE, ['snapshot', 'html', '--template', TEMPLATE, '--title', title,
        join(from, `${name}.json.gz`), report]);
    return openPage(browser.context, pathToFileURL(report).href);
}

const train = await open('train', 'a training step, all activations there');
assert.match(await train.locator('.beside .legend').first().innerText(), /attend|forward|mlp/i);
await take(train, 'train');

const oom = await open('oom', 'an allocation that failed');
assert.match(await oom.locator('#summary').innerText(), /An allocation of .* failed/);
await take(oom, 'oom');

const lanes = await open('lanes', 'a use by another stream');
await lanes.click('#tab-lanes');
await lanes.waitForSelector('#panel-lanes:not([hidden])');
assert.match(await lanes.locator('#panel-lanes').innerText(), /copies/);
await take(lanes, 'lanes');

// A terminal, as text: nothing of the file is parsed as HTML.
const top = await browser.context.newPage();
await top.setViewportSize({ width: 900, height: 210 });
const page = join(folder, 'top.html');
writeFileSync(page, '<!doctype html><meta charset="utf-8"><style>body { margin: 0; ' +
    'background: #12151a; color: #e8ebf0; } pre { margin: 18px; font: 14px/1.35 monospace; }' +
    '</style><pre></pre>');
await top.goto(pathToFileURL(page).href);
const text = readFileSync(join(from, 'top.txt'), 'ascii');
assert.match(text, /reserved +live[^]*\[[#=.]+\]/);
await top.evaluate((shown) => { document.querySelector('pre').textContent = shown; }, text);
await take(top, 'top');
await browser.close();
