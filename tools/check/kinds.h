/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of findings: for the checker, and for the command that reads what it found.
 */
#ifndef TENURE_PRELOAD_CHECK_KINDS_H
#define TENURE_PRELOAD_CHECK_KINDS_H

/* Kind, its name for machines, what it says. */
#define CHECK_KINDS(X)                                                                             \
    X(USE_AFTER_FREE, "use_after_free", "memory is used after it was freed")                       \
    X(FREE_IN_USE, "free_in_use", "memory is freed while work that nothing orders uses it")        \
    X(USE_BEFORE_ALLOC, "use_before_allocation",                                                   \
      "memory is used by work that is not ordered after its allocation")                           \
    X(REUSE_WITHOUT_ORDER, "reuse_without_order",                                                  \
      "memory that was another block is used by work that is not ordered after its allocation")    \
    X(OUT_OF_BOUNDS, "out_of_bounds", "memory past the end of a block is used")                    \
    X(DOUBLE_FREE, "double_free", "memory is freed twice")                                         \
    X(RACE, "race", "two operations that nothing orders use the same memory, and one writes it")   \
    X(HOST_TOUCH, "host_touch", "the host touches pinned memory during a copy")                    \
    X(WRONG_FREE, "wrong_free", "an address is freed that is not the beginning of a block")

typedef enum check_kind {
#define CHECK_KIND_ENUMERATOR(name, key, text) CHECK_##name,
    CHECK_KINDS(CHECK_KIND_ENUMERATOR)
#undef CHECK_KIND_ENUMERATOR
        CHECK_KINDS_COUNT
} check_kind;

#endif
