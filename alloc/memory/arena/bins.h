/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bins of a world: freed blocks that are kept as they are, by exact size. What they are is at
 * tnri_bins. Inline, for the cached path. Under the arena's lock.
 */
#ifndef TNRI_ARENA_BINS_H
#define TNRI_ARENA_BINS_H

#include "memory/arena/run.h"

/* BINNED -> FREE for all. Returns 1 if there were any. */
int tnri_world_flush(tnri_world *world);

/* Makes room in full bins: BINNED -> FREE for one. */
void tnri_world_evict(tnri_world *world);

/* tnri_world_bin in a world that is spent. */
int tnri_world_bin_spent(tnri_world *world, tnri_block *block);

static inline unsigned tnri_bin_slot(size_t bytes)
{
    size_t units = bytes / TNR_ALIGNMENT_DEFAULT;
    return (unsigned)(units ^ units >> 10) % TNRI_BIN_SLOTS;
}

/* BINNED -> LIVE for the first block of a slot. */
static inline tnri_block *tnri_bin_pop(tnri_world *world, unsigned slot)
{
    tnri_block *block = world->bins.slots[slot];
    tnri_assert_hot(block->state == TNRI_BINNED && block->uses == NULL);
    world->bins.slots[slot] = block->next;
    block->what = tnri_block_what(TNRI_LIVE, 0);
    world->bytes_in[TNRI_BINNED] -= block->bytes;
    world->count_in[TNRI_BINNED]--;
    return block;
}

/* Puts a block into a slot, which is empty or has blocks of its size. */
static inline void tnri_bin_push(tnri_world *world, tnri_block *block, unsigned slot)
{
    tnri_bins *bins = &world->bins;
    block->what = tnri_block_what(TNRI_BINNED, 0);
    block->next = bins->slots[slot];
    bins->slots[slot] = block;
    bins->words[slot / 64] |= (uint64_t)1 << slot % 64;
    world->bytes_in[TNRI_BINNED] += block->bytes;
    world->count_in[TNRI_BINNED]++;
}

/* 1 if the slot may take a block of the size. */
static inline int tnri_bin_fits(const tnri_bins *bins, unsigned slot, size_t bytes)
{
    const tnri_block *head = bins->slots[slot];
    return head == NULL || head->bytes == bytes;
}

/* LIVE, without uses, -> BINNED if the bins may hold it; else 0 and nothing changed. */
static inline int tnri_world_bin(tnri_world *world, tnri_block *block)
{
    tnri_bins *bins = &world->bins;
    tnri_assert_hot(block->state == TNRI_LIVE && block->uses == NULL);
    unsigned slot = tnri_bin_slot(block->bytes);
    if (bins->misses >= TNRI_BIN_MISSES) {
        bins->passed_bytes = block->bytes;
        return 0;
    }
    if (!tnri_bin_fits(bins, slot, block->bytes))
        return 0;
    int is_full = world->count_in[TNRI_BINNED] >= bins->max;
    if (is_full) {
        if (bins->max == 0)
            return world->is_spent ? tnri_world_bin_spent(world, block) : 0;
        bins->misses += !world->is_small;
        tnri_world_evict(world);
    }
    tnri_bin_push(world, block, slot);
    if (is_full)
        tnri_world_look_trough(world); /* now that the block is no longer live */
    return 1;
}

/* tnri_world_bin, but 0 if more than a push must be done. */
static inline int tnri_world_bin_quick(tnri_world *world, tnri_block *block)
{
    tnri_bins *bins = &world->bins;
    tnri_assert_hot(block->state == TNRI_LIVE && block->uses == NULL);
    unsigned slot = tnri_bin_slot(block->bytes);
    if (tnri_unlikely(bins->misses >= TNRI_BIN_MISSES ||
                      world->count_in[TNRI_BINNED] >= bins->max ||
                      !tnri_bin_fits(bins, slot, block->bytes)))
        return 0;
    tnri_bin_push(world, block, slot);
    return 1;
}

/* LIVE, counted as freed and without uses, -> BINNED, or FREE and merged. */
static inline __attribute__((always_inline)) void tnri_world_free_counted(tnri_world *world,
                                                                          tnri_block *block)
{
    if (!tnri_world_bin(world, block)) {
        block->what = tnri_block_what(TNRI_LIVE, 0);
        (void)tnri_run_merge(world, block, TNRI_LIVE);
        tnri_world_look_trough(world);
    }
}

/* BINNED -> LIVE: a block of exactly `bytes`, or null. */
static inline tnri_block *tnri_world_unbin(tnri_world *world, size_t bytes)
{
    unsigned slot = tnri_bin_slot(bytes);
    const tnri_block *head = world->bins.slots[slot];
    if (head == NULL || head->bytes != bytes)
        return NULL;
    world->bins.misses = 0;
    return tnri_bin_pop(world, slot);
}

#endif
