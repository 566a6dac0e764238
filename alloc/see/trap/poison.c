/* SPDX-License-Identifier: Apache-2.0 */
/* Stains of poisoned memory, in an array ordered by address: see poison.h. */
#include "see/trap/poison.h"

#include <string.h>

#include "base/host_memory.h"
#include "memory/device/chunk.h"

enum { POISON_STAINS = 8192 };

static struct {
    tnri_lock lock;     /* protects what follows */
    tnri_stain *stains; /* in the order of their addresses; none overlaps another */
    size_t count;
    size_t hand;   /* the next that has to go */
    uint64_t last; /* number */
} poison = {.lock = {.rank = TNRI_RANK_TRAPS}};

uint64_t tnri_poison_placed(const tnri_arena *arena, uintptr_t address)
{
    const tnri_space *space = tnri_arena_space(arena);
    const tnri_chunk *chunk = space->pages[tnri_page_of(space, address)];
    tnri_assert_held(&arena->lock);
    return chunk == NULL ? 0 : atomic_load_explicit(&chunk->placed, memory_order_relaxed);
}

/* The first stain that ends above an address. Under the lock. */
static size_t stain_above(uintptr_t address)
{
    size_t low = 0;
    size_t high = poison.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (poison.stains[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void stain_remove(size_t index)
{
    poison.count--;
    memmove(&poison.stains[index], &poison.stains[index + 1],
            (poison.count - index) * sizeof(poison.stains[0]));
}

/* Room for one more at `index`; there is always, since another goes if need be. Returns where. */
static size_t stain_insert(size_t index, const tnri_stain *stain)
{
    if (poison.count == POISON_STAINS) {
        size_t victim = poison.hand++ % POISON_STAINS;
        stain_remove(victim);
        if (victim < index)
            index--;
    }
    memmove(&poison.stains[index + 1], &poison.stains[index],
            (poison.count - index) * sizeof(poison.stains[0]));
    poison.stains[index] = *stain;
    poison.count++;
    return index;
}

size_t tnri_poison_take(uintptr_t base, uintptr_t end, tnri_stain *taken)
{
    size_t count = 0;
    tnri_lock_take(&poison.lock);
    size_t index = stain_above(base);
    while (index < poison.count && poison.stains[index].base < end) {
        tnri_stain stain = poison.stains[index];
        tnri_stain inside = stain;
        stain_remove(index);
        if (stain.base < base) {
            tnri_stain below = stain;
            below.end = inside.base = base;
            index = stain_insert(index, &below) + 1;
        }
        if (stain.end > end) {
            tnri_stain above = stain;
            above.base = inside.end = end;
            index = stain_insert(index, &above) + 1;
        }
        if (taken != NULL && count < TNRI_POISON_TAKES)
            taken[count++] = inside;
    }
    tnri_lock_release(&poison.lock);
    return count;
}

void tnri_poison_add(const tnri_stain *stain)
{
    tnri_lock_take(&poison.lock);
    if (poison.stains == NULL)
        poison.stains = tnri_host_alloc(POISON_STAINS * sizeof(poison.stains[0]));
    tnri_stain fresh = *stain;
    fresh.number = ++poison.last;
    if (poison.stains != NULL)
        (void)stain_insert(stain_above(stain->base), &fresh);
    tnri_lock_release(&poison.lock);
}

int tnri_poison_fill_next(uintptr_t base, uintptr_t end, tnri_stain *stain)
{
    int is_found = 0;
    tnri_lock_take(&poison.lock);
    for (size_t i = stain_above(base); i < poison.count && !is_found; i++) {
        if (poison.stains[i].base >= end)
            break;
        is_found = !poison.stains[i].is_filled;
        if (is_found) {
            poison.stains[i].is_filled = 1;
            *stain = poison.stains[i];
        }
    }
    tnri_lock_release(&poison.lock);
    return is_found;
}

size_t tnri_poison_list(uintptr_t base, uintptr_t end, tnri_stain *stains, size_t room)
{
    size_t count = 0;
    tnri_lock_take(&poison.lock);
    for (size_t i = stain_above(base);
         i < poison.count && poison.stains[i].base < end && count < room; i++) {
        tnri_stain stain = poison.stains[i];
        if (!stain.is_filled)
            continue;
        stain.base = stain.base < base ? base : stain.base;
        stain.end = stain.end > end ? end : stain.end;
        stains[count++] = stain;
    }
    tnri_lock_release(&poison.lock);
    return count;
}

int tnri_poison_is_there(uintptr_t base, uintptr_t end, uint64_t placed, uint64_t number)
{
    tnri_lock_take(&poison.lock);
    size_t i = stain_above(base);
    int is_there = i < poison.count && poison.stains[i].number == number &&
                   poison.stains[i].placed == placed && poison.stains[i].base <= base &&
                   poison.stains[i].end >= end;
    tnri_lock_release(&poison.lock);
    return is_there;
}

void tnri_poison_forget(uintptr_t base, uintptr_t end)
{
    (void)tnri_poison_take(base, end, NULL);
    tnri_lock_take(&poison.lock);
    tnri_stain *none = poison.count == 0 ? poison.stains : NULL;
    if (none != NULL)
        poison.stains = NULL;
    tnri_lock_release(&poison.lock);
    tnri_host_free(none, POISON_STAINS * sizeof(none[0]));
}
