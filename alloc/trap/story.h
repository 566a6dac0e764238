/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The story of a block that a trap was set in: what is told if somebody runs into it. Stacks are
 * numbers of history/stacks.h; 0: not known.
 */
#ifndef TNRI_TRAP_STORY_H
#define TNRI_TRAP_STORY_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/alloc.h>

typedef struct tnri_story {
    uintptr_t base;
    size_t requested;
    tnr_stream stream; /* the block's own */
    unsigned pool;     /* its number on the device */
    int device;
    uint32_t allocated; /* stack */
    uint32_t freed;     /* stack */
} tnri_story;

/* What was found: of `bytes` bytes at `address` that should all be `expected`, `wrong` are not; the
 * first of them is `first` bytes on. */
typedef struct tnri_finding {
    int is_poison; /* else a canary */
    tnri_story story;
    uintptr_t address;
    size_t bytes, wrong, first;
    unsigned char expected;
    unsigned char found[16]; /* from the first wrong one on */
    size_t found_count;
} tnri_finding;

/* Tells it: to the function that listens, or else in the file that the setting names. No lock is
 * held. */
void tnri_finding_tell(const tnri_finding *finding);

#endif
