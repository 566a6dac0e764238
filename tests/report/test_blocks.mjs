/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks as bands and streams as lanes, in a browser: the pixels of what is drawn against amounts
 * from the snapshot, what is said to who cannot see it, keys, filters, and the ways from a block to
 * who has its memory next. Nothing may appear on the console.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { EXAMPLE, folder, generate, launch, makeReport, needBrowser, openPage, TEMPLATE }
    from './browser.mjs';

needBrowser();

let browser, page;
const program = generate('program.json', '--steps', '60', '--records', '3000');
const document_ = JSON.parse(readFileSync(program, 'utf8'));
before(async () => { browser = await launch(); });
after(async () => browser?.close());
afterEach(async () => {
    const trouble = page?.trouble ?? [];
    await page?.close();
    page = null;
    assert.deepEqual(trouble, []);
});

async function open(json) {
    page = await openPage(browser.context, makeReport('report.html', json));
    await settled();
}

/** Two frames on: what was asked for has been drawn. */
const settled = () => page.evaluate(() => new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))));
const textOf = async (selector) =>
    (await page.locator(selector).first().innerText()).replaceAll('\u00a0', ' ');

/** How many pixels of a canvas have each colour, of all or of one column. */
const coloursOf = (selector, column = null) => page.$eval(selector, (canvas, at) => {
    // From a copy, since a canvas that is read twice is said to be slow.
    const ctx = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
    ctx.drawImage(canvas, 0, 0);
    const { data } = at === null ? ctx.getImageData(0, 0, canvas.width, canvas.height)
        : ctx.getImageData(at, 0, 1, canvas.height);
    const count = {};
    for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3] === 255) {
            const colour = `rgb(${data[i]}, ${data[i + 1]}, ${data[i + 2]})`;
            count[colour] = (count[colour] ?? 0) + 1;
        }
    }
    return count;
}, column);
const chartColours = (column) => coloursOf('#panel-timeline .chart canvas', column);
const lanesColours = () => coloursOf('#panel-lanes canvas');
const styleColour = (name) => page.evaluate((variable) => {
    const probe = document.createElement('i');
    probe.style.color = `var(${variable})`;
    document.body.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
}, name);

/** The legend: colour, name and bytes at the peak of each group. */
const legend = () => page.$$eval('#panel-timeline .legend button[data-group]', (buttons) =>
    buttons.map((button) => ({
        name: button.querySelector('span').textContent,
        colour: getComputedStyle(button.querySelector('.key')).backgroundColor,
        bytes: Number(button.querySelector('b').dataset.bytes),
        pressed: button.getAttribute('aria-pressed'),
    })));

/** What was most at once, counted backwards from the blocks as the report's own page says. */
function peakOf({ blocks, history, states, kinds }) {
    let live = 0;
    blocks.rows.forEach((row) => { live += states[row[3]] === 'live' ? row[2] : 0; });
    let [most, at] = [0, 0];
    for (let i = history.rows.length - 1; i >= 0; i--) {
        if (live >= most) {
            [most, at] = [live, i];
        }
        const row = history.rows[i];
        live -= { alloc: row[4], free: -row[4], retire: -row[4] }[kinds[row[1]]] ?? 0;
    }
    return { most, at };
}

test('it opens at the peak, with a band for every block that can be told apart', async () => {
    await open(program);
    const { most, at } = peakOf(document_);
    assert.match(await textOf('#panel-timeline .reading'), new RegExp(
        `Record ${(at + 1).toLocaleString('en-US')}`));
    assert.match(await textOf('#panel-timeline h2 >> nth=1'), /Who held it at the peak/);
    for (const group of ['function', 'module', 'stream', 'pool', 'size', 'stack']) {
        await page.locator(`.band-controls input[value=${group}]`).click();
        await settled();
        const groups = await legend();
        assert.equal(groups.reduce((sum, { bytes }) => sum + bytes, 0), most, group);
        assert.equal(new Set(groups.map(({ colour }) => colour)).size, groups.length);
        const drawn = await chartColours();
        for (const { colour, bytes, name } of groups) {
            assert.ok(bytes < most / 30 || drawn[colour] > 100, `${name} in ${group}`);
        }
    }
    // Bands have two shades and lines between them: more colours than groups.
    await page.locator('input[value=fit]').click();
    await settled();
    const drawn = Object.entries(await chartColours()).filter(([, count]) => count > 200);
    assert.ok(drawn.length > 8, `${drawn.length} colours`);
});

test('texts of the axis stand apart, and are exact, however close the look', async () => {
    await open(program);
    await page.evaluate(() => {
        const { prototype } = CanvasRenderingContext2D;
        const { fillText } = prototype;
        window.texts = [];
        prototype.fillText = function (text, x, y) {
            // Along the bottom; sizes of bytes stand on top of each other, at the side.
            if (this.textAlign === 'center') {
                const half = this.measureText(text).width / 2;
                window.texts.push([text, x - half, x + half, y]);
            }
            fillText.call(this, text, x, y);
        };
    });
    let most = 0;
    for (const axis of ['time', 'records']) {
        await page.locator(`input[value=${axis}]`).click();
        await page.keyboard.press('0');
        for (let i = 0; i < 14; i++) {
            await settled();
            await page.evaluate(() => { window.texts = []; });
            await page.keyboard.press('+');
            await settled();
            const drawn = await page.evaluate(() => window.texts);
            // The last frame: there each text is right of the one before.
            const last = drawn.findLastIndex(([, begin], k) => k === 0 || begin < drawn[k - 1][1]);
            const texts = drawn.slice(Math.max(0, last));
            most = Math.max(most, texts.length);
            const numbers = texts.map(([text]) => parseFloat(text.replaceAll(',', '')));
            for (let k = 1; k < texts.length; k++) {
                const [before, , end] = texts[k - 1], [text, begin] = texts[k];
                assert.ok(begin > end,
                    `"${before}" and "${text}" overlap after ${i + 1} steps, by ${axis}`);
                const step = numbers[1] - numbers[0];
                assert.ok(Math.abs(numbers[k] - numbers[k - 1] - step) < step / 1000,
                    `"${before}" and "${text}" are not ${step} apart`);
            }
        }
    }
    assert.ok(most >= 4, `${most} texts`);
});

/* Seen to fail with rows of the legend without file and line, without the caller that differs, and
 * in a column of 150 pixels. */
test('rows of the legend are told apart, and are not cut', async () => {
    const same = structuredClone(document_);
    const column = same.frames.columns.indexOf('function');
    for (const row of same.frames.rows) {
        row[column] = same.frames.rows[0][column];
    }
    for (const stream of same.streams) {
        stream.handle = stream.handle.replace(/^0x(?=.{4})/, '0x7f6ec6');
    }
    const inner = structuredClone(document_); // one function allocates for all
    inner.stacks = inner.stacks.map((frames) => frames.length > 0 ? [0, ...frames] : frames);
    for (const one of [same, inner]) {
        const path = join(folder, 'same.json');
        writeFileSync(path, JSON.stringify(one));
        await open(path);
        await page.setViewportSize({ width: 1280, height: 900 });
        for (const group of one === same ? ['function', 'stream', 'stack'] : ['stack']) {
            await page.locator(`.band-controls input[value=${group}]`).click();
            await settled();
            const rows = await page.$$eval('#panel-timeline .legend button[data-group] span',
                (all) => all.map((row) => ({ text: row.textContent, isCut:
                    row.scrollWidth > row.clientWidth ||
                    row.scrollHeight > row.clientHeight + 2 })));
            assert.equal(new Set(rows.map(({ text }) => text)).size, rows.length,
                JSON.stringify(rows));
            assert.ok(rows.length > 1 && rows.every(({ isCut }) => !isCut), JSON.stringify(rows));
        }
        if (one === same) {
            await page.close();
        }
    }
});

/** The program with marks, so many records apart. */
function withMarks(count, apart) {
    const marked = structuredClone(document_);
    const { rows, columns } = marked.history;
    const [kind, mark] = ['kind', 'mark'].map((name) => columns.indexOf(name));
    marked.strings.push('a step');
    const first = Math.floor(rows.length / 2);
    for (let i = 0; i < count; i++) {
        const at = first + apart * i;
        const row = Array.from(columns, () => 0);
        row[columns.indexOf('time_ns')] = rows[at][columns.indexOf('time_ns')];
        row[kind] = marked.kinds.indexOf('mark');
        row[columns.indexOf('pool')] = row[columns.indexOf('stream')] = -1;
        row[mark] = marked.strings.length - 1;
        rows.splice(at, 0, row);
    }
    marked.history.written += count;
    const path = join(folder, 'marked.json');
    writeFileSync(path, JSON.stringify(marked));
    return path;
}

/** What is drawn from here on: upright lines, with their lengths, and texts but those of axes. */
async function watchDrawing() {
    await page.evaluate(() => {
        const { prototype } = CanvasRenderingContext2D;
        const { fillText, moveTo, lineTo } = prototype;
        window.drawn = [];
        let from = [0, 0];
        prototype.moveTo = function (x, y) {
            from = [x, y];
            moveTo.call(this, x, y);
        };
        prototype.lineTo = function (x, y) {
            if (x === from[0] && y !== from[1]) {
                window.drawn.push({ line: x, rows: Math.abs(y - from[1]) });
            }
            lineTo.call(this, x, y);
        };
        prototype.fillText = function (text, x, y) {
            if (this.textAlign !== 'center' && this.textAlign !== 'right') {
                window.drawn.push({ text, left: x, right: x + this.measureText(text).width });
            }
            fillText.call(this, text, x, y);
        };
    });
}

/* Seen to fail with the line of each mark drawn after the text of the mark before. */
test('no line of the chart goes through a text', async () => {
    // Close together, so that texts lie over the lines of others.
    await open(withMarks(12, 40));
    await watchDrawing();
    await page.keyboard.press('+');
    await settled();
    const drawn = (await page.evaluate(() => window.drawn)).filter(({ line, rows }) =>
        line === undefined || rows > 100);
    const texts = drawn.filter(({ text }) => text === 'a step');
    assert.ok(texts.length > 1, JSON.stringify(drawn));
    drawn.forEach(({ line }, at) => {
        const first = drawn.findLastIndex(({ text }, i) => i < at && /^peak /.test(text ?? ''));
        const last = drawn.findIndex(({ text }, i) => i > at && /^peak /.test(text ?? ''));
        assert.ok(line === undefined || first < 0 || last > 0 ||
            !drawn.slice(first, at).some(({ left, right }) => left < line && line < right),
            `the line at ${line} goes through a text: ${JSON.stringify(drawn)}`);
    });
});

/* Seen to fail without ticks. */
test('where there are too many marks for texts they are ticks', async () => {
    await open(withMarks(120, 8));
    await watchDrawing();
    await page.locator('input[value=records]').click();
    await settled();
    const drawn = await page.evaluate(() => window.drawn);
    assert.ok(!drawn.some(({ text }) => text === 'a step'));
    const columns = new Set(drawn.filter(({ rows }) => rows > 2 && rows < 20)
        .map(({ line }) => line));
    assert.ok(columns.size > 100, `${columns.size} ticks`);
});

/* Seen to fail with ticks that divide the lanes' window into equal parts, and with a text that goes
 * on beyond the edge. */
test('ticks are round, also below the lanes, and by record', async () => {
    await open(program);
    await page.evaluate(() => {
        const { prototype } = CanvasRenderingContext2D;
        const { fillText } = prototype;
        window.texts = [];
        prototype.fillText = function (text, x, y) {
            window.texts.push(text);
            window.isInside &&= this.textAlign === 'center' ||
                x >= 0 && x + this.measureText(text).width <= this.canvas.clientWidth + 0.01;
            fillText.call(this, text, x, y);
        };
    });
    await page.locator('#tab-lanes').click();
    await page.evaluate(() => { window.isInside = true; });
    for (let i = 0; i < 40; i++) {
        await page.evaluate(() => { window.texts = []; });
        await page.keyboard.press('+');
        await settled();
        assert.ok(await page.evaluate(() => window.isInside), `a text is cut after ${i + 1} steps`);
        if (i >= 4) {
            await page.keyboard.press('ArrowRight');
            continue;
        }
        const found = (await page.evaluate(() => window.texts)).map((text) =>
            /^([\d.,]+)\u00a0(?:s|ms|\u00b5s)$/.exec(text)).filter(Boolean);
        const numbers = found.map(([, number]) => Number(number.replaceAll(',', '')));
        assert.ok(numbers.length >= 2, JSON.stringify(found));
        const step = numbers[1] - numbers[0];
        const leading = step / 10 ** Math.floor(Math.log10(step * (1 + 1e-6)));
        assert.ok([1, 2, 5].some((round) => Math.abs(leading - round) < 1e-3), `${step} apart`);
        for (const number of numbers) {
            const times = number / step;
            assert.ok(Math.abs(times - Math.round(times)) < 1e-3, `${number}, ${step} apart`);
        }
    }
});

test('at the peak each group is as high as its bytes', async () => {
    await open(program);
    await page.locator('input[value=records]').click();
    for (let i = 0; i < 12; i++) {
        await page.keyboard.press('+');
    }
    await settled();
    const x = await page.$eval('#panel-timeline .chart canvas', (canvas) => {
        // The line of the moment is drawn over its column: the one beside it is of the same record.
        const ctx = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
        ctx.drawImage(canvas, 0, 0);
        const { data } = ctx.getImageData(0, 0, canvas.width, canvas.height);
        const isDark = (column, row) => {
            const [red, green, blue, opaque] = data.subarray(4 * (row * canvas.width + column));
            return red < 60 && green < 60 && blue < 60 && opaque === 255;
        };
        const middle = Math.round(canvas.height / 2);
        const column = Array.from({ length: canvas.width }, (_, i) => i).filter((at) =>
            [0, 1, 2, 3, 4, 5].every((row) => isDark(at, middle + row))).pop();
        return column + 4;
    });
    const groups = await legend();
    const numbers = (colour) => colour.match(/\d+/g).map(Number);
    const waiting = await styleColour('--retired');
    const heights = new Map(groups.map(({ name }) => [name, 0]));
    for (const [colour, count] of Object.entries(await chartColours(x))) {
        // The nearest colour of the legend: shades and lines belong to their band.
        const distance = (other) => numbers(colour).reduce((sum, part, i) =>
            sum + (part - numbers(other)[i]) ** 2, 0);
        const nearest = groups.reduce((a, b) => distance(a.colour) < distance(b.colour) ? a : b);
        if (colour !== waiting && distance(nearest.colour) < 2500) {
            heights.set(nearest.name, heights.get(nearest.name) + count);
        }
    }
    const total = [...heights.values()].reduce((a, b) => a + b);
    const bytes = groups.reduce((sum, one) => sum + one.bytes, 0);
    assert.ok(total > 150, `${total} rows`);
    for (const group of groups.slice(0, 3)) {
        assert.ok(Math.abs(heights.get(group.name) / total - group.bytes / bytes) < 0.03,
            `${group.name}: ${heights.get(group.name) / total} for ${group.bytes / bytes}`);
    }
});

test('a filter and the legend dim the rest, and let go of it', async () => {
    await open(program);
    const groups = await legend();
    const [weights, cache] = groups;
    const whole = await chartColours();
    assert.ok(whole[weights.colour] > 5000 && whole[cache.colour] > 1000);
    await page.fill('.band-controls input[type=search]', 'kvcache');
    await settled();
    const narrowed = await chartColours();
    assert.equal(narrowed[weights.colour] ?? 0, 0);
    assert.equal(narrowed[cache.colour], whole[cache.colour]);
    await page.fill('.band-controls input[type=search]', '');
    await page.locator('[data-group="0"]').focus();
    await page.keyboard.press('Enter');
    await settled();
    assert.equal((await legend())[0].pressed, 'true');
    assert.equal(await page.evaluate(() => document.activeElement.dataset.group), '0');
    const one = await chartColours();
    assert.equal(one[weights.colour], whole[weights.colour]);
    assert.equal(one[cache.colour] ?? 0, 0);
    await page.keyboard.press('Enter');
    await settled();
    assert.deepEqual(await chartColours(), whole);
});

test('a block is chosen by keys or a click, and leads to who has its memory next', async () => {
    await open(program);
    await page.locator('.chart').focus();
    await page.keyboard.press('ArrowDown');
    await page.waitForSelector('#panel-timeline [data-band]');
    const band = () => page.getAttribute('#panel-timeline [data-band]', 'data-band').then(Number);
    const top = await band();
    await page.keyboard.press('ArrowDown');
    assert.notEqual(await band(), top);
    await page.keyboard.press('ArrowUp');
    assert.equal(await band(), top);
    let next = 0;
    for (let i = 0; i < 40 && next === 0; i++) {
        next = await page.locator('#panel-timeline .detail button', { hasText: 'Next owner' })
            .count();
        if (next === 0) {
            await page.keyboard.press('ArrowDown');
        }
    }
    const first = await band();
    const row = document_.history.rows[first];
    assert.equal(document_.kinds[row[1]], 'alloc');
    assert.match(await textOf('#panel-timeline .detail h3'),
        new RegExp(`Block at 0x${row[2].toString(16)}`));
    await page.locator('#panel-timeline .detail button', { hasText: 'Next owner' }).click();
    const second = await band();
    const later = document_.history.rows[second];
    assert.ok(second > first && later[2] < row[2] + row[3] && later[2] + later[3] > row[2]);
    await page.locator('#panel-timeline .detail button', { hasText: 'Previous owner' }).click();
    assert.equal(await band(), first);
    // The chosen block has an edge; without one the chart has fewer pixels of the text's colour.
    await page.locator('input[value=fit]').click();
    await settled();
    const text = await styleColour('--text');
    const edged = (await chartColours())[text] ?? 0;
    await page.keyboard.press('Escape');
    await settled();
    assert.ok(((await chartColours())[text] ?? 0) < edged);
    assert.equal(await page.locator('#panel-timeline [data-band]').count(), 0);
    const box = await page.locator('.u-over').boundingBox();
    const position = { x: box.width / 2, y: box.height - 3 };
    await page.locator('.u-over').hover({ position });
    assert.match(await textOf('#tip'), / by (load_weights|KvCache)|too small or too brief/);
    await page.locator('.u-over').click({ position });
    await page.waitForSelector('#panel-timeline [data-band]');
});

test('sums are there as before', async () => {
    await open(program);
    await page.locator('#panel-timeline input[value=amounts]').click();
    await settled();
    const drawn = await chartColours();
    assert.ok(drawn[await styleColour('--live')] > 5000);
    assert.equal(await page.locator('.band-controls').isVisible(), false);
    await page.locator('#panel-timeline input[value=bands]').click();
    await settled();
    assert.notDeepEqual(await chartColours(), drawn);
});

test('each stream is a lane, with its name, its allocations and its blocks', async () => {
    await open(program);
    await page.keyboard.press('2');
    await settled();
    const { kinds, history, streams } = document_;
    const counts = new Map();
    history.rows.filter((row) => kinds[row[1]] === 'alloc').forEach((row) =>
        counts.set(row[6], (counts.get(row[6]) ?? 0) + 1));
    const names = (await page.locator('.lane-name').allInnerTexts())
        .map((text) => text.replaceAll('\u00a0', ' '));
    assert.equal(names.length, streams.length);
    for (const [stream, count] of counts) {
        assert.ok(names.some((text) => text.startsWith(`stream ${streams[stream].handle} ` +
            `${count.toLocaleString('en-US')} allocation`)), `${stream} in ${names}`);
    }
    for (let i = 0; i < 5; i++) {
        await page.keyboard.press('+');
    }
    await settled();
    const [live, retired] = [await styleColour('--live'), await styleColour('--retired')];
    const all = await lanesColours();
    assert.ok(all[live] > 1000 && all[retired] > 200, JSON.stringify([all[live], all[retired]]));
    // In the dark theme with its colours.
    await page.emulateMedia({ colorScheme: 'dark' });
    await settled();
    const dark = await styleColour('--live');
    assert.notEqual(dark, live);
    assert.ok((await lanesColours())[dark] > 1000);
    await page.emulateMedia({ colorScheme: 'light' });
});

test('names of streams are in lanes, bands, tables and the search', async () => {
    const named = structuredClone(document_);
    Object.assign(named.streams[0], { name: 'prefetch <b>\u00e9</b>' });
    Object.assign(named.streams[1], { name: 'compute', ended: true });
    const path = join(folder, 'named.json');
    writeFileSync(path, JSON.stringify(named));
    await open(path);
    const [first, second] = named.streams.map(({ handle }) => handle);
    const words = [`prefetch <b>\u00e9</b> (stream ${first})`,
        `compute (stream ${second}) (destroyed)`];
    await page.locator('.band-controls input[value=stream]').click();
    await settled();
    const legend = await textOf('#panel-timeline .legend');
    await page.keyboard.press('2');
    await settled();
    const lanes = (await page.locator('.lane-name').allInnerTexts()).join('\n')
        .replaceAll('\u00a0', ' ');
    for (const text of words) {
        assert.ok(legend.includes(text), `${text} in ${legend}`);
        assert.ok(lanes.includes(text), `${text} in ${lanes}`);
    }
    assert.ok((await lanesColours())[await styleColour('--live')] > 500);
    await page.keyboard.press('/');
    await page.fill('#search', 'prefetch');
    await page.waitForSelector('.found-item');
    assert.match(await textOf('.found-item'), /prefetch <b>\u00e9<\/b>/);
    assert.equal(await page.locator('main b b').count(), 0);
});

test('launches are in the lanes, from the launch to its end', async () => {
    const launched = structuredClone(document_);
    launched.history.rows = launched.history.rows.filter((row) =>
        launched.kinds[row[1]] !== 'launch');
    const without = join(folder, 'unlaunched.json');
    writeFileSync(without, JSON.stringify(launched));
    await open(without);
    await page.keyboard.press('2');
    await settled();
    const colour = await styleColour('--launch');
    assert.equal((await lanesColours())[colour] ?? 0, 0);
    assert.doesNotMatch(await textOf('#panel-lanes .legend'), /launch/);
    await page.close();
    // One that lasts for half of the history, and one whose end was not seen.
    const { rows } = launched.history;
    const [first, last] = [rows[0][0], rows.at(-1)[0]];
    const row = (time, kind, value) => [time, launched.kinds.indexOf(kind), 0, 0, 0, 1, 1, 1, 0, 0,
                                        0, value];
    const half = Math.floor((last - first) / 2), quarter = Math.floor((last - first) / 4);
    rows.push(row(first + quarter, 'launch', 1), row(first + quarter + half, 'launch_over', half),
              row(first, 'launch', 1));
    rows.sort((a, b) => a[0] - b[0]);
    const path = join(folder, 'launched.json');
    writeFileSync(path, JSON.stringify(launched));
    await open(path);
    await page.keyboard.press('2');
    await settled();
    const columns = await page.$eval('#panel-lanes canvas', ({ width }) => width);
    const pixels = (await lanesColours())[colour] ?? 0;
    assert.ok(pixels > columns / 2 * 4 && pixels < columns / 2 * 8, `${pixels} of ${columns}`);
    const inColumn = async (part) =>
        (await coloursOf('#panel-lanes canvas', Math.floor(columns * part)))[colour] ?? 0;
    assert.ok(await inColumn(0.5) > 0 && await inColumn(0.3) > 0);
    assert.equal(await inColumn(0.2) + await inColumn(0.8), 0);
    assert.match(await textOf('#panel-lanes .legend'), /launch of a graph, until it was seen/);
    // What it is is said where the pointer is.
    const box = await page.locator('#panel-lanes canvas').boundingBox();
    const middle = await page.$eval('#panel-lanes canvas', (canvas, wanted) => {
        const ctx = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
        ctx.drawImage(canvas, 0, 0);
        const x = Math.floor(canvas.width / 2);
        const { data } = ctx.getImageData(x, 0, 1, canvas.height);
        for (let y = 0; y < canvas.height; y++) {
            if (`rgb(${data[4 * y]}, ${data[4 * y + 1]}, ${data[4 * y + 2]})` === wanted) {
                return (y + 2) * canvas.clientHeight / canvas.height;
            }
        }
        return -1;
    }, colour);
    await page.locator('#panel-lanes canvas').hover({
        position: { x: box.width / 2, y: middle }, force: true });
    assert.match(await textOf('#tip'), /\(graph 1\): seen to be over .* after the launch/);
});

test('in the lanes keys go from block to block, and arrows to the next owner', async () => {
    await open(program);
    await page.keyboard.press('2');
    await page.locator('#panel-lanes canvas').focus();
    const peak = await styleColour('--peak');
    assert.equal((await lanesColours())[peak] ?? 0, 0);
    const button = page.locator('#panel-lanes .detail button', { hasText: 'Next owner' });
    for (let i = 0; i < 60 && await button.count() === 0; i++) {
        await page.keyboard.press('.');
    }
    const band = () => page.getAttribute('#panel-lanes [data-band]', 'data-band').then(Number);
    const first = await band();
    await page.keyboard.press('.');
    const following = await band();
    const stream = (record) => document_.history.rows[record][6];
    assert.ok(following > first && stream(following) === stream(first));
    await page.keyboard.press(',');
    assert.equal(await band(), first);
    await button.click();
    const second = await band();
    assert.ok(second > first);
    await settled();
    assert.ok((await lanesColours())[peak] > 5, 'an arrow to the owner before');
    await page.locator('#panel-lanes .detail button', { hasText: 'Show in the timeline' }).click();
    assert.equal(await page.getAttribute('#panel-timeline [data-band]', 'data-band').then(Number),
        second);
    await page.keyboard.press('2');
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('#panel-lanes [data-band]').count(), 0);
});

test('what waits at the snapshot says for whom', async () => {
    await open(EXAMPLE);
    await page.keyboard.press('2');
    const example = JSON.parse(readFileSync(EXAMPLE, 'utf8'));
    const wait = example.waits.rows.find((row) => example.wait_kinds[row[1]] === 'use');
    const address = example.blocks.rows[wait[0]][0];
    const record = example.history.rows.findIndex((row) =>
        row[2] === address && example.kinds[row[1]] === 'retire');
    assert.ok(record >= 0);
    await page.locator('#panel-lanes canvas').focus();
    const words = `waits for work of stream ${example.streams[wait[2]].handle}, ` +
        `up to mark ${wait[3]}`;
    const said = [];
    for (let i = 0; i < 30 && !said.some((text) => text.includes(words)); i++) {
        await page.keyboard.press('.');
        said.push(await textOf('#panel-lanes .detail p'));
    }
    assert.ok(said.some((text) => text.includes(words)), said.join('\n'));
});

test('what the checker found is marked in its lane', { skip: !process.env.TENURE }, async () => {
    const example = JSON.parse(readFileSync(EXAMPLE, 'utf8'));
    const record = example.history.rows.findLastIndex((row) =>
        example.kinds[row[1]] === 'alloc');
    const block = `0x${example.history.rows[record][2].toString(16)}`;
    const side = { call: 'cuMemFreeAsync', kernel: null, thread: 1, stack: [] };
    const lines = [block, '0x1234'].map((at, i) => ({
        finding: i + 1, pid: 1, kind: 'free_in_use', certain: true, block: at, bytes: 512,
        device: 0, missing: 'x', allocated: side, later: side }));
    const file = join(folder, 'findings.json');
    writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const out = join(folder, 'findings.html');
    execFileSync(process.env.TENURE,
        ['snapshot', 'html', EXAMPLE, out, '--findings', file, '--template', TEMPLATE]);
    page = await openPage(browser.context, pathToFileURL(out).href);
    await page.keyboard.press('2');
    await settled();
    assert.ok((await lanesColours())[await styleColour('--problem')] > 10);
    const list = await textOf('#panel-lanes .findings');
    assert.match(list, /freed while[^]*0x1234[^]*no record of it/);
    await page.click('#panel-lanes [data-finding="1"]');
    assert.match(await textOf('#panel-lanes .detail h3'), new RegExp(`Block at ${block}`));
});
