/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that copy together: see crew.h. */
#include "away/crew.h"

#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/host_memory.h"
#include "base/prim/process.h"
#include "base/prim/thread.h"

enum {
    HANDS_MAX = 15,         /* besides the one that asks */
    SLICE_BYTES = 512 << 10 /* what a thread takes at a time */
};

long tnri_crew_cores;

/* A job that was given. Under the mutex. */
typedef struct job {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
    size_t taken; /* bytes that somebody copies or has copied */
    size_t done;  /* bytes that are copied */
} job;

/* A part of a job, for one thread. */
typedef struct slice {
    job *of; /* null: none */
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
} slice;

struct tnri_crew {
    tnri_system_thread threads[HANDS_MAX];
    int hands;       /* threads that run; constant once hired */
    int keeps_cache; /* constant */

    tnri_mutex mutex;
    tnri_condition begins, ends;
    /* What follows: the mutex. Jobs are numbered, and lie at their number modulo the size. */
    job jobs[TNRI_CREW_JOBS];
    uint64_t given; /* jobs so far */
    uint64_t begun; /* the first with something left to take */
    int is_over;    /* 1: go home */
};

/* ---- copying -------------------------------------------------------------------------------- */

#ifdef __SSE2__
/* The compiler's own: the header with names for all of its builtins has 30,000 lines. */
typedef long long sixteen __attribute__((vector_size(16), may_alias));

static void store_past_caches(sixteen *to, sixteen value)
{
#ifdef __clang__
    __builtin_nontemporal_store(value, to);
#else
    __builtin_ia32_movntdq(to, value);
#endif
}

/* Both are aligned to 16 bytes. */
static void copy_past_caches(unsigned char *to, const unsigned char *from, size_t bytes)
{
    size_t at = 0;
    for (; at + 64 <= bytes; at += 64) {
        const sixteen *source = (const sixteen *)(const void *)(from + at);
        sixteen *target = (sixteen *)(void *)(to + at);
        sixteen a = source[0], b = source[1], c = source[2], d = source[3];
        store_past_caches(target, a);
        store_past_caches(target + 1, b);
        store_past_caches(target + 2, c);
        store_past_caches(target + 3, d);
    }
    __builtin_ia32_sfence();
    memcpy(to + at, from + at, bytes - at);
}

static int is_aligned(const slice *part)
{
    return ((uintptr_t)part->to | (uintptr_t)part->from) % 16 == 0;
}
#endif

static void slice_copy(const slice *part, int keeps_cache)
{
#ifdef __SSE2__
    if (!keeps_cache && is_aligned(part)) {
        copy_past_caches(part->to, part->from, part->bytes);
        return;
    }
#else
    (void)keeps_cache;
#endif
    memcpy(part->to, part->from, part->bytes);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

/* Takes a slice of the first job that has one left. Under the mutex. */
static slice slice_take(tnri_crew *crew)
{
    if (crew->begun == crew->given)
        return (slice){0};
    job *next = &crew->jobs[crew->begun % TNRI_CREW_JOBS];
    size_t left = next->bytes - next->taken;
    size_t bytes = left < SLICE_BYTES ? left : SLICE_BYTES;
    slice part = {next, next->to + next->taken, next->from + next->taken, bytes};
    next->taken += bytes;
    if (next->taken == next->bytes)
        crew->begun++;
    return part;
}

/* Copies a slice. The mutex is held before and after, and not meanwhile. */
static void slice_do(tnri_crew *crew, const slice *part)
{
    tnri_mutex_unlock(&crew->mutex);
    slice_copy(part, crew->keeps_cache);
    tnri_mutex_lock(&crew->mutex);
    part->of->done += part->bytes;
    if (part->of->done == part->of->bytes)
        tnri_condition_wake_one(&crew->ends);
}

static void *hand_run(void *data)
{
    tnri_crew *crew = data;
    tnri_mutex_lock(&crew->mutex);
    while (!crew->is_over) {
        slice part = slice_take(crew);
        if (part.of != NULL)
            slice_do(crew, &part);
        else
            tnri_condition_wait(&crew->begins, &crew->mutex);
    }
    tnri_mutex_unlock(&crew->mutex);
    return NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

tnri_crew *tnri_crew_hire(size_t bytes, int keeps_cache)
{
    tnri_crew *crew = tnri_host_alloc(sizeof(*crew));
    if (crew == NULL)
        return NULL;
    tnri_mutex_init(&crew->mutex);
    tnri_condition_init(&crew->begins);
    tnri_condition_init(&crew->ends);
    crew->keeps_cache = keeps_cache;
    long cores = tnri_crew_cores != 0 ? tnri_crew_cores : tnri_processors();
    size_t slices = bytes / SLICE_BYTES;
    while (crew->hands < HANDS_MAX && crew->hands + 1 < cores && (size_t)crew->hands < slices &&
           tnri_thread_make(&crew->threads[crew->hands], hand_run, crew) == 0)
        crew->hands++;
    return crew;
}

void tnri_crew_give(tnri_crew *crew, void *to, const void *from, size_t bytes)
{
    tnri_assert(bytes > 0);
    if (crew == NULL || crew->hands == 0) {
        slice whole = {NULL, to, from, bytes};
        slice_copy(&whole, crew == NULL || crew->keeps_cache);
        return;
    }
    tnri_mutex_lock(&crew->mutex);
    job *next = &crew->jobs[crew->given % TNRI_CREW_JOBS];
    tnri_assert(next->done == next->bytes);
    *next = (job){to, from, bytes, 0, 0};
    crew->given++;
    tnri_condition_wake_all(&crew->begins);
    tnri_mutex_unlock(&crew->mutex);
}

/* The oldest of the jobs that must be done and is not; null if there is none. */
static const job *job_undone(const tnri_crew *crew, unsigned left)
{
    uint64_t last = crew->given > left ? crew->given - left : 0;
    uint64_t first = crew->given > TNRI_CREW_JOBS ? crew->given - TNRI_CREW_JOBS : 0;
    for (uint64_t i = first; i < last; i++)
        if (crew->jobs[i % TNRI_CREW_JOBS].done < crew->jobs[i % TNRI_CREW_JOBS].bytes)
            return &crew->jobs[i % TNRI_CREW_JOBS];
    return NULL;
}

void tnri_crew_wait(tnri_crew *crew, unsigned left)
{
    if (crew == NULL || crew->hands == 0)
        return;
    tnri_mutex_lock(&crew->mutex);
    while (job_undone(crew, left) != NULL) {
        slice part = slice_take(crew);
        if (part.of != NULL)
            slice_do(crew, &part);
        else
            tnri_condition_wait(&crew->ends, &crew->mutex);
    }
    tnri_mutex_unlock(&crew->mutex);
}

void tnri_crew_dismiss(tnri_crew *crew)
{
    if (crew == NULL)
        return;
    tnri_mutex_lock(&crew->mutex);
    tnri_assert(job_undone(crew, 0) == NULL);
    crew->is_over = 1;
    tnri_condition_wake_all(&crew->begins);
    tnri_mutex_unlock(&crew->mutex);
    for (int i = 0; i < crew->hands; i++)
        tnri_thread_join(crew->threads[i]);
    tnri_condition_end(&crew->ends);
    tnri_condition_end(&crew->begins);
    tnri_mutex_end(&crew->mutex);
    tnri_host_free(crew, sizeof(*crew));
}
