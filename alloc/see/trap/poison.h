/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stains: which free memory is filled with poison, by address.
 *
 * A stain lies in one page. It is void once that page's chunk has been mapped elsewhere, or its
 * memory given back; to see that, compare the chunk's latest placement. Code that hands memory out,
 * and code that frees memory, first takes out the stains in it, so that none lies in memory that
 * somebody may write to. So a stain that is found says what the memory must still be.
 *
 * There are at most POISON_STAINS stains; beyond that a new one takes the place of another.
 */
#ifndef TNRI_TRAP_POISON_H
#define TNRI_TRAP_POISON_H

#include "memory/arena/arena.h"
#include "see/trap/story.h"

enum { TNRI_POISON = 0xff, TNRI_POISON_TAKES = 8 };

typedef struct tnri_stain {
    uintptr_t base, end;
    uint64_t placed; /* of the chunk that it is in: see memory/device/chunk.h */
    uint64_t number; /* of the stain, from 1; its parts have it, too */
    int is_filled;   /* 0: it is to be, once the device is through with the block */
    tnri_story story;
} tnri_stain;

/* The chunk's placement at an address of an arena; 0: none. Under its lock. */
uint64_t tnri_poison_placed(const tnri_arena *arena, uintptr_t address);

/* Takes out all stains, and parts of stains, that lie in [base, end). Stores at most
 * TNRI_POISON_TAKES of them in `taken`, which may be null. Returns how many it stored. */
size_t tnri_poison_take(uintptr_t base, uintptr_t end, tnri_stain *taken);
/* Enters a stain where there is none, and numbers it. */
void tnri_poison_add(const tnri_stain *stain);
/* Finds the first stain at or above an address and below `end` that is not filled yet, marks it as
 * filled, and copies it. 0: there is none. */
int tnri_poison_fill_next(uintptr_t base, uintptr_t end, tnri_stain *stain);
/* Copies at most `room` stains, and parts of stains, that are filled and lie in [base, end); they
 * stay. Returns how many. */
size_t tnri_poison_list(uintptr_t base, uintptr_t end, tnri_stain *stains, size_t room);
/* 1 if all of [base, end) is still of the stain of that number, whose chunk is placed so. */
int tnri_poison_is_there(uintptr_t base, uintptr_t end, uint64_t placed, uint64_t number);
/* Forgets all in [base, end). */
void tnri_poison_forget(uintptr_t base, uintptr_t end);

#endif
