/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: a fixed table of slots. A CUstream, CUevent, CUcontext, ... is the address of a slot, so
 * a bad handle of any kind is recognised by arithmetic and never followed.
 *
 * Freed slots are reused by objects of the same kind, last in, first out: the next stream gets the
 * handle of the stream destroyed before it. That is the worst case for a program that keeps stale
 * handles, and the driver may do it too. Until then the stale handle is recognised as stale.
 */
#include "sim.h"

#include <string.h>
#include <sys/mman.h>

#define SLOT_COUNT (UINT64_C(1) << 22)

static struct sim_slot *slots; /* mapped once and kept; pages appear as they are used */
static uint64_t slot_used;     /* slots that ever held an object since the last reset */
static struct sim_slot *slot_free_lists[SIM_KINDS];

static int slots_map(void)
{
    if (slots == NULL) {
        void *table = mmap(NULL, SLOT_COUNT * sizeof(*slots), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        slots = table == MAP_FAILED ? NULL : table;
    }
    return slots != NULL;
}

struct sim_slot *sim_slot_new(enum sim_kind kind, void *object)
{
    struct sim_slot *slot = slot_free_lists[kind];
    if (slot != NULL)
        slot_free_lists[kind] = slot->next_free;
    else if (slots_map() && slot_used < SLOT_COUNT)
        slot = &slots[slot_used++];
    else
        return NULL;
    slot->object = object;
    slot->kind = kind;
    return slot;
}

void sim_slot_free(struct sim_slot *slot)
{
    slot->last_kind = slot->kind;
    slot->kind = SIM_FREE_SLOT;
    slot->object = NULL;
    slot->next_free = slot_free_lists[slot->last_kind];
    slot_free_lists[slot->last_kind] = slot;
}

/* The object behind a handle, or null. A handle whose object is gone is a violation: the program
 * uses something it has destroyed. So is one of another kind. */
void *sim_slot_get(const void *handle, enum sim_kind kind, const char *what)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)slots;
    if (slots == NULL || (uintptr_t)handle < (uintptr_t)slots ||
        offset >= slot_used * sizeof(*slots) || offset % sizeof(*slots) != 0)
        return NULL;
    const struct sim_slot *slot = &slots[offset / sizeof(*slots)];
    if (slot->kind == SIM_FREE_SLOT && slot->last_kind == kind)
        sim_violation("use of a destroyed %s, handle %p", what, handle);
    else if (slot->kind != kind)
        sim_violation("handle %p is used as a %s and isn't one", handle, what);
    return slot->kind == kind ? slot->object : NULL;
}

static const struct sim_context *slot_context(const struct sim_slot *slot)
{
    switch (slot->kind) {
    case SIM_STREAM:
        return ((const struct sim_stream *)slot->object)->context;
    case SIM_EVENT:
        return ((const struct sim_event *)slot->object)->context;
    case SIM_MODULE:
        return ((const struct sim_module *)slot->object)->context;
    default:
        return NULL;
    }
}

/* Calls each for the objects of one kind in one context; each may destroy its object. */
void sim_slot_each(enum sim_kind kind, const struct sim_context *context,
                   void (*each)(void *object))
{
    for (uint64_t i = 0; i < slot_used; i++)
        if (slots[i].kind == kind && slot_context(&slots[i]) == context)
            each(slots[i].object);
}

uint64_t sim_slot_count(enum sim_kind kind, const struct sim_context *context)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < slot_used; i++)
        count += slots[i].kind == kind && slot_context(&slots[i]) == context;
    return count;
}

/* Forgets all slots; their objects have been freed by then. */
void sim_slot_reset(void)
{
    if (slots != NULL)
        memset(slots, 0, slot_used * sizeof(*slots));
    slot_used = 0;
    memset(slot_free_lists, 0, sizeof(slot_free_lists));
}
