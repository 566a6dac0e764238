/* SPDX-License-Identifier: Apache-2.0 */
/* Emptying bins: see bins.h. */
#include "memory/arena/bins.h"

/* The first slot from `slot` on that is not empty, going round. There is one. A block that is
 * handed out again leaves its slot's bit behind; it goes here. One that is merged does not: else
 * each second slot that is looked at would be empty, and nothing could predict which. */
static inline __attribute__((always_inline)) unsigned bins_next(const tnri_bins *bins,
                                                                unsigned slot)
{
    uint64_t *words = bins->words;
    tnri_block **slots = bins->slots;
    unsigned word = slot / 64;
    uint64_t bits = words[word] & ~(uint64_t)0 << slot % 64;
    for (;;) {
        while (bits == 0) {
            word = (word + 1) % (TNRI_BIN_SLOTS / 64);
            bits = words[word];
        }
        slot = word * 64 + (unsigned)__builtin_ctzll(bits);
        if (tnri_likely(slots[slot] != NULL))
            return slot;
        bits &= bits - 1;
        words[word] &= ~((uint64_t)1 << slot % 64);
    }
}

/* BINNED -> FREE for the first block of a slot. */
static void slot_evict(tnri_world *world, unsigned slot)
{
    tnri_bins *bins = &world->bins;
    tnri_block *block = tnri_bin_pop(world, slot);
    uint64_t emptied = bins->slots[slot] == NULL;
    bins->words[slot / 64] &= ~(emptied << slot % 64);
    (void)tnri_run_merge(world, block, TNRI_LIVE);
}

/* Asks for the neighbours of a block that has to go soon, in a slot of the hand's word: it was
 * freed lately, and they may be in no cache. */
static inline __attribute__((always_inline)) void bins_ahead(const tnri_bins *bins)
{
    unsigned word = bins->hand / 64;
    uint64_t bits = bins->words[word] & ~(uint64_t)1 << bins->hand % 64;
    if (bits == 0)
        return;
    const tnri_block *block = bins->slots[word * 64 + (unsigned)__builtin_ctzll(bits)];
    if (block != NULL) {
        __builtin_prefetch(block->above);
        __builtin_prefetch(block->below);
    }
}

void tnri_world_evict(tnri_world *world)
{
    tnri_bins *bins = &world->bins;
    bins->hand = bins_next(bins, (bins->hand + 1) % TNRI_BIN_SLOTS);
    bins_ahead(bins);
    slot_evict(world, bins->hand);
}

int tnri_world_flush(tnri_world *world)
{
    int flushed = world->count_in[TNRI_BINNED] > 0;
    unsigned slot = 0;
    while (world->count_in[TNRI_BINNED] > 0) {
        slot = bins_next(&world->bins, slot);
        slot_evict(world, slot);
    }
    return flushed;
}

TNRI_SELDOM int tnri_world_bin_spent(tnri_world *world, tnri_block *block)
{
    tnri_world_unspend_now(world);
    return tnri_world_bin(world, block);
}
