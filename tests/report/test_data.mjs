/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report's reading of snapshots, without a browser: the JSON reader against JSON.parse, broken
 * files, and what is derived from the history against a count that is made here the plain way.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { twoDevices } from './documents.mjs';
import { exampleText, generated, loadModules } from './modules.mjs';

const report = await loadModules('data/json', 'data/read', 'data/decimate', 'data/holders',
    'data/accounting', 'text/units', 'text/names', 'data/model');
const bytesOf = (text) => new TextEncoder().encode(text);
const readText = (text) => report.readSnapshot({ name: 'x', json: text }, () => {});

/** A value that has no tables, as JSON.parse would give it. */
function plain(value) {
    if (Array.isArray(value)) {
        return value.map(plain);
    }
    return value !== null && typeof value === 'object'
        ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)])) : value;
}

test('the JSON reader reads what JSON.parse reads', () => {
    const texts = ['null', 'true', ' [ ] ', '{}', '0', '-0', '-12', '1.5e3', '1e-7',
        '9007199254740991', '123456789012345678', '-9007199254740991', '"\\u00e9\\n\\"\\\\/"',
        '"\u{1f600}"', '[1,[2,[3]],{"a":[{}]}]', '{"a":{"b":null},"__proto__":1,"c":"</script>"}',
        '{"rows":[[1]],"columns":["a"]}'];
    for (const text of texts) {
        assert.deepEqual(plain(report.readJson(bytesOf(text))), JSON.parse(text), text);
    }
    assert.equal(Object.getPrototypeOf(report.readJson(bytesOf('{"__proto__":{"x":1}}'))), null);
});

test('a table has its rows by column, and its other members', () => {
    const table = report.readJson(bytesOf(
        '{"mode":"full","columns":["a","b","c"],"rows":[[1,-2,null],[3,4.5,"x"]],"more":7}'));
    assert.deepEqual([...table.column('a')], [1, 3]);
    assert.deepEqual([...table.column('b')], [-2, 4.5]);
    assert.deepEqual(table.values('c'), [null, 'x']);
    assert.deepEqual({ ...table.fields, columns: 0 }, { mode: 'full', columns: 0, more: 7 });
});

/* Seen to fail with steps of 2.5 times a power of ten, and without `least`. */
test('ticks are multiples of 1, 2 or 5 times a power of ten', () => {
    const { roundSplits } = report;
    assert.deepEqual(roundSplits(0, 10, 5), [0, 2, 4, 6, 8, 10]);
    assert.deepEqual(roundSplits(3, 101, 4), [50, 100]);
    assert.deepEqual(roundSplits(1, 2, 10, 1), [1, 2]);
    assert.deepEqual(roundSplits(2717, 2828, 7), [2720, 2740, 2760, 2780, 2800, 2820]);
    for (let low = 0, high = 1; high < 1e15; low = high / 3, high *= 7.3) {
        const ticks = roundSplits(low, high, 8);
        assert.ok(ticks.length >= 2 && ticks.length <= 9, `${low} to ${high}: ${ticks}`);
        assert.ok(ticks.every((tick) => tick >= low && tick <= high), `${low}, ${high}: ${ticks}`);
    }
});

test('text that is not JSON is refused, with the place', () => {
    const texts = ['', '[', '[1', '[1,', '[1,]', '{', '{"a"', '{"a":', '{"a":1', '{"a":1,}', '01',
        '1.', '-', '+1', 'tru', 'nul', '"', '"a', '"\\x"', '"\\u12"', '[1]]', '1 2', '{a:1}',
        '{"columns":["a"],"rows":[[1,2]]}', '{"columns":["a","b"],"rows":[[1]]}', '\u0000'];
    for (const text of texts) {
        assert.throws(() => report.readJson(bytesOf(text)), report.JsonError, JSON.stringify(text));
    }
    assert.throws(() => report.readJson(bytesOf('['.repeat(100_000))), /deeper than/);
    assert.throws(() => report.readJson(new Uint8Array([0x22, 0xff, 0x22])), /UTF-8/);
});

test('a snapshot that is cut off anywhere is refused', async () => {
    const step = 97;
    for (let end = 0; end < exampleText.trimEnd().length; end += step) {
        await assert.rejects(readText(exampleText.slice(0, end)), report.SnapshotError,
            `at ${end}`);
    }
    const packed = gzipSync(exampleText);
    for (const end of [1, 2, 10, 100, packed.length - 9, packed.length - 1]) {
        const gzipBase64 = packed.subarray(0, end).toString('base64');
        await assert.rejects(report.readSnapshot({ name: 'x', gzipBase64 }, () => {}),
            report.SnapshotError, `packed, at ${end}`);
    }
});

test('what is no snapshot is refused in words', async () => {
    await assert.rejects(readText('{"segments":[]}'), /no Tenure snapshot/);
    await assert.rejects(readText(exampleText.replace('"version": 1', '"version": 2')),
        /version 2.*reads version 1/);
    const pickle = Buffer.from([0x80, 2, 0x7d, 0x2e]).toString('base64');
    await assert.rejects(report.readSnapshot({ name: 'x', gzipBase64: pickle }, () => {}),
        /pickle.*convert/);
    await assert.rejects(readText(exampleText.replace('0, 0, 0, 4, 3, 1]', '0, 0, 0, 5, 3, 1]')),
        /Segment 1 begins with block 5/);
    for (const key of ['blocks', 'segments', 'history', 'waits', 'strings', 'stacks', 'pools']) {
        const document = JSON.parse(exampleText);
        delete document[key];
        await assert.rejects(readText(JSON.stringify(document)), new RegExp(`"${key}"`));
    }
});

test('indexes that refer to nothing harm nothing', async () => {
    const document = JSON.parse(exampleText);
    document.blocks.rows[0][5] = 999;
    document.history.rows[2][5] = 77;
    document.history.rows[2][10] = -5;
    document.frames.rows[0][0] = 12345;
    document.waits.rows[0][2] = 50;
    const { devices: [device] } = await readText(JSON.stringify(document));
    assert.equal(device.blocks.stack[0], 0);
    assert.equal(device.history.pool[2], -1);
    assert.equal(device.history.stack[2], 0);
    assert.equal(device.waits.stream[0], -1);
});

/** Amounts after each record, from the picture backwards, the plain way. */
function plainAmounts(document) {
    const kind = (row) => document.kinds[row[1]];
    const sum = (state, column) => document.blocks.rows
        .filter((row) => document.states[row[3]] === state)
        .reduce((total, row) => total + row[column], 0);
    let live = sum('live', 2), retired = sum('retired', 1);
    let reserved = document.devices[0].reserved_bytes;
    const result = [];
    for (const row of document.history.rows.toReversed?.() ??
        [...document.history.rows].reverse()) {
        result.unshift([live, retired, reserved].map((amount) => Math.max(0, amount)));
        const [, , , bytes, requested] = row;
        switch (kind(row)) {
        case 'alloc': live -= requested; break;
        case 'free': live += requested; break;
        case 'retire': live += requested; retired -= bytes; break;
        case 'reuse': retired += bytes; break;
        case 'map': reserved -= bytes; break;
        case 'unmap': reserved += bytes; break;
        default: break;
        }
    }
    return result;
}

for (const [name, text] of [['the example', exampleText],
    ['a program', generated('--records', '3000', '--steps', '60')],
    ['a program whose beginning was overwritten',
        generated('--records', '700', '--steps', '60')]]) {
    test(`amounts over time are those of a plain count: ${name}`, async () => {
        const document = JSON.parse(text);
        const { devices: [{ history }] } = await readText(text);
        const expected = plainAmounts(document);
        for (let i = 0; i < history.length; i++) {
            assert.deepEqual([history.live[i], history.retired[i], history.reserved[i]],
                expected[i], `record ${i}`);
        }
        const most = Math.max(...expected.map(([live]) => live));
        assert.equal(history.live[history.peak], most);
    });

    test(`holders at any moment add up to what was live: ${name}`, async () => {
        const snapshot = await readText(text);
        const [device] = snapshot.devices;
        const names = new report.Names(snapshot);
        const { history } = device;
        for (let i = 0; i < history.length; i += Math.ceil(history.length / 50)) {
            for (const group of report.GROUPS) {
                const holders = report.holdersOf(snapshot, names, device, group, i);
                const live = holders.reduce((sum, holder) => sum + holder.live, 0);
                assert.equal(live, history.live[i], `${group} at record ${i}`);
            }
        }
    });

    test(`the accounting equation holds: ${name}`, async () => {
        const snapshot = await readText(text);
        const [device] = snapshot.devices;
        const { bytes, total } = report.accountingOf(snapshot, device);
        assert.equal(total, device.reservedBytes + device.asleepBytes);
        assert.equal(Object.values(bytes).reduce((a, b) => a + b), total);
        const pools = JSON.parse(text).pools;
        for (const share of ['live', 'slack', 'retired', 'binned', 'free']) {
            assert.equal(bytes[share], pools.reduce((sum, pool) => sum + pool.bytes[share], 0));
        }
    });
}

test('a free is paired with the allocation of its address', async () => {
    const text = generated('--records', '3000', '--steps', '60');
    const { devices: [{ history }] } = await readText(text);
    const latest = new Map();
    const { alloc, free, retire } = report.KIND;
    for (let i = 0; i < history.length; i++) {
        const address = history.address[i];
        if (history.kind[i] === alloc) {
            latest.set(address, i);
        } else if (history.kind[i] === free || history.kind[i] === retire) {
            const record = latest.get(address) ?? -1;
            assert.equal(history.pair[i], record);
            if (record >= 0) {
                assert.equal(history.pair[record], i);
            }
        }
    }
});

test('a chart never loses an extreme', () => {
    // Amounts that have nothing to do with each other, so that no extreme stands in for another.
    const length = 20_000;
    let seed = 1;
    const random = () => (seed = (seed * 48271) % 0x7fffffff);
    const column = () => Float64Array.from({ length }, random);
    const history = { length, live: column(), retired: column(), reserved: column() };
    const waiting = history.live.map((live, i) => live + history.retired[i]);
    for (const [from, to] of [[0, length - 1], [5000, 9000], [7000, 7100]]) {
        const drawn = report.decimate(history, null, from, to, 200);
        assert.ok(drawn.length <= 200 * 6 + 3, `${drawn.length} of ${to - from}`);
        const inside = drawn.filter((record) => record >= from && record <= to);
        const extremes = (values) => [Math.max(...values), Math.min(...values)];
        for (const amounts of [history.live, history.reserved]) {
            assert.deepEqual(extremes(inside.map((record) => amounts[record])),
                extremes(amounts.slice(from, to + 1)));
        }
        assert.equal(Math.max(...inside.map((record) => waiting[record])),
            Math.max(...waiting.slice(from, to + 1)));
        assert.ok(inside.every((record, i) => i === 0 || record > inside[i - 1]));
    }
});

test('two devices are kept apart', async () => {
    const two = twoDevices(JSON.parse(exampleText));
    const alone = (await readText(exampleText)).devices[0];
    const both = await readText(JSON.stringify(two));
    assert.equal(both.devices.length, 2);
    for (const device of both.devices) {
        assert.equal(device.blocks.length, alone.blocks.length);
        assert.deepEqual([...device.blocks.requested], [...alone.blocks.requested]);
        assert.deepEqual([...device.segments.firstBlock], [...alone.segments.firstBlock]);
        assert.deepEqual([...device.waits.block], [...alone.waits.block]);
        assert.deepEqual([...device.history.live], [...alone.history.live]);
        assert.equal(device.graphs.length, 1);
    }
});

test('a pool that sleeps counts as asleep, whatever its blocks', async () => {
    const document = JSON.parse(exampleText);
    const pool = document.pools[1];
    Object.assign(pool, { state: 'asleep', asleep_bytes: pool.reserved_bytes, reserved_bytes: 0 });
    document.devices[0].reserved_bytes -= pool.asleep_bytes;
    document.devices[0].asleep_bytes = pool.asleep_bytes;
    const snapshot = await readText(JSON.stringify(document));
    const { bytes, total } = report.accountingOf(snapshot, snapshot.devices[0]);
    assert.equal(bytes.asleep, pool.asleep_bytes);
    assert.equal(bytes.live, document.pools[0].bytes.live);
    assert.equal(total, document.devices[0].reserved_bytes + document.devices[0].asleep_bytes);
});

test('amounts and times in words', () => {
    const plainSpace = (text) => text.replaceAll('\u00a0', ' ');
    // As test_bytes_text.c has them, for the command and for errors.
    const pages = [
        [0, [[0, '0 B'], [1023, '1023 B'], [1024, '1.00 KiB'], [1000 * 1024, '1000 KiB'],
            [10.25 * 2 ** 20, '10.25 MiB'], [80 * 2 ** 30, '80.00 GiB'],
            [3 * 2 ** 60, '3.00 EiB']]],
        [24 * 2 ** 30, [[0, '0 B'], [512, '512 B'], [10 * 2 ** 20, '10.00 MiB'],
            [11 * 2 ** 20, '0.01 GiB'], [64 * 2 ** 20, '0.06 GiB'], [900 * 2 ** 20, '0.88 GiB'],
            [24 * 2 ** 30, '24.00 GiB'], [2 ** 40, '1.00 TiB']]],
        [40 * 2 ** 20, [[8 * 1024, '8.00 KiB'], [64 * 1024, '0.06 MiB'], [3 * 2 ** 19, '1.50 MiB'],
            [139 * 2 ** 30, '139.0 GiB']]],
    ];
    for (const [most, cases] of pages) {
        report.setPage(most);
        for (const [value, expected] of cases) {
            assert.equal(plainSpace(report.bytes(value)), expected);
        }
    }
    report.setPage(24 * 2 ** 30);
    assert.equal(plainSpace(report.sizeText(64 * 2 ** 20)), '64.00 MiB');
    const ticks = (step, count) => report.byteTicks(Array.from({ length: count },
        (_, i) => i * step)).map(plainSpace);
    assert.deepEqual(ticks(2 ** 33, 3), ['0 GiB', '8 GiB', '16 GiB']);
    assert.deepEqual(ticks(2 ** 27, 3), ['0 GiB', '0.125 GiB', '0.25 GiB']);
    assert.deepEqual(ticks(2 ** 26, 3), ['0 MiB', '64 MiB', '128 MiB']);
    report.setPage(0);
    assert.equal(plainSpace(report.signedBytes(-2048)), '\u22122.00 KiB');
    assert.equal(plainSpace(report.duration(1500)), '1.50 \u00b5s');
    assert.equal(plainSpace(report.duration(61e9)), '61.0 s');
    assert.equal(plainSpace(report.duration(754e9)), '12 min 34 s');
    assert.equal(report.parseAddress('0x7f00'), 0x7f00);
    assert.equal(report.parseAddress('attention'), null);
    assert.equal(plainSpace(report.percent(1, 3)), '33 %');
});

test('a table of 200,000 rows is read whole', async () => {
    // Crosses every growth of the columns.
    const rows = Array.from({ length: 200_000 }, (_, i) => `[${i},${i * 7}]`).join(',');
    const table = report.readJson(bytesOf(`{"columns":["a","b"],"rows":[${rows}]}`));
    assert.equal(table.length, 200_000);
    assert.equal(table.column('b')[199_999], 199_999 * 7);
    assert.equal(table.column('a')[1024], 1024);
});
