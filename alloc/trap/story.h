/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The story of a block that has a trap: what is told if somebody runs into the trap. Stacks are
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

/* What was found. `bytes` bytes at `address` should all be `expected`; `wrong` of them are not. The
 * first wrong one is `first` bytes on. */
typedef struct tnri_finding {
    int is_poison; /* else a canary */
    tnri_story story;
    uintptr_t address;
    size_t bytes, wrong, first;
    unsigned char expected;
    unsigned char found[16]; /* from the first wrong one on */
    size_t found_count;
} tnri_finding;

/* Tells a finding to the function that listens, or else in the file that the setting names. No lock
 * is held. */
void tnri_finding_tell(const tnri_finding *finding);

#endif
