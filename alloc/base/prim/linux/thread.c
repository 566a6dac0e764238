/* SPDX-License-Identifier: Apache-2.0 */
/* See thread.h. */
#include "base/prim/thread.h"

#include <signal.h>

/* A thread begins with the signal mask of the one that makes it. */
int tnri_thread_make(tnri_system_thread *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
