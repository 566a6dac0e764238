/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long does a cached allocation with its free take, of one size, on one stream, from one
 * thread? The block has been allocated before, so no allocator calls the driver for memory.
 *
 * The clock is read once per batch of 64 pairs, so its own time is below 1 ns per pair. The device
 * is synchronised between rounds only: the driver's pool enqueues its work.
 */
#include "bench.h"

#include <string.h>

#include "clock.h"

enum { WARM_UP_PAIRS = 256 };

/* Runs `batches` batches; the time of each goes to *cell if it is not null. Returns 0, or -1 if a
 * call failed. */
static int pairs_run(const bench_allocator *allocator, size_t bytes, CUstream stream,
                     uint64_t batches, bench_cell *cell, uint64_t *checksum)
{
    for (uint64_t batch = 0; batch < batches; batch++) {
        uint64_t before = clock_now_ns();
        for (int i = 0; i < BENCH_BATCH; i++) {
            void *ptr = allocator->allocate(bytes, stream);
            if (!ptr || allocator->release(ptr, stream) != 0)
                return -1;
        }
        uint64_t ns = clock_now_ns() - before;
        *checksum = bench_mixed(*checksum, bytes * BENCH_BATCH);
        if (cell)
            histogram_add(&cell->batches, ns);
    }
    return 0;
}

/* One round of one allocator. */
static void round_run(const bench_setup *setup, const bench_allocator *allocator, bench_row *row,
                      bench_cell *cell, CUstream stream)
{
    uint64_t batches = row->ops / BENCH_BATCH;
    uint64_t checksum = 0;
    uint64_t ignored = 0;
    int status =
        pairs_run(allocator, row->bytes, stream, WARM_UP_PAIRS / BENCH_BATCH, NULL, &ignored);
    uint64_t before = clock_now_ns();
    if (status == 0)
        status = pairs_run(allocator, row->bytes, stream, batches, cell, &checksum);
    double ns = (double)(clock_now_ns() - before);
    setup->active->gpu.cuStreamSynchronize(stream);
    if (status != 0) {
        cell->failed = 1;
        snprintf(cell->error, sizeof(cell->error), "%s", allocator->error());
        return;
    }
    if (cell->rounds == 0)
        cell->checksum = checksum;
    double ops = (double)(batches * BENCH_BATCH);
    cell->round_ns[cell->rounds] = ns / ops;
    cell->round_mops[cell->rounds] = ops / ns * 1e3;
    cell->rounds++;
}

void bench_pair_run(const bench_setup *setup, size_t bytes, bench_row *row)
{
    CUstream stream = setup->streams[0];
    memset(row, 0, sizeof(*row));
    row->bench = "pair";
    row->bytes = bytes;
    row->threads = 1;
    row->live = 1;
    row->ops = setup->is_quick ? 4096 : 32768;
    for (int round = 0; round < setup->rounds; round++) {
        for (size_t i = 0; i < setup->allocators_count; i++) {
            size_t turn = (i + (size_t)round) % setup->allocators_count;
            if (!row->cells[turn].failed)
                round_run(setup, &setup->allocators[turn], row, &row->cells[turn], stream);
        }
    }
    for (size_t i = 0; i < setup->allocators_count; i++)
        setup->allocators[i].trim();
}
