/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of two threads, which take turns: see paths.c. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include <tenure/alloc.h>

#include "paths.h"

static void turn_wait(sem_t *turn)
{
    while (sem_wait(turn) != 0)
        ;
}

static void batch_allocate(path_run *run)
{
    for (uint64_t i = 0; i < BATCH; i++)
        tenure_check(tnr_malloc(&run->blocks[i], run->what->bytes_min, 0, run->streams[0]));
}

static void batch_free(path_run *run)
{
    for (uint64_t i = 0; i < BATCH; i++)
        tenure_check(tnr_free(run->blocks[i]));
}

static void *helper_main(void *argument)
{
    path_run *run = argument;
    for (;;) {
        turn_wait(&run->turn_of_helper);
        if (run->helper_ends)
            return NULL;
        path_measure(run, batch_free);
        sem_post(&run->turn_of_main);
    }
}

/* Allocations by one thread, frees by another: both are counted, and the first batches too, since
 * a few of them change nothing in many. */
void run_handover(path_run *run)
{
    pthread_t helper;
    if (sem_init(&run->turn_of_helper, 0, 0) != 0 || sem_init(&run->turn_of_main, 0, 0) != 0 ||
        pthread_create(&helper, NULL, helper_main, run) != 0) {
        fputs("bench_paths: the host gives no thread\n", stderr);
        exit(1);
    }
    for (uint64_t done = 0; done < run->what->operations; done += BATCH) {
        path_measure(run, batch_allocate);
        sem_post(&run->turn_of_helper);
        turn_wait(&run->turn_of_main);
    }
    run->helper_ends = 1;
    sem_post(&run->turn_of_helper);
    pthread_join(helper, NULL);
    run->checksum = mixed(run->checksum, run->what->operations * run->what->bytes_min);
}

static void *sharer_main(void *argument)
{
    path_run *run = argument;
    run->operations = 256;
    pairs(run);
    sem_post(&run->turn_of_main);
    turn_wait(&run->turn_of_helper);
    return NULL;
}

/* Pairs on a stream that another thread, which lives and sleeps, has used too. */
void run_shared(path_run *run)
{
    pthread_t sharer;
    run->operations = 256;
    pairs(run);
    if (sem_init(&run->turn_of_helper, 0, 0) != 0 || sem_init(&run->turn_of_main, 0, 0) != 0 ||
        pthread_create(&sharer, NULL, sharer_main, run) != 0) {
        fputs("bench_paths: the host gives no thread\n", stderr);
        exit(1);
    }
    turn_wait(&run->turn_of_main);
    run_pairs(run);
    sem_post(&run->turn_of_helper);
    pthread_join(sharer, NULL);
}
