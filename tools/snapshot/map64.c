/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of numbers: see map64.h.
 */
#include "map64.h"

#include <stdlib.h>
#include <string.h>

typedef struct map64_entry {
    uint64_t key;
    uint32_t number; /* MAP64_ABSENT: the place is empty */
} map64_entry;

void map64_start(map64 *map, budget *limits)
{
    memset(map, 0, sizeof(*map));
    map->limits = limits;
}

void map64_release(map64 *map)
{
    array counted = {map->entries, map->capacity, map->capacity};
    array_release(&counted, map->limits, sizeof(map64_entry));
    map64_start(map, map->limits);
}

static size_t home(const map64 *map, uint64_t key)
{
    key ^= key >> 32;
    key *= UINT64_C(0xd6e8feb86659fd93);
    key ^= key >> 32;
    return (size_t)key & (map->capacity - 1);
}

/* The place of the key, or the empty place where it belongs. */
static size_t find(const map64 *map, uint64_t key)
{
    size_t at = home(map, key);
    while (map->entries[at].number != MAP64_ABSENT && map->entries[at].key != key)
        at = (at + 1) & (map->capacity - 1);
    return at;
}

uint32_t map64_get(const map64 *map, uint64_t key)
{
    return map->capacity == 0 ? MAP64_ABSENT : map->entries[find(map, key)].number;
}

static int grow(map64 *map)
{
    map64 wider = {map->limits, NULL, map->capacity ? map->capacity * 2 : 64, map->count};
    array fresh = {NULL, 0, 0};
    if (array_reserve(&fresh, map->limits, sizeof(map64_entry), wider.capacity) != 0)
        return -1;
    wider.entries = fresh.items;
    for (size_t i = 0; i < wider.capacity; i++)
        wider.entries[i].number = MAP64_ABSENT;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->entries[i].number != MAP64_ABSENT)
            wider.entries[find(&wider, map->entries[i].key)] = map->entries[i];
    map64_release(map);
    *map = wider;
    return 0;
}

int map64_put(map64 *map, uint64_t key, uint32_t number)
{
    if ((map->count + 1) * 3 > map->capacity * 2 && grow(map) != 0)
        return -1;
    map64_entry *entry = &map->entries[find(map, key)];
    if (entry->number == MAP64_ABSENT)
        map->count++;
    entry->key = key;
    entry->number = number;
    return 0;
}

void map64_remove(map64 *map, uint64_t key)
{
    if (map->capacity == 0)
        return;
    size_t mask = map->capacity - 1, hole = find(map, key);
    if (map->entries[hole].number == MAP64_ABSENT)
        return;
    map->count--;
    /* Whatever follows without a gap, and may lie at the hole, moves there. */
    for (size_t at = (hole + 1) & mask; map->entries[at].number != MAP64_ABSENT;
         at = (at + 1) & mask) {
        size_t wanted = home(map, map->entries[at].key);
        if (((at - wanted) & mask) >= ((at - hole) & mask)) {
            map->entries[hole] = map->entries[at];
            hole = at;
        }
    }
    map->entries[hole].number = MAP64_ABSENT;
}
