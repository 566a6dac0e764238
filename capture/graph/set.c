/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of pointers in order: see set.h. */
#include "graph/set.h"

#include <string.h>

#include "base/assert.h"
#include "base/host_memory.h"

static size_t slots_count(const tnri_set *set)
{
    return 2 * set->room;
}

static size_t slots_bytes(const tnri_set *set)
{
    return slots_count(set) * sizeof(set->slots[0]);
}

/* The slot of a member, or the empty one where it would be. Records lie at regular distances, so
 * all bits of an address have a part in all bits of the slot. */
static size_t slot_of(const tnri_set *set, const void *member)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    size_t mask = slots_count(set) - 1;
    uint64_t mixed = (uint64_t)(uintptr_t)member * golden;
    mixed = (mixed ^ mixed >> 32) * golden;
    size_t slot = (size_t)(mixed >> 32) & mask;
    while (set->slots[slot] != 0 && set->members[set->slots[slot] - 1] != member)
        slot = (slot + 1) & mask;
    return slot;
}

int tnri_set_has(const tnri_set *set, const void *member)
{
    if (set->slots != NULL)
        return set->slots[slot_of(set, member)] != 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->members[i] == member)
            return 1;
    return 0;
}

int tnri_set_reserve(tnri_set *set)
{
    if (set->count < set->room)
        return 1;
    tnri_set larger = {.count = set->count, .room = set->room == 0 ? TNRI_SET_FEW : 2 * set->room};
    tnri_assert(larger.room <= UINT32_MAX / 2);
    larger.members = tnri_host_alloc(larger.room * sizeof(larger.members[0]));
    if (larger.room > TNRI_SET_FEW)
        larger.slots = tnri_host_alloc(slots_bytes(&larger));
    if (larger.members == NULL || (larger.room > TNRI_SET_FEW && larger.slots == NULL)) {
        tnri_set_free(&larger);
        return 0;
    }
    for (size_t i = 0; i < set->count; i++) {
        larger.members[i] = set->members[i];
        if (larger.slots != NULL)
            larger.slots[slot_of(&larger, larger.members[i])] = (uint32_t)i + 1;
    }
    tnri_set_free(set);
    *set = larger;
    return 1;
}

void tnri_set_add(tnri_set *set, void *member)
{
    tnri_assert(set->count < set->room && !tnri_set_has(set, member));
    set->members[set->count++] = member;
    if (set->slots != NULL)
        set->slots[slot_of(set, member)] = (uint32_t)set->count;
}

void tnri_set_empty(tnri_set *set)
{
    if (set->slots != NULL)
        memset(set->slots, 0, slots_bytes(set));
    set->count = 0;
}

void tnri_set_free(tnri_set *set)
{
    tnri_host_free(set->members, set->room * sizeof(set->members[0]));
    tnri_host_free(set->slots, slots_bytes(set));
    *set = (tnri_set){0};
}
