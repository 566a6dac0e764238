/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random mix: how long does an operation take when many blocks of many sizes are live and
 * several threads allocate at once?
 *
 * Each thread has a stream of its own and keeps 2,000 blocks live. One operation frees one of them,
 * chosen at random, and allocates another in its place. Sizes are uniform between 512 B and 8 MiB,
 * so 4 MiB on average. The random numbers are drawn inside the timed loop (about 2 ns) and are the
 * same for each allocator. On a device with too little memory fewer blocks are kept; the table says
 * how many.
 */
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

static const size_t bytes_min = 512;
static const size_t bytes_max = 8 << 20;
enum { LIVE_WANTED = 2000, LIVE_WANTED_QUICK = 200, MIX_ROUNDS_MAX = 5, MIX_ROUNDS_TRIMMED = 3 };

/* Before the timing starts each allocator gets the same chance to grow its caches: so many
 * operations per live block, or so much time, whichever ends first. */
enum { WARM_UP_PER_BLOCK = 100, WARM_UP_PER_BLOCK_QUICK = 5 };
static const uint64_t warm_up_ns_max = UINT64_C(2500000000);

/* Most that all live blocks may take on the simulated device. Its memory is never written to here
 * and so costs nothing, but Linux limits the mappings of a process to about 65,000. */
static const uint64_t simulated_budget_bytes = UINT64_C(16) << 30;

/* What the threads of one round share. */
typedef struct mix_round {
    const bench_row *row;
    const bench_allocator *allocator;
    pthread_barrier_t start;
} mix_round;

/* One thread. Written by it alone until it has been joined. */
typedef struct mix_thread {
    mix_round *round;
    CUstream stream;
    void **blocks; /* row->live of them */
    uint64_t random, random_first;
    uint64_t checksum;
    uint64_t started_ns, ended_ns;
    histogram batches;
    int failed;
    char error[256];
} mix_thread;

/* xorshift64*: small, and good enough to pick sizes. */
static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Uniform below `limit`, which is less than 2^32, by the high half of a product. */
static inline size_t random_below(uint64_t *state, size_t limit)
{
    return (size_t)(((random_next(state) >> 32) * limit) >> 32);
}

static inline size_t random_bytes(uint64_t *state)
{
    return bytes_min + random_below(state, bytes_max - bytes_min + 1);
}

static int thread_fail(mix_thread *self)
{
    self->failed = 1;
    snprintf(self->error, sizeof(self->error), "%s", self->round->allocator->error());
    return -1;
}

/* Frees one block and allocates another in its place. */
static inline int operation(mix_thread *self, const bench_allocator *allocator, size_t live)
{
    size_t place = random_below(&self->random, live);
    size_t bytes = random_bytes(&self->random);
    if (allocator->release(self->blocks[place], self->stream) != 0)
        return thread_fail(self);
    self->blocks[place] = allocator->allocate(bytes, self->stream);
    if (!self->blocks[place])
        return thread_fail(self);
    self->checksum = bench_mixed(self->checksum, place * (bytes_max + 1) + bytes);
    return 0;
}

/* Runs so many operations; untimed ones only until the warm-up's time is over. */
static int operations_run(mix_thread *self, uint64_t count, int is_timed)
{
    uint64_t began = clock_now_ns();
    const bench_allocator *allocator = self->round->allocator;
    size_t live = self->round->row->live;
    for (uint64_t done = 0; done < count; done += BENCH_BATCH) {
        uint64_t before = clock_now_ns();
        if (!is_timed && before - began > warm_up_ns_max)
            break;
        for (int i = 0; i < BENCH_BATCH; i++) {
            if (operation(self, allocator, live) != 0)
                return -1;
        }
        if (is_timed)
            histogram_add(&self->batches, clock_now_ns() - before);
    }
    return 0;
}

static void *thread_main(void *argument)
{
    mix_thread *self = argument;
    const bench_allocator *allocator = self->round->allocator;
    const bench_row *row = self->round->row;
    allocator->thread_enter();
    for (size_t i = 0; i < row->live && !self->failed; i++) {
        self->blocks[i] = allocator->allocate(random_bytes(&self->random), self->stream);
        if (!self->blocks[i])
            thread_fail(self);
    }
    if (!self->failed)
        operations_run(self, row->live * row->warm_up_per_block, 0);
    /* Warm-ups differ in length; what is timed is the same for every allocator. */
    self->random = self->random_first;
    self->checksum = 0;
    /* Every thread comes to the barrier, failed or not: the others wait for it there. */
    pthread_barrier_wait(&self->round->start);
    self->started_ns = clock_now_ns();
    if (!self->failed)
        operations_run(self, row->ops, 1);
    self->ended_ns = clock_now_ns();
    for (size_t i = 0; i < row->live; i++) {
        if (self->blocks[i] && allocator->release(self->blocks[i], self->stream) != 0)
            thread_fail(self);
    }
    return NULL;
}

/* Adds what the threads of a round measured to the cell. */
static void round_collect(const bench_row *row, bench_cell *cell, const mix_thread *threads)
{
    uint64_t first = UINT64_MAX, last = 0, ns = 0, checksum = 0;
    for (int i = 0; i < row->threads; i++) {
        const mix_thread *one = &threads[i];
        if (one->failed) {
            cell->failed = 1;
            snprintf(cell->error, sizeof(cell->error), "%s", one->error);
            return;
        }
        first = one->started_ns < first ? one->started_ns : first;
        last = one->ended_ns > last ? one->ended_ns : last;
        ns += one->ended_ns - one->started_ns;
        checksum = bench_mixed(checksum, one->checksum);
        for (size_t bin = 0; bin < HISTOGRAM_BINS; bin++)
            cell->batches.counts[bin] += one->batches.counts[bin];
        cell->batches.total += one->batches.total;
    }
    double ops = (double)row->ops * row->threads;
    if (cell->rounds == 0)
        cell->checksum = checksum;
    cell->round_ns[cell->rounds] = (double)ns / ops;
    cell->round_mops[cell->rounds] = ops / (double)(last - first) * 1e3;
    cell->rounds++;
}

/* One round of one allocator. Returns 0, or -1 if the host lacks memory or threads. */
static int round_run(const bench_setup *setup, bench_row *row, size_t turn)
{
    mix_round round = {.row = row, .allocator = &setup->allocators[turn]};
    pthread_t ids[BENCH_THREADS_MAX];
    int started = 0;
    size_t threads_count = (size_t)row->threads;
    mix_thread *threads = calloc(threads_count, sizeof(*threads));
    void **blocks = calloc(threads_count * row->live, sizeof(*blocks));
    if (!threads || !blocks || pthread_barrier_init(&round.start, NULL, (unsigned)row->threads)) {
        free(threads);
        free(blocks);
        return -1;
    }
    for (; started < row->threads; started++) {
        mix_thread *one = &threads[started];
        one->round = &round;
        one->stream = setup->streams[started];
        one->blocks = blocks + (size_t)started * row->live;
        one->random_first = UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(started + 1);
        one->random = one->random_first;
        if (pthread_create(&ids[started], NULL, thread_main, one) != 0) {
            /* The threads that run wait at the barrier for one that cannot come. */
            fputs("tenure bench: the host gives no more threads\n", stderr);
            exit(EXIT_CODE_NO_MEMORY);
        }
    }
    for (int i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    round_collect(row, &row->cells[turn], threads);
    pthread_barrier_destroy(&round.start);
    free(threads);
    free(blocks);
    return 0;
}

void bench_mix_plan(const bench_setup *setup, int threads, bench_row *row)
{
    memset(row, 0, sizeof(*row));
    row->bench = "mix";
    row->threads = threads;
    row->live = setup->is_quick ? LIVE_WANTED_QUICK : LIVE_WANTED;
    row->warm_up_per_block = setup->is_quick ? WARM_UP_PER_BLOCK_QUICK : WARM_UP_PER_BLOCK;
    uint64_t budget = setup->active->device_info.memory_bytes / 10 * 9;
    if (setup->active->simulated && budget > simulated_budget_bytes)
        budget = simulated_budget_bytes;
    uint64_t fits = budget / (uint64_t)threads / ((bytes_min + bytes_max) / 2);
    if (row->live > fits)
        row->live = fits ? (size_t)fits : 1;
    uint64_t ops = (setup->is_quick ? 16384u : 163840u) / (unsigned)threads;
    uint64_t ops_min = setup->is_quick ? 1024 : 20480;
    row->ops = (ops > ops_min ? ops : ops_min) / BENCH_BATCH * BENCH_BATCH;
}

/* 1 if the allocators' caches do not fit in the device side by side, so that each must give its
 * memory back before the next one's turn. */
static int must_trim(const bench_setup *setup, const bench_row *row)
{
    double live = (double)row->live * row->threads * (double)(bytes_min + bytes_max) / 2;
    double all = live * 1.5 * (double)setup->allocators_count;
    return setup->allocators_count > 1 && all > (double)setup->active->device_info.memory_bytes;
}

exit_code bench_mix_run(const bench_setup *setup, int threads, bench_row *row)
{
    exit_code code = EXIT_CODE_OK;
    bench_mix_plan(setup, threads, row);
    int trim = must_trim(setup, row);
    int rounds_max = trim ? MIX_ROUNDS_TRIMMED : MIX_ROUNDS_MAX;
    int rounds = setup->rounds > rounds_max ? rounds_max : setup->rounds;
    for (int round = 0; round < rounds && code == EXIT_CODE_OK; round++) {
        for (size_t i = 0; i < setup->allocators_count && code == EXIT_CODE_OK; i++) {
            size_t turn = (i + (size_t)round) % setup->allocators_count;
            if (row->cells[turn].failed)
                continue;
            if (round_run(setup, row, turn) != 0)
                code = EXIT_CODE_NO_MEMORY;
            setup->active->gpu.cuCtxSynchronize();
            if (trim)
                setup->allocators[turn].trim();
        }
    }
    for (size_t i = 0; i < setup->allocators_count; i++)
        setup->allocators[i].trim();
    return code;
}
