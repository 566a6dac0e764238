/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stretch in which the thread is not cancelled.
 *
 * pthread_cancel ends a thread at the next call of the system that may wait: it would leave the
 * locks and half-made things of the call that it is in. So each public function that can
 * come to such a call begins with TNRI_CALM_CALL: there, where nothing has been done, a thread that
 * was cancelled ends, and from there on it is not cancelled. The cached path comes to no such call;
 * where it ends (a miss, a visit to the driver, a trap), a stretch begins with TNRI_CALM.
 */
#ifndef TNRI_BASE_PRIM_CALM_H
#define TNRI_BASE_PRIM_CALM_H

#include <pthread.h>

static inline int tnri_calm_begin(void)
{
    int before = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void tnri_calm_end(const int *before)
{
    int was;
    (void)pthread_setcancelstate(*before, &was);
}

/* Until the end of the block that it stands in. */
#define TNRI_CALM                                                                                  \
    __attribute__((cleanup(tnri_calm_end), unused)) int calm_before = tnri_calm_begin()
/* The same for a public function, and the first thing that it does. */
#define TNRI_CALM_CALL                                                                             \
    __attribute__((cleanup(tnri_calm_end), unused)) int calm_before =                              \
        (pthread_testcancel(), tnri_calm_begin())

#endif
