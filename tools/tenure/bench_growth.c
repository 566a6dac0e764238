/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs when memory is not there yet, or lies in the wrong place.
 *
 *   growth         one block of 1, 4 or 64 GiB that an empty allocator must get from the driver
 *   growth_steps   1 GiB in blocks of 64 MiB, one after the other, none freed: all 16 together
 *   move           a block of 2, 16 or 256 chunks (2 MiB each), while as many chunks are free, but
 *                  no two of them beside each other: Tenure moves them under one address. Of two
 *                  it may leave one where it is, and move one
 *
 * Beside Tenure: cuMemAlloc of the same bytes, which is the driver's own price, its pool, and
 * PyTorch. Memory is fresh in each round: everything goes back to the driver before and after,
 * outside the timing. Tenure's driver calls are counted.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 7, BLOCKS_MAX = 16, MOVE_CHUNKS_MAX = 256, COLUMN_DRIVER = 1 };
static const size_t chunk_bytes = 2 << 20;

/* The columns: cuMemAlloc stands between Tenure and the other allocators. */
static const bench_column columns[BENCH_ALLOCATORS_MAX] = {
    {"Tenure", "tenure"},
    {"cuMemAlloc", "driver_malloc"},
    {"driver pool", "driver_pool"},
    {"PyTorch", "pytorch"},
};

/* What one column allocates with; null for cuMemAlloc. */
static const bench_allocator *column_allocator(const bench_setup *setup, int column)
{
    for (size_t i = 0; i < setup->allocators_count; i++)
        if (strcmp(setup->allocators[i].key, columns[column].key) == 0)
            return &setup->allocators[i];
    return NULL;
}

static bench_row *row_start(bench_rows *out, const char *bench, size_t bytes, uint64_t blocks)
{
    bench_row *row = bench_row_add(out, bench);
    row->columns = columns;
    row->bytes = bytes;
    row->threads = 1;
    row->live = blocks;
    row->ops = 1;
    return row;
}

/* ---- growth --------------------------------------------------------------------------------- */

/* So many blocks by cuMemAlloc; the timed part. Returns how many were made. */
static uint64_t driver_allocate(const bench_setup *setup, const bench_row *row, CUdeviceptr *made,
                                bench_cell *cell)
{
    char text[256];
    const gpu_driver *gpu = &setup->active->gpu;
    for (uint64_t i = 0; i < row->live; i++) {
        CUresult result = gpu->cuMemAlloc(&made[i], row->bytes);
        if (result != CUDA_SUCCESS) {
            bench_cell_fail(cell, gpu_error_text(gpu, result, text, sizeof(text)));
            return i;
        }
    }
    return row->live;
}

static void driver_round(const bench_setup *setup, const bench_row *row, bench_cell *cell)
{
    CUdeviceptr made[BLOCKS_MAX];
    if (!setup->active->gpu.cuMemAlloc || !setup->active->gpu.cuMemFree) {
        bench_cell_fail(cell, "the driver has no cuMemAlloc");
        return;
    }
    uint64_t before = clock_now_ns();
    uint64_t count = driver_allocate(setup, row, made, cell);
    uint64_t ns = bench_net_ns(setup, clock_now_ns() - before);
    if (count == row->live)
        bench_cell_round(cell, 1, (double)ns, bench_mixed(0, row->bytes * row->live));
    for (uint64_t i = 0; i < count; i++)
        setup->active->gpu.cuMemFree(made[i]);
}

static void allocator_round(const bench_setup *setup, const bench_allocator *allocator,
                            const bench_row *row, bench_cell *cell)
{
    void *made[BLOCKS_MAX];
    uint64_t count = 0;
    CUstream stream = setup->streams[0];
    allocator->trim();
    uint64_t calls = bench_driver_calls(setup);
    uint64_t before = clock_now_ns();
    while (count < row->live && (made[count] = allocator->allocate(row->bytes, stream)) != NULL)
        count++;
    uint64_t ns = bench_net_ns(setup, clock_now_ns() - before);
    if (count < row->live)
        bench_cell_fail(cell, allocator->error());
    else
        bench_cell_round(cell, 1, (double)ns, bench_mixed(0, row->bytes * row->live));
    if (allocator == &setup->allocators[0])
        bench_cell_calls(cell, bench_driver_calls(setup) - calls);
    while (count > 0)
        if (allocator->release(made[--count], stream) != 0)
            bench_cell_fail(cell, allocator->error());
    setup->active->gpu.cuCtxSynchronize();
    allocator->trim();
}

static void row_run(const bench_setup *setup, bench_row *row)
{
    int rounds = setup->rounds > ROUNDS_MAX ? ROUNDS_MAX : setup->rounds;
    for (int round = 0; round < rounds; round++) {
        for (int k = 0; k < BENCH_ALLOCATORS_MAX; k++) {
            int column = (round + k) % BENCH_ALLOCATORS_MAX;
            bench_cell *cell = &row->cells[column];
            const bench_allocator *allocator = column_allocator(setup, column);
            uint64_t began = clock_now_ns();
            if (!bench_cell_goes_on(cell, rounds))
                continue;
            if (allocator)
                allocator_round(setup, allocator, row, cell);
            else if (column == COLUMN_DRIVER && setup->has_driver)
                driver_round(setup, row, cell);
            cell->spent_ns += clock_now_ns() - began;
        }
    }
}

exit_code bench_growth_run(const bench_setup *setup, bench_rows *out)
{
    static const size_t gib[] = {1, 4, 64};
    bench_trim_all(setup);
    for (size_t i = 0; i < sizeof(gib) / sizeof(gib[0]); i++) {
        size_t bytes = gib[i] << 30;
        if (bytes > setup->active->device_info.memory_bytes / 10 * 9)
            fprintf(stderr,
                    "tenure bench: growth of %zu GiB left out: more than 90 %% of the "
                    "device's memory\n",
                    gib[i]);
        else
            row_run(setup, row_start(out, "growth", bytes, 1));
    }
    row_run(setup, row_start(out, "growth_steps", 64 << 20, 16));
    return EXIT_CODE_OK;
}

/* ---- moves ---------------------------------------------------------------------------------- */

/* A pool whose every second chunk is free. */
typedef struct move_pool {
    tnr_pool pool;
    void *blocks[2 * MOVE_CHUNKS_MAX];
    size_t count;
} move_pool;

static int move_fail(bench_cell *cell)
{
    bench_cell_fail(cell, tnr_last_error());
    return -1;
}

/* Writes "chunk_share:N", as it is set now. */
static tnr_status share_now(char *text, size_t room)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    tnr_status status = TNR_OK;
    for (size_t i = 0; (status = tnr_setting_get(&info, i)) == TNR_OK; i++)
        if (strcmp(info.key, "chunk_share") == 0)
            break;
    if (status == TNR_OK)
        snprintf(text, room, "chunk_share:%s", info.value);
    return status;
}

/* Fills the pool with blocks that have a chunk each: no chunk is for more than one of them. */
static tnr_status move_fill(const bench_setup *setup, move_pool *self, size_t chunks)
{
    char share[64];
    int device = setup->active->device;
    tnr_status status = share_now(share, sizeof(share));
    if (status == TNR_OK)
        status = tnr_configure("chunk_share:65536");
    if (status != TNR_OK)
        return status;
    for (; status == TNR_OK && self->count < 2 * chunks; self->count++)
        status = tnr_pool_malloc(&self->blocks[self->count], self->pool, chunk_bytes, device,
                                 setup->streams[0]);
    tnr_status restored = tnr_configure(share);
    return status != TNR_OK ? status : restored;
}

static int move_prepare(const bench_setup *setup, move_pool *self, size_t chunks, bench_cell *cell)
{
    self->count = 0;
    if (tnr_pool_create(&self->pool, setup->active->device, NULL) != TNR_OK ||
        move_fill(setup, self, chunks) != TNR_OK)
        return move_fail(cell);
    for (size_t i = 0; i < self->count; i += 2) {
        if (tnr_free(self->blocks[i]) != TNR_OK)
            return move_fail(cell);
        self->blocks[i] = NULL;
    }
    return 0;
}

/* The timed part, and the proof that chunks were moved and none made. */
static int move_measure(const bench_setup *setup, move_pool *self, size_t chunks, bench_cell *cell)
{
    int device = setup->active->device;
    void *ptr = NULL;
    tnr_stats before = {.struct_bytes = sizeof(before)}, after = {.struct_bytes = sizeof(after)};
    /* Chunks are counted for the device, and nobody else is at work on it. */
    if (tnr_stats_get(&before, NULL, device) != TNR_OK)
        return move_fail(cell);
    uint64_t calls = bench_driver_calls(setup);
    uint64_t began = clock_now_ns();
    tnr_status status =
        tnr_pool_malloc(&ptr, self->pool, chunks * chunk_bytes, device, setup->streams[0]);
    uint64_t ns = bench_net_ns(setup, clock_now_ns() - began);
    bench_cell_calls(cell, bench_driver_calls(setup) - calls);
    if (status != TNR_OK || tnr_stats_get(&after, NULL, device) != TNR_OK ||
        tnr_free(ptr) != TNR_OK)
        return move_fail(cell);
    uint64_t moved = after.chunks_moved - before.chunks_moved;
    if (after.chunks_created != before.chunks_created || moved + 1 < chunks) {
        char text[160];
        snprintf(text, sizeof(text), "%llu chunks were moved and %llu made, not %zu moved",
                 (unsigned long long)moved,
                 (unsigned long long)(after.chunks_created - before.chunks_created), chunks);
        bench_cell_fail(cell, text);
        return -1;
    }
    bench_cell_round(cell, 1, (double)ns, bench_mixed(0, chunks * chunk_bytes));
    return 0;
}

static void move_clean_up(const bench_setup *setup, move_pool *self, bench_cell *cell)
{
    for (size_t i = 0; i < self->count; i++)
        if (self->blocks[i] && tnr_free(self->blocks[i]) != TNR_OK)
            (void)move_fail(cell);
    if (self->pool && tnr_pool_destroy(self->pool) != TNR_OK)
        (void)move_fail(cell);
    setup->active->gpu.cuCtxSynchronize();
}

exit_code bench_moves_run(const bench_setup *setup, bench_rows *out)
{
    static const size_t counts[] = {2, 16, 256};
    int rounds = setup->rounds > ROUNDS_MAX ? ROUNDS_MAX : setup->rounds;
    move_pool *self = malloc(sizeof(*self));
    if (!self)
        return EXIT_CODE_NO_MEMORY;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        size_t chunks = counts[i];
        bench_row *row = row_start(out, "move", chunks * chunk_bytes, 1);
        for (int round = 0; round < rounds && !row->cells[0].failed; round++) {
            memset(self, 0, sizeof(*self));
            if (move_prepare(setup, self, chunks, &row->cells[0]) == 0)
                (void)move_measure(setup, self, chunks, &row->cells[0]);
            move_clean_up(setup, self, &row->cells[0]);
            if (setup->has_driver && bench_cell_goes_on(&row->cells[COLUMN_DRIVER], rounds))
                driver_round(setup, row, &row->cells[COLUMN_DRIVER]);
        }
    }
    free(self);
    bench_trim_all(setup);
    return EXIT_CODE_OK;
}
