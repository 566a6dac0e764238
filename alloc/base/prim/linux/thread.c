/* SPDX-License-Identifier: Apache-2.0 */
/* See thread.h. */
#include "base/prim/thread.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

void tnri_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
    struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    (void)syscall(SYS_futex, word, FUTEX_WAIT, value, ns == UINT64_MAX ? NULL : &time, NULL, 0);
}

void tnri_word_ring(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
