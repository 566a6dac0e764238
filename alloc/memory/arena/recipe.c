/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that were made: see recipe.h. */
#include "memory/arena/recipe.h"

#include <string.h>

#include "base/array.h"
#include "base/heuristics.h"
#include "base/host_memory.h"
#include "memory/arena/world_retired.h"

enum { RECIPE_SLOTS = 256 };

struct tnri_recipes {
    uint32_t first[RECIPE_SLOTS], last[RECIPE_SLOTS]; /* number plus 1; 0: the slot is empty */
    tnri_recipe *at;
    size_t count, room;
};

static unsigned recipe_slot(size_t bytes)
{
    size_t units = bytes / TNR_ALIGNMENT_DEFAULT;
    return (unsigned)(units ^ units >> 8 ^ units >> 16) % RECIPE_SLOTS;
}

tnri_recipe *tnri_recipe_find(const tnri_world *world, size_t bytes, const tnri_recipe *before)
{
    tnri_recipes *recipes = world->recipes;
    if (recipes == NULL)
        return NULL;
    uint32_t at = before != NULL ? before->next : recipes->first[recipe_slot(bytes)];
    while (at != 0 && recipes->at[at - 1].bytes != bytes)
        at = recipes->at[at - 1].next;
    return at != 0 ? &recipes->at[at - 1] : NULL;
}

/* From a record to the one near it that contains the address; null if none of those few does. One
 * that has merged knows the neighbour that it had: records are readable as long as their world. */
static tnri_block *record_near(tnri_block *record, uintptr_t address)
{
    for (int steps = 0; record != NULL && steps < TNRI_RECORDS_NEAR; steps++) {
        int is_used = record->state != TNRI_UNUSED;
        if (is_used && address - record->base < record->bytes)
            return record;
        record = is_used && address >= record->base ? record->above : record->below;
    }
    return NULL;
}

/* A world frees its records and its recipes together, so an old one may be asked what it is now. */
tnri_block *tnri_recipe_record(const tnri_world *world, tnri_recipe *recipe)
{
    tnri_block *record = record_near(recipe->record, recipe->base);
    if (record != NULL) {
        tnri_assert_hot(record == tnri_world_find(world, NULL, recipe->base));
        recipe->record = record;
        return record;
    }
    recipe->record = tnri_world_find(world, NULL, recipe->base);
    if (recipe->record == NULL)
        recipe->bytes = 0;
    return recipe->record;
}

static int recipe_is_noted(const tnri_world *world, uintptr_t base, size_t bytes)
{
    const tnri_recipe *recipe = NULL;
    while ((recipe = tnri_recipe_find(world, bytes, recipe)) != NULL)
        if (recipe->base == base)
            return 1;
    return 0;
}

void tnri_recipe_note(tnri_world *world, tnri_block *record, uintptr_t base, size_t bytes)
{
    if (world->recipes == NULL)
        world->recipes = tnri_host_alloc(sizeof(*world->recipes));
    tnri_recipes *recipes = world->recipes;
    if (recipes == NULL || recipe_is_noted(world, base, bytes))
        return;
    if (recipes->count == TNRI_RECIPES_MAX) { /* a program that does not repeat itself */
        memset(recipes->first, 0, sizeof(recipes->first));
        recipes->count = 0;
    }
    if (!TNRI_ARRAY_GROW(recipes->at, recipes->room, recipes->count + 1))
        return;
    unsigned slot = recipe_slot(bytes);
    recipes->at[recipes->count++] = (tnri_recipe){base, bytes, record, 0};
    uint32_t number = (uint32_t)recipes->count;
    if (recipes->first[slot] == 0)
        recipes->first[slot] = number;
    else
        recipes->at[recipes->last[slot] - 1].next = number;
    recipes->last[slot] = number;
}

void tnri_recipes_free(tnri_world *world)
{
    tnri_recipes *recipes = world->recipes;
    if (recipes == NULL)
        return;
    tnri_host_free(recipes->at, recipes->room * sizeof(recipes->at[0]));
    tnri_host_free(recipes, sizeof(*recipes));
    world->recipes = NULL;
}
