/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of the whole process, with `tenure run --account`. It says what the device's driver
 * reports as used, and how much of that is not Tenure's. It splits that part by what it is:
 * contexts, code, graphs, streams, memory that the program maps by hand, and what the driver's own
 * allocator gave.
 *
 * Each part is measured only around the calls that make it: how much less memory the device has
 * free after the call, without what Tenure has taken meanwhile. Memory that no such call took is in
 * no row, so it shows as unexplained. A row names the library that made the call.
 *
 * Calls of several threads may overlap. The time in which at least one call is under way is cut
 * whenever a call ends. Each piece counts for the call that ends it. So nothing counts twice.
 *
 * Free memory is read from NVML, which needs no context. Without NVML, contexts cannot be measured,
 * and the rest is read from the driver.
 */
#ifndef TENURE_PRELOAD_ACCOUNT_H
#define TENURE_PRELOAD_ACCOUNT_H

#include <stdatomic.h>
#include <stdint.h>

#include <tenure/control.h>

#include "driver.h"

typedef enum account_kind {
    ACCOUNT_CONTEXT,
    ACCOUNT_MODULES, /* code, and what its first launch takes */
    ACCOUNT_GRAPHS,
    ACCOUNT_STREAMS,
    ACCOUNT_MAPPED, /* cuMemCreate */
    ACCOUNT_DRIVER, /* the driver's own allocator, and arrays */
    ACCOUNT_KINDS
} account_kind;

/* What is done with a handle, each measured the first time. */
enum { ACCOUNT_LAUNCHED, ACCOUNT_ASKED };

/* A call that is being measured. */
typedef struct account_mark {
    int device; /* -1: it is not measured */
    account_kind kind;
} account_mark;

extern _Atomic int account_state; /* -1: not known yet; 1 on */
int account_begin_state(void);

static inline int account_is_on(void)
{
    int state = atomic_load_explicit(&account_state, memory_order_relaxed);
    return __builtin_expect(state != 0, 0) && (state > 0 || account_begin_state());
}

/* Put these around a call. `device` below 0: the device of the current context. Only if the account
 * is on. */
account_mark account_begin(account_kind kind, int device);
void account_end(account_mark mark);

/* 1 if `what` was not done with the handle before. */
int account_is_first(const void *handle, unsigned what);
/* The handle has ended, or stands for another thing now: whatever is done with it next counts as
 * the first time again. Null: so it does for all handles. */
void account_handle_ends(const void *handle);

/* For tnr_outside_set. */
int account_tell(tnr_outside *outside, int device, void *user);

/* Does something, and measures it if the account is on. */
#define ACCOUNTED_ON(kind, device, something)                                                      \
    do {                                                                                           \
        if (!account_is_on()) {                                                                    \
            something;                                                                             \
        } else {                                                                                   \
            account_mark account_mark_here = account_begin((kind), (device));                      \
            something;                                                                             \
            account_end(account_mark_here);                                                        \
        }                                                                                          \
    } while (0)
#define ACCOUNTED(kind, something) ACCOUNTED_ON(kind, -1, something)

/* The same, but measures only the first time that it is done with a handle: a repetition takes no
 * more memory. */
#define ACCOUNTED_FIRST(kind, handle, what, something)                                             \
    do {                                                                                           \
        if (!account_is_on() || !account_is_first((const void *)(handle), (what))) {               \
            something;                                                                             \
        } else {                                                                                   \
            account_mark account_mark_here = account_begin((kind), -1);                            \
            something;                                                                             \
            account_end(account_mark_here);                                                        \
        }                                                                                          \
    } while (0)

#endif
