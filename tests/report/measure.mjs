/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a large report costs, printed and not judged:
 *
 *     node tests/report/measure.mjs [RECORDS | FILE] [--json OUT]
 *
 * with the environment of the tests (CMakeLists.txt beside this). For a file, as the command makes
 * a report of it; or for a snapshot of so many records
 * (1,000,000) in Chromium without a GPU: when the first picture is there, the processes' memory,
 * and how long frames take while the bands are zoomed and moved, and the lanes. Then the same
 * frames for ten times the records in node, without a browser: reading such a page takes more
 * memory than a tab should have, and what is asked here is whether frames stay short. --json writes
 * what was measured of a file; scale.py puts it beside what the command takes.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { folder, generate, launch, makeReport, needBrowser } from './browser.mjs';
import { loadModules } from './modules.mjs';

const isFile = process.argv[2] !== undefined && !/^\d+$/.test(process.argv[2]);
const RECORDS = isFile ? 0 : Number(process.argv[2] ?? 1_000_000);
const FRAMES = 120;
const jsonAt = process.argv.indexOf('--json');
const measured = {};
const part = (times, share) => [...times].sort((a, b) => a - b)[
    Math.min(times.length - 1, Math.floor(times.length * share))];
const sayOne = (what, times) => console.log(`${what}: median ${part(times, 0.5).toFixed(1)} ms, ` +
    `95 % within ${part(times, 0.95).toFixed(1)} ms, at most ${Math.max(...times).toFixed(1)} ms`);
/** A machine that does other things too has a slow clock; processor time hardly grows by it. */
function say(what, { clock, processor }, key) {
    measured[`${key}_clock_ms`] = part(clock, 0.95);
    measured[`${key}_processor_ms`] = part(processor, 0.95);
    sayOne(`${what}, by the clock`, clock);
    sayOne(`${what}, processor time`, processor);
}

/** MiB, and seconds of processors, of all pages of the browser whose profile is in our folder. */
function browserUse() {
    let kib = 0, ticks = 0;
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
        try {
            const line = readFileSync(`/proc/${pid}/cmdline`, 'latin1');
            if (line.includes('--type=renderer') && line.includes(folder)) {
                kib += Number(/VmRSS:\s+(\d+)/.exec(
                    readFileSync(`/proc/${pid}/status`, 'latin1'))[1]);
                const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').pop()
                    .split(' ');
                ticks += Number(fields[11]) + Number(fields[12]);
            }
        } catch {
            // It has ended meanwhile.
        }
    }
    return { mib: kib / 1024, seconds: ticks / 100 };
}

/** The report that `tenure snapshot html` makes of a snapshot, however large. */
function reportOf(path) {
    const report = join(folder, 'large.html');
    const start = performance.now();
    execFileSync(process.env.TENURE, ['snapshot', 'html', path, report], { stdio: 'inherit' });
    measured.written_s = (performance.now() - start) / 1000;
    measured.html_mib = statSync(report).size / 2 ** 20;
    console.log(`written in ${measured.written_s.toFixed(1)} s, ` +
        `${measured.html_mib.toFixed(0)} MiB`);
    return pathToFileURL(report).href;
}

async function inBrowser() {
    needBrowser();
    const path = isFile ? process.argv[2] : generate('large.json', '--records', String(RECORDS),
        '--steps', String(Math.round(RECORDS / 60)), '--blocks', String(Math.round(RECORDS / 10)));
    const browser = await launch();
    const page = await browser.context.newPage();
    const url = isFile ? reportOf(path) : makeReport('large.html', path, { gzip: true });
    const before = browserUse();
    const start = performance.now();
    await page.goto(url, { waitUntil: 'commit' });
    await page.waitForSelector('#report:not([hidden])');
    await page.evaluate(() => new Promise((done) =>
        requestAnimationFrame(() => requestAnimationFrame(done))));
    measured.picture_s = (performance.now() - start) / 1000;
    const use = browserUse();
    measured.picture_processor_s = use.seconds - before.seconds;
    measured.tab_mib = use.mib;
    console.log(`${isFile ? path : `${RECORDS} records`}: first picture after ` +
        `${measured.picture_s.toFixed(2)} s (${measured.picture_processor_s.toFixed(2)} s of ` +
        `processors), renderer ${use.mib.toFixed(0)} MiB`);
    const session = await browser.context.newCDPSession(page);
    await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    const busyMs = async () => 1000 * (await session.send('Performance.getMetrics')).metrics
        .find(({ name }) => name === 'TaskDuration').value;
    /** For each key pressed: until its frame is drawn, by the clock and of the page's processor. */
    const frames = async (keys, selector) => {
        const clock = [], processor = [];
        for (let i = 0; i < FRAMES; i++) {
            const before = await busyMs();
            clock.push(await page.evaluate(async ([key, focus]) => {
                document.querySelector(focus)?.focus();
                const start = performance.now();
                document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
                await new Promise((done) => requestAnimationFrame(() => {
                    const channel = new MessageChannel();
                    channel.port1.onmessage = () => done();
                    channel.port2.postMessage(0);
                }));
                return performance.now() - start;
            }, [keys[Math.floor(i / 12) % keys.length], selector]));
            processor.push(await busyMs() - before);
        }
        return { clock, processor };
    };
    await frames(['+', '0'], '.chart');
    const keys = ['+', 'ArrowLeft', '-', 'ArrowRight', '0'];
    say('a frame of the bands', await frames(keys, '.chart'), 'bands');
    await page.keyboard.press('2');
    await frames(['+', '0'], '#panel-lanes canvas');
    say('a frame of the lanes', await frames(keys, '#panel-lanes canvas'), 'lanes');
    measured.tab_mib = Math.max(measured.tab_mib, browserUse().mib);
    console.log(`afterwards the renderer has ${browserUse().mib.toFixed(0)} MiB`);
    if (jsonAt > 0) {
        writeFileSync(process.argv[jsonAt + 1], JSON.stringify(measured));
    }
    await browser.close();
}

/** Blocks that come and go, of all sizes and ages, as the columns of a history. */
function madeHistory(length, KIND) {
    let seed = 1;
    const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;
    const column = (Type) => new Type(length);
    const history = {
        length, timed: true, time: column(Float64Array), kind: column(Uint8Array),
        address: column(Float64Array), bytes: column(Float64Array),
        requested: column(Float64Array), value: column(Float64Array), pair: column(Int32Array),
        stack: column(Int32Array), live: column(Float64Array), retired: column(Float64Array),
    };
    history.pair.fill(-1);
    const open = [];
    let live = 0, peak = 0;
    for (let i = 0; i < length; i++) {
        history.time[i] = i * 1000;
        if (open.length < 20_000 && (open.length < 10 || random() < 0.5)) {
            history.bytes[i] = history.requested[i] = 512 * Math.ceil(2 ** (random() * 16));
            history.address[i] = 512 * (i + 1);
            history.stack[i] = Math.floor(random() * 40);
            open.push(i);
            live += history.requested[i];
        } else {
            const at = Math.floor(random() ** 2 * open.length);
            const alloc = open[at];
            open[at] = open[open.length - 1];
            open.pop();
            history.kind[i] = KIND.free;
            for (const name of ['address', 'bytes', 'requested']) {
                history[name][i] = history[name][alloc];
            }
            history.pair[i] = alloc;
            history.pair[alloc] = i;
            live -= history.requested[i];
        }
        history.live[i] = live;
        peak = live > history.live[peak] ? i : peak;
    }
    const blocks = { length: open.length, address: new Float64Array(open.length),
        requested: new Float64Array(open.length), state: new Uint8Array(open.length) };
    open.forEach((alloc, i) => {
        blocks.address[i] = history.address[alloc];
        blocks.requested[i] = history.requested[alloc];
    });
    return { history: { ...history, peak }, blocks };
}

async function inNode(records) {
    const { Bands, ClassSums, Frame, KIND } = await loadModules('data/bands', 'data/model',
        'view/bands');
    const device = madeHistory(records, KIND);
    const start = performance.now();
    const bands = new Bands(device);
    const classes = { count: 22, of: (band) => 2 * (device.history.stack[band] % 11) };
    const sums = new ClassSums(bands, classes);
    const palette = { fill: new Uint32Array(22), other: new Uint32Array(22),
        line: new Uint32Array(22), waiting: [0, 0] };
    const high = device.history.live[device.history.peak];
    const { time } = device.history;
    const draw = (begin, end) => {
        const window = { axis: time, begin, end, columns: 1180, rows: 330, low: 0, high };
        new Frame(bands, sums, window).paint(new Uint32Array(1180 * 330), palette, null);
    };
    draw(0, time[records - 1]);
    console.log(`${records} records without a browser: the first frame after ` +
        `${((performance.now() - start) / 1000).toFixed(2)} s`);
    const clock = [], processor = [];
    for (let i = 0; i < FRAMES; i++) {
        const span = time[records - 1] / 2 ** (i % 24);
        const begin = (time[records - 1] - span) * ((i * 7) % FRAMES) / FRAMES;
        const before = performance.now();
        const used = process.cpuUsage();
        draw(begin, begin + span);
        clock.push(performance.now() - before);
        processor.push(process.cpuUsage(used).user / 1000);
    }
    say('a frame of the bands, at any zoom', { clock, processor }, 'node');
}

console.log(execFileSync('nproc', { encoding: 'utf8' }).trim(), 'processors');
if (!isFile) {
    await inNode(10 * RECORDS);
}
await inBrowser();
