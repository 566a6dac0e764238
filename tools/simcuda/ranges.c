/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered maps from disjoint ranges to pointers.
 *
 * Two levels: a sorted vector of leaves, each a sorted vector of at most 64 ranges. Finding is two
 * binary searches; inserting and erasing move a leaf's worth of memory, whatever the size of the
 * map. The map does not know what its values are and never frees them. Leaves that are not needed
 * any more are kept for any map, until sim_ranges_reset.
 */
#include "race.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAF_RANGES = 64,
    LEAF_FEW = 16 /* a leaf with fewer is joined to its neighbour if both then fit */
};

struct sim_leaf {
    struct sim_leaf *next_free;
    uint32_t count;
    struct sim_range range[LEAF_RANGES];
};

static struct sim_leaf *leaf_free_list;

static struct sim_leaf *leaf_new(void)
{
    struct sim_leaf *leaf = leaf_free_list;
    if (leaf == NULL)
        return malloc(sizeof(*leaf));
    leaf_free_list = leaf->next_free;
    return leaf;
}

static void leaf_free(struct sim_leaf *leaf)
{
    leaf->next_free = leaf_free_list;
    leaf_free_list = leaf;
}

void sim_ranges_reset(void)
{
    while (leaf_free_list != NULL) {
        struct sim_leaf *leaf = leaf_free_list;
        leaf_free_list = leaf->next_free;
        free(leaf);
    }
}

/* The range at the place, or null beyond the last; moves from a leaf's end to the next leaf. */
static struct sim_range *place_range(const struct sim_ranges *map, struct sim_place *place)
{
    if (place->leaf < map->leaf_count && place->index == map->leaf[place->leaf]->count) {
        place->leaf++;
        place->index = 0;
    }
    return place->leaf < map->leaf_count ? &map->leaf[place->leaf]->range[place->index] : NULL;
}

/* The last leaf that begins at or before the address, or the first one; there is one. */
static size_t leaf_of(const struct sim_ranges *map, uint64_t at)
{
    size_t low = 0;
    for (size_t count = map->leaf_count; count > 1;) {
        size_t half = count / 2;
        low = map->leaf[low + half]->range[0].begin <= at ? low + half : low;
        count -= half;
    }
    return low;
}

/* How many ranges of the leaf end at or before the address. Nobody can predict which way a search
 * goes, so the processor is not asked to: each step is a conditional move. */
static uint32_t leaf_rank(const struct sim_leaf *leaf, uint64_t at)
{
    uint32_t low = 0;
    uint32_t count = leaf->count;
    while (count > 1) {
        uint32_t half = count / 2;
        low = leaf->range[low + half - 1].end <= at ? low + half : low;
        count -= half;
    }
    return low + (count != 0 && leaf->range[low].end <= at ? 1 : 0);
}

/* The first range that ends after the address, or null. */
struct sim_range *sim_ranges_seek(const struct sim_ranges *map, uint64_t at,
                                  struct sim_place *place)
{
    *place = (struct sim_place){0, 0};
    if (map->leaf_count == 0)
        return NULL;
    place->leaf = leaf_of(map, at);
    place->index = leaf_rank(map->leaf[place->leaf], at);
    return place_range(map, place);
}

struct sim_range *sim_ranges_next(const struct sim_ranges *map, struct sim_place *place)
{
    place->index++;
    return place_range(map, place);
}

/* A new leaf at a position in the vector of leaves; null when memory is short. */
static struct sim_leaf *leaf_insert(struct sim_ranges *map, size_t at)
{
    struct sim_leaf **larger =
        sim_grow(map->leaf, &map->leaf_room, map->leaf_count + 1, sizeof(*larger));
    if (larger == NULL)
        return NULL;
    map->leaf = larger;
    struct sim_leaf *leaf = leaf_new();
    if (leaf == NULL)
        return NULL;
    leaf->count = 0;
    memmove(&larger[at + 1], &larger[at], (map->leaf_count - at) * sizeof(struct sim_leaf *));
    larger[at] = leaf;
    map->leaf_count++;
    return leaf;
}

static void leaf_erase(struct sim_ranges *map, size_t at)
{
    leaf_free(map->leaf[at]);
    map->leaf_count--;
    memmove(&map->leaf[at], &map->leaf[at + 1], (map->leaf_count - at) * sizeof(struct sim_leaf *));
}

/* Moves the upper half of a full leaf to a new one and the place with it. */
static int leaf_split(struct sim_ranges *map, struct sim_place *place)
{
    struct sim_leaf *upper = leaf_insert(map, place->leaf + 1);
    if (upper == NULL)
        return 0;
    struct sim_leaf *lower = map->leaf[place->leaf];
    uint32_t half = LEAF_RANGES / 2;
    memcpy(upper->range, &lower->range[half], (LEAF_RANGES - half) * sizeof(upper->range[0]));
    upper->count = LEAF_RANGES - half;
    lower->count = half;
    if (place->index > half) {
        place->leaf++;
        place->index -= half;
    }
    return 1;
}

/* Inserts before the place, which then is the new range's. The caller keeps ranges disjoint and in
 * order. 0, with nothing changed, when memory is short. */
int sim_ranges_insert(struct sim_ranges *map, struct sim_place *place, struct sim_range range)
{
    if (place->leaf == map->leaf_count) {
        if (map->leaf_count == 0 && leaf_insert(map, 0) == NULL)
            return 0;
        place->leaf = map->leaf_count - 1;
        place->index = map->leaf[place->leaf]->count;
    }
    if (map->leaf[place->leaf]->count == LEAF_RANGES && !leaf_split(map, place))
        return 0;
    struct sim_leaf *leaf = map->leaf[place->leaf];
    memmove(&leaf->range[place->index + 1], &leaf->range[place->index],
            (leaf->count - place->index) * sizeof(leaf->range[0]));
    leaf->range[place->index] = range;
    leaf->count++;
    return 1;
}

/* Erases the range at the place, which then is the next one's; that one, or null. */
struct sim_range *sim_ranges_erase(struct sim_ranges *map, struct sim_place *place)
{
    struct sim_leaf *leaf = map->leaf[place->leaf];
    leaf->count--;
    memmove(&leaf->range[place->index], &leaf->range[place->index + 1],
            (leaf->count - place->index) * sizeof(leaf->range[0]));
    if (leaf->count == 0) {
        leaf_erase(map, place->leaf);
        place->index = 0;
    } else if (leaf->count < LEAF_FEW && place->leaf + 1 < map->leaf_count &&
               leaf->count + map->leaf[place->leaf + 1]->count <= LEAF_RANGES - LEAF_FEW) {
        const struct sim_leaf *next = map->leaf[place->leaf + 1];
        memcpy(&leaf->range[leaf->count], next->range, next->count * sizeof(next->range[0]));
        leaf->count += next->count;
        leaf_erase(map, place->leaf + 1);
    }
    return place_range(map, place);
}

void sim_ranges_clear(struct sim_ranges *map)
{
    for (size_t i = 0; i < map->leaf_count; i++)
        leaf_free(map->leaf[i]);
    free(map->leaf);
    memset(map, 0, sizeof(*map));
}
