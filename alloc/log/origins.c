/* SPDX-License-Identifier: Apache-2.0 */
/* A list of origins in leaves that stay where they are: see origins.h. */
#include "log/origins.h"

#include "base/host_memory.h"
#include "base/lock.h"

enum {
    ORIGINS_PER_LEAF = 256,
    ORIGIN_LEAVES = 4096,
    FOUND_AMONG = 256 /* of the latest: looking further would cost more than another entry */
};

typedef struct leaf {
    tnri_origin origins[ORIGINS_PER_LEAF];
} leaf;

static struct {
    tnri_lock lock;
    uint32_t count;
    uint64_t gone; /* arenas that have gone */
    leaf *leaves[ORIGIN_LEAVES];
} origins = {.lock = {.rank = TNRI_RANK_HISTORY}};

static tnri_origin *origin_at(uint32_t number)
{
    return &origins.leaves[number / ORIGINS_PER_LEAF]->origins[number % ORIGINS_PER_LEAF];
}

/* Under the lock. */
static uint32_t origin_enter(const tnri_origin *origin, const _Atomic uint32_t *name)
{
    uint32_t number = origins.count + 1;
    uint32_t at = number / ORIGINS_PER_LEAF;
    int has_room = at < ORIGIN_LEAVES;
    if (has_room && origins.leaves[at] == NULL) {
        origins.leaves[at] = tnri_host_alloc(sizeof(leaf));
        has_room = origins.leaves[at] != NULL;
    }
    if (has_room) {
        *origin_at(number) = *origin;
        origin_at(number)->stream_name = name == NULL ? 0 : atomic_load(name);
        origins.count = number;
    }
    return has_room ? number : 0;
}

uint32_t tnri_origin_add(const tnri_origin *origin, const _Atomic uint32_t *name)
{
    tnri_lock_take(&origins.lock);
    uint32_t number = origin_enter(origin, name);
    tnri_lock_release(&origins.lock);
    return number;
}

uint32_t tnri_origin_find(const tnri_origin *origin, const _Atomic uint32_t *name)
{
    tnri_lock_take(&origins.lock);
    uint32_t last = origins.count;
    uint32_t number = 0;
    for (uint32_t i = last; number == 0 && i > 0 && i + FOUND_AMONG > last; i--) {
        const tnri_origin *known = origin_at(i);
        if (known->arena == 0 && known->device == origin->device && known->pool == origin->pool &&
            known->pool_name == origin->pool_name && known->stream == origin->stream &&
            known->has_no_stream == origin->has_no_stream && known->thread == origin->thread &&
            known->has_no_pool == origin->has_no_pool && known->is_launch == origin->is_launch &&
            known->stream_number == origin->stream_number)
            number = i;
    }
    if (number == 0)
        number = origin_enter(origin, name);
    tnri_lock_release(&origins.lock);
    return number;
}

void tnri_origins_name(uint64_t stream_number, const _Atomic uint32_t *name)
{
    tnri_lock_take(&origins.lock);
    uint32_t number = atomic_load(name);
    for (uint32_t i = 1; i <= origins.count; i++)
        if (origin_at(i)->stream_number == stream_number)
            origin_at(i)->stream_name = number;
    tnri_lock_release(&origins.lock);
}

int tnri_origin_get(uint32_t number, tnri_origin *origin)
{
    tnri_lock_take(&origins.lock);
    int is_there = number > 0 && number <= origins.count;
    if (is_there)
        *origin = *origin_at(number);
    tnri_lock_release(&origins.lock);
    return is_there;
}

uint32_t tnri_origins_count(void)
{
    tnri_lock_take(&origins.lock);
    uint32_t count = origins.count;
    tnri_lock_release(&origins.lock);
    return count;
}

void tnri_origin_end(uint32_t number)
{
    if (number == 0)
        return;
    tnri_lock_take(&origins.lock);
    if (number <= origins.count)
        origin_at(number)->is_ended = 1;
    tnri_lock_release(&origins.lock);
}

void tnri_origin_gone(uint32_t number)
{
    if (number == 0)
        return;
    tnri_lock_take(&origins.lock);
    if (number <= origins.count)
        origin_at(number)->gone = ++origins.gone;
    tnri_lock_release(&origins.lock);
}

uint64_t tnri_origins_gone(void)
{
    tnri_lock_take(&origins.lock);
    uint64_t gone = origins.gone;
    tnri_lock_release(&origins.lock);
    return gone;
}

void tnri_origins_free(void)
{
    for (uint32_t i = 0; i < ORIGIN_LEAVES; i++) {
        tnri_host_free(origins.leaves[i], sizeof(leaf));
        origins.leaves[i] = NULL;
    }
    origins.count = 0;
}
