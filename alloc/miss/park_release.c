/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of parked blocks that goes back to the driver: see park_release.h. */
#include "miss/park_release.h"

#include "memory/pool/pool.h"
#include "miss/stale.h"

enum { LEAVING_MAX = 32 };

/* Chunks on their way out. */
typedef struct leaving {
    size_t count;
    struct {
        tnri_evicted *evicted;
        tnri_chunk *chunk;
    } at[LEAVING_MAX];
} leaving;

/* The latest parking of an arena; 0: nothing is parked there. */
static uint64_t arena_parkings(tnri_arena *arena)
{
    tnri_arena_enter(arena);
    uint64_t parkings = arena->parked == NULL ? 0 : arena->parkings;
    tnri_arena_leave(arena);
    return parkings;
}

/* All that the arena's stream was given until now is over. */
static tnr_status arena_prove(tnri_arena *arena)
{
    tnri_event *event = NULL;
    tnr_status status = tnri_arena_mark_other(arena, &event);
    if (status == TNR_OK && !tnri_event_is_over(event))
        status = tnri_event_wait(event);
    tnri_event_drop(event);
    return status;
}

/* Takes what one block has at home. Under the lock. */
static void parked_leave(leaving *self, tnri_parked *parked, size_t pages_max)
{
    const tnri_space *space = tnri_arena_space(parked->arena);
    size_t pages = 0;
    for (size_t page = parked->first;
         page < parked->end && pages < pages_max && self->count < LEAVING_MAX;) {
        tnri_chunk *chunk = space->pages[page];
        page += chunk == NULL ? 1 : chunk->pages;
        if (chunk == NULL)
            continue;
        tnri_evicted *evicted = tnri_evict(parked, chunk);
        if (evicted == NULL)
            return;
        self->at[self->count].evicted = evicted;
        self->at[self->count++].chunk = chunk;
        pages += chunk->pages;
    }
}

/* Takes what one block of the arena has that has rested since before the proof. */
static void arena_leave(leaving *self, tnri_arena *arena, uint64_t until, size_t bytes)
{
    unsigned shift = tnri_arena_space(arena)->page_shift;
    size_t pages = (bytes >> shift) + ((bytes & (((size_t)1 << shift) - 1)) != 0);
    self->count = 0;
    tnri_arena_enter(arena);
    for (tnri_parked *parked = arena->parked; parked != NULL && self->count == 0;
         parked = parked->next)
        if (!parked->is_returning && parked->since <= until)
            parked_leave(self, parked, pages);
    tnri_arena_leave(arena);
}

/* Another thread makes a window with an old mapping of the chunk. */
static void chunk_stay(tnri_arena *arena, tnri_evicted *evicted, tnri_chunk *chunk)
{
    tnri_arena_enter(arena);
    tnri_evicted_restore(evicted, chunk);
    tnri_arena_leave(arena);
}

tnr_status tnri_parked_release(tnri_arena *arena, size_t bytes, size_t *released)
{
    leaving self;
    size_t gone = 0;
    int is_wanted = 0; /* another thread may be about to use one of them */
    uint64_t until = arena_parkings(arena);
    if (until == 0)
        return TNR_OK;
    tnr_status status = arena_prove(arena);
    tnri_handling_enter(&arena->device->handling);
    while (status == TNR_OK && gone < bytes && !is_wanted) {
        arena_leave(&self, arena, until, bytes - gone);
        if (self.count == 0)
            break;
        for (size_t i = 0; i < self.count; i++) {
            size_t chunk_bytes = self.at[i].chunk->pages << tnri_arena_space(arena)->page_shift;
            if (!tnri_stale_forget_aliases(arena->pool, self.at[i].chunk)) {
                chunk_stay(arena, self.at[i].evicted, self.at[i].chunk);
                is_wanted = 1;
                continue;
            }
            tnr_status refused = tnri_evicted_release(self.at[i].evicted, self.at[i].chunk);
            gone += refused == TNR_OK ? chunk_bytes : 0;
            status = status == TNR_OK ? refused : status;
        }
    }
    tnri_handling_leave(&arena->device->handling);
    *released += gone;
    return status == TNR_ERR_CAPTURE ? TNR_OK : status;
}
