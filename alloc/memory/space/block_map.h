/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block map: from an address to the block that contains it, in two dependent loads, or three
 * where small blocks are dense.
 *
 * The device's address range is cut into granules of 1 MiB. Each granule has an entry: the block
 * that begins in it. If several blocks do (always so in the small world), the entry is a table
 * instead, with an entry for each part of 32 KiB; the entry's lowest bit marks this. The range is
 * also cut into reaches of 64 MiB, each with
 *
 *   cover   the block that covers the reach's first byte, if it began in an earlier one
 *
 * To find a block from an address inside it, a reader looks at the granules below, down to the
 * start of the reach, and then at the reach's cover. So a block is entered where it begins, and
 * seldom elsewhere.
 *
 * A part's entry is the block that begins there. If several do, the entry is a table with a slot
 * for each 512 bytes, marked likewise. So the map's share of caches and memory grows with the
 * number of blocks, and not with the bytes that they lie in.
 *
 * An entry is written when a block becomes live at a new place, and never cleared. So a reader must
 * check, under the arena's lock, that the record it found is live and contains the address. Then a
 * stale entry misleads no thread, and a free writes nothing. Records stay readable as long as the
 * map leads to them (memory/space/block.h). When a span is given back, its entries are wiped. So a
 * search that may meet entries of others, or begins where nothing need be live, keeps spans from
 * going meanwhile, by tnri_device_look_begin (memory/arena/find.h). Two do without: the look at the
 * start of a block that the caller says is live, and a search in addresses that the world has.
 *
 * Reading takes no lock. A writer holds the lock of the arena that has the addresses. Before the
 * addresses go to another arena (miss/lend.h), whole granules are cleared. So a granule's entries
 * always lead to records of one arena.
 */
#ifndef TNRI_SPACE_BLOCK_MAP_H
#define TNRI_SPACE_BLOCK_MAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "memory/space/block.h"

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
 * no host memory for them. `many`: the world has small blocks. tnri_block_map_put writes this
 * entry. */
tnri_map_entry *tnri_block_map_entry_make(tnri_block_map *map, uintptr_t address, int many);

/* The same for an address that has been prepared. */
tnri_map_entry *tnri_block_map_entry(const tnri_block_map *map, uintptr_t address);

/* Makes sure that a block can later begin at `address` without needing host memory. `many`: the
 * world has small blocks, so a table is needed. Returns 0 if there is no host memory for it. */
int tnri_block_map_prepare(tnri_block_map *map, uintptr_t address, int many);

/* Enters only the start of a record, for a block that has addresses and no memory yet. */
void tnri_block_map_enter_start(tnri_block_map *map, tnri_block *block);

/* Enters a live block for its bytes from `from` on; it begins at or before `from`. */
void tnri_block_map_extend(tnri_block_map *map, tnri_block *block, uintptr_t from);

/* Forgets a range that no block lies in any more. */
void tnri_block_map_wipe(tnri_block_map *map, uintptr_t base, size_t bytes);

/* The same, but the tables stay, so others may look at them meanwhile. For a range that goes to
 * another arena; under the lock of the arena that has it. */
void tnri_block_map_clear(tnri_block_map *map, uintptr_t base, size_t bytes);

static inline tnri_granule *tnri_granule_of(const tnri_block_map *map, uintptr_t address)
{
    return &map->granules[(address - map->base) >> TNRI_GRANULE_SHIFT];
}

static inline size_t tnri_reach_of(const tnri_block_map *map, uintptr_t address)
{
    return (address - map->base) >> TNRI_REACH_SHIFT;
}

/* Enters a block in the reaches above the one of `from`, up to the block's end. Most blocks are
 * entered in none. */
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

/* As tnri_block_map_at, for a caller that knows the granule. */
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

/* The record that became live at `address`. If another one became live in the same granule or part
 * since, or none did at `address`, returns that other one, or null. The caller checks the record
 * under its arena's lock. `address` lies in the map's range. */
static inline tnri_block *tnri_block_map_at(const tnri_block_map *map, uintptr_t address)
{
    return tnri_granule_at(tnri_granule_of(map, address), address);
}

/* Any record that may contain `address`, to find the arena to lock; null if nothing ever lived
 * there. */
tnri_block *tnri_block_map_near(const tnri_block_map *map, uintptr_t address);

/* The live block of an arena's two worlds that contains `address`, or null. Under the lock of that
 * arena. tnri_block_map_near led to it, and the addresses may have gone to another arena since. */
tnri_block *tnri_block_map_containing(const tnri_block_map *map, const struct tnri_world *small,
                                      const struct tnri_world *large, uintptr_t address);

/* Of the live blocks of a world that begin in [floor, address], the one that begins highest. Null
 * if none begins in the TNRI_BELOW_GRANULES granules up to there. `floor` is the start of a
 * granule, and the world has all addresses from there to `address`: records of others may be gone.
 * Under the lock of the world's arena. */
tnri_block *tnri_block_map_below(const tnri_block_map *map, const struct tnri_world *world,
                                 uintptr_t floor, uintptr_t address);

#endif
