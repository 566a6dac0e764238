/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that copy together: see crew.h. */
#include "sleep/crew.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/host_memory.h"

enum {
    HANDS_MAX = 7,        /* besides the one that asks; more do not make memory faster */
    SLICE_BYTES = 1 << 20 /* what a thread takes at a time */
};

struct tnri_crew {
    pthread_t threads[HANDS_MAX];
    int hands;    /* threads that run; constant once hired */
    int is_given; /* 1: a job was begun and not ended; of the thread that asks */

    pthread_mutex_t mutex;
    pthread_cond_t begins, ends;
    unsigned jobs; /* given so far; the mutex */
    int working;   /* threads that have not ended the last job; the mutex */
    int is_over;   /* 1: go home; the mutex */

    /* The job. Written before it is given. */
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
    _Atomic size_t taken; /* bytes that somebody copies or has copied */
};

/* Copies slices until none is left. */
static void crew_work(tnri_crew *crew)
{
    size_t at;
    while ((at = atomic_fetch_add(&crew->taken, SLICE_BYTES)) < crew->bytes) {
        size_t left = crew->bytes - at;
        memcpy(crew->to + at, crew->from + at, left < SLICE_BYTES ? left : SLICE_BYTES);
    }
}

static void *hand_run(void *data)
{
    tnri_crew *crew = data;
    unsigned seen = 0;
    pthread_mutex_lock(&crew->mutex);
    for (;;) {
        while (crew->jobs == seen && !crew->is_over)
            pthread_cond_wait(&crew->begins, &crew->mutex);
        if (crew->is_over)
            break;
        seen = crew->jobs;
        pthread_mutex_unlock(&crew->mutex);
        crew_work(crew);
        pthread_mutex_lock(&crew->mutex);
        if (--crew->working == 0)
            pthread_cond_signal(&crew->ends);
    }
    pthread_mutex_unlock(&crew->mutex);
    return NULL;
}

tnri_crew *tnri_crew_hire(void)
{
    tnri_crew *crew = tnri_host_alloc(sizeof(*crew));
    if (crew == NULL)
        return NULL;
    pthread_mutex_init(&crew->mutex, NULL);
    pthread_cond_init(&crew->begins, NULL);
    pthread_cond_init(&crew->ends, NULL);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the threads inherit it */
    while (crew->hands < HANDS_MAX && crew->hands + 1 < cores &&
           pthread_create(&crew->threads[crew->hands], NULL, hand_run, crew) == 0)
        crew->hands++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return crew;
}

void tnri_crew_begin(tnri_crew *crew, void *to, const void *from, size_t bytes)
{
    if (crew == NULL || crew->hands == 0 || bytes <= SLICE_BYTES) {
        memcpy(to, from, bytes);
        return;
    }
    pthread_mutex_lock(&crew->mutex);
    crew->to = to;
    crew->from = from;
    crew->bytes = bytes;
    atomic_store(&crew->taken, 0);
    crew->working = crew->hands;
    crew->jobs++;
    pthread_cond_broadcast(&crew->begins);
    pthread_mutex_unlock(&crew->mutex);
    crew->is_given = 1;
}

void tnri_crew_end(tnri_crew *crew)
{
    if (crew == NULL || !crew->is_given)
        return;
    crew_work(crew);
    pthread_mutex_lock(&crew->mutex);
    while (crew->working > 0)
        pthread_cond_wait(&crew->ends, &crew->mutex);
    pthread_mutex_unlock(&crew->mutex);
    crew->is_given = 0;
}

void tnri_crew_copy(tnri_crew *crew, void *to, const void *from, size_t bytes)
{
    tnri_crew_begin(crew, to, from, bytes);
    tnri_crew_end(crew);
}

void tnri_crew_dismiss(tnri_crew *crew)
{
    if (crew == NULL)
        return;
    pthread_mutex_lock(&crew->mutex);
    crew->is_over = 1;
    pthread_cond_broadcast(&crew->begins);
    pthread_mutex_unlock(&crew->mutex);
    for (int i = 0; i < crew->hands; i++)
        pthread_join(crew->threads[i], NULL);
    pthread_cond_destroy(&crew->ends);
    pthread_cond_destroy(&crew->begins);
    pthread_mutex_destroy(&crew->mutex);
    tnri_host_free(crew, sizeof(*crew));
}
