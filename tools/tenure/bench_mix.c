/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random mix: how long does an operation take when many blocks of many sizes are live and
 * several threads allocate at once?
 *
 *   mix          2,000 live blocks per thread of 512 B to 8 MiB, each thread on its own stream
 *   mix_shared   2,000 live blocks in all, shared out among threads that use one stream
 *   live         one thread, 1,000 to 100,000 live blocks of 512 B to 256 KiB: does it get slower
 *   live_large   the same with blocks above 1 MiB, which are large with any small_limit_kb
 *
 * One operation frees a block, chosen at random, and allocates another in its place. Sizes are
 * uniform. The random numbers are drawn inside the timed loop (about 2 ns) and are the same for
 * each allocator. The blocks stay live from round to round, so that all rounds measure the state
 * that the allocator has come to. If the blocks of two allocators do not fit in memory together,
 * all rounds of one come before those of the next. On a device with too little memory fewer blocks
 * are kept; the table says how many.
 */
#include "base/plural.h"
#include "bench_crew.h"

#include <string.h>

enum {
    LIVE_WANTED = 2000,
    LIVE_WANTED_QUICK = 200,
    QUICK_LIVE_SHARE = 20, /* of the counts of the live sections, in a quick run */
    SETTLE_OPS = 256,
    WARM_UP_PER_BLOCK = 1000,
    WARM_UP_PER_BLOCK_MANY = 100, /* with many live blocks the filling is part of the warm-up */
    WARM_UP_PER_BLOCK_QUICK = 5,
};

/* A step of the warm-up ends with its operations, or after so much time. */
static const uint64_t warm_step_ns_max = UINT64_C(250000000);

/* A round that takes longer than this is given up: an allocator that is out of memory, or that
 * searches long, would use up the time of all the others. */
static const uint64_t give_up_ns = UINT64_C(10000000000);

/* Most that all live blocks may take on the simulated device. Its memory is never written to here
 * and so costs nothing, but Linux limits the mappings of a process to about 65,000. */
static const uint64_t simulated_budget_bytes = UINT64_C(16) << 30;

/* What distinguishes the mixes. */
typedef struct mix_kind {
    const char *bench;
    size_t bytes_min, bytes_max;
    int is_shared;
    unsigned ops; /* a round, of all threads together */
} mix_kind;

static const mix_kind mix_own = {"mix", 512, 8 << 20, 0, 131072};
static const mix_kind mix_shared = {"mix_shared", 512, 8 << 20, 1, 131072};
static const mix_kind live_small = {"live", 512, 256 << 10, 0, 65536};
static const mix_kind live_large = {"live_large", (1 << 20) + 512, (1 << 20) + (256 << 10), 0,
                                    65536};

static inline size_t random_bytes(uint64_t *state, const mix_kind *kind)
{
    return kind->bytes_min + bench_random_below(state, kind->bytes_max - kind->bytes_min + 1);
}

/* Frees one block and allocates another in its place. */
static inline int operation(bench_worker *self, const mix_kind *kind, size_t live)
{
    size_t place = bench_random_below(&self->random, live);
    size_t bytes = random_bytes(&self->random, kind);
    if (self->allocator->release(self->blocks[place], self->stream) != 0)
        return bench_worker_fail(self);
    self->blocks[place] = self->allocator->allocate(bytes, self->stream);
    if (!self->blocks[place])
        return bench_worker_fail(self);
    self->checksum = bench_mixed(self->checksum, place * (kind->bytes_max + 1) + bytes);
    return 0;
}

/* Every so often: -1, with the reason noted, if the round is to be given up. */
static int time_check(bench_worker *self, uint64_t began, uint64_t now, uint64_t done)
{
    if (now - began <= give_up_ns)
        return 0;
    self->failed = 1;
    snprintf(self->error, sizeof(self->error),
             "too slow: given up after 10 s and %llu operations of a round",
             (unsigned long long)done);
    return -1;
}

/* Fills the table. */
static int mix_prepare(bench_worker *self)
{
    const mix_kind *kind = self->job->data;
    uint64_t began = clock_now_ns();
    for (size_t i = 0; i < self->job->row->live; i++) {
        if (i % BENCH_BATCH == 0 && time_check(self, began, clock_now_ns(), i) != 0)
            return -1;
        self->blocks[i] =
            self->allocator->allocate(random_bytes(&self->random, kind), self->stream);
        if (!self->blocks[i])
            return bench_worker_fail(self);
    }
    return 0;
}

/* A step on the way to caches that have their size. */
static int mix_warm(bench_worker *self)
{
    const bench_row *row = self->job->row;
    size_t ops = row->live * row->warm_up_per_block / BENCH_WARM_UP_STEPS + BENCH_BATCH;
    uint64_t began = clock_now_ns();
    for (size_t done = 0; done < ops; done++) {
        if (done % BENCH_BATCH == 0 && clock_now_ns() - began > warm_step_ns_max)
            break;
        if (operation(self, self->job->data, row->live) != 0)
            return -1;
    }
    return 0;
}

static int mix_settle(bench_worker *self)
{
    for (int i = 0; i < SETTLE_OPS; i++)
        if (operation(self, self->job->data, self->job->row->live) != 0)
            return -1;
    return 0;
}

/* The operations of a sampled round, each timed alone. */
static int mix_sample(bench_worker *self, const mix_kind *kind)
{
    size_t live = self->job->row->live;
    for (uint64_t done = 0; done < self->ops; done++) {
        uint64_t before = clock_now_ns();
        if (operation(self, kind, live) != 0)
            return -1;
        histogram_add(&self->samples, bench_net_ns(self->job->setup, clock_now_ns() - before));
        if (time_check(self, self->started_ns, before, done) != 0)
            return -1;
    }
    return 0;
}

static int mix_run(bench_worker *self)
{
    const mix_kind *kind = self->job->data;
    size_t live = self->job->row->live;
    if (self->is_sampled)
        return mix_sample(self, kind);
    for (uint64_t done = 0; done < self->ops; done += BENCH_BATCH) {
        uint64_t before = clock_now_ns();
        for (int i = 0; i < BENCH_BATCH; i++)
            if (operation(self, kind, live) != 0)
                return -1;
        uint64_t now = clock_now_ns();
        histogram_add(&self->batches, now - before);
        if (time_check(self, self->started_ns, now, done) != 0)
            return -1;
        if (bench_round_is_over(self, done + BENCH_BATCH))
            break;
    }
    return 0;
}

static void mix_finish(bench_worker *self)
{
    for (size_t i = 0; i < self->job->row->live; i++)
        if (self->blocks[i] && self->allocator->release(self->blocks[i], self->stream) != 0)
            bench_worker_fail(self);
}

/* Most bytes that live blocks may take together. */
static uint64_t budget_bytes(const bench_setup *setup)
{
    uint64_t budget = setup->active->device_info.memory_bytes / 10 * 9;
    if (setup->active->simulated && budget > simulated_budget_bytes)
        budget = simulated_budget_bytes;
    return budget;
}

/* Fills the row for `live` blocks a thread, or as many as fit. */
static void mix_plan(const bench_setup *setup, const mix_kind *kind, int threads, size_t live,
                     bench_row *row)
{
    uint64_t fits =
        budget_bytes(setup) / (uint64_t)threads / ((kind->bytes_min + kind->bytes_max) / 2);
    row->threads = threads;
    row->live = live <= fits ? live : fits ? (size_t)fits : 1;
    if (row->live < live)
        fprintf(stderr, "tenure bench: %s with %d thread%s: %zu live blocks each, not %zu: %s\n",
                kind->bench, threads, tnri_plural((uint64_t)threads), row->live, live,
                setup->active->simulated ? "16 GiB of the simulated device"
                                         : "90 % of the device's memory");
    row->warm_up_per_block = live > LIVE_WANTED ? WARM_UP_PER_BLOCK_MANY : WARM_UP_PER_BLOCK;
    if (setup->is_quick)
        row->warm_up_per_block = WARM_UP_PER_BLOCK_QUICK;
    uint64_t ops = (setup->is_quick ? kind->ops / 16 : kind->ops) / (unsigned)threads;
    uint64_t ops_min = setup->is_quick ? 1024 : 131072; /* a dozen milliseconds */
    row->ops = (ops > ops_min ? ops : ops_min) / BENCH_BATCH * BENCH_BATCH;
}

/* 1 if the allocators' caches do not fit in the device side by side. */
static int is_exclusive(const bench_setup *setup, const mix_kind *kind, const bench_row *row)
{
    double live =
        (double)row->live * row->threads * (double)(kind->bytes_min + kind->bytes_max) / 2;
    double all = live * 1.5 * (double)setup->allocators_count;
    return setup->allocators_count > 1 && all > (double)setup->active->device_info.memory_bytes;
}

/* One row of a mix. */
static exit_code row_run(const bench_setup *setup, const mix_kind *kind, int threads, size_t live,
                         bench_rows *out)
{
    bench_row *row = bench_row_add(out, kind->bench);
    mix_plan(setup, kind, threads, live, row);
    bench_plan plan = {.rounds = setup->rounds, .is_exclusive = is_exclusive(setup, kind, row)};
    bench_job job = {.is_shared = kind->is_shared,
                     .data = kind,
                     .prepare = mix_prepare,
                     .warm = mix_warm,
                     .settle = mix_settle,
                     .run = mix_run,
                     .finish = mix_finish};
    return bench_crews_run(setup, row, &job, &plan);
}

exit_code bench_mix_run(const bench_setup *setup, bench_rows *out)
{
    exit_code code = EXIT_CODE_OK;
    size_t live = setup->mix_live   ? setup->mix_live
                  : setup->is_quick ? LIVE_WANTED_QUICK
                                    : LIVE_WANTED;
    for (size_t i = 0; i < setup->threads_count && code == EXIT_CODE_OK; i++)
        code = row_run(setup, &mix_own, setup->threads[i], live, out);
    for (size_t i = 0; i < setup->threads_count && code == EXIT_CODE_OK; i++) {
        size_t share = live / (size_t)setup->threads[i];
        code = row_run(setup, &mix_shared, setup->threads[i], share ? share : 1, out);
    }
    return code;
}

exit_code bench_live_run(const bench_setup *setup, bench_rows *out)
{
    static const size_t counts[] = {1000, 2000, 10000, 100000};
    exit_code code = EXIT_CODE_OK;
    for (int large = 0; large < 2; large++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && code == EXIT_CODE_OK; i++) {
            size_t live = setup->is_quick ? counts[i] / QUICK_LIVE_SHARE : counts[i];
            code = row_run(setup, large ? &live_large : &live_small, 1, live, out);
        }
    }
    return code;
}
