/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk of docs/walk.md: from a report's first page to the line that loses memory, in three
 * clicks, with the program docs/examples/finding_a_leak.c. Each step must show what the page says
 * of it.
 *
 *     node walk.mjs PROGRAM SOURCE [FOLDER]     with a folder, the pictures of the page go there
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { folder, launch, needBrowser, openPage } from './browser.mjs';

needBrowser();
const [program, source, pictures] = process.argv.slice(2);
const { TENURE, TENURE_REPORT } = process.env;
const LINE = readFileSync(source, 'utf8').split('\n')
    .findIndex((line) => line.includes('tnr_malloc(&result')) + 1;

/** The report of the program, whose source has the name that it has for whoever builds it: the
 * compiler may have been given a path of any form, from any folder. */
function makeReport() {
    const named = join(folder, 'finding_a_leak.json'), report = join(folder, 'walk.html');
    execFileSync(program, [folder], { env: { ...process.env, TENURE_DRIVER: 'sim' } });
    const { stderr } = spawnSync(TENURE, ['snapshot', 'convert', '--to', 'tenure',
        join(folder, 'after.json'), named], { encoding: 'utf8' });
    if (stderr.includes('not looked up')) {
        console.log('skipped: libdw is not installed');
        process.exit(77);
    }
    writeFileSync(named, readFileSync(named, 'utf8')
        .replaceAll(/"[^"]*\/finding_a_leak\.c"/g, '"finding_a_leak.c"')
        .replaceAll(`${dirname(program)}/`, '')
        .replaceAll('docs_finding_a_leak', 'finding_a_leak'));
    execFileSync(TENURE, ['snapshot', 'html', named, report, '--template', TENURE_REPORT,
        '--no-symbols']);
    return pathToFileURL(report).href;
}

const browser = await launch({ viewport: { width: 1000, height: 940 } });
try {
    const page = await openPage(browser.context, makeReport());
    const take = async (number) => {
        await page.mouse.move(0, 0);
        await page.waitForTimeout(250);
        if (pictures) {
            await page.screenshot({ path: join(pictures, `walk-${number}.png`) });
            console.log(`walk-${number}.png`);
        }
    };
    const text = (selector) => page.innerText(selector)
        .then((found) => found.replaceAll('\u00a0', ' '));

    // The first page.
    assert.match(await text('.summary'), /24\.00 MiB is live in 8 blocks/);
    assert.match(await text('.summary'),
        new RegExp(`largest holder is result_keep \\(finding_a_leak\\.c:${LINE}\\)`));
    await take(0);

    // One click: by records, in which no step is longer than another.
    await page.click('#panel-timeline input[value=records]');

    // Two: by function. What is never freed is one growing staircase of one colour.
    await page.click('.band-controls input[value=function]');
    await take(2);
    const legend = await page.$$eval('#panel-timeline .band-legend li, #panel-timeline .legend li',
        (items) => items.map((item) => ({ text: item.innerText,
            colour: item.querySelector('i') && getComputedStyle(item.querySelector('i'))
                .backgroundColor })));
    const kept = legend.find(({ text: words }) => words.startsWith('result_keep'));
    assert.match(kept.text.replaceAll('\u00a0', ' '), /24\.00 MiB/);

    // Three: a click on it says whose it is.
    const place = await page.$eval('#panel-timeline .chart canvas', (canvas, colour) => {
        const ctx = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
        ctx.drawImage(canvas, 0, 0);
        const wanted = colour.match(/\d+/g).map(Number);
        const { data } = ctx.getImageData(0, 0, canvas.width, canvas.height);
        const box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
        const has = (x, y) => wanted.every((value, i) =>
            Math.abs(data[4 * (y * canvas.width + x) + i] - value) < 3);
        const column = Math.round(canvas.width * 0.6);
        const rows = Array.from({ length: canvas.height }, (_, y) => y).filter((y) =>
            has(column, y) && has(column, y - 2) && has(column, y + 2));
        const y = rows[rows.length >> 1];
        return { x: box.x + column / scale, y: box.y + y / scale, found: rows.length };
    }, kept.colour);
    assert.ok(place.found > 10, JSON.stringify(place));
    await page.mouse.click(place.x, place.y);
    const detail = '#panel-timeline .detail';
    await page.waitForSelector(detail);
    const said = await text(detail);
    assert.match(said, new RegExp(`result_keep\\s+finding_a_leak\\.c:${LINE}\\s`));
    assert.match(said, /step_run\s+finding_a_leak\.c:\d+\s/);
    assert.match(said, /3\.00 MiB/);
    assert.doesNotMatch(said, /[Ff]reed at/);
    await page.locator(detail).first().evaluate((shown) =>
        shown.scrollIntoView({ block: 'end' }));
    await take(3);
    assert.deepEqual(page.trouble, []);
    console.log(said);
} finally {
    await browser.close();
}
