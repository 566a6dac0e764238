/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What do real programs' allocations cost? Recorded traces, replayed as fast as they go.
 *
 *   replay:NAME    one allocation or free of the trace, from an allocator that holds nothing, so
 *                  with all the memory that it must get from the driver
 *   again:NAME     the same trace right after: what a second step of the program costs
 *
 * Each operation is timed alone, in all rounds, and the clock's own time is subtracted; the mean of
 * a round is made of their sum. Nothing is written to the blocks, so this is the allocators' time
 * alone. `tenure replay` checks the memory.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "shown.h"
#include "trace.h"

enum { ROUNDS_MAX = 3 };

/* One pass over the trace. Returns 0, or -1 if the allocator failed. */
static int pass_run(const bench_setup *setup, const bench_allocator *allocator, const trace *source,
                    void **blocks, bench_cell *cell)
{
    uint64_t ns = 0, checksum = 0;
    for (size_t i = 0; i < source->ops_count; i++) {
        const trace_op *op = &source->ops[i];
        CUstream stream = setup->streams[op->stream];
        int failed;
        uint64_t before = clock_now_ns();
        if (op->is_alloc)
            failed = (blocks[op->slot] = allocator->allocate(op->bytes, stream)) == NULL;
        else
            failed = allocator->release(blocks[op->slot], stream) != 0;
        uint64_t one = bench_net_ns(setup, clock_now_ns() - before);
        if (failed) {
            bench_cell_fail(cell, allocator->error());
            return -1;
        }
        if (!op->is_alloc)
            blocks[op->slot] = NULL;
        ns += one;
        histogram_add(&cell->samples, one);
        checksum = bench_mixed(checksum, op->bytes << 1 | op->is_alloc);
    }
    bench_cell_round(cell, (double)source->ops_count, (double)ns, checksum);
    return 0;
}

/* Frees what the trace leaves live, or what was live when it failed. */
static void blocks_release(const bench_setup *setup, const bench_allocator *allocator,
                           const trace *source, void **blocks)
{
    for (size_t i = 0; i < source->ops_count; i++) {
        const trace_op *op = &source->ops[i];
        if (op->is_alloc && blocks[op->slot]) {
            if (allocator->release(blocks[op->slot], setup->streams[op->stream]) != 0)
                fprintf(stderr, "tenure bench: %s\n", allocator->error());
            blocks[op->slot] = NULL;
        }
    }
}

/* One round of one allocator: twice the trace, then everything goes back. */
static void round_run(const bench_setup *setup, size_t turn, const trace *source, void **blocks,
                      bench_row **rows)
{
    const bench_allocator *allocator = &setup->allocators[turn];
    uint64_t began = clock_now_ns();
    for (int pass = 0; pass < 2; pass++) {
        bench_cell *cell = &rows[pass]->cells[turn];
        uint64_t calls = bench_driver_calls(setup);
        int status = pass_run(setup, allocator, source, blocks, cell);
        if (turn == 0)
            bench_cell_calls(cell, bench_driver_calls(setup) - calls);
        blocks_release(setup, allocator, source, blocks);
        if (status != 0)
            break;
    }
    setup->active->gpu.cuCtxSynchronize();
    allocator->trim();
    rows[0]->cells[turn].spent_ns += clock_now_ns() - began;
}

static exit_code trace_run(const bench_setup *setup, const trace *source, bench_rows *out)
{
    static const char *const kinds[] = {"replay", "again"};
    bench_row *rows[2];
    int rounds = setup->rounds > ROUNDS_MAX ? ROUNDS_MAX : setup->rounds;
    void **blocks = calloc(source->slots_count + 1, sizeof(*blocks));
    if (!blocks)
        return EXIT_CODE_NO_MEMORY;
    for (int i = 0; i < 2; i++) {
        char name[BENCH_NAME_BYTES];
        snprintf(name, sizeof(name), "%s:%.32s", kinds[i], source->name);
        rows[i] = bench_row_add(out, name);
        rows[i]->threads = 1;
        rows[i]->live = source->slots_count;
        rows[i]->ops = source->ops_count;
    }
    for (int round = 0; round < rounds; round++) {
        for (size_t k = 0; k < setup->allocators_count; k++) {
            size_t turn = bench_turn(setup, round, k);
            if (bench_cell_goes_on(&rows[0]->cells[turn], rounds))
                round_run(setup, turn, source, blocks, rows);
        }
    }
    free(blocks);
    return EXIT_CODE_OK;
}

exit_code bench_replay_run(const bench_setup *setup, bench_rows *out)
{
    exit_code code = EXIT_CODE_OK;
    char error[512];
    bench_trim_all(setup);
    for (int i = 0; i < setup->traces_count && code == EXIT_CODE_OK; i++) {
        trace source;
        memset(&source, 0, sizeof(source));
        if (trace_read(&source, setup->traces[i], error, sizeof(error)) != 0) {
            say(stderr, "tenure bench: %s\n", error);
            return EXIT_CODE_BAD_INPUT;
        }
        if (source.streams_count > BENCH_THREADS_MAX) {
            fprintf(stderr, "tenure bench: %s has %zu streams; at most %d can be replayed here\n",
                    setup->traces[i], source.streams_count, BENCH_THREADS_MAX);
            code = EXIT_CODE_BAD_INPUT;
        } else {
            code = trace_run(setup, &source, out);
        }
        trace_release(&source);
    }
    return code;
}
