/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The story of a block that has a trap: what is told if somebody runs into the trap. Stacks are
 * numbers of log/stacks.h; 0: not known.
 */
#ifndef TNRI_TRAP_STORY_H
#define TNRI_TRAP_STORY_H

#include <stddef.h>
#include <stdint.h>

#include "memory/arena/arena.h"

typedef struct tnri_story {
    uintptr_t base;
    size_t requested;
    tnr_stream stream; /* the block's own */
    unsigned pool;     /* its number on the device */
    int device;
    uint32_t allocated; /* stack */
    uint32_t freed;     /* stack */
    int is_live;        /* 1: it was never freed */
} tnri_story;

/* What is looked at: all of the bytes, should be `expected`. */
typedef struct tnri_looked {
    uintptr_t address;
    size_t bytes;
    unsigned char expected;
    int is_poison; /* else a canary */
    tnri_story story;
    /* For memory that a thread may get or free meanwhile: 1 if it is still what it was. Asked
     * before the copy, under the stream's lock, and before something is told. Null: the caller has
     * the memory to itself. */
    int (*is_still)(const struct tnri_looked *looked);
    void *owner;    /* for is_still */
    uint64_t token; /* the same */
} tnri_looked;

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

/* The story of a live or retired block, as far as its record has it. Under the arena's lock. */
tnri_story tnri_story_of(const tnri_arena *arena, const tnri_block *block);

/* Tells a finding to the function that listens, or else in the file that the setting names. No lock
 * is held. */
void tnri_finding_tell(const tnri_finding *finding);
/* Writes a line to that file, if no function listens. */
void tnri_trap_say(const char *line);

#endif
