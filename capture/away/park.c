/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of <tenure/park.h>: checks of arguments, and the order of streams. miss/park.h sees
 * to the memory, park_contents.h to the contents.
 *
 * Everything that the block's own stream is given after tnr_park comes after all that used the
 * block, and after the copy of its contents. So everybody else can treat the memory as memory of
 * that stream, like any that was freed.
 */
#include <tenure/park.h>

#include "api/library.h"
#include "away/park_contents.h"
#include "away/register.h"
#include "base/plural.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "gpu/capturing.h"
#include "memory/arena/find.h"
#include "memory/device/device.h"
#include "memory/pool/asleep.h"
#include "miss/park.h"
#include "order/register.h"
#include "order/uses.h"

/* A call that works on one block. */
typedef struct parking {
    void *ptr;
    tnri_arena *arena;
    tnri_stream *own; /* the arena's stream, with a reference */
    tnri_stream *stream;
    tnri_visit visit;
    int keeps; /* 1: the contents are kept, */
    size_t bytes;
    tnri_contents *contents; /* here; null until they are */
} parking;

/* ---- checks --------------------------------------------------------------------------------- */

static tnr_status kind_check(const tnri_arena *arena, const tnri_block *block)
{
    const tnri_account *account = arena->account;
    const char *why = NULL;
    if (account->is_graph)
        why = "graphs know the memory of its pool by its addresses";
    else if (tnri_account_is_kept(account))
        why = "others know the memory of its pool by its addresses";
    else if (account->is_shared || (block->uses != NULL && block->uses->exports > 0))
        why = "other processes may have its memory";
    else if (arena->growable.base != 0)
        why = "it came from tnr_reserve";
    else if (arena->is_guard)
        why = "it is guarded";
    else if (tnri_device_is_host(arena->device))
        why = "it is host memory";
    if (why == NULL)
        return TNR_OK;
    return tnri_error(TNR_ERR_INVALID_ARGUMENT, "the block at %p cannot be parked: %s.",
                      (void *)block->base, why);
}

/* What is at `ptr`. Under its arena's lock. */
static tnr_status block_check(const tnri_arena *arena, const tnri_block *block, void *ptr,
                              int is_parked)
{
    if (block->base != (uintptr_t)ptr)
        return tnri_error(TNR_ERR_INTERIOR_POINTER,
                          "%p lies %zu byte%s inside the block at %p. Give the block's start.", ptr,
                          (size_t)((uintptr_t)ptr - block->base),
                          tnri_plural((uintptr_t)ptr - block->base), (void *)block->base);
    if (is_parked && block->state != TNRI_PARKED)
        return tnri_error(TNR_ERR_NOT_LIVE, "the block at %p is not parked.", ptr);
    if (!is_parked && block->state == TNRI_PARKED)
        return tnri_parked_error(ptr, "was not unparked since");
    return is_parked ? TNR_OK : kind_check(arena, block);
}

/* What becomes of the contents of a block. Under its arena's lock. */
static int block_keeps(const tnri_arena *arena, const tnri_block *block, tnr_content content)
{
    if (content == TNR_CONTENT_DEFAULT)
        content = (tnr_content)block->content;
    if (content == TNR_CONTENT_DEFAULT)
        content = (tnr_content)arena->pool->content;
    return content != TNR_CONTENT_DISCARD;
}

/* Finds the arena of the block, which is live, parked or not as `is_parked` says. */
static tnr_status parking_find(parking *self, void *ptr, tnr_content content, int is_parked)
{
    tnri_device *device;
    tnri_block *block;
    tnr_status status = tnri_library_live(ptr, &device, &block);
    if (status != TNR_OK)
        return status;
    tnri_arena *arena = block->world->arena;
    status = block_check(arena, block, ptr, is_parked);
    *self = (parking){.ptr = ptr, .arena = arena};
    if (status == TNR_OK) {
        self->keeps = block_keeps(arena, block, content);
        self->bytes = tnri_block_requested(block);
    }
    tnri_live_leave(device, block);
    return status;
}

static tnr_status capture_error(tnr_stream stream)
{
    return tnri_error(TNR_ERR_CAPTURE,
                      "stream %p is being captured: blocks are parked and unparked between "
                      "launches, not inside a graph.",
                      (void *)stream);
}

/* Finds the block and all that is needed for it; parking_end ends that. */
static tnr_status parking_begin(parking *self, void *ptr, tnr_stream stream, tnr_content content,
                                int is_parked)
{
    tnr_status status = parking_find(self, ptr, content, is_parked);
    if (status != TNR_OK)
        return status;
    if (tnri_stream_is_capturing(stream))
        return capture_error(stream);
    tnri_device *device = self->arena->device;
    status = tnri_stream_find(device, stream, &self->stream);
    if (status == TNR_OK)
        status = tnri_device_enter(device, &self->visit);
    if (status != TNR_OK)
        return status;
    if (!tnri_pool_work_begin(self->arena->pool)) {
        tnri_device_leave(&self->visit);
        return tnri_asleep_error(self->arena->pool);
    }
    tnri_lifetime_register();
    tnri_away_register();
    self->own = tnri_arena_stream(self->arena);
    return TNR_OK;
}

static void parking_end(parking *self)
{
    tnri_stream_drop(self->own);
    tnri_pool_work_end(self->arena->pool);
    tnri_device_leave(&self->visit);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Says what a wait could not be made for. */
static tnr_status order_error(const parking *self, tnr_status status, const tnri_stream *stream)
{
    if (status == TNR_ERR_CAPTURE)
        return capture_error(stream->handle);
    if (status == TNR_ERR_INVALID_STREAM)
        return tnri_error(status,
                          "the stream of the block at %p has ended, so nothing on it can wait for "
                          "stream %p.",
                          self->ptr, (void *)self->stream->handle);
    return status;
}

/* Makes `after` wait for all that `before` has been given. */
static tnr_status streams_order(const parking *self, tnri_stream *after, tnri_stream *before)
{
    tnri_event *event;
    uint64_t number;
    if (after == before)
        return TNR_OK;
    tnr_status status = tnri_stream_mark(before, &event, &number);
    if (status != TNR_OK)
        return status;
    status = tnri_stream_follow(after, event, before, number);
    tnri_stream_recycle(before, event);
    return order_error(self, status, after);
}

/* ---- parking -------------------------------------------------------------------------------- */

/* Makes `stream` come after all that uses the block. */
static tnr_status uses_before(const parking *self, tnri_stream *stream)
{
    tnr_status status = tnri_uses_order(self->arena, self->ptr, stream);
    return order_error(self, status, stream);
}

/* Copies that may be under way for a call that fails: waits for them, in whichever way the driver
 * permits. If it permits none, the context has ended. */
static void copies_wait(const parking *self)
{
    tnri_error_aside aside;
    tnri_event *event;
    uint64_t number;
    tnri_error_take(&aside);
    if (tnri_gpu_stream_await(self->stream->handle) != CUDA_SUCCESS &&
        tnri_gpu_context_await() != CUDA_SUCCESS &&
        tnri_stream_mark(self->stream, &event, &number) == TNR_OK) {
        (void)tnri_event_wait(event);
        tnri_stream_recycle(self->stream, event);
    }
    tnri_error_restore(&aside);
}

/* Has the block's contents copied to the host, by the caller's stream, after all uses. */
static tnr_status contents_save(parking *self)
{
    tnr_status status = streams_order(self, self->stream, self->own);
    if (status == TNR_OK)
        status = uses_before(self, self->stream);
    if (status == TNR_OK)
        status =
            tnri_contents_make(&self->contents, self->arena->device, self->bytes, self->stream);
    if (status != TNR_OK)
        return status;
    return tnri_contents_copy(self->contents, self->ptr, self->stream->handle, 1);
}

/* From here on the block's own stream comes after everything, and *event tells when it is over. One
 * that has ended is refused before anything is copied. */
static tnr_status uses_end(parking *self, tnri_event **event)
{
    uint64_t number;
    if (self->own != self->stream && atomic_load(&self->own->is_dead))
        return order_error(self, TNR_ERR_INVALID_STREAM, self->own);
    tnr_status status = self->keeps ? contents_save(self) : TNR_OK;
    if (status == TNR_OK)
        status = streams_order(self, self->own, self->stream);
    if (status == TNR_OK && !self->keeps)
        status = uses_before(self, self->own);
    return status == TNR_OK ? tnri_stream_mark(self->own, event, &number) : status;
}

tnr_status tnr_park(size_t *bytes, void *ptr, tnr_stream stream, tnr_content content)
{
    TNRI_CALM_CALL;
    parking self;
    size_t parked = 0;
    tnri_event *event = NULL;
    if (bytes != NULL)
        *bytes = 0;
    if ((int)content < 0 || content > TNR_CONTENT_DISCARD)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "%d is not a content policy.", (int)content);
    tnr_status status = parking_begin(&self, ptr, stream, content, 0);
    if (status != TNR_OK)
        return status;
    status = uses_end(&self, &event);
    if (status == TNR_OK)
        status = tnri_park(&parked, self.arena, ptr, event, self.contents);
    if (status != TNR_OK && event != NULL)
        tnri_stream_recycle(self.own, event);
    if (status != TNR_OK && self.contents != NULL) {
        copies_wait(&self); /* the block may be freed, and what is free unmapped */
        tnri_contents_unmake(self.contents);
    }
    if (status == TNR_OK)
        atomic_fetch_add(&self.arena->device->parks, 1);
    if (bytes != NULL)
        *bytes = parked;
    parking_end(&self);
    return status;
}

/* ---- unparking ------------------------------------------------------------------------------ */

/* The block's own stream does not wait for the copy, so that it runs beside other work. Who frees
 * the block does: the copy is a use of the caller's stream. */
static tnr_status copy_record(const parking *self, const tnri_parked *parked, tnri_event *event,
                              uint64_t number)
{
    tnri_event_hold(event);
    tnri_arena_enter(self->arena);
    tnr_status status = tnri_use_add(self->arena, parked->block, self->stream, number, &event);
    tnri_arena_leave(self->arena);
    tnri_stream_recycle(self->stream, event);
    return status;
}

/* Has the contents copied back, by the caller's stream. *event tells when that is over. */
static tnr_status contents_restore(const parking *self, const tnri_parked *parked,
                                   tnri_event **event, uint64_t *number)
{
    if (parked->kept == NULL)
        return TNR_OK;
    tnr_status status = tnri_contents_copy(parked->kept, self->ptr, self->stream->handle, 0);
    if (status == TNR_OK)
        status = tnri_stream_mark(self->stream, event, number);
    if (status == TNR_OK && self->own != self->stream)
        status = copy_record(self, parked, *event, *number);
    if (status == TNR_OK)
        return TNR_OK;
    copies_wait(self);
    tnri_event_drop(*event);
    *event = NULL;
    return status;
}

tnr_status tnr_unpark(void *ptr, tnr_stream stream)
{
    TNRI_CALM_CALL;
    parking self;
    tnri_parked *parked = NULL;
    tnri_event *event = NULL;
    uint64_t number = 0;
    tnr_status status = parking_begin(&self, ptr, stream, TNR_CONTENT_DISCARD, 1);
    if (status != TNR_OK)
        return status;
    status = tnri_unpark_begin(&parked, self.arena, ptr);
    if (status == TNR_OK) {
        status = tnri_unpark_fill(parked);
        if (status == TNR_OK)
            status = streams_order(&self, self.stream, self.own);
        if (status == TNR_OK)
            status = contents_restore(&self, parked, &event, &number);
        void *kept = tnri_unpark_end(parked, status == TNR_OK);
        if (kept != NULL)
            tnri_contents_end_after(kept, event, self.stream, number);
    }
    if (status == TNR_OK)
        atomic_fetch_add(&self.arena->device->unparks, 1);
    parking_end(&self);
    return status;
}
