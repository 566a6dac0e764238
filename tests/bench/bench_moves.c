/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs when memory lies in the wrong place.
 *
 *   move   a block of 2, 16 or 256 chunks (2 MiB each), while as many chunks are free, but no two
 *          of them beside each other: Tenure moves them under one address. Of two it may leave one
 *          where it is, and move one
 *
 * Beside Tenure: cuMemAlloc of the same bytes. Memory is fresh in each round, and Tenure's driver
 * calls are counted.
 */
#include "bench_sections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 7, MOVE_CHUNKS_MAX = 256 };
static const size_t chunk_bytes = 2 << 20;

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
        bench_row *row = bench_growth_row(out, "move", chunks * chunk_bytes, 1);
        for (int round = 0; round < rounds && !row->cells[0].failed; round++) {
            memset(self, 0, sizeof(*self));
            if (move_prepare(setup, self, chunks, &row->cells[0]) == 0)
                (void)move_measure(setup, self, chunks, &row->cells[0]);
            move_clean_up(setup, self, &row->cells[0]);
            if (setup->has_driver && bench_cell_goes_on(&row->cells[BENCH_COLUMN_MALLOC], rounds))
                bench_driver_round(setup, row, &row->cells[BENCH_COLUMN_MALLOC]);
        }
    }
    free(self);
    bench_trim_all(setup);
    return EXIT_CODE_OK;
}
