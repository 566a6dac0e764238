/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the browser tests share: a Chromium with nothing of anybody's profile, a report with a
 * snapshot in it, and a page that remembers every error and every request.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';

export const TEMPLATE = process.env.TENURE_REPORT;
const MODULES = resolve(process.env.TENURE_REPORT_TEST_MODULES ?? 'node_modules');
const CHROMIUM = process.env.TENURE_CHROMIUM;
const PYTHON = process.env.TENURE_PYTHON ?? 'python3';
export const here = dirname(fileURLToPath(import.meta.url));
export const EXAMPLE = resolve(here, '../snapshot/example.json');

/** For what never comes. Nothing may fail because a machine is slow. */
const DEADLINE_MS = 600_000;
const ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
    '--disable-default-apps', '--no-default-browser-check', '--no-proxy-server'];

/** Ends the test as skipped, with the reason as its last line, where there is no browser. */
export function needBrowser() {
    if (!CHROMIUM || !existsSync(CHROMIUM)) {
        console.log('skipped: no Chromium; ./tools/setup --test installs it');
        process.exit(77);
    }
}

/** A snapshot of a program that never ran: make_snapshot.py. */
export function generate(name, ...options) {
    const path = join(folder, name);
    execFileSync(PYTHON, ['-B', join(here, 'make_snapshot.py'), path, ...options]);
    return path;
}

export const folder = mkdtempSync(join(tmpdir(), 'tenure-report-'));

/** A browser with a profile of its own, which `close` removes. */
export async function launch(options = {}) {
    const { chromium } = createRequire(join(MODULES, 'here.js'))('playwright-core');
    const context = await chromium.launchPersistentContext(join(folder, 'profile'), {
        executablePath: CHROMIUM, headless: true, args: ARGUMENTS, offline: false,
        viewport: { width: 1280, height: 800 }, timeout: DEADLINE_MS, ...options,
    });
    context.setDefaultTimeout(DEADLINE_MS);
    return {
        context,
        async close() {
            await context.close();
            rmSync(folder, { recursive: true, force: true });
        },
    };
}

const DATA_PLACE = '<script type="application/json" id="tenure-data"></script>';

/** The text between the tags as `tenure snapshot html` writes it: no "<" in it. */
function element(json, gzip, suffix, name) {
    const attribute = ` data-name="${name}"`;
    return gzip
        ? `<script type="application/octet-stream" id="tenure-data-gz${suffix}"${attribute}>` +
          `${gzipSync(json, { level: 6 }).toString('base64')}</script>`
        : `<script type="application/json" id="tenure-data${suffix}"${attribute}>` +
          `${json.toString('utf8').replaceAll('<', '\\u003c')}</script>`;
}

/** Writes a report with the snapshot in it and returns its URL. `about`: a title and figures. */
export function makeReport(name, jsonFile, { gzip = false, other = null, about = null } = {}) {
    const template = readFileSync(TEMPLATE, 'utf8');
    if (template.split(DATA_PLACE).length !== 2) {
        throw new Error('the template has not one place for data');
    }
    const [before, after] = template.split(DATA_PLACE);
    let data = jsonFile ? element(readFileSync(jsonFile), gzip, '', 'a.json') : DATA_PLACE;
    if (other) {
        data += element(readFileSync(other), gzip, '-b', 'b.json');
    }
    if (about) {
        data += '<script type="application/json" id="tenure-about">' +
            `${JSON.stringify(about).replaceAll('<', '\\u003c')}</script>`;
    }
    const path = join(folder, name);
    writeFileSync(path, before + data + after);
    return pathToFileURL(path).href;
}

/** Opens a page that keeps what must not happen in `page.trouble`: messages of errors and
 * warnings, uncaught exceptions, and requests to anywhere but the file itself. */
export async function openPage(context, url, { wait = true } = {}) {
    const page = await context.newPage();
    page.trouble = [];
    page.on('console', (message) => {
        if (message.type() === 'error' || message.type() === 'warning') {
            page.trouble.push(`console: ${message.text()}`);
        }
    });
    page.on('pageerror', (error) => page.trouble.push(`exception: ${error.stack}`));
    page.on('request', (request) => {
        const to = request.url();
        if (!to.startsWith('file:') && !to.startsWith('blob:') && !to.startsWith('data:')) {
            page.trouble.push(`request: ${to}`);
        }
    });
    await page.goto(url);
    if (wait) {
        await page.waitForSelector('#report:not([hidden])');
    }
    return page;
}
