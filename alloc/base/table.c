/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables that grow a slot at a time: see table.h. */
#include "base/table.h"

#include "base/assert.h"
#include "base/host_memory.h"

/* Handles and numbers differ in few bits, and low ones choose the slot. */
static uint64_t key_mixed(uint64_t key)
{
    uint64_t mixed = key * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ mixed >> 32;
}

static unsigned log2_of(size_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

/* The segment of a slot beyond the first ones. */
static unsigned segment_of(size_t slot)
{
    return log2_of(slot) - log2_of(TNRI_TABLE_FIRST);
}

static size_t segment_slots(unsigned segment)
{
    return (size_t)TNRI_TABLE_FIRST << segment;
}

static tnri_link **slot_at(tnri_table *table, size_t slot)
{
    if (slot < TNRI_TABLE_FIRST)
        return &table->first[slot];
    unsigned segment = segment_of(slot);
    return &table->segments[segment][slot - segment_slots(segment)];
}

/* A slot that has not been split yet stands for the one that will come of it too. */
static size_t slot_of(const tnri_table *table, uint64_t key)
{
    size_t slots = TNRI_TABLE_FIRST + table->grown;
    size_t round = (size_t)1 << log2_of(slots);
    size_t slot = (size_t)key_mixed(key) & (2 * round - 1);
    return slot < slots ? slot : slot - round;
}

tnri_link **tnri_table_at(tnri_table *table, uint64_t key)
{
    tnri_link **at = slot_at(table, slot_of(table, key));
    while (*at != NULL && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

/* The slot that is split for `slot`, and joined with it. */
static size_t slot_parent(size_t slot)
{
    return slot - ((size_t)1 << log2_of(slot));
}

/* One slot more, and what belongs there. */
static void table_grow(tnri_table *table)
{
    size_t slot = TNRI_TABLE_FIRST + table->grown;
    unsigned segment = segment_of(slot);
    if (segment == TNRI_TABLE_SEGMENTS)
        return;
    if (table->segments[segment] == NULL)
        table->segments[segment] =
            tnri_host_alloc(segment_slots(segment) * sizeof(table->segments[segment][0]));
    if (table->segments[segment] == NULL)
        return;
    table->grown++;
    tnri_link **into = slot_at(table, slot);
    tnri_link **from = slot_at(table, slot_parent(slot));
    *into = NULL;
    while (*from != NULL) {
        tnri_link *link = *from;
        if (slot_of(table, link->key) != slot) {
            from = &link->next;
            continue;
        }
        *from = link->next;
        link->next = NULL;
        *into = link;
        into = &link->next;
    }
}

/* One slot less. */
static void table_shrink(tnri_table *table)
{
    size_t slot = TNRI_TABLE_FIRST + --table->grown;
    unsigned segment = segment_of(slot);
    tnri_link **at = slot_at(table, slot_parent(slot));
    while (*at != NULL)
        at = &(*at)->next;
    *at = *slot_at(table, slot);
    if (slot != segment_slots(segment))
        return;
    tnri_host_free(table->segments[segment],
                   segment_slots(segment) * sizeof(table->segments[segment][0]));
    table->segments[segment] = NULL;
}

static int table_is_sparse(const tnri_table *table)
{
    return table->grown > 0 && table->count < (TNRI_TABLE_FIRST + table->grown) / 2;
}

void tnri_table_add(tnri_table *table, tnri_link *link)
{
    if (++table->count > TNRI_TABLE_FIRST + table->grown)
        table_grow(table);
    tnri_link **at = slot_at(table, slot_of(table, link->key));
    link->next = *at;
    *at = link;
}

void tnri_table_remove(tnri_table *table, tnri_link **at)
{
    tnri_assert(*at != NULL);
    *at = (*at)->next;
    table->count--;
    /* Two, so that the slots go as fast as the links. */
    for (int i = 0; i < 2 && table_is_sparse(table); i++)
        table_shrink(table);
}

tnri_link *tnri_table_take(tnri_table *table, int (*is_wanted)(const tnri_link *link, void *user),
                           void *user)
{
    tnri_link *taken = NULL;
    for (size_t slot = 0; slot < TNRI_TABLE_FIRST + table->grown; slot++)
        for (tnri_link **at = slot_at(table, slot); *at != NULL;) {
            tnri_link *link = *at;
            if (!is_wanted(link, user)) {
                at = &link->next;
                continue;
            }
            *at = link->next;
            link->next = taken;
            taken = link;
            table->count--;
        }
    while (table_is_sparse(table))
        table_shrink(table);
    return taken;
}
