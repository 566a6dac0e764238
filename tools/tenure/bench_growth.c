/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs when memory is not there yet.
 *
 *   growth         one block of 1, 4 or 64 GiB that an empty allocator must get from the driver
 *   growth_steps   1 GiB in blocks of 64 MiB, one after the other, none freed: all 16 together
 *
 * Beside Tenure: cuMemAlloc of the same bytes, which is the driver's own price, its pool, and
 * PyTorch. Memory is fresh in each round: everything goes back to the driver before and after,
 * outside the timing. Tenure's driver calls are counted.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS_MAX = 7, BLOCKS_MAX = 16 };

/* What one column allocates with; null for cuMemAlloc. */
static const bench_allocator *column_allocator(const bench_setup *setup, int column)
{
    for (size_t i = 0; i < setup->allocators_count; i++)
        if (strcmp(setup->allocators[i].key, bench_malloc_columns[column].key) == 0)
            return &setup->allocators[i];
    return NULL;
}

bench_row *bench_growth_row(bench_rows *out, const char *bench, size_t bytes, uint64_t blocks)
{
    bench_row *row = bench_row_add(out, bench);
    row->columns = bench_malloc_columns;
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

void bench_driver_round(const bench_setup *setup, const bench_row *row, bench_cell *cell)
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
            else if (column == BENCH_COLUMN_MALLOC && setup->has_driver)
                bench_driver_round(setup, row, cell);
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
            row_run(setup, bench_growth_row(out, "growth", bytes, 1));
    }
    row_run(setup, bench_growth_row(out, "growth_steps", 64 << 20, 16));
    return EXIT_CODE_OK;
}
