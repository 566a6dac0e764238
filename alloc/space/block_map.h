/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block map: from an address to the block that contains it, in two dependent loads, or three
 * where small blocks are dense.
 *
 * The device's address range is cut into granules of 1 MiB, each with an entry: the block that
 * begins in it; or, where several do (always so in the small world), a table with an entry for each
 * part of 32 KiB, marked by its lowest bit. And it is cut into reaches of 64 MiB, each with
 *
 *   cover   the block that covers the reach's first byte, if it began in an earlier one
 *
 * so that an address inside a block finds it by looking at the granules below, as far down as the
 * reach goes, and then at its cover; a block is entered where it begins, and seldom elsewhere.
 *
 * A part's entry is the block that begins there; or, where several do, a table with a slot for each
 * 512 bytes, marked likewise. So what the map takes in caches and in memory goes with the number of
 * blocks, and not with the bytes that they lie in.
 *
 * Entries are written when a block becomes live at a new place, and never cleared: a reader must
 * check, under the arena's lock, that the record it found is live and contains the address. A
 * stale entry can therefore mislead nobody, and a free writes nothing. Records stay readable as
 * long as their arena lives (space/block.h), and a span that is given back has its entries wiped.
 *
 * Reading takes no lock. Writing is done under the lock of the arena that has the addresses. When
 * they go to another arena (ladder/lend.h), whole granules are cleared first: so what a granule's
 * entries lead to are always records of one arena.
 */
#ifndef TNRI_SPACE_BLOCK_MAP_H
#define TNRI_SPACE_BLOCK_MAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "space/block.h"

enum {
    TNRI_GRANULE_SHIFT = 20,
    TNRI_PART_SHIFT = 15,
    TNRI_SLOT_SHIFT = 9,
    TNRI_REACH_SHIFT = 26,
    TNRI_REACH_GRANULES = 1 << (TNRI_REACH_SHIFT - TNRI_GRANULE_SHIFT),
    TNRI_PARTS_COUNT = 1 << (TNRI_GRANULE_SHIFT - TNRI_PART_SHIFT),
    TNRI_SLOTS_COUNT = 1 << (TNRI_PART_SHIFT - TNRI_SLOT_SHIFT),
    TNRI_BELOW_GRANULES = 4096
};

#define TNRI_GRANULE_BYTES ((size_t)1 << TNRI_GRANULE_SHIFT)

/* An entry: a block, or a table plus 1. Synchronisation: as the map. */
typedef _Atomic(uintptr_t) tnri_map_entry;

/* An entry for each part of a granule. */
typedef struct tnri_parts {
    tnri_map_entry part[TNRI_PARTS_COUNT];
} tnri_parts;

/* A slot for each possible start in a part. */
typedef struct tnri_slots {
    tnri_map_entry slot[TNRI_SLOTS_COUNT]; /* never tables */
} tnri_slots;

typedef struct tnri_granule {
    tnri_map_entry start; /* tnri_block *, or tnri_parts * + 1 */
} tnri_granule;

/* Constant after creation, except what the tables hold. */
typedef struct tnri_block_map {
    uintptr_t base; /* of the device's range, a multiple of a granule */
    size_t bytes;
    tnri_granule *granules;
    _Atomic(tnri_block *) *covers; /* of the reaches, counted from the base */
} tnri_block_map;

/* Makes the map of a range; 0 if there is no host memory. */
int tnri_block_map_create(tnri_block_map *map, uintptr_t base, size_t bytes);
void tnri_block_map_destroy(tnri_block_map *map);

/* The entry for a block that begins at `address`, with the tables that it needs; null if there is
 * no host memory for them. `many`: the world has small blocks. What tnri_block_map_put writes. */
tnri_map_entry *tnri_block_map_entry_make(tnri_block_map *map, uintptr_t address, int many);

/* The same where it has been prepared. */
tnri_map_entry *tnri_block_map_entry(const tnri_block_map *map, uintptr_t address);

/* Makes sure that a block may begin at `address` without needing memory any more. `many`: the
 * world has small blocks, so a table is needed. Returns 0 if there is no host memory for it. */
int tnri_block_map_prepare(tnri_block_map *map, uintptr_t address, int many);

/* Enters a block that is becoming live; tnri_block_map_prepare has succeeded for its base. */
void tnri_block_map_enter(tnri_block_map *map, tnri_block *block);

/* Enters only the start of a record, for a block that has addresses and no memory yet. */
void tnri_block_map_enter_start(tnri_block_map *map, tnri_block *block);

/* Enters a live block, which began before `from` or there, for its bytes from `from` on. */
void tnri_block_map_extend(tnri_block_map *map, tnri_block *block, uintptr_t from);

/* Forgets a range that no block lies in any more. */
void tnri_block_map_wipe(tnri_block_map *map, uintptr_t base, size_t bytes);

/* The same, but the tables stay, and so may be looked at meanwhile: for a range that goes to
 * another arena, under the lock of the one that has it. */
void tnri_block_map_clear(tnri_block_map *map, uintptr_t base, size_t bytes);

static inline tnri_granule *tnri_granule_of(const tnri_block_map *map, uintptr_t address)
{
    return &map->granules[(address - map->base) >> TNRI_GRANULE_SHIFT];
}

static inline size_t tnri_reach_of(const tnri_block_map *map, uintptr_t address)
{
    return (address - map->base) >> TNRI_REACH_SHIFT;
}

/* Enters a block in the reaches above the one of `from`, up to its end: most blocks in none. */
static inline void tnri_block_map_cover(tnri_block_map *map, tnri_block *block, uintptr_t from)
{
    size_t last = tnri_reach_of(map, tnri_block_end(block) - 1);
    for (size_t i = tnri_reach_of(map, from) + 1; tnri_unlikely(i <= last); i++)
        atomic_store_explicit(&map->covers[i], block, memory_order_release);
}

/* Enters a block that is becoming live where tnri_block_map_entry_make said. */
static inline void tnri_block_map_put(tnri_block_map *map, tnri_map_entry *entry, tnri_block *block)
{
    atomic_store_explicit(entry, (uintptr_t)block, memory_order_release);
    tnri_block_map_cover(map, block, block->base);
}

static inline unsigned tnri_map_part(uintptr_t address)
{
    return (unsigned)(address >> TNRI_PART_SHIFT) % TNRI_PARTS_COUNT;
}

static inline unsigned tnri_map_slot(uintptr_t address)
{
    return (unsigned)(address >> TNRI_SLOT_SHIFT) % TNRI_SLOTS_COUNT;
}

/* As tnri_block_map_at, for who knows the granule. */
static inline tnri_block *tnri_granule_at(const tnri_granule *granule, uintptr_t address)
{
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_acquire);
    if ((start & 1) == 0)
        return (tnri_block *)start;
    const tnri_parts *parts = (const tnri_parts *)(start - 1);
    start = atomic_load_explicit(&parts->part[tnri_map_part(address)], memory_order_acquire);
    if ((start & 1) == 0)
        return (tnri_block *)start;
    const tnri_slots *slots = (const tnri_slots *)(start - 1);
    return (tnri_block *)atomic_load_explicit(&slots->slot[tnri_map_slot(address)],
                                              memory_order_acquire);
}

/* The record that became live at `address` if one did since another became live in its granule or
 * part, else that one, or null: the caller checks it under its arena's lock. `address` lies in the
 * map's range. */
static inline tnri_block *tnri_block_map_at(const tnri_block_map *map, uintptr_t address)
{
    return tnri_granule_at(tnri_granule_of(map, address), address);
}

/* Any record that may contain `address`, for finding the arena to lock: null if nothing ever lived
 * there. */
tnri_block *tnri_block_map_near(const tnri_block_map *map, uintptr_t address);

/* The live block of an arena's two worlds that contains `address`, or null. Under the lock of that
 * arena, which tnri_block_map_near led to: the addresses may have gone to another meanwhile. */
tnri_block *tnri_block_map_containing(const tnri_block_map *map, const struct tnri_world *small,
                                      const struct tnri_world *large, uintptr_t address);

/* The live block of a world that begins highest at or below `address`, if one begins in one of the
 * TNRI_BELOW_GRANULES granules up to there; else null. Under the lock of the world's arena. */
tnri_block *tnri_block_map_below(const tnri_block_map *map, const struct tnri_world *world,
                                 uintptr_t address);

#endif
