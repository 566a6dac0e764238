/* SPDX-License-Identifier: Apache-2.0 */
/* The block map: see block_map.h. */
#include "memory/space/block_map.h"

#include "base/assert.h"
#include "base/host_memory.h"

/* Reaches, the last of which may be cut off. */
static size_t reaches_count(size_t bytes)
{
    return (bytes + ((size_t)1 << TNRI_REACH_SHIFT) - 1) >> TNRI_REACH_SHIFT;
}

/* What both tables of a range take, which are reserved as one. */
static size_t tables_bytes(size_t bytes)
{
    return (bytes >> TNRI_GRANULE_SHIFT) * sizeof(tnri_granule) +
           reaches_count(bytes) * sizeof(tnri_block *);
}

int tnri_block_map_create(tnri_block_map *map, uintptr_t base, size_t bytes)
{
    tnri_assert(base % TNRI_GRANULE_BYTES == 0 && bytes % TNRI_GRANULE_BYTES == 0);
    map->base = base;
    map->bytes = bytes;
    map->granules = tnri_host_reserve(tables_bytes(bytes));
    if (map->granules == NULL)
        return 0;
    map->covers = (void *)(map->granules + (bytes >> TNRI_GRANULE_SHIFT));
    return 1;
}

void tnri_block_map_destroy(tnri_block_map *map)
{
    tnri_host_unreserve(map->granules, tables_bytes(map->bytes));
    map->granules = NULL;
    map->covers = NULL;
}

#define PART_BYTES ((uintptr_t)1 << TNRI_PART_SHIFT)

static tnri_granule *granule_of(const tnri_block_map *map, uintptr_t address)
{
    tnri_assert_hot(address - map->base < map->bytes);
    return tnri_granule_of(map, address);
}

/* What an entry leads to that leads to nothing; never written to. */
static tnri_block nobody;

/* 1 if a block other than one at `address` is at its place in [base, base + bytes), and so must
 * keep its entry. Computed without branches: each part of the answer is unpredictable, and the
 * whole is hardly ever 1. */
static inline int is_taken(const tnri_block *resident, uintptr_t address, uintptr_t base,
                           size_t bytes)
{
    resident = resident != NULL ? resident : &nobody;
    enum { THERE = 1 << TNRI_LIVE | 1 << TNRI_BINNED | 1 << TNRI_PARKED };
    int is_there = THERE >> tnri_block_state_near(resident) & 1;
    return is_there & (resident->base - base < bytes) & (resident->base != address);
}

/* The entry in a part; makes a table of it, if more than one block begins there. */
static tnri_map_entry *part_entry(tnri_map_entry *part, uintptr_t address)
{
    uintptr_t start = atomic_load_explicit(part, memory_order_relaxed);
    if (start & 1)
        return &((tnri_slots *)(start - 1))->slot[tnri_map_slot(address)];
    tnri_block *resident = (tnri_block *)start;
    if (tnri_likely(!is_taken(resident, address, address & ~(PART_BYTES - 1), PART_BYTES)))
        return part;
    tnri_slots *slots = tnri_host_alloc(sizeof(*slots));
    if (slots == NULL)
        return NULL;
    atomic_store_explicit(&slots->slot[tnri_map_slot(resident->base)], (uintptr_t)resident,
                          memory_order_relaxed);
    atomic_store_explicit(part, (uintptr_t)slots + 1, memory_order_release);
    return &slots->slot[tnri_map_slot(address)];
}

tnri_map_entry *tnri_block_map_entry_make(tnri_block_map *map, uintptr_t address, int many)
{
    tnri_granule *granule = granule_of(map, address);
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_relaxed);
    if (tnri_likely(start & 1))
        return part_entry(&((tnri_parts *)(start - 1))->part[tnri_map_part(address)], address);
    tnri_block *resident = (tnri_block *)start;
    uintptr_t base = address & ~(TNRI_GRANULE_BYTES - 1);
    if (!many && !is_taken(resident, address, base, TNRI_GRANULE_BYTES))
        return &granule->start;
    tnri_parts *parts = tnri_host_alloc(sizeof(*parts));
    if (parts == NULL)
        return NULL;
    /* No address is SIZE_MAX: this asks for any block at its place. */
    if (is_taken(resident, SIZE_MAX, base, TNRI_GRANULE_BYTES))
        atomic_store_explicit(&parts->part[tnri_map_part(resident->base)], (uintptr_t)resident,
                              memory_order_relaxed);
    /* The granule's table stays if the part's lacks memory: it says the same as the entry did. */
    atomic_store_explicit(&granule->start, (uintptr_t)parts + 1, memory_order_release);
    return part_entry(&parts->part[tnri_map_part(address)], address);
}

int tnri_block_map_prepare(tnri_block_map *map, uintptr_t address, int many)
{
    return tnri_block_map_entry_make(map, address, many) != NULL;
}

tnri_map_entry *tnri_block_map_entry(const tnri_block_map *map, uintptr_t address)
{
    tnri_map_entry *entry = &granule_of(map, address)->start;
    uintptr_t start = atomic_load_explicit(entry, memory_order_relaxed);
    if ((start & 1) == 0)
        return entry;
    entry = &((tnri_parts *)(start - 1))->part[tnri_map_part(address)];
    start = atomic_load_explicit(entry, memory_order_relaxed);
    return start & 1 ? &((tnri_slots *)(start - 1))->slot[tnri_map_slot(address)] : entry;
}

void tnri_block_map_enter_start(tnri_block_map *map, tnri_block *block)
{
    atomic_store_explicit(tnri_block_map_entry(map, block->base), (uintptr_t)block,
                          memory_order_release);
}

void tnri_block_map_extend(tnri_block_map *map, tnri_block *block, uintptr_t from)
{
    tnri_assert(from >= block->base && from < tnri_block_end(block));
    tnri_block_map_cover(map, block, from == block->base ? from : from - 1);
}

/* Forgets the covers of the reaches whose first byte lies in the range. */
static void covers_clear(tnri_block_map *map, uintptr_t base, size_t bytes)
{
    size_t end = reaches_count(base - map->base + bytes);
    for (size_t i = reaches_count(base - map->base); i < end; i++)
        if (atomic_load_explicit(&map->covers[i], memory_order_relaxed) != NULL)
            atomic_store_explicit(&map->covers[i], NULL, memory_order_release);
}

static void parts_free(tnri_parts *parts)
{
    for (size_t i = 0; i < TNRI_PARTS_COUNT; i++) {
        uintptr_t start = atomic_load_explicit(&parts->part[i], memory_order_relaxed);
        if (start & 1)
            tnri_host_free((tnri_slots *)(start - 1), sizeof(tnri_slots));
    }
    tnri_host_free(parts, sizeof(*parts));
}

static void parts_clear(tnri_parts *parts)
{
    for (size_t i = 0; i < TNRI_PARTS_COUNT; i++) {
        uintptr_t start = atomic_load_explicit(&parts->part[i], memory_order_relaxed);
        if ((start & 1) == 0) {
            atomic_store_explicit(&parts->part[i], 0, memory_order_release);
            continue;
        }
        tnri_slots *slots = (tnri_slots *)(start - 1);
        for (size_t s = 0; s < TNRI_SLOTS_COUNT; s++)
            atomic_store_explicit(&slots->slot[s], 0, memory_order_release);
    }
}

void tnri_block_map_wipe(tnri_block_map *map, uintptr_t base, size_t bytes)
{
    tnri_assert(base % TNRI_GRANULE_BYTES == 0 && bytes % TNRI_GRANULE_BYTES == 0);
    tnri_granule *granule = granule_of(map, base);
    for (size_t i = 0; i < bytes / TNRI_GRANULE_BYTES; i++) {
        uintptr_t start = atomic_load_explicit(&granule[i].start, memory_order_relaxed);
        if (start == 0)
            continue; /* never touched: reading a reserved table costs no memory, writing does */
        atomic_store_explicit(&granule[i].start, 0, memory_order_release);
        if (start & 1)
            parts_free((tnri_parts *)(start - 1));
    }
    covers_clear(map, base, bytes);
}

void tnri_block_map_clear(tnri_block_map *map, uintptr_t base, size_t bytes)
{
    tnri_assert(base % TNRI_GRANULE_BYTES == 0 && bytes % TNRI_GRANULE_BYTES == 0);
    tnri_granule *granule = granule_of(map, base);
    for (size_t i = 0; i < bytes / TNRI_GRANULE_BYTES; i++) {
        uintptr_t start = atomic_load_explicit(&granule[i].start, memory_order_relaxed);
        if (start & 1)
            parts_clear((tnri_parts *)(start - 1));
        else if (start != 0)
            atomic_store_explicit(&granule[i].start, 0, memory_order_release);
    }
    covers_clear(map, base, bytes);
}

/* Any record that a part leads to; null if none. */
static tnri_block *part_any(const tnri_map_entry *part)
{
    uintptr_t start = atomic_load_explicit(part, memory_order_acquire);
    if ((start & 1) == 0)
        return (tnri_block *)start;
    const tnri_slots *slots = (const tnri_slots *)(start - 1);
    tnri_block *block = NULL;
    for (size_t i = 0; i < TNRI_SLOTS_COUNT && block == NULL; i++)
        block = (tnri_block *)atomic_load_explicit(&slots->slot[i], memory_order_acquire);
    return block;
}

/* Any record that a granule leads to; null if none. */
static tnri_block *granule_any(const tnri_granule *granule)
{
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_acquire);
    if ((start & 1) == 0)
        return (tnri_block *)start;
    const tnri_parts *parts = (const tnri_parts *)(start - 1);
    tnri_block *block = NULL;
    for (size_t i = 0; i < TNRI_PARTS_COUNT && block == NULL; i++)
        block = part_any(&parts->part[i]);
    return block;
}

/* A live block that contains the address began in a granule that is looked at, or covers the
 * reach. What is found in between was once part of the same block or of its arena's memory, so it
 * leads to the same arena. */
tnri_block *tnri_block_map_near(const tnri_block_map *map, uintptr_t address)
{
    size_t reach = tnri_reach_of(map, address);
    const tnri_granule *first = &map->granules[reach * TNRI_REACH_GRANULES];
    for (const tnri_granule *granule = granule_of(map, address); granule >= first; granule--) {
        tnri_block *block = granule_any(granule);
        if (block != NULL)
            return block;
    }
    return atomic_load_explicit(&map->covers[reach], memory_order_acquire);
}

/* What is looked for: the live block of two worlds that begins highest, and not above an address.
 * That one contains the address, or none does. */
typedef struct search {
    const struct tnri_world *small, *large;
    uintptr_t address;
} search;

/* The entry's block if it is one of them and begins at `place` or above: one that begins elsewhere
 * has an entry there. */
static tnri_block *block_if_live(uintptr_t entry, const search *what, uintptr_t place)
{
    tnri_block *block = (tnri_block *)entry;
    if (block != NULL && (block->world == what->large || block->world == what->small) &&
        (block->state == TNRI_LIVE || block->state == TNRI_PARKED) && block->base >= place &&
        block->base <= what->address)
        return block;
    return NULL;
}

/* The highest of them in a part, whose first address is `place`. */
static tnri_block *part_search(const tnri_map_entry *part, const search *what, uintptr_t place)
{
    uintptr_t start = atomic_load_explicit(part, memory_order_acquire);
    if ((start & 1) == 0)
        return block_if_live(start, what, place);
    const tnri_slots *slots = (const tnri_slots *)(start - 1);
    size_t offset = what->address - place;
    size_t last = offset < PART_BYTES ? offset >> TNRI_SLOT_SHIFT : TNRI_SLOTS_COUNT - 1;
    tnri_block *block = NULL;
    for (size_t i = last + 1; i-- > 0 && block == NULL;)
        block =
            block_if_live((uintptr_t)atomic_load_explicit(&slots->slot[i], memory_order_acquire),
                          what, place + (i << TNRI_SLOT_SHIFT));
    return block;
}

/* The same of a granule. */
static tnri_block *granule_search(const tnri_granule *granule, const search *what, uintptr_t place)
{
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_acquire);
    if ((start & 1) == 0)
        return block_if_live(start, what, place);
    const tnri_parts *parts = (const tnri_parts *)(start - 1);
    size_t offset = what->address - place;
    size_t last = offset < TNRI_GRANULE_BYTES ? offset >> TNRI_PART_SHIFT : TNRI_PARTS_COUNT - 1;
    tnri_block *block = NULL;
    for (size_t i = last + 1; i-- > 0 && block == NULL;)
        block = part_search(&parts->part[i], what, place + (i << TNRI_PART_SHIFT));
    return block;
}

/* The highest of them that begins in the granules from number `first` up to the address's. */
static tnri_block *granules_search(const tnri_block_map *map, const search *what, size_t first)
{
    size_t granule = (what->address - map->base) >> TNRI_GRANULE_SHIFT;
    tnri_block *block = NULL;
    for (size_t i = granule + 1; i-- > first && block == NULL;)
        block = granule_search(&map->granules[i], what, map->base + (i << TNRI_GRANULE_SHIFT));
    return block;
}

tnri_block *tnri_block_map_below(const tnri_block_map *map, const struct tnri_world *world,
                                 uintptr_t floor, uintptr_t address)
{
    const search what = {world, world, address};
    size_t granule = (address - map->base) >> TNRI_GRANULE_SHIFT;
    size_t first = (floor - map->base) >> TNRI_GRANULE_SHIFT;
    tnri_assert(floor % TNRI_GRANULE_BYTES == 0);
    if (granule - first >= TNRI_BELOW_GRANULES && floor <= address)
        first = granule - TNRI_BELOW_GRANULES + 1;
    return granules_search(map, &what, first);
}

tnri_block *tnri_block_map_containing(const tnri_block_map *map, const struct tnri_world *small,
                                      const struct tnri_world *large, uintptr_t address)
{
    const search what = {small, large, address};
    size_t reach = tnri_reach_of(map, address);
    tnri_block *block = granules_search(map, &what, reach * TNRI_REACH_GRANULES);
    if (block == NULL)
        block = block_if_live(
            (uintptr_t)atomic_load_explicit(&map->covers[reach], memory_order_acquire), &what, 0);
    return block != NULL && address - block->base < block->bytes ? block : NULL;
}
