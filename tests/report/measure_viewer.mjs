/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch's own memory viewer makes of large pickles, printed and not judged:
 *
 *     node measure_viewer.mjs --viewer FOLDER [--patience SECONDS] [--json OUT] FILE...
 *
 * FOLDER is the user's copy, as tests/snapshot/view.mjs has it. Each file is opened by itself, in
 * Chromium without a GPU, from a server on this machine that sends it from the disk: until the
 * viewer has drawn its first view, or an exception, the end of the tab, or the end of patience
 * (600 s). The page's memory is looked at ten times a second.
 *
 * Exit codes: 0 measured, whatever came of it; 2 wrong usage; 77 there is no copy, or no browser.
 */
import { createReadStream, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync,
    writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const { values: options, positionals: files } = parseArgs({
    allowPositionals: true,
    options: { viewer: { type: 'string' }, patience: { type: 'string', default: '600' },
        json: { type: 'string' } },
});
const viewer = options.viewer ?? process.env.TENURE_VIEWER;
const chromiumPath = process.env.TENURE_CHROMIUM || '/usr/bin/chromium';
const patienceMs = 1000 * Number(options.patience);

function end(code, words) {
    console.log(`measure_viewer.mjs: ${words}`);
    process.exit(code);
}

if (!viewer || !existsSync(join(viewer, 'MemoryViz.js')) || !existsSync(join(viewer, 'd3.mjs'))) {
    end(77, "skipped: no copy of PyTorch's viewer; --viewer names a folder that has one");
}
if (!existsSync(chromiumPath)) {
    end(77, 'skipped: no Chromium; ./tools/setup --test installs it');
}
if (files.length === 0 || !(patienceMs > 0)) {
    end(2, 'name pickles');
}

/** The viewer, with what it imports from a network taken from the copy, and the files. */
const server = createServer((request, response) => {
    const name = basename(new URL(request.url, 'http://here').pathname);
    if (name === '') {
        response.setHeader('content-type', 'text/html');
        response.end('<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body>');
    } else if (/^\d+$/.test(name)) {
        response.setHeader('content-length', statSync(files[Number(name)]).size);
        createReadStream(files[Number(name)]).pipe(response);
    } else {
        response.setHeader('content-type', 'text/javascript');
        response.end(readFileSync(join(viewer, name), 'utf8')
            .replace(/from "https:\/\/[^"]*\/d3[-@][^"]*"/g, 'from "/d3.mjs"'));
    }
});

/** MiB of the pages of the browser with that profile. */
function pagesMib(profile) {
    let kib = 0;
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
        try {
            const line = readFileSync(`/proc/${pid}/cmdline`, 'latin1');
            if (line.includes('--type=renderer') && line.includes(profile)) {
                kib += Number(/VmRSS:\s+(\d+)/.exec(
                    readFileSync(`/proc/${pid}/status`, 'latin1'))[1]);
            }
        } catch {
            // It has ended meanwhile.
        }
    }
    return kib / 1024;
}

const { chromium } = createRequire(join(resolve(
    process.env.TENURE_REPORT_TEST_MODULES ?? 'node_modules'), 'here.js'))('playwright-core');

async function measure(number, origin) {
    const profile = mkdtempSync(join(tmpdir(), 'tenure-viewer-'));
    const context = await chromium.launchPersistentContext(profile, {
        executablePath: chromiumPath, headless: true, viewport: { width: 1280, height: 800 },
        args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
            '--disable-component-update', '--disable-sync', '--no-proxy-server'],
    });
    const page = await context.newPage();
    page.setDefaultTimeout(0);
    let most = 0;
    const look = setInterval(() => { most = Math.max(most, pagesMib(profile)); }, 100);
    const failed = new Promise((done) => {
        page.on('crash', () => done('the tab ended'));
        page.on('pageerror', (error) => done(`${error.name}: ${error.message}`));
    });
    await page.goto(`${origin}/`);
    const start = performance.now();
    /** Two frames after the first of what it draws is there. */
    const drawn = page.evaluate(async ([url, name]) => {
        const { add_remote_files: add } = await import('/MemoryViz.js');
        const frame = () => new Promise((done) => requestAnimationFrame(done));
        add([{ name, url }]);
        while (!document.querySelector('svg polygon, svg rect')) {
            await frame();
        }
        await frame();
        await frame();
        return null;
    }, [`${origin}/${number}`, basename(files[number])]).catch((error) => error.message);
    const patience = new Promise((done) => {
        setTimeout(() => done(`no picture within ${options.patience} s`), patienceMs).unref();
    });
    const trouble = await Promise.race([drawn, failed, patience]);
    const seconds = (performance.now() - start) / 1000;
    most = Math.max(most, pagesMib(profile));
    clearInterval(look);
    await context.close().catch(() => {});
    rmSync(profile, { recursive: true, force: true });
    return { mib: statSync(files[number]).size / 2 ** 20, seconds, tab_mib: most,
        trouble: trouble === null ? null : trouble.split('\n')[0] };
}

await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
const rows = [];
for (let number = 0; number < files.length; number++) {
    const row = await measure(number, `http://127.0.0.1:${server.address().port}`);
    rows.push(row);
    console.log(`${files[number]}, ${row.mib.toFixed(0)} MiB: ${row.trouble ?? 'first picture'} ` +
        `after ${row.seconds.toFixed(1)} s, tab ${row.tab_mib.toFixed(0)} MiB`);
    if (options.json) {
        writeFileSync(options.json, `${JSON.stringify(rows, null, 1)}\n`);
    }
}
process.exit(0);
