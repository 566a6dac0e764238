/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens pickles in PyTorch's own memory viewer, in Chromium, and looks at all of it: every view of
 * every device, every event of the history clicked, every block and segment pointed at.
 *
 *     node view.mjs --viewer FOLDER [--clicks N] [--pictures FOLDER] FILE|FOLDER...
 *
 * The viewer is not part of Tenure. FOLDER is the user's copy: MemoryViz.js of PyTorch's
 * torch/utils/viz, process_alloc_data.js beside it if that version has one, and d3.mjs, the d3 that
 * it imports (d3@5 up to PyTorch 2.8, d3@7 later) as one module, such as esbuild makes. Nothing is
 * fetched from a network. playwright-core is looked for where TENURE_REPORT_TEST_MODULES says, the
 * browser where TENURE_CHROMIUM does. Of a folder with files, all pickles are opened.
 *
 * --clicks: at most so many events of a device are clicked, evenly spread, the first and the last
 * among them; each click replays the history from its end, so all of a long one take hours.
 *
 * Exit codes: 0 all is well; 1 an exception, an error on the console or a view that shows nothing,
 * named; 2 wrong usage; 77 there is no copy, or no browser.
 */
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';

const SITE = 'http://viewer.invalid';
const SCRIPT = { contentType: 'text/javascript', headers: { 'access-control-allow-origin': '*' } };
const EVENTS = '#shown > div:has(> pre) > div > pre';
const CLICKS_AT_ONCE = 200;

function usage(words) {
    console.error(`view.mjs: ${words}`);
    process.exit(2);
}

function skip(words) {
    console.log(`skipped: ${words}`);
    process.exit(77);
}

const { values: options, positionals: paths } = parseArgs({
    allowPositionals: true,
    options: {
        viewer: { type: 'string' },
        clicks: { type: 'string', default: '150' },
        pictures: { type: 'string' },
    },
});
const viewer = options.viewer ?? process.env.TENURE_VIEWER;
const chromiumPath = process.env.TENURE_CHROMIUM ?? '/usr/bin/chromium';
const modules = resolve(process.env.TENURE_REPORT_TEST_MODULES ?? 'node_modules');
const clicksMost = Number(options.clicks);
if (!viewer) {
    skip("no copy of PyTorch's viewer; set TENURE_VIEWER to a folder that has one (view.mjs says "
        + 'what of)');
}
for (const part of ['MemoryViz.js', 'd3.mjs']) {
    if (!existsSync(join(viewer, part))) {
        usage(`${viewer} has no ${part}`);
    }
}
if (!existsSync(chromiumPath)) {
    skip('no Chromium; ./tools/setup --test installs it');
}

const files = paths.flatMap((path) => !statSync(path).isDirectory() ? [path]
    : readdirSync(path).filter((name) => /\.(pickle|pkl)(\.gz)?$/.test(name)).sort()
        .map((name) => join(path, name)));
if (files.length === 0 || !(clicksMost >= 2)) {
    usage('name pickles, and at least 2 clicks');
}

/** Answers every request from the user's folder and the files. The parts of d3 that the viewer
 * imports are one module: each has the event that it is just told of in a variable of its own. */
async function serve(route) {
    const url = new URL(route.request().url());
    const name = url.pathname.slice(1);
    if (url.origin !== SITE) {
        return /\/d3(-|@|$)/.test(url.pathname)
            ? route.fulfill({ body: `export * from '${SITE}/d3.mjs';`, ...SCRIPT })
            : route.abort();
    }
    if (name === '') {
        return route.fulfill({ contentType: 'text/html',
            body: '<!doctype html><html><head><meta charset="utf-8">'
                + '<link rel="icon" href="data:,"></head><body></body></html>' });
    }
    if (name.startsWith('snapshot/')) {
        const raw = readFileSync(files[Number(name.slice(9))]);
        return route.fulfill({ body: raw[0] === 0x1f && raw[1] === 0x8b ? gunzipSync(raw) : raw,
            contentType: 'application/octet-stream' });
    }
    return route.fulfill({ path: join(viewer, basename(name)), ...SCRIPT });
}

/** The entries of the selection that has such an entry. */
const choices = (page, which) => page.evaluate((n) =>
    [...document.querySelectorAll('select')[n].options].map((option) => option.text), which);

const choose = (page, which, index) => page.evaluate(([n, i]) => {
    const list = document.querySelectorAll('select')[n];
    list.selectedIndex = i;
    list.dispatchEvent(new Event('change'));
}, [which, index]);

const frames = (page) => page.evaluate(() =>
    new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

/** Marks the view that is shown, and says what is in it. */
const shown = (page) => page.evaluate((list) => {
    const views = [...document.querySelectorAll('body > div')].filter((div) =>
        div.style.display !== 'none' && div.querySelector('svg, pre'));
    for (const old of document.querySelectorAll('#shown')) {
        old.removeAttribute('id');
    }
    if (views.length !== 1) {
        return null;
    }
    views[0].id = 'shown';
    return { polygons: views[0].querySelectorAll('polygon').length, text: views[0].innerText.length,
        events: document.querySelectorAll(list).length };
}, EVENTS);

/** Points at what is drawn: at most `most` of them. */
const point = (page, most) => page.evaluate((limit) => {
    const drawn = [...document.querySelectorAll('#shown polygon, #shown rect')];
    const step = Math.max(1, Math.ceil(drawn.length / limit));
    for (let i = 0; i < drawn.length; i += step) {
        for (const kind of ['mouseover', 'mouseleave']) {
            drawn[i].dispatchEvent(new MouseEvent(kind,
                { bubbles: kind !== 'mouseleave', view: window }));
        }
    }
}, most);

/** Clicks events, the last first. Returns what the view says at each: allocated and reserved. */
async function clickThrough(page, count) {
    const step = Math.max(1, Math.ceil((count - 1) / (clicksMost - 1)));
    const numbers = [];
    for (let i = count - 1; i > 0; i -= step) {
        numbers.push(i);
    }
    numbers.push(0);
    const said = [];
    for (let i = 0; i < numbers.length; i += CLICKS_AT_ONCE) {
        said.push(...await page.evaluate(([list, some]) => {
            const events = document.querySelectorAll(list);
            const stack = document.querySelector('#shown > div > pre');
            return some.map((number) => {
                stack.textContent = '';
                events[number].dispatchEvent(new MouseEvent('mousedown',
                    { bubbles: true, view: window }));
                return [number, stack.textContent.split('\n')[0]];
            });
        }, [EVENTS, numbers.slice(i, i + CLICKS_AT_ONCE)]));
        if (page.trouble.length > 0) {
            break;
        }
    }
    return said;
}

async function lookAt(page, name, device, view, picture) {
    await frames(page);
    const seen = await shown(page);
    if (page.trouble.length > 0) {
        return 0;
    }
    if (seen === null || (seen.polygons === 0 && seen.text === 0)) {
        page.trouble.push('the view is empty');
        return 0;
    }
    let clicked = 0;
    if (picture !== null) {
        await page.screenshot({ path: `${picture}-last.png` });
    }
    if (seen.events > 0) {
        const said = await clickThrough(page, seen.events);
        clicked = said.length;
        const silent = said.find(([, words]) => !/allocated .* reserved/.test(words));
        if (silent && page.trouble.length === 0) {
            page.trouble.push(`event ${silent[0]} says "${silent[1]}" when it is clicked`);
        }
        if (picture !== null) {
            await page.screenshot({ path: `${picture}-first.png` });
        }
    }
    await point(page, 500);
    await frames(page);
    return clicked;
}

async function openFile(context, number) {
    const name = basename(files[number]);
    const page = await context.newPage();
    page.trouble = [];
    page.setDefaultTimeout(0);
    page.on('pageerror', (error) => page.trouble.push(error.stack.split('\n').slice(0, 4)
        .join(' | ')));
    page.on('console', (message) => {
        if (message.type() === 'error') {
            page.trouble.push(`console: ${message.text()}`);
        }
    });
    await page.route('**/*', serve);
    await page.goto(`${SITE}/`);
    let where = 'opening';
    let views = 0, clicked = 0;
    await page.evaluate(async ([url, title]) => {
        const { add_remote_files: add } = await import('/MemoryViz.js');
        add([{ name: title, url }]);
    }, [`${SITE}/snapshot/${number}`, name]);
    await page.waitForLoadState('networkidle');
    await frames(page);
    const devices = page.trouble.length > 0 ? [] : await choices(page, 2);
    for (let device = 0; device < devices.length; device++) {
        const titles = await choices(page, 1);
        for (let view = 0; view < titles.length && page.trouble.length === 0; view++) {
            where = `device ${devices[device]}, ${titles[view]}`;
            await choose(page, 1, view);
            await choose(page, 2, device);
            const picture = options.pictures === undefined ? null
                : join(options.pictures, `${name}-${devices[device]}-${view}`);
            clicked += await lookAt(page, name, devices[device], titles[view], picture);
            views++;
        }
    }
    const trouble = page.trouble[0];
    await page.close();
    if (trouble !== undefined) {
        console.log(`${files[number]}: ${where}: ${trouble}`);
        return 1;
    }
    console.log(`${files[number]}: ${views} views, ${clicked} events clicked: ok`);
    return 0;
}

const { chromium } = createRequire(join(modules, 'here.js'))('playwright-core');
const profile = mkdtempSync(join(tmpdir(), 'tenure-viewer-'));
const context = await chromium.launchPersistentContext(profile, {
    executablePath: chromiumPath,
    headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
        '--disable-component-update', '--disable-sync', '--no-proxy-server'],
    viewport: { width: 1280, height: 800 },
});
let worst = 0;
for (let number = 0; number < files.length; number++) {
    worst = Math.max(worst, await openFile(context, number));
}
await context.close();
rmSync(profile, { recursive: true, force: true });
process.exit(worst);
