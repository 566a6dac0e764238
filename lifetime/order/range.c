/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for single pages of a range, and its way back: see <tenure/range.h>, and
 * memory/arena/range.h for the records.
 *
 * A thread that commits or decommits has the block's `is_growing`; others are refused meanwhile.
 * The range's own list of uses says what may still use any of its pages. A page that is taken out
 * while one of them is not over gets a copy of that list and is retired like a block.
 *
 * A page that is committed again may be anything by then. What is FREE is taken as it is, in the
 * order of the arena's stream. What waits to be given back is taken out of that queue. What is
 * RETIRED becomes FREE when the stream has been made to wait for its uses.
 */
#include <tenure/range.h>

#include <string.h>

#include "api/growable.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/prim/calm.h"
#include "base/prim/clock.h"
#include "log/note.h"
#include "log/nvtx.h"
#include "memory/arena/range.h"
#include "memory/device/device.h"
#include "memory/device/upper.h"
#include "memory/pool/asleep.h"
#include "miss/ladder.h"
#include "miss/stale.h"
#include "see/snapshot/trigger.h"
#include "order/collect.h"
#include "order/register.h"
#include "order/retire.h"

/* Pages of a range: its arena, and which. */
typedef struct pages {
    tnri_arena *arena;
    size_t first, end;
    int is_new; /* 1: this call has made a range of the block */
} pages;

/* ---- beginning and ending a call ------------------------------------------------------------ */

static tnr_status freed_error(const tnri_arena *arena)
{
    return tnri_error(TNR_ERR_NOT_LIVE, "the block at %p was freed before.",
                      (void *)arena->growable.base);
}

/* Whether the block may be worked on. Under the lock. */
static tnr_status block_check(const tnri_arena *arena, size_t offset, size_t bytes)
{
    const tnri_growable *growable = &arena->growable;
    const void *base = (const void *)growable->base;
    if (!growable->is_bare && tnri_range_bytes(arena) == 0)
        return freed_error(arena);
    if (!growable->is_bare)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "the block at %p grows by tnr_commit; single pages are for a block whose "
                          "first memory is from tnr_commit_range.",
                          base);
    if (offset > growable->bytes_max || bytes > growable->bytes_max - offset)
        return tnri_error(TNR_ERR_INVALID_SIZE,
                          "%zu bytes from %zu on reach beyond the %zu that the block at %p was "
                          "reserved for.",
                          bytes, offset, growable->bytes_max, base);
    if (growable->is_growing)
        return tnri_error(TNR_ERR_BUSY, "another call is working on the pages of the block at %p.",
                          base);
    return TNR_OK;
}

/* Makes a range of the block if it is none yet. Under the lock. */
static tnr_status range_open(tnri_arena *arena, int *is_new)
{
    if (tnri_range_of(arena) != NULL)
        return TNR_OK;
    if (!tnri_range_open(arena))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the pages of a block.");
    tnr_status status = tnri_uses_prepare(arena, &arena->growable.range->whole);
    if (status != TNR_OK)
        tnri_range_close(arena);
    *is_new = status == TNR_OK;
    return status;
}

/* A commit that has failed does not decide what the block is, unless somebody has named the range
 * meanwhile or the driver keeps what was to be its memory. */
static void range_take_back(tnri_arena *arena)
{
    const tnri_world *world = &arena->worlds[TNRI_LARGE];
    tnri_uses *uses = NULL;
    tnri_arena_enter(arena);
    tnri_range *range = tnri_range_of(arena);
    if (range != NULL && range->whole.uses->first == NULL && range->whole.uses->holds == 0 &&
        range->whole.uses->captured == NULL && world->bytes_in[TNRI_HOLE] == world->spans_bytes) {
        uses = range->whole.uses;
        tnri_range_close(arena);
    }
    tnri_arena_leave(arena);
    if (uses != NULL)
        tnri_uses_free(uses, 0);
}

static void range_announce(const tnri_arena *arena)
{
    if (tnri_unlikely(tnri_nvtx_listens()))
        tnri_nvtx_block(arena->device->range_base, arena->account->name, arena->growable.base,
                        arena->growable.bytes_max);
}

/* Begins a call: finds the block at `ptr`, and is the only one from then on. With `opens` it is a
 * range then; else *is_range tells. */
static tnr_status call_begin(pages *self, void *ptr, size_t offset, size_t bytes, int opens,
                             int *is_range)
{
    self->is_new = 0;
    tnr_status status = tnri_growable_find(&self->arena, ptr);
    if (status != TNR_OK)
        return status;
    tnri_arena *arena = self->arena;
    tnri_lifetime_register();
    tnri_arena_enter(arena);
    status = block_check(arena, offset, bytes);
    if (status == TNR_OK && opens)
        status = range_open(arena, &self->is_new);
    *is_range = tnri_range_of(arena) != NULL;
    if (status == TNR_OK)
        arena->growable.is_growing = 1;
    tnri_arena_leave(arena);
    return status;
}

static void call_end(const pages *self)
{
    tnri_arena_enter(self->arena);
    self->arena->growable.is_growing = 0;
    tnri_arena_leave(self->arena);
}

/* ---- giving back ---------------------------------------------------------------------------- */

/* Gives what is idle of the arena back to the driver, as far as nothing has to be waited for; the
 * rest goes another time. What the driver refuses stays queued. */
static void arena_give_back(tnri_arena *arena)
{
    tnri_visit visit;
    size_t queued, released = 0;
    if (tnri_account_is_kept(arena->account) || tnri_device_enter(arena->device, &visit) != TNR_OK)
        return;
    if (tnri_pool_work_begin(arena->pool)) {
        (void)tnri_collect_arena(arena, SIZE_MAX, TNRI_COLLECT_OVER);
        (void)tnri_stale_release(arena, SIZE_MAX, &queued);
        (void)tnri_stale_drain(arena, 0, 0, &released);
        tnri_pool_work_end(arena->pool);
    }
    tnri_device_leave(&visit);
}

/* ---- committing ----------------------------------------------------------------------------- */

enum { CLEARS = 3, NAPS_MAX = 2000, NAP_NS = 1000000 };

/* Has what is at the pages become FREE or HOLE, by harder means with each try. What another thread
 * has in hand, as a trim or a miss that wants memory does while it unmaps, is waited for. */
static tnr_status pages_clear(const pages *self, int tries)
{
    static const tnri_collect ways[CLEARS] = {TNRI_COLLECT_OVER, TNRI_COLLECT_ORDER,
                                              TNRI_COLLECT_WAIT};
    tnri_collect how = ways[tries < CLEARS ? tries : CLEARS - 1];
    tnri_arena *arena = self->arena;
    unsigned shift = tnri_arena_space(arena)->page_shift;
    uintptr_t base = arena->growable.base;
    tnri_visit visit;
    size_t released = 0;
    if (tries == CLEARS + NAPS_MAX)
        return tnri_error(TNR_ERR_BUSY,
                          "pages of the block at %p cannot get memory now: work that used them "
                          "before is not over, or the driver refused to unmap them. Try again.",
                          (void *)base);
    if (tries >= CLEARS)
        tnri_nap(NAP_NS);
    tnr_status status = tnri_device_enter(arena->device, &visit);
    if (status != TNR_OK)
        return status;
    if (tnri_pool_work_begin(arena->pool)) {
        tnri_stale_take_back(arena, base + (self->first << shift), base + (self->end << shift));
        (void)tnri_collect_arena(arena, SIZE_MAX, how);
        if (tries > 0)
            status = tnri_stale_drain(arena, 0, how == TNRI_COLLECT_WAIT, &released);
        tnri_pool_work_end(arena->pool);
    } else {
        status = tnri_asleep_error(arena->pool);
    }
    tnri_device_leave(&visit);
    return tries + 1 < CLEARS && status != TNR_ERR_ASLEEP ? TNR_OK : status;
}

/* Prepares the plan for the pages [page, end), which have no memory. Under the lock. */
static tnr_status hole_prepare(tnri_arena *arena, size_t page, size_t end, tnri_request *request)
{
    tnri_range *range = arena->growable.range;
    unsigned shift = tnri_arena_space(arena)->page_shift;
    if (!tnri_world_promise(&arena->worlds[TNRI_LARGE], end - page))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the records of pages.");
    range->promised = end - page;
    range->at = arena->growable.base + (page << shift);
    request->bytes = (end - page) << shift;
    request->bytes_requested = request->bytes + tnri_range_bytes(arena);
    request->alignment = TNR_ALIGNMENT_DEFAULT;
    return TNR_OK;
}

static tnr_status hole_fill(tnri_arena *arena, const tnri_request *request)
{
    tnr_status status = tnri_ladder_grow(arena, request);
    tnri_arena_enter(arena);
    tnri_world_unpromise(&arena->worlds[TNRI_LARGE], arena->growable.range->promised);
    arena->growable.range->promised = 0;
    tnri_arena_leave(arena);
    return tnri_snapshot_oom(status, arena, request->bytes_requested);
}

/* Gives memory to the pages from *page on that one record has; moves *page on. *tries counts how
 * often that was in vain. */
static tnr_status pages_step(const pages *self, size_t *page, int *tries)
{
    tnri_arena *arena = self->arena;
    tnri_request request = {0};
    tnr_status status = TNR_OK;
    tnri_arena_enter(arena);
    const tnri_range *range = tnri_range_of(arena);
    while (range != NULL && *page < self->end && range->live[*page] != NULL)
        ++*page;
    tnri_block *record =
        range == NULL || *page == self->end ? NULL : tnri_range_record(arena, *page);
    unsigned state = record == NULL ? TNRI_LIVE : record->state;
    size_t end = self->end, taken = 0;
    if (range == NULL) {
        status = freed_error(arena);
    } else if (state == TNRI_FREE) {
        taken = tnri_range_take_free(arena, record, *page, end);
        if (taken == 0)
            status = tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the records of pages.");
    } else if (state == TNRI_HOLE) {
        size_t above =
            (tnri_block_end(record) - arena->growable.base) >> tnri_arena_space(arena)->page_shift;
        taken = (above < end ? above : end) - *page;
        status = hole_prepare(arena, *page, *page + taken, &request);
    }
    tnri_arena_leave(arena);
    if (status == TNR_OK && request.bytes > 0)
        status = hole_fill(arena, &request);
    else if (status == TNR_OK && record != NULL && taken == 0)
        return pages_clear(self, (*tries)++);
    *page += taken;
    *tries = 0;
    return status;
}

/* Takes out again what was given to pages that had nothing. */
static void pages_undo(const pages *self, const uint8_t *had)
{
    tnri_arena *arena = self->arena;
    tnri_error_aside aside;
    tnri_error_take(&aside);
    tnri_arena_enter(arena);
    const tnri_range *range = tnri_range_of(arena);
    for (size_t page = self->first; range != NULL && page < self->end; page++)
        if (range->live[page] != NULL && !had[page - self->first])
            tnri_range_drop(arena, page);
    tnri_arena_leave(arena);
    arena_give_back(arena);
    tnri_error_restore(&aside);
}

static tnr_status pages_commit(const pages *self)
{
    tnri_arena *arena = self->arena;
    size_t count = self->end - self->first;
    uint8_t *had = tnri_host_alloc(count);
    if (had == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the list of pages.");
    tnri_arena_enter(arena);
    for (size_t i = 0; i < count; i++)
        had[i] = arena->growable.range->live[self->first + i] != NULL;
    tnri_arena_leave(arena);
    tnr_status status = tnri_pool_is_awake(arena->pool) ? TNR_OK : tnri_asleep_error(arena->pool);
    size_t page = self->first;
    int tries = 0;
    while (status == TNR_OK && page < self->end)
        status = pages_step(self, &page, &tries);
    if (status != TNR_OK)
        pages_undo(self, had);
    tnri_host_free(had, count);
    return status;
}

tnr_status tnr_commit_range(void *ptr, size_t offset, size_t bytes)
{
    TNRI_CALM_CALL;
    pages self;
    int is_range;
    if (ptr == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "a null pointer has no addresses to commit memory to.");
    tnr_status status = call_begin(&self, ptr, offset, bytes, bytes > 0, &is_range);
    if (status != TNR_OK)
        return status;
    const tnri_space *space = tnri_arena_space(self.arena);
    self.first = offset >> space->page_shift;
    self.end = (offset + bytes + tnri_page_bytes(space) - 1) >> space->page_shift;
    uint32_t began = tnri_note_begin();
    if (bytes > 0)
        status = pages_commit(&self);
    if (self.is_new && status == TNR_OK)
        range_announce(self.arena);
    else if (self.is_new)
        range_take_back(self.arena);
    tnri_note_end(began);
    call_end(&self);
    return status;
}

/* ---- decommitting --------------------------------------------------------------------------- */

/* Use number `index` of the range if it is open until the free: its stream, with a reference. *more
 * tells whether there are so many. */
static tnri_stream *open_use(tnri_arena *arena, size_t index, int *more)
{
    tnri_arena_enter(arena);
    const tnri_range *range = tnri_range_of(arena);
    const tnri_use *use = range == NULL ? NULL : range->whole.uses->first;
    while (use != NULL && index-- > 0)
        use = use->next;
    *more = use != NULL;
    int is_open = use != NULL && use->until_free == TNRI_UNTIL_FREE_OPEN;
    tnri_stream *stream = is_open ? use->stream : NULL;
    if (stream != NULL)
        tnri_stream_hold(stream);
    tnri_arena_leave(arena);
    return stream;
}

/* Marks where the uses of tnr_record_stream are by now, which stay open for the rest. */
static tnr_status uses_mark(tnri_arena *arena)
{
    tnr_status status = TNR_OK;
    int more = 1;
    for (size_t i = 0; more && status == TNR_OK; i++) {
        tnri_event *event;
        uint64_t number;
        tnri_stream *stream = open_use(arena, i, &more);
        if (stream == NULL)
            continue;
        status = tnri_stream_mark(stream, &event, &number);
        if (status == TNR_OK) {
            tnri_arena_enter(arena);
            tnri_range *range = tnri_range_of(arena);
            if (range != NULL)
                status = tnri_use_add(arena, &range->whole, stream, number, &event);
            tnri_arena_leave(arena);
            tnri_stream_recycle(stream, event);
        }
        tnri_stream_drop(stream);
    }
    return status;
}

/* A list of uses for each page that has memory, linked through batch_next. Under the lock. */
static tnr_status lists_make(const pages *self, const tnri_range *range, tnri_uses **lists)
{
    tnr_status status = TNR_OK;
    for (size_t page = self->first; status == TNR_OK && page < self->end; page++) {
        if (range->live[page] == NULL)
            continue;
        tnri_uses *list = tnri_uses_copy(range->whole.uses);
        if (list == NULL) {
            status = tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to retire a page.");
        } else {
            list->batch_next = *lists;
            *lists = list;
        }
    }
    return status;
}

/* Takes one page out that other streams may use. Takes the lock over. */
static void page_retire(tnri_arena *arena, tnri_range *range, size_t page, tnri_uses **lists)
{
    tnri_uses *list = *lists;
    tnri_block *block = range->live[page];
    *lists = list->batch_next;
    list->batch_next = NULL;
    list->block = block;
    block->uses = list;
    range->live[page] = NULL;
    tnri_retire(arena, block, list->is_orphaned);
}

/* Takes the pages out. The free of the range by another thread wins. */
static tnr_status pages_take_out(const pages *self)
{
    tnri_arena *arena = self->arena;
    tnri_uses *lists = NULL;
    tnri_arena_enter(arena);
    tnri_range *range = tnri_range_of(arena);
    tnr_status status = range == NULL ? freed_error(arena) : TNR_OK;
    int is_used =
        status == TNR_OK && (range->whole.uses->first != NULL || range->whole.uses->is_orphaned);
    if (is_used)
        status = lists_make(self, range, &lists);
    for (size_t page = self->first;
         status == TNR_OK && page < self->end && tnri_range_of(arena) != NULL; page++) {
        if (range->live[page] == NULL)
            continue;
        if (is_used) {
            page_retire(arena, range, page, &lists);
            tnri_arena_enter(arena);
        } else {
            tnri_range_drop(arena, page);
        }
    }
    tnri_arena_leave(arena);
    while (lists != NULL) {
        tnri_uses *list = lists;
        lists = list->batch_next;
        tnri_uses_free(list, 0);
    }
    return status;
}

tnr_status tnr_decommit_range(void *ptr, size_t offset, size_t bytes)
{
    TNRI_CALM_CALL;
    pages self;
    int is_range;
    if (ptr == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "a null pointer has no addresses to take memory from.");
    tnr_status status = call_begin(&self, ptr, offset, bytes, 0, &is_range);
    if (status != TNR_OK)
        return status;
    const tnri_space *space = tnri_arena_space(self.arena);
    size_t page_mask = tnri_page_bytes(space) - 1;
    size_t end = offset + bytes;
    if (end == self.arena->growable.bytes_max)
        end = (end + page_mask) & ~page_mask; /* nobody else has a part of the last page */
    self.first = (offset + page_mask) >> space->page_shift;
    self.end = end >> space->page_shift;
    uint32_t began = tnri_note_begin();
    if (is_range && self.first < self.end)
        status = uses_mark(self.arena);
    if (is_range && self.first < self.end && status == TNR_OK)
        status = pages_take_out(&self);
    if (is_range && status == TNR_OK)
        arena_give_back(self.arena);
    tnri_note_end(began);
    call_end(&self);
    return status;
}
