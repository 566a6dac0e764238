/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pictures of docs/report.md, of a program that never ran (make_snapshot.py):
 *
 *     TENURE_REPORT=build/share/tenure/report.html TENURE_CHROMIUM=/usr/bin/chromium \
 *     TENURE_REPORT_TEST_MODULES=build/npm/report_tests/node_modules \
 *     node tests/report/take_screenshots.mjs docs/images
 */
import { join } from 'node:path';

import { generate, launch, makeReport, needBrowser, openPage } from './browser.mjs';

needBrowser();
const out = process.argv[2];
const program = generate('program.json', '--steps', '400', '--records', '30000', '--named');
const later = generate('later.json', '--steps', '560', '--records', '30000', '--named');
const browser = await launch({ viewport: { width: 1280, height: 860 } });
const page = await openPage(browser.context, makeReport('report.html', program,
    { gzip: true, other: later }));

async function take(name) {
    await page.waitForTimeout(250);
    await page.screenshot({ path: join(out, `report-${name}.png`) });
    console.log(`report-${name}.png`);
}

/** One part of the page, which is small as a file. */
async function takePart(name, selector) {
    await page.waitForTimeout(250);
    await page.locator(selector).first().screenshot({ path: join(out, `report-${name}.png`) });
    console.log(`report-${name}.png`);
}

await page.setViewportSize({ width: 1100, height: 1240 });
await page.keyboard.press('1');
await page.locator('#panel-timeline input[value=fit]').click();
for (let i = 0; i < 13; i++) {
    await page.keyboard.press('+');
}
await page.locator('.chart').focus();
for (let i = 0; i < 6; i++) {
    await page.keyboard.press('ArrowDown');
}
await page.evaluate(() => document.activeElement.blur());
await takePart('timeline', '#panel-timeline .card');
await page.locator('#panel-timeline .detail button', { hasText: 'lanes' }).click();
await page.keyboard.press('-');
await takePart('lanes', '#panel-lanes .card');
await page.setViewportSize({ width: 1280, height: 860 });

await page.emulateMedia({ colorScheme: 'dark' });
await page.keyboard.press('3');
await page.locator('#panel-map input[value=stack]').click();
const box = await page.locator('#panel-map canvas').boundingBox();
await page.mouse.click(box.x + 430, box.y + box.height * 0.62);
await page.locator('#panel-map .head').first().evaluate((head) => {
    window.scrollTo(0, head.getBoundingClientRect().top + scrollY - 90);
});
await page.mouse.move(box.x + 434, 300);
await take('map');

await page.emulateMedia({ colorScheme: 'light' });
await page.mouse.move(0, 0);
await page.keyboard.press('5');
await take('waiting');
await page.keyboard.press('8');
await take('compare');
await browser.close();
