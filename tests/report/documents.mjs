/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots made from another one. */

/** The same memory on a second device as well: other addresses, indexes and graph numbers. */
export function twoDevices(one) {
    const offset = 1n << 44n;
    const two = structuredClone(one);
    const pools = one.pools.length, streams = one.streams.length;
    two.devices.push({ ...two.devices[0], index: 1 });
    two.pools.push(...one.pools.map((pool) => ({ ...pool, device: 1 })));
    two.streams.push(...one.streams.map((stream) => ({ ...stream, device: 1 })));
    two.graphs.push({ ...one.graphs[0], device: 1, number: 2, pool: one.graphs[0].pool + pools });
    const moved = (address) => Number(BigInt(address) + offset);
    const later = (row, columns, by) => row.map((cell, index) =>
        columns.includes(index) && cell >= 0 ? cell + by : cell);
    two.segments.rows.push(...one.segments.rows.map((row) => {
        const copy = later(later(later(row, [2], pools), [3], streams), [5],
            one.blocks.rows.length);
        return [moved(copy[0]), ...copy.slice(1)];
    }));
    two.blocks.rows.push(...one.blocks.rows.map((row) => [moved(row[0]), ...row.slice(1)]));
    two.waits.rows.push(...one.waits.rows.map((row) =>
        later(later(row, [0], one.blocks.rows.length), [2], streams)));
    two.history.rows.push(...one.history.rows.filter((row) => row[5] >= 0).map((row) =>
        later(later(row, [5], pools), [6], streams)));
    two.history.rows.sort((a, b) => a[0] - b[0]);
    return two;
}
