/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/range.h>: blocks of tnr_reserve with holes. This header is the manual of that part of the
 * layer.
 *
 * A cache of keys and values in pages, as serving engines have it, wants one range of addresses and
 * memory only where a page is in use:
 *
 *     tnr_reserve(&cache, most, device, stream)
 *     tnr_commit_range(cache, 7 * page, page)       page 7 has memory
 *     ...                                           graphs that know `cache` are captured, replayed
 *     tnr_decommit_range(cache, 7 * page, page)     page 7 has none
 *     tnr_free(cache)                               all of it
 *
 * Pages. Memory comes and goes in pages of the setting chunk_mb, 2 MiB unless set, counted from the
 * block's start (tnr_setting_get tells). A commit gives memory to each page
 * that it touches, a decommit takes it from each page that lies wholly inside, up to the block's
 * end. So two neighbours that do not end at a page keep the one that they share until the call that
 * covers all of it. Each page is a piece of physical memory of its own, at some 30 us for the
 * driver. Make pages of a cache some MiB, or commit many at once.
 *
 * Which blocks. The first call that gives a block of tnr_reserve memory decides: after
 * tnr_commit_range the block is a *range*, which tnr_commit refuses; after tnr_commit it grows from
 * its start, and the calls here refuse it (TNR_ERR_INVALID_ARGUMENT).
 *
 * Order. Both calls act in the order of the block's stream. What the stream was given before a
 * decommit may still use the page, and what it is given after a commit finds the memory. A use by
 * another stream is recorded as of any block (tnr_record_use, of any address in the range): it is
 * for the whole range. The memory goes only after all uses that were recorded before the decommit.
 * When a page gets memory again before that, its stream waits on the device.
 *
 * Where the memory goes. Back to the driver, as soon as a call for the range or a trim finds that
 * the work is over, or when memory is short; so a decommit of zero bytes looks, and waits for
 * nothing. From then on the addresses fault, as those do that never had memory; until then they may
 * not. A commit that comes before takes the page's memory back, without mapping it. If others know
 * the pool's memory by its addresses (tnr_memory_registered), it stays with the pool.
 *
 * Graphs. A captured graph that refers to an address of the range keeps the range, not its pages:
 * each launch finds what has memory then, with its contents. So page 7 may go between two launches
 * if the next one does not touch it. A launch is work of its stream: one on another stream than the
 * block's needs tnr_record_use before the decommit.
 *
 * To the rest a range is one block: it is freed whole, tnr_block_get finds it from any address
 * inside (`bytes` says what has memory), and tnr_block_content_set is for all of it. A sleep keeps
 * the contents of pages that have memory; after the wake the same pages have memory. Statistics,
 * snapshots and the history count each page with memory as a block, and the range itself as one
 * without bytes. A range can't be parked or exported.
 *
 * Names of errors that these functions share with all others (TNR_ERR_AFTER_FORK and more) are in
 * status.h.
 */
#ifndef TENURE_RANGE_H
#define TENURE_RANGE_H

#include <tenure/alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes sure that the bytes [offset, offset + bytes) of a block of tnr_reserve have memory; `ptr`
 * is the block's start. Pages that have some keep it, with their contents; that of others is not
 * set. Either all of them get memory or, on an error, none more than before. Zero bytes do nothing.
 * May call the driver; waits up to two seconds for a thread that is unmapping one of the pages.
 * If another thread frees the block meanwhile, the free wins (TNR_ERR_NOT_LIVE).
 *
 * Errors: TNR_ERR_INVALID_SIZE (it reaches beyond the end of the block), TNR_ERR_INVALID_ARGUMENT
 * (a block of tnr_malloc, or one that tnr_commit has given memory), TNR_ERR_BUSY (another thread is
 * in one of the calls of tnr_commit, tnr_commit_range and tnr_decommit_range for the block, or old
 * work on a page cannot be waited for now), TNR_ERR_FOREIGN_POINTER, TNR_ERR_INTERIOR_POINTER,
 * TNR_ERR_NOT_LIVE, TNR_ERR_OUT_OF_MEMORY, TNR_ERR_LIMIT, TNR_ERR_ASLEEP, TNR_ERR_HOST_MEMORY,
 * TNR_ERR_CAPTURE, TNR_ERR_DRIVER. Since 1.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_commit_range(void *ptr, size_t offset, size_t bytes);

/* Takes the memory from the pages that lie wholly inside the bytes [offset, offset + bytes) of a
 * block of tnr_reserve; `ptr` is the block's start. Pages without memory stay without. Works while
 * the pool sleeps. On an error nothing has changed.
 *
 * Errors: TNR_ERR_INVALID_SIZE, TNR_ERR_INVALID_ARGUMENT, TNR_ERR_BUSY, TNR_ERR_FOREIGN_POINTER,
 * TNR_ERR_INTERIOR_POINTER, TNR_ERR_NOT_LIVE, as tnr_commit_range. TNR_ERR_CAPTURE,
 * TNR_ERR_INVALID_STREAM and TNR_ERR_DRIVER: a use of tnr_record_stream ends here and could not be
 * marked. TNR_ERR_HOST_MEMORY. Since 1.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_decommit_range(void *ptr, size_t offset, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
