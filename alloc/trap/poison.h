/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stains: which free memory is filled with poison, by address.
 *
 * A stain lies in one page, and is void once that page's chunk has been mapped elsewhere, or its
 * memory given back: who looks compares the chunk's latest placement. Whoever gets memory, and
 * whoever frees some, takes its stains out first, so that none lies in memory that somebody may
 * write to. So a stain that is found says what the memory must still be.
 *
 * There are at most POISON_STAINS; then a new one takes the place of another.
 */
#ifndef TNRI_TRAP_POISON_H
#define TNRI_TRAP_POISON_H

#include "arena/arena.h"
#include "trap/story.h"

enum { TNRI_POISON = 0xff, TNRI_POISON_TAKES = 8 };

typedef struct tnri_stain {
    uintptr_t base, end;
    uint64_t placed; /* of the chunk that it is in: see device/chunk.h */
    int is_filled;   /* 0: it is to be, once the device is through with the block */
    tnri_story story;
} tnri_stain;

/* The chunk's placement at an address of an arena; 0: none. Under its lock. */
uint64_t tnri_poison_placed(const tnri_arena *arena, uintptr_t address);

/* Takes out all stains that lie in [base, end), and what of them lies there; at most
 * TNRI_POISON_TAKES are said in `taken`, which may be null. Returns how many. */
size_t tnri_poison_take(uintptr_t base, uintptr_t end, tnri_stain *taken);
/* Enters one, where none is. */
void tnri_poison_add(const tnri_stain *stain);
/* The stain at or above an address and below `end` that is not filled yet: says that it is, and
 * what it is. 0: there is none. */
int tnri_poison_fill_next(uintptr_t base, uintptr_t end, tnri_stain *stain);
/* Forgets all in [base, end). */
void tnri_poison_forget(uintptr_t base, uintptr_t end);

#endif
