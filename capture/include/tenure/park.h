/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/park.h>: blocks that keep their addresses while their memory serves others. This header
 * is the manual of that part of the layer.
 *
 * What it is for. A CUDA graph knows addresses, so what its launches read and write must be where
 * it was captured. The activations of 24 layers, each with a graph, would need memory 24 times,
 * although one layer runs at a time. A program that knows when nothing of a block is needed parks
 * the block, and unparks it before the next launch that uses it:
 *
 *   tnr_park        from this point of a stream on, the block's memory may serve other blocks
 *   tnr_unpark      brings memory to the same addresses, before what a stream gets next
 *
 * The program calls both between launches, from the host. The order is that of the streams, so they
 * return without waiting for work on the device. Only tnr_unpark may wait: if the block gets other
 * chunks (see "What comes back"), or if memory is short.
 *
 * What is parked. The whole chunks inside the block. A chunk is 2 MiB or larger. If the block
 * begins or ends in the middle of a chunk, that part is not parked; of a block smaller than a
 * chunk, nothing is. tnr_park says how much is parked. The best size for a block that is to be
 * parked is a multiple of 2 MiB.
 *
 * Who gets it. Other blocks of the same pool. A block that is unparked takes parked memory before
 * anything that is free. A new block takes it when nothing is free in the pool, before the pool
 * grows. Tenure does nothing until the memory is needed: if nothing has been taken from a
 * block, to park and unpark it costs two calls and nothing more. Parked memory counts as reserved.
 * It goes back to the driver, once its work is over and after all that is free, for each that asks:
 * tnr_trim and its kind, a request or wake of another pool that would be refused, another process
 * of the group. Then the block comes back with new memory, which takes as long as any;
 * tnr_stats.bytes_parked_away says how much is gone.
 *
 * What comes back. The same chunks, if they are free again or parked in another block. Their old
 * mapping is still there, so Tenure asks nothing of the driver but the order of streams, and no
 * thread waits. Blocks that are in use one after the other share the same chunks from the second
 * round on. If the same chunks are gone, the block gets others, and its old mapping must
 * go. That is possible only once all that was given to the block's stream before it was parked is
 * over. If it is not over, tnr_unpark waits for it on the host, and tnr_stats.park_waits counts
 * that.
 *
 * Contents. With TNR_CONTENT_DISCARD all contents of the block are undefined afterwards. With
 * TNR_CONTENT_KEEP the stream that is named copies them to pinned host memory, and back when the
 * block is unparked; no thread waits for copies. They take as much of the host memory near the
 * device as the block has, in slabs of 20 MiB and more (<tenure/host.h>). Pinning takes long, so
 * what has been pinned stays for the next block until it is trimmed; tnr_sleep_prepare has it ready
 * ahead of time.
 * TNR_CONTENT_DEFAULT is what tnr_block_content_set or the block's pool says, or else to keep.
 *
 * Beside other work. The block's own stream waits for the copies, since the memory is its to give.
 * So allocate what is to be copied on a stream for copies, and record the uses of the stream that
 * computes (tnr_record_use). Park and unpark on the stream for copies. The stream that computes
 * waits for an event that was recorded there after tnr_unpark, and for nothing else. If a block is
 * unparked right after another was parked, it gets the other's memory, once the copy is over. The
 * activations of 24 layers then need memory for 24 - K of them. Each of the first K is parked when
 * it has been computed, and the one that comes 24 - K layers later is unparked. On the way back it
 * is the other way round.
 *
 * Meanwhile the block is live: it counts as live, and may be freed like any other. But Tenure
 * refuses with TNR_ERR_PARKED whatever works on its memory: to launch a graph through Tenure that
 * refers to it, to record a use of it, to export it, to free it while a graph refers to it. A
 * launch that Tenure is not told of reads and overwrites what others have there. The block's pool
 * may sleep and wake: the block then gets other chunks when it is unparked.
 *
 * Not for: blocks of graph pools; blocks of pools whose addresses others know (vouched, registered,
 * for network cards, foreign segments, shared); blocks of tnr_reserve; exported blocks; guarded
 * blocks. Every graph of a graph pool may have used the addresses of a block before the block was
 * there, so Tenure could let no launch of any of them through. Allocate what is to be parked before
 * the capture.
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
 * given until now, and after all uses that were recorded: Tenure makes the block's own stream wait
 * for both, on the device. *bytes (`bytes` may be null) becomes how much of it is parked; 0 isn't
 * an error. If the call fails, nothing has changed.
 * Errors: TNR_ERR_INVALID_ARGUMENT (the block or its pool is of a kind that cannot be parked; no
 * such content), TNR_ERR_FOREIGN_POINTER, TNR_ERR_INTERIOR_POINTER, TNR_ERR_NOT_LIVE,
 * TNR_ERR_PARKED (it is already), TNR_ERR_CAPTURE (a stream that is needed is being captured),
 * TNR_ERR_INVALID_STREAM (also if the block's own stream has ended, and no other stream has taken
 * over what it had, as the next one that begins to allocate from the pool does),
 * TNR_ERR_ASLEEP, TNR_ERR_HOST_MEMORY (also if the contents cannot be pinned), TNR_ERR_BUSY
 * (contents cannot be pinned while a capture is under way), TNR_ERR_DRIVER, TNR_ERR_DRIVER_TOO_OLD,
 * TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_park(size_t *bytes, void *ptr, tnr_stream stream,
                                          tnr_content content);

/* Brings memory back to the parked block that begins at `ptr`, and its contents if they were kept,
 * before what `stream` is given next. To have the contents early, beside other work, name a stream
 * for copies, and make the stream that goes on with the block wait for that one, by an event. If
 * the call fails, the block is parked as before.
 * Errors: TNR_ERR_NOT_LIVE (no parked block is there), TNR_ERR_INTERIOR_POINTER,
 * TNR_ERR_FOREIGN_POINTER, TNR_ERR_BUSY (another thread unparks it), TNR_ERR_OUT_OF_MEMORY,
 * TNR_ERR_LIMIT, TNR_ERR_CAPTURE (a stream that is needed is being captured),
 * TNR_ERR_INVALID_STREAM, TNR_ERR_ASLEEP, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_unpark(void *ptr, tnr_stream stream);

#ifdef __cplusplus
}
#endif
#endif
