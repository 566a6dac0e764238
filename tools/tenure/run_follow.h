/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of `tenure run` that looks again and again at a file that the program writes to. */
#ifndef TENURE_TOOLS_RUN_FOLLOW_H
#define TENURE_TOOLS_RUN_FOLLOW_H

#include <pthread.h>

typedef struct run_follower {
    void (*look)(void *of); /* prints what has come since the last time */
    void *of;
    pthread_t thread;
    int has_thread;
    int ending; /* an eventfd: at the end the thread must not sleep on; -1: none */
} run_follower;

/* Begins to look, in a thread. 0: there is no thread for it, so that only the end looks. */
int run_follow_begin(run_follower *self, void (*look)(void *of), void *of);

/* Once the program is over: looks for the last time. No thread looks any more. Nothing, if the
 * follower is all zero: there was no program. */
void run_follow_end(run_follower *self);

#endif
