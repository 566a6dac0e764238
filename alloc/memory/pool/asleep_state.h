/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool remembers of its sleep: see memory/pool/asleep.h, which has the functions. */
#ifndef TNRI_POOL_ASLEEP_STATE_H
#define TNRI_POOL_ASLEEP_STATE_H

#include <stdatomic.h>
#include <stdint.h>

#include <tenure/alloc.h>

typedef enum tnri_sleep_state {
    TNRI_AWAKE,
    TNRI_FALLING_ASLEEP, /* a thread is putting it to sleep */
    TNRI_ASLEEP,
    TNRI_WAKING /* a thread is waking it */
} tnri_sleep_state;

typedef struct tnri_asleep {
    _Atomic int state;              /* tnri_sleep_state; changed by whose turn it is to sleep */
    _Atomic uint32_t workers;       /* threads between work_begin and work_end */
    _Atomic uint64_t generation;    /* grows with each wake */
    _Atomic uint64_t sleeps, wakes; /* for statistics */
    int has_other;                  /* 1: a compaction has given it other memory; as `state` */
    void *sleeper;                  /* the upper layer's; the holder of the staging */
} tnri_asleep;

#endif
