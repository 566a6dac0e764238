/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that passes between threads and streams.
 *
 *   handover   one thread allocates blocks of 4 KiB, another frees them: a ring of 256 between
 *              the two. Each pair of threads has a stream of its own. Nothing is recorded: only
 *              one stream uses a block, and a free is ordered on the block's stream whichever
 *              thread it comes from. The time is that of one block, from end to end; samples are
 *              of single calls, without the waiting for the other thread.
 *   storm      each thread allocates 4 KiB on its own stream, tells that four other streams use
 *              it, and frees it. Beside Tenure: four bare cuEventRecords, which is the least that
 *              any allocator needs, and PyTorch's record_stream, four times.
 */
#include "bench_crew.h"
#include "bench_sections.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/lifetime.h>

#include "bench_uses.h"

enum { BLOCK_BYTES = 4096, RING_SLOTS = 256, SPINS_MAX = 1000, ROUNDS_MAX = 5 };

/* ---- handover ------------------------------------------------------------------------------- */

/* Blocks on their way. One thread writes `written`, the other `taken`. Each keeps what it saw of
 * the other's counter, and looks again only when it must: the ring should cost little beside what
 * is measured. */
typedef struct ring {
    _Alignas(64) _Atomic uint64_t written;
    uint64_t taken_seen; /* of the thread that writes `written` */
    _Alignas(64) _Atomic uint64_t taken;
    uint64_t written_seen;              /* of the thread that writes `taken` */
    _Alignas(64) atomic_int has_failed; /* one side has given up */
    void *slots[RING_SLOTS];
} ring;

typedef struct ring_table {
    ring rings[BENCH_THREADS_MAX / 2];
} ring_table;

static ring *worker_ring(bench_worker *self)
{
    /* The table is the threads' to write to; only the job is not. */
    ring_table *table = *(ring_table *const *)self->job->data;
    return &table->rings[self->index / 2];
}

static int handover_prepare(bench_worker *self)
{
    self->stream = self->job->setup->streams[self->index / 2];
    return 0;
}

/* The ring is empty between rounds. */
static int handover_settle(bench_worker *self)
{
    if (self->index % 2 == 0) {
        ring *own = worker_ring(self);
        atomic_store(&own->written, 0);
        atomic_store(&own->taken, 0);
        own->taken_seen = own->written_seen = 0;
        atomic_store(&own->has_failed, 0);
    }
    return 0;
}

/* Waits until the other side has got that far; `seen` is where it was. Returns -1 if it has given
 * up. */
static int ring_wait(ring *own, _Atomic uint64_t *counter, uint64_t *seen, uint64_t wanted)
{
    for (int spins = 0; *seen < wanted; spins++) {
        *seen = atomic_load_explicit(counter, memory_order_acquire);
        if (atomic_load_explicit(&own->has_failed, memory_order_relaxed))
            return -1;
        if (spins > SPINS_MAX)
            sched_yield();
    }
    return 0;
}

static void sample_add(bench_worker *self, uint64_t before)
{
    histogram_add(&self->samples, bench_net_ns(self->job->setup, clock_now_ns() - before));
}

static int handover_allocate(bench_worker *self, ring *own, uint64_t i)
{
    if (i >= RING_SLOTS && ring_wait(own, &own->taken, &own->taken_seen, i - RING_SLOTS + 1) != 0)
        return -1;
    uint64_t before = self->is_sampled ? clock_now_ns() : 0;
    void *ptr = self->allocator->allocate(BLOCK_BYTES, self->stream);
    if (!ptr)
        return bench_worker_fail(self);
    if (self->is_sampled)
        sample_add(self, before);
    own->slots[i % RING_SLOTS] = ptr;
    atomic_store_explicit(&own->written, i + 1, memory_order_release);
    return 0;
}

static int handover_free(bench_worker *self, ring *own, uint64_t i)
{
    if (ring_wait(own, &own->written, &own->written_seen, i + 1) != 0)
        return -1;
    uint64_t before = self->is_sampled ? clock_now_ns() : 0;
    if (self->allocator->release(own->slots[i % RING_SLOTS], self->stream) != 0)
        return bench_worker_fail(self);
    if (self->is_sampled)
        sample_add(self, before);
    atomic_store_explicit(&own->taken, i + 1, memory_order_release);
    return 0;
}

static int handover_run(bench_worker *self)
{
    ring *own = worker_ring(self);
    int allocates = self->index % 2 == 0;
    uint64_t before = clock_now_ns();
    for (uint64_t i = 0; i < self->ops; i++) {
        if ((allocates ? handover_allocate : handover_free)(self, own, i) != 0) {
            atomic_store(&own->has_failed, 1);
            return -1;
        }
        self->checksum = bench_mixed(self->checksum, i * BLOCK_BYTES);
        if (i % BENCH_BATCH == BENCH_BATCH - 1 && !self->is_sampled) {
            uint64_t now = clock_now_ns();
            histogram_add(&self->batches, now - before);
            before = now;
        }
    }
    return 0;
}

exit_code bench_handover_run(const bench_setup *setup, bench_rows *out)
{
    exit_code code = EXIT_CODE_OK;
    ring_table *table = aligned_alloc(64, sizeof(*table));
    if (!table)
        return EXIT_CODE_NO_MEMORY;
    memset(table, 0, sizeof(*table));
    bench_job job = {.data = &table,
                     .prepare = handover_prepare,
                     .settle = handover_settle,
                     .run = handover_run};
    bench_plan plan = {.rounds = setup->rounds > ROUNDS_MAX ? ROUNDS_MAX : setup->rounds};
    for (size_t i = 0; i < setup->threads_count && code == EXIT_CODE_OK; i++) {
        if (setup->threads[i] % 2 != 0)
            continue;
        bench_row *row = bench_row_add(out, "handover");
        row->bytes = BLOCK_BYTES;
        row->threads = setup->threads[i];
        row->ops = setup->is_quick ? 4096 : 32768;
        code = bench_crews_run(setup, row, &job, &plan);
    }
    free(table);
    return code;
}

/* ---- storm ---------------------------------------------------------------------------------- */

enum { STORM_STREAMS = 4, STORM_WARM_UP = 256 };

/* What a thread of the storm works with. */
typedef struct storm_thread {
    CUstream others[STORM_STREAMS];
    CUevent events[STORM_STREAMS]; /* for the bare cuEventRecords */
} storm_thread;

/* What the threads of a round of the storm share. */
typedef struct storm {
    int column; /* USES_... */
    const bench_torch_uses *torch;
    storm_thread *threads; /* each is its thread's */
} storm;

static storm_thread *storm_own(const bench_worker *self)
{
    const storm *what = self->job->data;
    return &what->threads[self->index];
}

static int storm_tenure(bench_worker *self, const CUstream *others)
{
    void *ptr = self->allocator->allocate(BLOCK_BYTES, self->stream);
    if (!ptr)
        return bench_worker_fail(self);
    for (int i = 0; i < STORM_STREAMS; i++)
        if (tnr_record_use(ptr, others[i]) != TNR_OK)
            return bench_worker_fail(self);
    return self->allocator->release(ptr, self->stream) == 0 ? 0 : bench_worker_fail(self);
}

static int storm_operations(bench_worker *self, uint64_t count)
{
    const storm *what = self->job->data;
    const storm_thread *own = storm_own(self);
    PFN_cuEventRecord_v2000 record = self->job->setup->active->gpu.cuEventRecord;
    for (uint64_t i = 0; i < count; i++) {
        int status = 0;
        if (what->column == USES_TENURE)
            status = storm_tenure(self, own->others);
        else if (what->column == USES_TORCH)
            status = what->torch->uses(BLOCK_BYTES, (void *const *)own->others, STORM_STREAMS);
        else
            for (int k = 0; k < STORM_STREAMS && status == 0; k++)
                status = record(own->events[k], own->others[k]) != CUDA_SUCCESS;
        if (status != 0)
            return self->failed ? -1 : bench_worker_fail(self);
    }
    return 0;
}

static int storm_prepare(bench_worker *self)
{
    const storm *what = self->job->data;
    const bench_setup *setup = self->job->setup;
    storm_thread *own = storm_own(self);
    *own = (storm_thread){.others = {NULL}};
    for (int i = 0; i < STORM_STREAMS; i++)
        own->others[i] = setup->streams[(self->index + 1 + i) % BENCH_THREADS_MAX];
    for (int i = 0; i < STORM_STREAMS && what->column == USES_EVENT; i++)
        if (setup->active->gpu.cuEventCreate(&own->events[i], CU_EVENT_DISABLE_TIMING) !=
            CUDA_SUCCESS)
            return bench_worker_fail(self);
    if (what->column == USES_TORCH)
        what->torch->enter(setup->active->device, self->stream);
    return 0;
}

/* Before all threads start together. The driver has one lock for all records, and whoever has it
 * most often gets it again: a thread that warmed up after the start would begin to be timed when
 * others are done. */
static int storm_settle(bench_worker *self)
{
    return storm_operations(self, STORM_WARM_UP);
}

static int storm_run(bench_worker *self)
{
    uint64_t step = self->is_sampled ? 1 : BENCH_BATCH;
    for (uint64_t done = 0; done < self->ops; done += step) {
        uint64_t before = clock_now_ns();
        if (storm_operations(self, step) != 0)
            return -1;
        if (self->is_sampled)
            sample_add(self, before);
        else
            histogram_add(&self->batches, clock_now_ns() - before);
        self->checksum = bench_mixed(self->checksum, STORM_STREAMS * step);
        if (bench_round_is_over(self, done + step))
            break;
    }
    return 0;
}

static void storm_finish(bench_worker *self)
{
    const storm_thread *own = storm_own(self);
    for (int i = 0; i < STORM_STREAMS; i++)
        if (own->events[i])
            self->job->setup->active->gpu.cuEventDestroy(own->events[i]);
}

/* A row: the columns that there is something to run for. */
static exit_code storm_row_run(const bench_setup *setup, bench_row *row)
{
    const bench_torch_uses *torch = bench_torch_uses_get(setup);
    storm what[USES_COLUMNS];
    bench_contestant list[USES_COLUMNS];
    size_t count = 0;
    storm_thread *threads = calloc((size_t)USES_COLUMNS * BENCH_THREADS_MAX, sizeof(*threads));
    if (!threads)
        return EXIT_CODE_NO_MEMORY;
    for (int column = 0; column < USES_COLUMNS; column++) {
        if ((column == USES_TORCH && !torch) || (column == USES_EVENT && !setup->has_driver))
            continue;
        size_t allocator = column == USES_TORCH ? setup->allocators_count - 1 : 0;
        what[column] = (storm){.column = column,
                               .torch = torch,
                               .threads = &threads[(size_t)column * BENCH_THREADS_MAX]};
        list[count++] = (bench_contestant){.job = {.setup = setup,
                                                   .row = row,
                                                   .allocator = &setup->allocators[allocator],
                                                   .data = &what[column],
                                                   .prepare = storm_prepare,
                                                   .settle = storm_settle,
                                                   .run = storm_run,
                                                   .finish = storm_finish},
                                           .cell = &row->cells[column]};
    }
    bench_plan plan = {.rounds = setup->rounds > ROUNDS_MAX ? ROUNDS_MAX : setup->rounds};
    exit_code code = bench_crews_compete(setup, list, count, &plan);
    free(threads);
    return code;
}

exit_code bench_storm_run(const bench_setup *setup, bench_rows *out)
{
    exit_code code = EXIT_CODE_OK;
    for (size_t i = 0; i < setup->threads_count && code == EXIT_CODE_OK; i++) {
        bench_row *row = bench_row_add(out, "storm");
        row->bytes = BLOCK_BYTES;
        row->columns = bench_uses_columns;
        row->threads = setup->threads[i];
        row->live = 1;
        row->ops = setup->is_quick ? 1024 : 8192;
        code = storm_row_run(setup, row);
    }
    return code;
}
