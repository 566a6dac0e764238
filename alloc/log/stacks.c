/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash of stacks: see stacks.h. Slots hold chains that only grow at their head. So a look-up of a
 * stack takes no lock; entering one does.
 */
#include "log/stacks.h"

#include <stdatomic.h>
#include <string.h>

#include "base/host_memory.h"
#include "base/lock.h"
#include "base/prim/loader.h"

enum { STACK_SLOTS = 1 << 14, STACKS_PER_LEAF = 1 << 11, STACK_LEAVES = 1 << 11 };

/* Constant once it is in its slot. */
typedef struct stack {
    struct stack *next;
    uint64_t hash;
    uint32_t number;
    uint32_t count;
    uintptr_t frames[];
} stack;

typedef struct leaf {
    stack *_Atomic stacks[STACKS_PER_LEAF];
} leaf;

static struct {
    tnri_lock lock; /* for entering */
    _Atomic uint32_t count;
    _Atomic uint64_t missed;
    stack *_Atomic slots[STACK_SLOTS];
    leaf *_Atomic leaves[STACK_LEAVES]; /* by number */
} stacks = {.lock = {.rank = TNRI_RANK_HISTORY}};

_Atomic(tnr_frames_take) tnri_frames_take;
_Atomic(tnr_frames_describe) tnri_frames_describe;

/* ---- keeping -------------------------------------------------------------------------------- */

static uint64_t frames_hash(const uintptr_t *frames, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static const stack *stack_find(const stack *first, uint64_t hash, const uintptr_t *frames,
                               size_t count)
{
    while (first != NULL && (first->hash != hash || first->count != count ||
                             memcmp(first->frames, frames, count * sizeof(frames[0])) != 0))
        first = first->next;
    return first;
}

/* The leaf of a number, made if it is not there. Under the lock. */
static leaf *leaf_make(uint32_t number)
{
    leaf *found = atomic_load(&stacks.leaves[number / STACKS_PER_LEAF]);
    if (found == NULL) {
        found = tnri_host_alloc(sizeof(*found));
        atomic_store_explicit(&stacks.leaves[number / STACKS_PER_LEAF], found,
                              memory_order_release);
    }
    return found;
}

/* Enters a stack that is not there. Under the lock. */
static const stack *stack_add(uint64_t hash, const uintptr_t *frames, size_t count)
{
    uint32_t number = atomic_load(&stacks.count) + 1;
    leaf *home = number > TNRI_STACKS_MAX ? NULL : leaf_make(number);
    stack *fresh =
        home == NULL ? NULL : tnri_host_alloc(sizeof(*fresh) + count * sizeof(frames[0]));
    if (fresh == NULL)
        return NULL;
    fresh->hash = hash;
    fresh->number = number;
    fresh->count = (uint32_t)count;
    memcpy(fresh->frames, frames, count * sizeof(frames[0]));
    stack *_Atomic *slot = &stacks.slots[hash % STACK_SLOTS];
    fresh->next = atomic_load(slot);
    atomic_store_explicit(&home->stacks[number % STACKS_PER_LEAF], fresh, memory_order_release);
    atomic_store_explicit(slot, fresh, memory_order_release);
    atomic_store_explicit(&stacks.count, number, memory_order_release);
    return fresh;
}

/* The frames of the calling thread, an interpreter's if it has some; returns how many. Inlined into
 * the function whose frame is left out. */
static inline __attribute__((always_inline)) size_t frames_take(uintptr_t frames[TNRI_STACK_DEPTH])
{
    enum { SKIPPED = 1 };
    void *walked[TNRI_STACK_DEPTH + SKIPPED];
    tnr_frames_take take = atomic_load_explicit(&tnri_frames_take, memory_order_acquire);
    size_t taken = take == NULL ? 0 : take(frames, TNRI_STACK_DEPTH);
    if (taken > 0)
        return taken;
    int depth = tnri_stack_walk(walked, TNRI_STACK_DEPTH + SKIPPED);
    for (int i = SKIPPED; i < depth; i++)
        frames[i - SKIPPED] = (uintptr_t)walked[i];
    return depth <= SKIPPED ? 0 : (size_t)(depth - SKIPPED);
}

__attribute__((noinline)) uint32_t tnri_stack_take(void)
{
    uintptr_t frames[TNRI_STACK_DEPTH];
    size_t count = frames_take(frames);
    if (count == 0)
        return 0;
    uint64_t hash = frames_hash(frames, count);
    stack *_Atomic *slot = &stacks.slots[hash % STACK_SLOTS];
    const stack *found =
        stack_find(atomic_load_explicit(slot, memory_order_acquire), hash, frames, count);
    if (found == NULL) {
        tnri_lock_take(&stacks.lock);
        found = stack_find(atomic_load(slot), hash, frames, count);
        if (found == NULL)
            found = stack_add(hash, frames, count);
        tnri_lock_release(&stacks.lock);
    }
    if (found == NULL)
        atomic_fetch_add_explicit(&stacks.missed, 1, memory_order_relaxed);
    return found == NULL ? 0 : found->number;
}

const uintptr_t *tnri_stack_get(uint32_t number, size_t *count)
{
    *count = 0;
    if (number == 0 || number > atomic_load_explicit(&stacks.count, memory_order_acquire))
        return NULL;
    leaf *home =
        atomic_load_explicit(&stacks.leaves[number / STACKS_PER_LEAF], memory_order_acquire);
    const stack *found =
        atomic_load_explicit(&home->stacks[number % STACKS_PER_LEAF], memory_order_acquire);
    *count = found->count;
    return found->frames;
}

int tnri_module_is_between(const char *path)
{
    static const char *const names[] = {"libtenure_preload.so", "libcudart.so"};
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

uint32_t tnri_stacks_count(void)
{
    return atomic_load_explicit(&stacks.count, memory_order_acquire);
}

uint64_t tnri_stacks_missed(void)
{
    return atomic_load(&stacks.missed);
}

void tnri_stacks_free(void)
{
    for (size_t slot = 0; slot < STACK_SLOTS; slot++) {
        stack *gone = atomic_exchange(&stacks.slots[slot], NULL);
        while (gone != NULL) {
            stack *next = gone->next;
            tnri_host_free(gone, sizeof(*gone) + gone->count * sizeof(gone->frames[0]));
            gone = next;
        }
    }
    for (size_t i = 0; i < STACK_LEAVES; i++)
        tnri_host_free(atomic_exchange(&stacks.leaves[i], NULL), sizeof(leaf));
    atomic_store(&stacks.count, 0);
    atomic_store(&stacks.missed, 0);
}
