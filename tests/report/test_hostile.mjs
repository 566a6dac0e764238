/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that would run as HTML if the page let them: they stay text in every view, in both ways of
 * embedding. And the page's policy stops a script even where one got in.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { folder, generate, launch, makeReport, needBrowser, openPage } from './browser.mjs';

needBrowser();

let browser;
const hostile = generate('hostile.json', '--hostile', '--steps', '60', '--records', '4000');
before(async () => { browser = await launch(); });
after(async () => browser?.close());

for (const gzip of [false, true]) {
    test(`hostile names stay text, ${gzip ? 'packed' : 'plain'}`, async () => {
        const page = await openPage(browser.context,
            makeReport('hostile.html', hostile, { gzip, other: hostile }));
        await page.evaluate(() => {
            window.owned = () => { document.title = 'owned'; };
        });
        const scripts = await page.locator('script').count();
        for (let view = 1; view <= 7; view++) {
            await page.keyboard.press(String(view));
            await page.waitForTimeout(60);
            for (const selector of ['img', 'svg', 'iframe', 'main script', 'main a']) {
                assert.equal(await page.locator(selector).count(), 0, `${selector} in ${view}`);
            }
        }
        await page.keyboard.press('3');
        const text = await page.locator('#panel-holders').innerText();
        assert.match(text, /<img src=x onerror=/);
        assert.match(text, /<\/script><script>owned\(\)/);
        // Characters that turn the direction of writing are shown as codes.
        assert.match(text, /\\u202egnp\.exe/);
        assert.doesNotMatch(text, /[\u202e\u0007]/);
        await page.keyboard.press('/');
        await page.fill('#search', '<img');
        await page.waitForSelector('.found-item');
        assert.equal(await page.locator('img').count(), 0);
        assert.equal(await page.locator('script').count(), scripts);
        assert.match(await page.title(), /memory report$/);
        assert.deepEqual(page.trouble, []);
        await page.close();
    });
}

test('the policy stops a script that got into the page', async () => {
    const url = makeReport('injected.html', hostile);
    const path = join(folder, 'injected.html');
    const html = readFileSync(fileURLToPath(url), 'utf8').replace('<main>',
        '<main><img src="data:x" onerror="document.title=\'owned\'">' +
        '<script>document.title = "owned"</script>');
    writeFileSync(path, html);
    const page = await openPage(browser.context, pathToFileURL(path).href);
    // The page says of each what it stopped, some time after it was loaded.
    const stopped = () => page.trouble.filter((line) => /Content Security Policy/.test(line));
    for (let tries = 0; tries < 6000 && stopped().length < 2; tries++) {
        await page.waitForTimeout(50);
    }
    assert.ok(stopped().length >= 2, page.trouble.join('\n'));
    assert.notEqual(await page.title(), 'owned');
    await page.close();
});
