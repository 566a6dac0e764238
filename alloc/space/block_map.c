/* SPDX-License-Identifier: Apache-2.0 */
/* The block map: see block_map.h. */
#include "space/block_map.h"

#include "base/assert.h"
#include "base/host_memory.h"

int tnri_block_map_create(tnri_block_map *map, uintptr_t base, size_t bytes)
{
    tnri_assert(base % TNRI_GRANULE_BYTES == 0 && bytes % TNRI_GRANULE_BYTES == 0);
    map->base = base;
    map->bytes = bytes;
    map->granules = tnri_host_reserve((bytes >> TNRI_GRANULE_SHIFT) * sizeof(tnri_granule));
    return map->granules != NULL;
}

void tnri_block_map_destroy(tnri_block_map *map)
{
    tnri_host_unreserve(map->granules, (map->bytes >> TNRI_GRANULE_SHIFT) * sizeof(tnri_granule));
    map->granules = NULL;
}

static tnri_granule *granule_of(const tnri_block_map *map, uintptr_t address)
{
    tnri_assert_hot(address - map->base < map->bytes);
    return &map->granules[(address - map->base) >> TNRI_GRANULE_SHIFT];
}

static size_t slot_of(uintptr_t address)
{
    return (address >> TNRI_SLOT_SHIFT) & (TNRI_SLOTS_COUNT - 1);
}

/* 1 if the record is at its place: its entry must not be overwritten by another block. */
static int block_is_entered(const tnri_block *block, uintptr_t granule_base)
{
    return block != NULL && (block->state == TNRI_LIVE || block->state == TNRI_BINNED) &&
           block->base >= granule_base && block->base - granule_base < TNRI_GRANULE_BYTES;
}

int tnri_block_map_prepare(tnri_block_map *map, uintptr_t address, int many)
{
    tnri_granule *granule = granule_of(map, address);
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_relaxed);
    if (start & 1)
        return 1;
    tnri_block *resident = (tnri_block *)start;
    uintptr_t granule_base = address & ~(TNRI_GRANULE_BYTES - 1);
    int occupied = block_is_entered(resident, granule_base) && resident->base != address;
    if (!many && !occupied)
        return 1;
    tnri_slots *slots = tnri_host_alloc(sizeof(*slots));
    if (slots == NULL)
        return 0;
    if (block_is_entered(resident, granule_base))
        atomic_store_explicit(&slots->slot[slot_of(resident->base)], resident,
                              memory_order_relaxed);
    atomic_store_explicit(&granule->start, (uintptr_t)slots + 1, memory_order_release);
    return 1;
}

/* Enters a record in the granule that it begins in. */
static inline tnri_granule *granule_enter(tnri_block_map *map, tnri_block *block)
{
    tnri_granule *granule = granule_of(map, block->base);
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_relaxed);
    if (start & 1) {
        tnri_slots *slots = (tnri_slots *)(start - 1);
        atomic_store_explicit(&slots->slot[slot_of(block->base)], block, memory_order_release);
    } else {
        atomic_store_explicit(&granule->start, (uintptr_t)block, memory_order_release);
    }
    return granule;
}

/* Enters a block in the granules above `granule`, up to its end. */
static inline void granules_cover(tnri_block_map *map, tnri_granule *granule, tnri_block *block)
{
    tnri_granule *last = granule_of(map, tnri_block_end(block) - 1);
    while (granule++ < last)
        atomic_store_explicit(&granule->cover, block, memory_order_release);
}

void tnri_block_map_enter(tnri_block_map *map, tnri_block *block)
{
    granules_cover(map, granule_enter(map, block), block);
}

void tnri_block_map_enter_start(tnri_block_map *map, tnri_block *block)
{
    (void)granule_enter(map, block);
}

void tnri_block_map_extend(tnri_block_map *map, tnri_block *block, uintptr_t from)
{
    tnri_assert(from >= block->base && from < tnri_block_end(block));
    if (from == block->base)
        granules_cover(map, granule_of(map, from), block);
    else
        granules_cover(map, granule_of(map, from - 1), block);
}

void tnri_block_map_wipe(tnri_block_map *map, uintptr_t base, size_t bytes)
{
    tnri_assert(base % TNRI_GRANULE_BYTES == 0 && bytes % TNRI_GRANULE_BYTES == 0);
    tnri_granule *granule = granule_of(map, base);
    for (size_t i = 0; i < bytes / TNRI_GRANULE_BYTES; i++) {
        uintptr_t start = atomic_load_explicit(&granule[i].start, memory_order_relaxed);
        if (start == 0 && atomic_load_explicit(&granule[i].cover, memory_order_relaxed) == NULL)
            continue; /* never touched: reading a reserved table costs no memory, writing does */
        if (start & 1)
            tnri_host_free((tnri_slots *)(start - 1), sizeof(tnri_slots));
        atomic_store_explicit(&granule[i].start, 0, memory_order_release);
        atomic_store_explicit(&granule[i].cover, NULL, memory_order_release);
    }
}

tnri_block *tnri_block_map_near(const tnri_block_map *map, uintptr_t address)
{
    const tnri_granule *granule = granule_of(map, address);
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_acquire);
    if (start != 0 && (start & 1) == 0)
        return (tnri_block *)start;
    if (start & 1) {
        const tnri_slots *slots = (const tnri_slots *)(start - 1);
        for (size_t i = 0; i < TNRI_SLOTS_COUNT; i++) {
            tnri_block *block = atomic_load_explicit(&slots->slot[i], memory_order_acquire);
            if (block != NULL)
                return block;
        }
    }
    return atomic_load_explicit(&granule->cover, memory_order_acquire);
}

/* `block` if it is live and contains the address, else null. */
static tnri_block *block_if_containing(tnri_block *block, uintptr_t address)
{
    if (block != NULL && block->state == TNRI_LIVE && address >= block->base &&
        address - block->base < block->bytes)
        return block;
    return NULL;
}

tnri_block *tnri_block_map_containing(const tnri_block_map *map, uintptr_t address)
{
    const tnri_granule *granule = granule_of(map, address);
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_acquire);
    tnri_block *block = NULL;
    if (start & 1) {
        const tnri_slots *slots = (const tnri_slots *)(start - 1);
        /* Only entries of dead blocks lie between the address and its own block's start. */
        for (size_t i = slot_of(address) + 1; i-- > 0 && block == NULL;)
            block = block_if_containing(atomic_load_explicit(&slots->slot[i], memory_order_acquire),
                                        address);
    } else {
        block = block_if_containing((tnri_block *)start, address);
    }
    if (block != NULL)
        return block;
    return block_if_containing(atomic_load_explicit(&granule->cover, memory_order_acquire),
                               address);
}
