/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/compact.h>: memory that live blocks pin goes back to the driver, and the blocks keep
 * their addresses. This header is the manual of that part of the layer.
 *
 * What it is for. Physical memory comes in chunks, and a chunk goes back to the driver as a whole.
 * So a block that stays after a load has ended keeps the whole chunk that it lies in, which may be
 * many times as large: tnr_trim gives nothing of it back. Compaction gives such blocks chunks of
 * their own, just as large as needed. The new chunks are mapped at the same addresses, with the
 * same contents, so pointers and captured graphs stay valid.
 *
 *   tnr_compact           one pool
 *   tnr_device_compact    all pools of a device
 *
 * What it reaches. Afterwards a pool holds only pages (of 2 MiB on today's GPUs; the setting
 * chunk_mb makes them larger) that some live block has a part of. It cannot do better than that:
 * where every second block of 512 KiB was freed, each page still has live ones.
 *
 * How. For each chunk that is partly free, the device copies what is in use to new chunks, and
 * these take the old one's place. Chunks with little in use come first. So the copies need little
 * memory, and each gives back more than the next one takes. If the device has none even for the
 * first, the contents of that chunk go to pinned host memory and back (64 MiB at least must be left
 * of host memory). The calls for a new chunk take some 60 us, and a copy as long as the device's
 * memory takes to read and write it. Later allocations may have to map memory again.
 *
 * What is left as it is: chunks that have a part of a block that is exported, or parked; memory of
 * tnr_reserve, which has no free pages; and pools whose physical memory others know, or must not
 * miss. These are pools
 *   - over foreign segments
 *   - for network cards, or with registered memory (tnr_memory_registered)
 *   - with is_shared, whose chunks other processes map whole
 *   - of graphs, while a graph lives; and those whose graphs the caller orders (vouched). Replays
 *     read free memory of them
 *   - that sleep.
 * tnr_device_compact passes them by, tnr_compact refuses them.
 *
 * Meanwhile. The contract is that of <tenure/sleep.h>: from the call until it returns, no work that
 * uses memory of the pool may be given to a device. Work that was given before is waited for. Other
 * threads may free blocks. Their requests for memory of the pool, and launches through Tenure of
 * graphs that need it, return TNR_ERR_ASLEEP. The callbacks of tnr_sleep_callback_add are told:
 * GOING, and then AWAKE, with a higher generation, if memory was replaced, or else CANCELLED.
 *
 * Failures. The call stops at the first error. What was done stays done, everything else is as
 * before, and nothing is lost. There is one exception, that of a sleep: if the driver refuses to
 * map new memory where the old one was, twice in a row, the pool is asleep. The sentence of
 * tnr_last_error says so, and tnr_pool_wake goes on from there.
 *
 * Threads, context, fork: as <tenure/alloc.h> says. Compactions, sleeps and wakes of a device are
 * made one after the other.
 */
#ifndef TENURE_COMPACT_H
#define TENURE_COMPACT_H

#include <tenure/alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gives back what is free in a pool (null: the default pool of `device`; else `device` must be the
 * pool's), also inside of chunks that live blocks have parts of. *released (may be null) is by how
 * many bytes less the pool holds afterwards, also after an error. Waits for all work of the device
 * and of those that reach the pool. Calls the driver and the callbacks.
 *
 * Errors: TNR_ERR_INVALID_DEVICE, TNR_ERR_INVALID_POOL, TNR_ERR_ASLEEP, TNR_ERR_BUSY (a stream
 * capture is under way; this is a callback of a sleep; or the pool is one of those that are left as
 * they are), TNR_ERR_CAPTURE (a capture that Tenure does not follow was under way; the wait for the
 * device has made it invalid), TNR_ERR_FOREIGN_SEGMENT, TNR_ERR_OUT_OF_MEMORY, TNR_ERR_LIMIT (a
 * chunk's copy fits neither on the device nor on the host; the sentence says what was reached),
 * TNR_ERR_ADDRESS_SPACE, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, TNR_ERR_DRIVER_TOO_OLD,
 * TNR_ERR_AFTER_FORK, those of a device's first use. Since 1.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_compact(size_t *released, tnr_pool pool, int device);

/* The same for all pools of a device that can be compacted; the others are left as they are. Waits
 * as tnr_compact does.
 * Errors: those of tnr_compact but TNR_ERR_INVALID_POOL, TNR_ERR_ASLEEP and
 * TNR_ERR_FOREIGN_SEGMENT. Since 1.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_device_compact(size_t *released, int device);

#ifdef __cplusplus
}
#endif
#endif
