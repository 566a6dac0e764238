/* SPDX-License-Identifier: Apache-2.0 */
/* See workers.h. */
#include "workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { HELD = 32, FILL_EVERY = 64 };

typedef struct worker {
    program *self;
    pthread_t thread;
    CUstream stream;
    pattern checks;
    uint64_t random;
    uint64_t pairs;
    atomic_int *stop;
} worker;

struct workers {
    program *self;
    int count;
    atomic_int stop;
    worker all[WORKERS_MAX];
};

/* Read while a worker waits for its stream, which no thread may do during a global capture. */
static pthread_rwlock_t waits = PTHREAD_RWLOCK_INITIALIZER;

void workers_waits_forbid(int forbidden)
{
    (void)(forbidden ? pthread_rwlock_wrlock(&waits) : pthread_rwlock_unlock(&waits));
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* 512 bytes to 4 MiB, most of them small. */
static size_t random_bytes(uint64_t *state)
{
    uint64_t random = next_random(state);
    size_t limit = (size_t)512 << random % 13;
    return 512 + (size_t)(random >> 16) % limit;
}

typedef struct held {
    CUdeviceptr block;
    size_t bytes;
    uint64_t seed; /* 0: no pattern */
} held;

static void held_free(worker *one, held *slot)
{
    program *self = one->self;
    if (slot->block == 0)
        return;
    if (slot->seed != 0)
        must_cu(self,
                pattern_check(&one->checks, slot->block, slot->bytes, slot->seed, one->stream, 0),
                "a worker's check");
    must(self, tnr_free(program_pointer(slot->block)), "a worker's free");
    slot->block = 0;
    one->pairs++;
}

static void held_fill(worker *one, held *slot)
{
    slot->seed = one->pairs + 1;
    must_cu(one->self,
            pattern_fill(&one->checks, slot->block, slot->bytes, slot->seed, one->stream),
            "a worker's fill");
}

static void *worker_run(void *of)
{
    worker *one = of;
    program *self = one->self;
    held slots[HELD] = {{0, 0, 0}};
    if (self->gpu->cuCtxSetCurrent != NULL)
        must_cu(self, self->gpu->cuCtxSetCurrent(self->active.context), "cuCtxSetCurrent");
    for (uint64_t i = 0; atomic_load_explicit(one->stop, memory_order_relaxed) == 0; i++) {
        held *slot = &slots[next_random(&one->random) % HELD];
        held_free(one, slot);
        slot->bytes = random_bytes(&one->random);
        slot->seed = 0;
        slot->block = program_malloc(self, NULL, slot->bytes, one->stream);
        if (i % FILL_EVERY == 0)
            held_fill(one, slot);
        /* Patterns would pile up behind a host that is faster than the device. */
        if (i % (64 * FILL_EVERY) == 0 && pthread_rwlock_tryrdlock(&waits) == 0) {
            must_cu(self, self->gpu->cuStreamSynchronize(one->stream), "a worker's wait");
            (void)pthread_rwlock_unlock(&waits);
        }
    }
    for (int i = 0; i < HELD; i++)
        held_free(one, &slots[i]);
    return NULL;
}

static void worker_prepare(workers *all, int number)
{
    enum { BYTES = 1 << 16 };
    char error[512];
    program *self = all->self;
    worker *one = &all->all[number];
    one->self = self;
    one->stop = &all->stop;
    one->random = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(number + 1);
    must_cu(self, self->gpu->cuStreamCreate(&one->stream, CU_STREAM_NON_BLOCKING),
            "cuStreamCreate");
    if (pattern_open(&one->checks, self->gpu, self->active.cu_device, PATTERN_ENDS, 1, error,
                     sizeof(error)) != 0)
        program_fail(self, "%s", error);
    CUdeviceptr block = program_malloc(self, NULL, BYTES, one->stream);
    if (pattern_self_test(&one->checks, block, BYTES, one->stream, error, sizeof(error)) != 0)
        program_fail(self, "%s", error);
    must(self, tnr_free(program_pointer(block)), "a worker's free");
}

workers *workers_start(program *self, int count)
{
    if (count == 0)
        return NULL;
    workers *all = calloc(1, sizeof(*all));
    if (all == NULL || count > WORKERS_MAX)
        program_fail(self, "%d threads are too many", count);
    all->self = self;
    all->count = count;
    for (int i = 0; i < count; i++)
        worker_prepare(all, i);
    for (int i = 0; i < count; i++)
        if (pthread_create(&all->all[i].thread, NULL, worker_run, &all->all[i]) != 0)
            program_fail(self, "no thread could be started");
    return all;
}

uint64_t workers_stop(workers *all)
{
    uint64_t pairs = 0;
    if (all == NULL)
        return 0;
    program *self = all->self;
    atomic_store(&all->stop, 1);
    for (int i = 0; i < all->count; i++)
        if (pthread_join(all->all[i].thread, NULL) != 0)
            program_fail(self, "a thread could not be joined");
    for (int i = 0; i < all->count; i++) {
        worker *one = &all->all[i];
        pattern_result result;
        must_cu(self, self->gpu->cuStreamSynchronize(one->stream), "waiting for a worker");
        must_cu(self, pattern_read(&one->checks, &result), "reading a worker's checks");
        if (result.errors != 0)
            program_fail(self, "thread %d found %llu spoilt words", i,
                         (unsigned long long)result.errors);
        pattern_close(&one->checks);
        must(self, tnr_stream_destroying(self->active.device, one->stream), "a stream's end");
        must_cu(self, self->gpu->cuStreamDestroy(one->stream), "cuStreamDestroy");
        pairs += one->pairs;
    }
    free(all);
    return pairs;
}
