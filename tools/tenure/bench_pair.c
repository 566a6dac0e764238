/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long does a cached allocation with its free take? The block has been allocated before, so no
 * allocator calls the driver for memory.
 *
 *   pair          one thread, one stream, blocks of 512 B to 16 MiB
 *   pair_own      4 KiB, each thread on its own stream
 *   pair_shared   4 KiB, all threads on one stream
 *   pair_new      the same, but the first 1,024 operations of threads that are new in each round:
 *                 what it costs an allocator to come to know a thread
 *
 * The clock is read once per batch of 64 pairs, so its own time is below 1 ns per pair. In sampled
 * rounds only the allocation is timed, each one alone. The device is synchronised only between
 * rounds: the driver's pool enqueues its work. Threads live for all rounds of an allocator, except
 * in pair_new. They do some pairs untimed before each round, because others have just worked.
 */
#include "bench_crew.h"

enum {
    WARM_UP_PAIRS = 2048,
    SETTLE_PAIRS = 256,
    THREADS_BYTES = 4096,
    NEW_OPS = 1024,
    NEW_ROUNDS_MAX = 5
};

/* So many pairs, untimed. */
static int pairs_run(bench_worker *self, uint64_t count)
{
    size_t bytes = self->job->row->bytes;
    for (uint64_t i = 0; i < count; i++) {
        void *ptr = self->allocator->allocate(bytes, self->stream);
        if (!ptr || self->allocator->release(ptr, self->stream) != 0)
            return bench_worker_fail(self);
    }
    return 0;
}

static int pair_prepare(bench_worker *self)
{
    return pairs_run(self, WARM_UP_PAIRS);
}

static int pair_settle(bench_worker *self)
{
    return pairs_run(self, SETTLE_PAIRS);
}

/* The operations of a sampled round. */
static int pair_sample(bench_worker *self)
{
    size_t bytes = self->job->row->bytes;
    for (uint64_t done = 0; done < self->ops; done++) {
        uint64_t before = clock_now_ns();
        void *ptr = self->allocator->allocate(bytes, self->stream);
        uint64_t ns = clock_now_ns() - before;
        if (!ptr || self->allocator->release(ptr, self->stream) != 0)
            return bench_worker_fail(self);
        histogram_add(&self->samples, bench_net_ns(self->job->setup, ns));
    }
    return 0;
}

static int pair_run(bench_worker *self)
{
    if (self->is_sampled)
        return pair_sample(self);
    for (uint64_t done = 0; done < self->ops; done += BENCH_BATCH) {
        uint64_t before = clock_now_ns();
        if (pairs_run(self, BENCH_BATCH) != 0)
            return -1;
        histogram_add(&self->batches, clock_now_ns() - before);
        self->checksum = bench_mixed(self->checksum, self->job->row->bytes * BENCH_BATCH);
        if (bench_round_is_over(self, done + BENCH_BATCH))
            break;
    }
    return 0;
}

static exit_code row_run(const bench_setup *setup, const char *bench, size_t bytes, int threads,
                         int is_shared, bench_rows *out)
{
    bench_row *row = bench_row_add(out, bench);
    bench_job job = {
        .is_shared = is_shared, .prepare = pair_prepare, .settle = pair_settle, .run = pair_run};
    bench_plan plan = {.rounds = setup->rounds};
    row->bytes = bytes;
    row->threads = threads;
    row->live = 1;
    /* A round of some milliseconds, if the allocator is fast. */
    row->ops = setup->is_quick ? 4096 : 65536;
    return bench_crews_run(setup, row, &job, &plan);
}

static exit_code new_row_run(const bench_setup *setup, int threads, bench_rows *out)
{
    bench_row *row = bench_row_add(out, "pair_new");
    bench_job job = {.is_shared = 1, .run = pair_run};
    bench_plan plan = {.rounds = setup->rounds, .is_fresh = 1};
    if (plan.rounds > NEW_ROUNDS_MAX)
        plan.rounds = NEW_ROUNDS_MAX;
    row->bytes = THREADS_BYTES;
    row->threads = threads;
    row->live = 1;
    row->ops = NEW_OPS;
    return bench_crews_run(setup, row, &job, &plan);
}

exit_code bench_pair_run(const bench_setup *setup, bench_rows *out)
{
    static const size_t sizes[] = {512, 4096, 64 << 10, 1 << 20, 16 << 20};
    exit_code code = EXIT_CODE_OK;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && code == EXIT_CODE_OK; i++)
        code = row_run(setup, "pair", sizes[i], 1, 0, out);
    return code;
}

exit_code bench_threads_run(const bench_setup *setup, bench_rows *out)
{
    exit_code code = EXIT_CODE_OK;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        for (size_t i = 0; i < setup->threads_count && code == EXIT_CODE_OK; i++)
            code = row_run(setup, is_shared ? "pair_shared" : "pair_own", THREADS_BYTES,
                           setup->threads[i], is_shared, out);
    }
    for (size_t i = 0; i < setup->threads_count && code == EXIT_CODE_OK; i++)
        code = new_row_run(setup, setup->threads[i], out);
    return code;
}
