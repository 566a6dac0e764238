/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found: said once for each pair of places, counted when it repeats, summed up at the end.
 * Between check_enter and check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_FINDINGS_H
#define TENURE_PRELOAD_CHECK_FINDINGS_H

#include "check/blocks.h"

/* Kind, its name for machines, what it says. */
#define CHECK_KINDS(X)                                                                             \
    X(USE_AFTER_FREE, "use_after_free", "memory is used after it was freed")                       \
    X(FREE_IN_USE, "free_in_use", "memory is freed while work that nothing orders uses it")        \
    X(USE_BEFORE_ALLOC, "use_before_allocation",                                                   \
      "memory is used by work that is not ordered after its allocation")                           \
    X(REUSE_WITHOUT_ORDER, "reuse_without_order",                                                  \
      "memory that was another block is used by work that is not ordered after its allocation")    \
    X(DOUBLE_FREE, "double_free", "memory is freed twice")                                         \
    X(WRONG_FREE, "wrong_free", "an address is freed that is not the beginning of a block")

typedef enum check_kind {
#define CHECK_KIND_ENUMERATOR(name, key, text) CHECK_##name,
    CHECK_KINDS(CHECK_KIND_ENUMERATOR)
#undef CHECK_KIND_ENUMERATOR
        CHECK_KINDS_COUNT
} check_kind;

typedef struct check_finding {
    check_kind kind;
    int is_certain;
    const check_block *block;
    CUdeviceptr address;        /* that was used or freed */
    const check_touch *earlier; /* null: none */
    const char *earlier_is;     /* "used", "freed", "allocated" */
    const check_touch *later;
    const char *later_is;
} check_finding;

void check_found(const check_finding *finding);

/* Says what was found since, with the names of functions, for which the loader is asked: so without
 * the lock, and outside of Tenure. */
void check_findings_say(void);

/* A launch that was seen; and one whose parameters could not be read, or not all. */
void check_count_launch(int is_read);

/* The driver does not tell what parameters a kernel has. Said once. */
void check_cannot_read(void);

#endif
