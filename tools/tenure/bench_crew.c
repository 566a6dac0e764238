/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run an allocator at the same time: see bench_crew.h.
 *
 * They prepare each at its own pace, meet at a barrier, and are timed from there. The time of an
 * operation is the mean over the threads of what each saw; the throughput is all their operations
 * over the time from the first start to the last end.
 */
#include "bench_crew.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What is shared beside the job. */
typedef struct crew {
    const bench_job *job;
    pthread_barrier_t start;
} crew;

/* A thread's argument. */
typedef struct crew_thread {
    crew *crew;
    bench_worker worker;
    pthread_t id;
} crew_thread;

int bench_worker_fail(bench_worker *self)
{
    self->failed = 1;
    snprintf(self->error, sizeof(self->error), "%s", self->allocator->error());
    return -1;
}

uint64_t bench_worker_seed(int index)
{
    return UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(index + 1);
}

static void *thread_main(void *argument)
{
    crew_thread *thread = argument;
    bench_worker *self = &thread->worker;
    const bench_job *job = self->job;
    self->allocator->thread_enter();
    int status = job->prepare ? job->prepare(self) : 0;
    /* Preparations differ in length; what is timed is the same for every allocator. */
    self->random = bench_worker_seed(self->index);
    self->checksum = 0;
    /* Every thread comes to the barrier, failed or not: the others wait for it there. */
    pthread_barrier_wait(&thread->crew->start);
    self->started_ns = clock_now_ns();
    if (status == 0)
        (void)job->run(self);
    /* One that has more to do than what is timed says itself when that ended. */
    if (self->ended_ns == 0)
        self->ended_ns = clock_now_ns();
    if (job->finish)
        job->finish(self);
    return NULL;
}

/* Adds what the threads of a round measured to the cell. */
static void round_collect(const bench_job *job, bench_cell *cell, const crew_thread *threads)
{
    uint64_t first = UINT64_MAX, last = 0, ns = 0, checksum = 0;
    int count = job->row->threads;
    for (int i = 0; i < count; i++) {
        const bench_worker *one = &threads[i].worker;
        if (one->failed) {
            bench_cell_fail(cell, one->error);
            return;
        }
        first = one->started_ns < first ? one->started_ns : first;
        last = one->ended_ns > last ? one->ended_ns : last;
        ns += one->ended_ns - one->started_ns;
        checksum = bench_mixed(checksum, one->checksum);
        histogram_join(&cell->batches, &one->batches);
        histogram_join(&cell->samples, &one->samples);
    }
    if (job->is_sampled)
        return;
    double ops = (double)job->row->ops * count;
    bench_cell_round(cell, ops, (double)ns, checksum);
    cell->round_mops[cell->rounds - 1] = ops / (double)(last - first) * 1e3;
}

/* Fills in what a thread starts with. */
static void worker_make(crew *round, crew_thread *thread, int index, void **blocks)
{
    const bench_job *job = round->job;
    thread->crew = round;
    thread->worker.job = job;
    thread->worker.allocator = job->allocator;
    thread->worker.index = index;
    thread->worker.stream = job->setup->streams[job->is_shared ? 0 : index];
    thread->worker.blocks = blocks;
    thread->worker.random = bench_worker_seed(index);
}

int bench_crew_round(const bench_job *job, bench_cell *cell)
{
    crew round = {.job = job};
    uint64_t began = clock_now_ns();
    size_t count = (size_t)job->row->threads;
    crew_thread *threads = calloc(count, sizeof(*threads));
    void **blocks = calloc(count * job->row->live + 1, sizeof(*blocks));
    if (!threads || !blocks || pthread_barrier_init(&round.start, NULL, (unsigned)count)) {
        free(threads);
        free(blocks);
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        worker_make(&round, &threads[i], (int)i, blocks + i * job->row->live);
        if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]) != 0) {
            /* The threads that run wait at the barrier for one that cannot come. */
            fputs("tenure bench: the host gives no more threads\n", stderr);
            exit(EXIT_CODE_NO_MEMORY);
        }
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i].id, NULL);
    round_collect(job, cell, threads);
    pthread_barrier_destroy(&round.start);
    free(threads);
    free(blocks);
    job->setup->active->gpu.cuCtxSynchronize();
    cell->spent_ns += clock_now_ns() - began;
    return 0;
}

exit_code bench_crew_run(const bench_setup *setup, bench_row *row, const bench_job *job, int rounds,
                         int has_samples, int must_trim)
{
    bench_job own = *job;
    own.setup = setup;
    own.row = row;
    /* The last round is the sampled one. */
    for (int round = 0; round < rounds + has_samples; round++) {
        own.is_sampled = round == rounds;
        for (size_t k = 0; k < setup->allocators_count; k++) {
            size_t turn = bench_turn(setup, round, k);
            bench_cell *cell = &row->cells[turn];
            own.allocator = &setup->allocators[turn];
            if (own.is_sampled ? bench_cell_is_void(cell) : !bench_cell_goes_on(cell, rounds))
                continue;
            if (bench_crew_round(&own, cell) != 0) {
                fputs("tenure bench: no host memory\n", stderr);
                return EXIT_CODE_NO_MEMORY;
            }
            if (must_trim || cell->failed)
                own.allocator->trim();
        }
    }
    bench_trim_all(setup);
    return EXIT_CODE_OK;
}
