/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run an allocator at the same time: see bench_crew.h.
 *
 * A crew is the threads of one allocator in one configuration. It lives for all of its rounds, as a
 * program's threads do. The threads sleep until the main thread gives an order, carry it out, and
 * report it. While one crew works, the others sleep. Each thread keeps to a processor. In a round
 * the threads spin at a starting line, so that all start within a fraction of a microsecond, and
 * are timed from there. The time of an operation is the mean over the threads of what each saw. The
 * throughput is all their operations over the time from the first start to the last end.
 *
 * What an allocator goes through:
 *
 *   prepare   once; a mix fills its table
 *   warm      steps, until the memory taken from the device has stopped growing: then the caches
 *             have their size. At least a second or all of the row's operations, at most five
 *   trial     a short round whose times are not kept. Its operations are the same for everybody,
 *             and so is its checksum. How long they took says how many a round will have: what is
 *             slow does fewer, since its numbers need no more
 *   rounds    with everything left as it is in between: no memory is given back
 *   sample    a round whose single operations are timed
 *   finish    once
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setaffinity_np, CPU_SET */
#endif

#include "bench_crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { TRIAL_OPS = 512, SPINS_MAX = 4000, GROWTH_SHARE = 1000 };
static const uint64_t round_ns_max = UINT64_C(100000000);
static const uint64_t warm_up_ns_min = UINT64_C(1000000000), warm_up_ns_max = UINT64_C(5000000000);

typedef enum crew_order { ORDER_PREPARE, ORDER_WARM, ORDER_ROUND, ORDER_FINISH } crew_order;

typedef struct crew crew;

/* A thread's argument. */
typedef struct crew_thread {
    crew *crew;
    bench_worker worker;
    pthread_t id;
} crew_thread;

/* The threads of one allocator. Owned by the main thread; `order` to `busy` under the lock. */
struct crew {
    bench_job job;
    bench_cell *cell;
    int count;
    int rounds_begun;
    crew_thread *threads;
    void **blocks;
    atomic_int at_line; /* threads that have come to the line, in all rounds together */
    atomic_int is_over; /* this round, for all: see bench_round_is_over */
    int ends_together;  /* 1: as soon as it is for one */
    int has_trial;      /* 0: the checksum is that of whole rounds */
    pthread_mutex_t lock;
    pthread_cond_t is_ordered, is_done;
    crew_order order;
    uint64_t orders; /* given so far */
    int busy;        /* threads that have not yet carried out the latest */
};

int bench_worker_fail(bench_worker *self)
{
    self->failed = 1;
    snprintf(self->error, sizeof(self->error), "%s", self->allocator->error());
    return -1;
}

/* The seed that a thread's random numbers start from: of the preparations (0), or of a round. */
static uint64_t worker_seed(int index, int round)
{
    uint64_t number = (uint64_t)round * BENCH_THREADS_MAX + (uint64_t)index + 1;
    return UINT64_C(0x9E3779B97F4A7C15) * number;
}

/* ---- the threads ---------------------------------------------------------------------------- */

/* Waits until all threads of the crew are here. Spinning, for to be woken takes each of them
 * another time; where there are fewer CPUs than threads it must let the others run. */
static void line_wait(crew *self)
{
    int wanted = self->count * self->rounds_begun;
    atomic_fetch_add_explicit(&self->at_line, 1, memory_order_acq_rel);
    for (int spins = 0; atomic_load_explicit(&self->at_line, memory_order_acquire) < wanted;
         spins++)
        if (spins > SPINS_MAX)
            sched_yield();
}

static void worker_round(crew *owner, bench_worker *self)
{
    const bench_job *job = self->job;
    if (job->settle && !self->failed)
        (void)job->settle(self);
    /* Preparations differ in length; what is timed is the same for every allocator. */
    self->random = worker_seed(self->index, owner->rounds_begun);
    self->checksum = 0;
    self->ended_ns = 0;
    self->done = self->ops;
    /* Every thread comes to the line, failed or not: the others wait for it there. */
    line_wait(owner);
    self->started_ns = clock_now_ns();
    if (!self->failed)
        (void)job->run(self);
    /* One that has more to do than what is timed says itself when that ended. */
    if (self->ended_ns == 0)
        self->ended_ns = clock_now_ns();
    if (owner->ends_together)
        atomic_store_explicit(&owner->is_over, 1, memory_order_relaxed);
}

static void worker_obey(crew *owner, bench_worker *self, crew_order order)
{
    const bench_job *job = self->job;
    if (order == ORDER_ROUND)
        worker_round(owner, self);
    else if (order == ORDER_FINISH && job->finish)
        job->finish(self);
    else if (order == ORDER_PREPARE && job->prepare)
        (void)job->prepare(self);
    else if (order == ORDER_WARM && !self->failed)
        (void)job->warm(self);
}

static void *thread_main(void *argument)
{
    crew_thread *thread = argument;
    crew *owner = thread->crew;
    crew_order order;
    owner->job.allocator->thread_enter();
    for (uint64_t obeyed = 0;; obeyed++) {
        pthread_mutex_lock(&owner->lock);
        while (owner->orders == obeyed)
            pthread_cond_wait(&owner->is_ordered, &owner->lock);
        order = owner->order;
        pthread_mutex_unlock(&owner->lock);
        worker_obey(owner, &thread->worker, order);
        pthread_mutex_lock(&owner->lock);
        if (--owner->busy == 0)
            pthread_cond_signal(&owner->is_done);
        pthread_mutex_unlock(&owner->lock);
        if (order == ORDER_FINISH)
            return NULL;
    }
}

/* Keeps thread `index` to a processor of its own, if the process has one for each of `count`
 * threads: else the scheduler puts two on one now and then, and a round of some milliseconds is
 * over before it moves one away. */
static void thread_pin(pthread_t id, const cpu_set_t *processors, int index, int count)
{
    cpu_set_t one;
    if (CPU_COUNT(processors) < count)
        return;
    CPU_ZERO(&one);
    for (int cpu = 0, left = index; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, processors) && left-- == 0)
            CPU_SET(cpu, &one);
    pthread_setaffinity_np(id, sizeof(one), &one); /* one that runs anywhere is timed as well */
}

/* ---- the crew ------------------------------------------------------------------------------- */

/* Gives an order and waits until all have carried it out. A failure of a thread becomes one of the
 * cell. */
static void crew_command(crew *self, crew_order order)
{
    pthread_mutex_lock(&self->lock);
    self->order = order;
    self->busy = self->count;
    self->orders++;
    pthread_cond_broadcast(&self->is_ordered);
    while (self->busy > 0)
        pthread_cond_wait(&self->is_done, &self->lock);
    pthread_mutex_unlock(&self->lock);
    for (int i = 0; i < self->count && !self->cell->failed; i++)
        if (self->threads[i].worker.failed)
            bench_cell_fail(self->cell, self->threads[i].worker.error);
    /* The driver's pool enqueues its work. */
    self->job.setup->active->gpu.cuCtxSynchronize();
}

static void crew_free(crew *self)
{
    if (!self)
        return;
    free(self->threads);
    free(self->blocks);
    free(self);
}

/* Memory for a crew, its threads not yet started. Null: the host lacks memory. */
static crew *crew_make(const bench_contestant *contestant)
{
    crew *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    self->job = contestant->job;
    self->cell = contestant->cell;
    self->count = self->job.row->threads;
    size_t live = self->job.row->live;
    self->threads = calloc((size_t)self->count, sizeof(*self->threads));
    self->blocks = calloc((size_t)self->count * live + 1, sizeof(*self->blocks));
    if (!self->threads || !self->blocks) {
        crew_free(self);
        return NULL;
    }
    for (int i = 0; i < self->count; i++) {
        bench_worker *worker = &self->threads[i].worker;
        self->threads[i].crew = self;
        worker->job = &self->job;
        worker->allocator = self->job.allocator;
        worker->index = i;
        worker->is_over = &self->is_over;
        worker->stream = self->job.setup->streams[self->job.is_shared ? 0 : i];
        worker->blocks = self->blocks + (size_t)i * live;
        worker->random = worker_seed(i, 0);
    }
    return self;
}

static crew *crew_open(const bench_contestant *contestant)
{
    crew *self = crew_make(contestant);
    if (!self)
        return NULL;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->is_ordered, NULL);
    pthread_cond_init(&self->is_done, NULL);
    cpu_set_t processors;
    CPU_ZERO(&processors);
    sched_getaffinity(0, sizeof(processors), &processors);
    for (int i = 0; i < self->count; i++) {
        if (pthread_create(&self->threads[i].id, NULL, thread_main, &self->threads[i]) != 0) {
            /* The threads that run wait at the line for one that cannot come. */
            fputs("tenure bench: the host gives no more threads\n", stderr);
            exit(EXIT_CODE_NO_MEMORY);
        }
        thread_pin(self->threads[i].id, &processors, i, self->count);
    }
    return self;
}

/* Ends a crew and forgets it; null is none. After a failure its memory is given back at once. */
static void crew_close(crew **place)
{
    crew *self = *place;
    *place = NULL;
    if (!self)
        return;
    crew_command(self, ORDER_FINISH);
    for (int i = 0; i < self->count; i++)
        pthread_join(self->threads[i].id, NULL);
    pthread_cond_destroy(&self->is_done);
    pthread_cond_destroy(&self->is_ordered);
    pthread_mutex_destroy(&self->lock);
    if (self->cell->failed)
        self->job.allocator->trim();
    crew_free(self);
}

/* What a round took: the sum of all threads' times, and from the first start to the last end. */
typedef struct round_times {
    uint64_t sum_ns, wall_ns, checksum;
    uint64_t ops; /* that all threads have done */
} round_times;

/* A round of so many operations a thread. What it took is only set if the cell has not failed. */
static void crew_round(crew *self, uint64_t ops, int is_sampled, round_times *times)
{
    uint64_t first = UINT64_MAX, last = 0;
    *times = (round_times){0};
    atomic_store(&self->is_over, 0);
    for (int i = 0; i < self->count; i++) {
        self->threads[i].worker.ops = ops;
        self->threads[i].worker.is_sampled = is_sampled;
    }
    self->rounds_begun++;
    crew_command(self, ORDER_ROUND);
    for (int i = 0; i < self->count; i++) {
        const bench_worker *one = &self->threads[i].worker;
        first = one->started_ns < first ? one->started_ns : first;
        last = one->ended_ns > last ? one->ended_ns : last;
        times->sum_ns += one->ended_ns - one->started_ns;
        times->ops += one->done;
        times->checksum = bench_mixed(times->checksum, one->checksum);
    }
    times->wall_ns = last > first ? last - first : 1;
}

/* Adds what the threads' histograms have to the cell's, and empties them. */
static void crew_histograms(crew *self, int are_kept)
{
    for (int i = 0; i < self->count; i++) {
        bench_worker *one = &self->threads[i].worker;
        if (are_kept) {
            histogram_join(&self->cell->batches, &one->batches);
            histogram_join(&self->cell->samples, &one->samples);
        }
        memset(&one->batches, 0, sizeof(one->batches));
        memset(&one->samples, 0, sizeof(one->samples));
    }
}

/* ---- what an allocator goes through --------------------------------------------------------- */

/* Bytes of the device that somebody holds: the same measure for each allocator. */
static uint64_t device_used_bytes(const bench_setup *setup)
{
    size_t free_bytes = 0, total_bytes = 0;
    if (setup->active->gpu.cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        return 0;
    return total_bytes - free_bytes;
}

/* Steps of warming up until one has taken no more than a thousandth more memory. */
static void crew_warm(crew *self)
{
    const bench_setup *setup = self->job.setup;
    uint64_t began = clock_now_ns(), spent = 0;
    uint64_t most = device_used_bytes(setup);
    int has_grown = 1;
    for (int step = 0; !self->cell->failed && spent < warm_up_ns_max; step++) {
        if (!has_grown && (step >= BENCH_WARM_UP_STEPS || spent >= warm_up_ns_min))
            break;
        crew_command(self, ORDER_WARM);
        uint64_t used = device_used_bytes(setup);
        has_grown = used > most + most / GROWTH_SHARE;
        most = used > most ? used : most;
        spent = clock_now_ns() - began;
    }
    if (has_grown && !self->cell->failed)
        fprintf(stderr,
                "tenure bench: %s with %d threads: %s still takes memory after %.1f s of warming "
                "up\n",
                self->job.row->bench, self->count, self->job.allocator->name, (double)spent / 1e9);
}

/* Everything before the rounds. */
static void crew_start(crew *self)
{
    round_times times;
    bench_cell *cell = self->cell;
    uint64_t most = self->job.row->ops, trial = most < TRIAL_OPS ? most : TRIAL_OPS;
    crew_command(self, ORDER_PREPARE);
    if (self->job.warm && !cell->failed)
        crew_warm(self);
    if (cell->failed)
        return;
    crew_round(self, trial, 0, &times);
    crew_histograms(self, 0);
    cell->checksum = times.checksum;
    self->has_trial = 1;
    double one_ns = (double)times.wall_ns / (double)trial;
    uint64_t fits = (uint64_t)((double)round_ns_max / one_ns) / BENCH_BATCH * BENCH_BATCH;
    cell->ops = fits >= most ? most : fits > trial ? fits : trial;
}

/* What is counted is Tenure's, which is the first of each row. */
static int crew_is_counted(const crew *self)
{
    return self->cell == &self->job.row->cells[0];
}

/* A round that is kept. */
static void crew_timed_round(crew *self)
{
    round_times times;
    bench_counts before, after;
    bench_cell *cell = self->cell;
    int is_counted = crew_is_counted(self) && bench_counts_read(self->job.setup, &before) == 0;
    uint64_t began = clock_now_ns();
    self->ends_together = self->has_trial;
    crew_round(self, cell->ops, 0, &times);
    self->ends_together = 0;
    cell->spent_ns += clock_now_ns() - began;
    if (cell->failed)
        return;
    double ops = (double)times.ops;
    cell->ops_done += times.ops;
    bench_cell_round(cell, ops, (double)times.sum_ns,
                     cell->checksum ? cell->checksum : times.checksum);
    cell->round_mops[cell->rounds - 1] = ops / (double)times.wall_ns * 1e3;
    crew_histograms(self, 1);
    if (is_counted && bench_counts_read(self->job.setup, &after) == 0)
        bench_counts_add(&cell->counts, &before, &after);
}

static void crew_sample(crew *self)
{
    round_times times;
    crew_round(self, self->cell->ops, 1, &times);
    if (!self->cell->failed)
        crew_histograms(self, 1);
}

/* ---- a row ---------------------------------------------------------------------------------- */

/* Rounds of those that fit side by side. */
static exit_code group_run(const bench_contestant *list, size_t count, const bench_plan *plan)
{
    exit_code code = EXIT_CODE_OK;
    crew *crews[BENCH_ALLOCATORS_MAX] = {NULL};
    for (size_t i = 0; i < count && code == EXIT_CODE_OK; i++) {
        crews[i] = crew_open(&list[i]);
        if (!crews[i]) {
            code = EXIT_CODE_NO_MEMORY;
            break;
        }
        crew_start(crews[i]);
        if (list[i].cell->failed)
            crew_close(&crews[i]);
    }
    /* The last round is the sampled one. */
    for (int round = 0; round <= plan->rounds && code == EXIT_CODE_OK; round++) {
        for (size_t k = 0; k < count; k++) {
            size_t turn = (k + (size_t)round) % count;
            if (!crews[turn])
                continue;
            if (round == plan->rounds)
                crew_sample(crews[turn]);
            else if (bench_cell_goes_on(list[turn].cell, plan->rounds))
                crew_timed_round(crews[turn]);
            if (list[turn].cell->failed)
                crew_close(&crews[turn]);
        }
    }
    for (size_t i = 0; i < count; i++)
        crew_close(&crews[i]);
    return code;
}

/* Rounds of threads that have never allocated: what is timed is their first operations. */
static exit_code fresh_run(const bench_contestant *list, size_t count, const bench_plan *plan)
{
    for (int round = 0; round <= plan->rounds; round++) {
        for (size_t k = 0; k < count; k++) {
            const bench_contestant *one = &list[(k + (size_t)round) % count];
            if (one->cell->failed ||
                (round < plan->rounds && !bench_cell_goes_on(one->cell, plan->rounds)))
                continue;
            crew *self = crew_open(one);
            if (!self)
                return EXIT_CODE_NO_MEMORY;
            one->cell->ops = one->job.row->ops;
            if (round == plan->rounds)
                crew_sample(self);
            else
                crew_timed_round(self);
            crew_close(&self);
        }
    }
    return EXIT_CODE_OK;
}

exit_code bench_crews_compete(const bench_setup *setup, const bench_contestant *list, size_t count,
                              const bench_plan *plan)
{
    exit_code code = EXIT_CODE_OK;
    if (plan->is_fresh) {
        code = fresh_run(list, count, plan);
    } else if (plan->is_exclusive) {
        for (size_t i = 0; i < count && code == EXIT_CODE_OK; i++) {
            code = group_run(&list[i], 1, plan);
            list[i].job.allocator->trim();
        }
    } else {
        code = group_run(list, count, plan);
    }
    bench_trim_all(setup);
    return code;
}

exit_code bench_crews_run(const bench_setup *setup, bench_row *row, const bench_job *job,
                          const bench_plan *plan)
{
    bench_contestant list[BENCH_ALLOCATORS_MAX];
    for (size_t i = 0; i < setup->allocators_count; i++) {
        list[i] = (bench_contestant){.job = *job, .cell = &row->cells[i]};
        list[i].job.setup = setup;
        list[i].job.row = row;
        list[i].job.allocator = &setup->allocators[i];
    }
    return bench_crews_compete(setup, list, setup->allocators_count, plan);
}
