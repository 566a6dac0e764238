/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stale mappings: addresses whose memory has moved on, waiting to be unmapped.
 *
 * The driver silently unmaps memory under running work (measured: only cuMemFree waits). So an
 * unmap needs proof first: an event recorded on the arena's stream after the cut, and seen to be
 * over. Each arena keeps its STALE records in the order of their events, and only the first event
 * is ever asked. If the chunks of a record have moved, the record is just unmapped. If its pages
 * still hold their chunks, these are given back to the driver with it.
 */
#ifndef TNRI_MISS_STALE_H
#define TNRI_MISS_STALE_H

#include "memory/arena/arena.h"
#include "memory/device/chunk.h"

/* Queues a record to wait for `event`, and takes over one reference to it. Under the lock. */
void tnri_stale_add(tnri_arena *arena, tnri_block *stale, tnri_event *event);
/* Queues a record that nothing uses. Under the lock. */
void tnri_stale_add_done(tnri_arena *arena, tnri_block *stale, void *unused);

/* Unmaps what may be unmapped: from the oldest on, as long as events are over, until at most `keep`
 * remain. With `wait`, waits for events that are not over; if `keep` is 0 then, aliases go too. In
 * the device's context, no lock held. Adds the bytes given back to the driver to *released. Errors
 * are the driver's; what was done stays done. */
tnr_status tnri_stale_drain(tnri_arena *arena, size_t keep, int wait, size_t *released);

/* Queues the oldest aliases of an arena to be unmapped, until at most `keep` mappings are left.
 * While the proof cannot be had, they stay, and nothing comes back to them; the error says so. In
 * the device's context, no lock held. */
tnr_status tnri_stale_expire(tnri_arena *arena, size_t keep);

/* STALE -> FREE: takes those records out of the queue that still hold their chunks and have
 * something of [base, end). No lock is held. */
void tnri_stale_take_back(tnri_arena *arena, uintptr_t base, uintptr_t end);

/* Cuts idle chunks out of an arena, at most `bytes`, and queues them to be given back. Returns the
 * bytes queued in *queued. In the device's context, no lock held. */
tnr_status tnri_stale_release(tnri_arena *arena, size_t bytes, size_t *queued);

/* For a chunk that goes back to the driver: removes its old mappings that stayed, in all arenas of
 * its pool. Work on those addresses was over, or ordered, before the chunk moved on. So if the
 * chunk is idle where it is, it is idle everywhere. Returns 0 if one is left: it lies in a window
 * that another thread is making (PENDING), and is an ALIAS again if that thread gives up. Then the
 * chunk must stay for now. In the device's context, no lock held. */
int tnri_stale_forget_aliases(tnr_pool pool, const tnri_chunk *chunk);

/* Bytes of the queued records that still hold their chunks: memory that is on its way back to the
 * driver, and reserved until it is there. Under the lock. */
size_t tnri_stale_held_bytes(const tnri_arena *arena);

#endif
