/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/park.h>: blocks that keep their addresses while their memory serves others. This header
 * is the manual of that part of the layer.
 *
 * What it is for. A CUDA graph knows addresses, so what its launches read and write must be where
 * it was captured: the activations of 24 layers, each with a graph, would need memory 24 times,
 * although one layer runs at a time. A program that knows when nothing of a block is needed parks
 * it, and unparks it before the next launch that uses it:
 *
 *   tnr_park        from this point of a stream on, the block's memory may serve other blocks
 *   tnr_unpark      brings memory to the same addresses, before what a stream gets next
 *
 * Both are called between launches, from the host, and return at once; the order is that of the
 * streams.
 *
 * What is parked. The whole chunks inside the block: of a block that begins or ends in the middle
 * of a chunk (2 MiB or more, as large as they are) less than all; of one smaller than a chunk
 * nothing. tnr_park says how much. Blocks that are to be parked are best multiples of 2 MiB.
 *
 * Who gets it. Other blocks of the same pool: those that are unparked, before anything that is
 * free, and new ones, when nothing is free in the pool and before it grows. Nothing is done until
 * somebody needs the memory: who parks and unparks a block that nobody has taken anything from pays
 * for two calls alone. Parked memory counts as reserved. It goes back to the driver, once its work
 * is over and after all that is free, for who asks: tnr_trim and its kind, another pool's request
 * or wake that would be refused, another process of the group. What comes back is new memory then,
 * which takes as long as any; tnr_stats.bytes_parked_away says how much is gone.
 *
 * What comes back. The same chunks if they are free again, or parked in another block: their old
 * mapping is still there, so nothing is asked of the driver but the order of streams, and nobody
 * waits. Blocks that are in use one after the other share the same chunks from the second round on.
 * Otherwise others, for which the old mapping must go: only once all that was given to the block's
 * stream before it was parked is over. If it is not, tnr_unpark waits for it on the host, and
 * tnr_stats.park_waits counts that.
 *
 * Contents. With TNR_CONTENT_DISCARD they are undefined afterwards, all of the block's. With
 * TNR_CONTENT_KEEP the stream that is named copies them to pinned host memory, and back when the
 * block is unparked; nobody waits for copies. Pinning takes long, so what has been pinned is kept
 * for the next block, in pieces of 32 MiB, and tnr_sleep_prepare has it ready ahead of time.
 * TNR_CONTENT_DEFAULT is what tnr_block_content_set or the block's pool says, and else to keep.
 *
 * Beside other work. The block's own stream waits for the copies, since the memory is its to give.
 * So allocate what is to be copied on a stream for copies, record the uses of the stream that
 * computes (tnr_record_use), and park and unpark on the stream for copies: what computes waits for
 * an event that was recorded there after tnr_unpark, and for nothing else. Whoever is unparked
 * right after another was parked gets its memory, once the copy is over. The activations of 24
 * layers then need memory for 24 - K of them: each of the first K is parked when it was computed,
 * and the one that comes 24 - K layers later is unparked; on the way back the other way round.
 *
 * Meanwhile the block is live: it may be freed, as any, and counts as live; but what works on its
 * memory is refused with TNR_ERR_PARKED: launching a graph through Tenure that refers to it (a
 * launch that Tenure is not told of reads and overwrites what others have there), recording a use,
 * exporting it, freeing it while a graph refers to it. Its pool may sleep and wake: then it gets
 * other chunks when it is unparked.
 *
 * Not for: blocks of graph pools and of pools whose addresses others know (vouched, registered, for
 * network cards, foreign segments, shared), of tnr_reserve, exported ones, and guarded ones. Every
 * graph of a pool may have used the addresses of a block before the block was there, so no launch
 * of any could be let through; what is to be parked is allocated before the capture.
 *
 * Threads, context, fork: as <tenure/alloc.h> says.
 */
#ifndef TENURE_PARK_H
#define TENURE_PARK_H

#include <tenure/sleep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parks the live block that begins at `ptr`. Its memory may serve others after what `stream` was
 * given until now, and after all uses that were recorded: the block's own stream is made to wait
 * for both, on the device. *bytes (may be null): how much of it is parked; 0 is no error. Errors:
 * TNR_ERR_INVALID_ARGUMENT (the block or its pool is of a kind that cannot be parked; no such
 * content), TNR_ERR_FOREIGN_POINTER, TNR_ERR_INTERIOR_POINTER, TNR_ERR_NOT_LIVE, TNR_ERR_PARKED (it
 * is already), TNR_ERR_CAPTURE (a stream that is needed is being captured), TNR_ERR_INVALID_STREAM
 * (also if the block's own stream has ended, and `stream` is another one), TNR_ERR_ASLEEP,
 * TNR_ERR_HOST_MEMORY (also if the contents cannot be pinned), TNR_ERR_BUSY (contents cannot be
 * pinned while a capture is under way), TNR_ERR_DRIVER, TNR_ERR_DRIVER_TOO_OLD,
 * TNR_ERR_AFTER_FORK. Nothing has changed then. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_park(size_t *bytes, void *ptr, tnr_stream stream,
                                          tnr_content content);

/* Brings memory back to the parked block that begins at `ptr`, and its contents if they were kept,
 * before what `stream` is given next. To have the contents early, beside other work, name a stream
 * for copies, and have the one that goes on with the block wait for it, by an event. Errors:
 * TNR_ERR_NOT_LIVE (no parked block begins there), TNR_ERR_FOREIGN_POINTER, TNR_ERR_BUSY (another
 * thread unparks it), TNR_ERR_OUT_OF_MEMORY, TNR_ERR_LIMIT, and as for tnr_park. The block is
 * parked then, as before. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_unpark(void *ptr, tnr_stream stream);

#ifdef __cplusplus
}
#endif
#endif
