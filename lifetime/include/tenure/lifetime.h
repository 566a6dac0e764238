/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/lifetime.h>: when memory is free again, for blocks that several streams use. This header
 * is the manual of the layer.
 *
 * The problem. A block belongs to the stream that it was allocated on, and its free is ordered
 * there. If another stream uses it too, the free alone does not wait for that use. So say where
 * the use ends:
 *
 *   tnr_record_use(ptr, stream)      the use ends HERE: what is enqueued on `stream` later does
 *                                    not delay the block. Call it after the last launch or copy
 *                                    that touches the block
 *   tnr_record_stream(ptr, stream)   the use ends no later than the free of the block. Less
 *                                    precise, but may be called before the use
 *   tnr_keep_until(ptr, event)       the use ends at an event of your own
 *
 * and then free the block whenever you like. The calls compose; each stream's latest mark counts,
 * so a block remembers at most one use for each stream however often they are called.
 *
 * How a block becomes free. A freed block with unfinished uses is *retired*. It is free again when
 *   - its own stream already waits for the uses. Tenure knows this from what the program told it
 *     (below) and from its own waits, and does not ask the driver; or
 *   - the uses are seen to be over. Tenure asks for this only when memory is short, never on the
 *     cached path; or
 *   - Tenure makes its stream wait for them, on the device (setting reuse:wait).
 * Tenure counts which one it was: tnr_stats.freed_because.
 *
 * Telling Tenure what the program knows makes more memory free sooner, and is always optional:
 * tnr_event_recorded, tnr_stream_waited, tnr_event_synchronized, tnr_stream_synchronized,
 * tnr_device_synchronized. A false statement breaks the guarantee. So make each of these calls
 * where the CUDA call is, after that has succeeded.
 *
 * One thing is not optional: to tell the end of a stream. If memory was allocated or recorded on a
 * stream, call tnr_stream_destroying before cuStreamDestroy. The driver gives the same handle to a
 * later stream.
 *
 * The idea of a use that ends where it is recorded is PyTorch's record_use proposal (never merged);
 * order known from vector clocks is Lamport's and Mattern's.
 *
 * Threads, context, fork, failure: as <tenure/alloc.h> says. None of these calls waits for the
 * device.
 */
#ifndef TENURE_LIFETIME_H
#define TENURE_LIFETIME_H

#include <tenure/alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A CUDA event. The same type as CUevent and cudaEvent_t. */
typedef struct CUevent_st *tnr_event;

/* ---- uses ---------------------------------------------------------------------------------- */

/* The use of the block that contains `ptr` by `stream` ends here: work enqueued on `stream` so far
 * may use it, later work does not. Records one event, now. Does nothing if `stream` is the block's
 * own. `ptr` may point anywhere into the block. Calls the driver once. `stream` may be a stream of
 * a peer, that is of another device that Tenure has allocated on. The block then also waits for
 * earlier such uses on its device (since 0.2.0; see tnr_pool_access_set).
 * Errors, each leaving the block as it was: TNR_ERR_INVALID_ARGUMENT (null),
 * TNR_ERR_FOREIGN_POINTER, TNR_ERR_NOT_LIVE, TNR_ERR_INVALID_STREAM (destroyed, or of another
 * context), TNR_ERR_CAPTURE (the stream captures, and Tenure was not told of it),
 * TNR_ERR_CAPTURE_INVALIDATED, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER; TNR_ERR_PARKED
 * (<tenure/park.h>) since 0.2.0. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_record_use(const void *ptr, tnr_stream stream);

/* The use of the block by `stream` ends no later than the block's free: Tenure records the event
 * then. PyTorch's record_stream. Does nothing if `stream` is the block's own. Not for streams of a
 * peer (TNR_ERR_INVALID_STREAM): use tnr_record_use where the peer's use ends. Usually makes no
 * driver call. The block's free then calls the driver once for each such stream, and once besides.
 * If that fails, so does the free, and the block is still live.
 * Errors: as tnr_record_use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_record_stream(const void *ptr, tnr_stream stream);

/* The block is in use until `event`, as it is recorded now, has completed. The event may be
 * recorded again later, which does not matter, and may be destroyed at any time. It must have been
 * announced by tnr_event_recorded, on any device. Errors: as tnr_record_use but
 * TNR_ERR_CAPTURE_INVALIDATED; TNR_ERR_INVALID_EVENT (never announced), TNR_ERR_CAPTURE also if a
 * capture has recorded the event since. Since 0.1.0; events of peers since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_keep_until(const void *ptr, tnr_event event);

/* ---- frees --------------------------------------------------------------------------------- */

/* Frees a block, ordered on `stream` instead of the block's own: all work enqueued on `stream` so
 * far may still use it. The same as tnr_record_use and tnr_free, in one. Errors: those of tnr_free,
 * and those of tnr_record_use but TNR_ERR_INVALID_ARGUMENT. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_free_on(void *ptr, tnr_stream stream);

/* Frees a block with cudaFree's meaning: nothing that any stream of the device has been given so
 * far may see the memory change. Unlike cudaFree, it does not stop the host. Many such frees share
 * one set of events, which Tenure records when it wants their memory. While poison or canary is on,
 * the free records the events itself and waits for them, for a second at most (docs/traps.md).
 *
 * It covers the legacy stream, which stands for all blocking ones, and every stream that Tenure
 * knows: a stream that was allocated on or recorded, also in a capture, or announced by
 * tnr_stream_created. It does not cover a non-blocking stream that Tenure never saw. The same holds
 * for the streams of other devices that reach memory of the device (tnr_pool_access_set) and on
 * which Tenure is in use.
 * Errors: those of tnr_free, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_free_sync(void *ptr);

/* ---- what the program knows ---------------------------------------------------------------- */

/* A stream was created. Optional: the call checks the stream and makes its first use cheaper.
 * Errors: TNR_ERR_INVALID_STREAM, TNR_ERR_CAPTURE (the stream is being captured, and the driver
 * must not be asked about it), those of a device's first use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_stream_created(int device, tnr_stream stream);

/* A stream is about to be destroyed; call this before cuStreamDestroy. The stream's work may go on.
 * Memory that was freed on it becomes available to the next new stream, which Tenure makes wait for
 * the end of that work. Blocks that were allocated on it stay live and are freed as usual. Harmless
 * for a stream that Tenure never saw, or whose end was announced before: Tenure then does not ask
 * the driver about the handle, which may be gone. Errors: TNR_ERR_INVALID_STREAM (a default
 * stream), TNR_ERR_CAPTURE (the stream captures, and Tenure was not told of it), those of a
 * device's first use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_stream_destroying(int device, tnr_stream stream);

/* What need not be told. A program that hooks every record and wait can leave most of them out, at
 * the price of a few loads. It need not announce:
 *   - a wait for an event, or that the host has seen the event complete, if tnr_event_is_announced
 *     says 0 before the call;
 *   - that an event was recorded on a stream, or that the host has waited for the stream, if
 *     tnr_stream_is_asked says 0: Tenure wants to know nothing of the stream so far. The answer
 *     holds as long as tnr_asked_changes gives what it gave before the question. The program must
 *     still make Tenure forget what was announced of the event before (tnr_event_destroyed, before
 *     the record). tnr_keep_until then no longer accepts the event.
 * tnr_event_is_announced: 1 if something may be announced of the event; else 0. Any thread, at any
 * time. tnr_stream_is_asked: 1 if the announcement counts, or if that is not known; else 0. It
 * calls the driver for a stream that Tenure has not seen, and puts the device into use. Since
 * 0.2.0. */
TNR_API int tnr_event_is_announced(tnr_event event);
TNR_API int tnr_stream_is_asked(int device, tnr_stream stream);
TNR_API uint64_t tnr_asked_changes(void);

/* A moment in the order of all marks and announcements. Take one before a CUDA call and pass it to
 * the announcement after the call. Tenure then does not take what other threads record and announce
 * meanwhile for covered. Since 0.1.0. */
typedef uint64_t tnr_moment;
TNR_API tnr_moment tnr_moment_now(void);

/* `event` was recorded on `stream`, by a call that began after the moment `before`. Recording it
 * again replaces what was announced. Errors: TNR_ERR_INVALID_EVENT (null, or not of the
 * device), and those of tnr_stream_created. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_event_recorded(tnr_event event, int device, tnr_stream stream,
                                                    tnr_moment before);

/* `event` was or will be destroyed: forgets what was announced of it. Call it also before an event
 * is recorded again that another thread may be waiting for, and before a graph is launched that
 * records it, or a kernel whose attributes name it. Otherwise Tenure takes a wait that comes
 * between the new record and its announcement, which a launch has none of, for a wait for the old
 * record. Since 0.1.0. */
TNR_API void tnr_event_destroyed(tnr_event event);

/* `stream` was made to wait for `event`, by a cuStreamWaitEvent that began after the moment
 * `before`. Counts if the event's latest record was announced before that moment. Otherwise Tenure
 * does not know which record the stream waits for, and learns nothing. Errors:
 * those of tnr_stream_created. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_stream_waited(tnr_event event, int device, tnr_stream stream,
                                                   tnr_moment before);

/* The host has seen `event` complete (cuEventSynchronize, or cuEventQuery said so), by a call that
 * began after the moment `before`. Counts as tnr_stream_waited does. Since 0.1.0. */
TNR_API void tnr_event_synchronized(tnr_event event, tnr_moment before);

/* The host has waited for `stream` (cuStreamSynchronize), by a call that began after the moment
 * `before`. Errors: those of tnr_stream_created. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_stream_synchronized(int device, tnr_stream stream,
                                                         tnr_moment before);

/* The same for the whole device (cuCtxSynchronize). Errors: those of a device's first use. Since
 * 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_device_synchronized(int device, tnr_moment before);

#ifdef __cplusplus
}
#endif
#endif
