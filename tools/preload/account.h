/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of the whole process, with `tenure run --account`: what the device's driver says is
 * used, and what of that Tenure does not have, by what it is: contexts, code, graphs, streams,
 * memory that the program maps by hand, and what the driver's own allocator gave.
 *
 * Each is measured around the calls that make it, and by nothing else: how much less memory the
 * device has free after the call, without what Tenure has taken meanwhile. What no such call took
 * is in no row, so it is seen as unexplained. A row names the library that made the call.
 *
 * Calls of several threads may overlap. The time with at least one of them under way is cut where
 * one ends, and a piece counts for the one that ends it. So nothing counts twice.
 *
 * Free memory is read from NVML, which needs no context. Where there is none, contexts cannot be
 * measured, and the rest is read from the driver.
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

/* Around a call; `device` below 0: that of the current context. Only where it is on. */
account_mark account_begin(account_kind kind, int device);
void account_end(account_mark mark);

/* 1 if this was not done with the handle before. */
int account_is_first(const void *handle, unsigned what);
/* What is done with the handle is the first time again, with any if it is null: it has ended, or is
 * another thing now. */
void account_handle_ends(const void *handle);

/* For tnr_outside_set. */
int account_tell(tnr_outside *outside, int device, void *user);

/* Does something, measured where the account is on. */
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

/* The same the first time that it is done with a handle: what is done again takes nothing more. */
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
