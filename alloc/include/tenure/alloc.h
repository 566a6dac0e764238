/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/alloc.h>: device memory, served from per-stream arenas over the driver's virtual
 * memory management. This header is the manual of the layer.
 *
 * In order of use:
 *
 *   tnr_init                  optional: the first call that needs the driver does it
 *   tnr_malloc, tnr_free      memory for one stream of one device
 *   tnr_pool_*                memory kept apart, with its own limit, release threshold and chunk
 *                             properties
 *   tnr_trim, tnr_limit_set   give memory back, or limit how much may be reserved
 *   tnr_stats_*               where the memory is, and what serving it has cost
 *   tnr_last_error            what went wrong, why, and what to do about it
 *
 * Three words are used throughout. A *block* is what tnr_malloc hands out. A *chunk* is a piece of
 * physical memory: one driver handle, mapped whole. An *arena* is the free memory that one stream
 * of one pool allocates from. Each arena has its own lock, so threads on different streams never
 * wait for each other.
 *
 * Stream order. A block belongs to the stream that it was allocated on. Earlier work of that stream
 * may still use its memory; work enqueued there after tnr_malloc returns is safe. tnr_free returns
 * at once. Tenure hands the memory out again only to work that comes after all that was enqueued on
 * that stream so far.
 *
 * Order of arguments, everywhere: what the call writes, the object or pointer that it is about,
 * sizes, device, stream, options. docs/upgrading.md says what stays as it is, and what has changed.
 *
 * Threads. Every function may be called from any thread at any time, except where it says
 * otherwise. Context. No call changes the calling thread's current CUDA context. Fork. CUDA does
 * not survive fork(): in a child every call returns TNR_ERR_AFTER_FORK and changes nothing.
 * Cancellation. pthread_cancel ends a thread where a call begins, or where the program itself
 * waits, and never inside a call. An allocation that needs no driver call doesn't end a thread.
 *
 * Signals. Do not call Tenure from a signal handler that may have interrupted a call of Tenure in
 * the same thread: totals and lists go wrong, or the thread waits for itself without end. No call
 * checks for this. Let the handler set a flag, or block the signal in threads that call Tenure.
 *
 * The driver. A call may call the driver if its comment says so, or names TNR_ERR_DRIVER, itself or
 * among the errors of another function. No other call does. Waiting. A call may wait for a lock. It
 * waits for work of the GPU or another process only if its comment says so, or that of the function
 * that it works like.
 *
 * Failure. A call that returns an error has changed nothing: no block lost, no block made.
 * Every function that returns a tnr_status also leaves a sentence for tnr_last_error().
 *
 * Errors. The comment of each function names the errors that it can return; a test compares. Three
 * rules make these lists short:
 *   - In a child of a fork every call returns TNR_ERR_AFTER_FORK.
 *   - Where TNR_ERR_DRIVER is named: if the driver has no memory for a call, the error is
 *     TNR_ERR_OUT_OF_MEMORY; if it goes down with the process, TNR_ERR_SHUTDOWN.
 *   - "Those of a device's first use" belong to calls that put the device into use, if no call has
 *     before.
 *
 * Errors of a device's first use: those of tnr_init, TNR_ERR_INVALID_DEVICE, TNR_ERR_NO_VMM,
 * TNR_ERR_ADDRESS_SPACE, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER; with the setting group,
 * TNR_ERR_FILE (the group's folder or file) and TNR_ERR_BUSY (the group has no place left).
 */
#ifndef TENURE_ALLOC_H
#define TENURE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/status.h>

#if defined(__GNUC__)
#define TNR_API __attribute__((visibility("default")))
#define TNR_NODISCARD __attribute__((warn_unused_result))
#else
#define TNR_API
#define TNR_NODISCARD
#endif

/* Marks a declaration that the next major version removes: what to use instead, and since when.
 * Compilers warn where it is used, unless TNR_NO_DEPRECATED is defined before. */
#if defined(__GNUC__) && !defined(TNR_NO_DEPRECATED)
#define TNR_DEPRECATED(text) __attribute__((deprecated(text)))
#else
#define TNR_DEPRECATED(text)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version ------------------------------------------------------------------------------- */

#define TNR_VERSION_MAJOR 1
#define TNR_VERSION_MINOR 1
#define TNR_VERSION_PATCH 0
/* One number that grows with every release: major * 10000 + minor * 100 + patch. */
#define TNR_VERSION_NUMBER (TNR_VERSION_MAJOR * 10000 + TNR_VERSION_MINOR * 100 + TNR_VERSION_PATCH)

/* The version of the library that was loaded, to compare with the header's TNR_VERSION_NUMBER.
 * Never fails, never calls the driver. Since 0.1.0. */
TNR_API unsigned tnr_version(void);

/* ---- types --------------------------------------------------------------------------------- */

/* A CUDA stream. The same type as CUstream and cudaStream_t, so that neither header is needed here.
 * Null is the legacy default stream, and (tnr_stream)1 is too. (tnr_stream)2 is the per-thread
 * default stream. As in the driver, it is a different stream in each thread: memory that one thread
 * frees on it serves that thread only. */
typedef struct CUstream_st *tnr_stream;

/* A pool of memory. Made by tnr_pool_create, ended by tnr_pool_destroy. A null tnr_pool means the
 * default pool of the device, everywhere. The value is a number in the shape of a pointer. Tenure
 * never follows it as a pointer, and never gives the same number out again. Where a function asks
 * for a pool, any other value is TNR_ERR_INVALID_POOL, and so is that of a pool that has ended. */
typedef struct tnr_pool_st *tnr_pool;

/* Largest size that tnr_malloc accepts: one EiB, the same bound as PyTorch's. */
#define TNR_BYTES_MAX ((size_t)1 << 60)
/* Every block starts at a multiple of this, and its size is rounded up to a multiple of it. */
#define TNR_ALIGNMENT_DEFAULT ((size_t)512)
/* Largest alignment that tnr_malloc_aligned accepts. */
#define TNR_ALIGNMENT_MAX ((size_t)1 << 30)

/* ---- start and end ------------------------------------------------------------------------- */

/* Loads the driver, asks it for its devices and their capabilities, and applies the configuration
 * in the environment variable TENURE_CONF. Calling it is optional: the first call that needs the
 * driver does the same. Calling it again is harmless. It retains no context: Tenure retains a
 * device's primary context at the first allocation on that device. May block and calls the driver.
 * A process has one libtenure: while one copy runs, a second copy of the file, loaded from
 * elsewhere, does not start.
 * Errors: TNR_ERR_NO_DRIVER, TNR_ERR_DRIVER_TOO_OLD, TNR_ERR_NO_DEVICE, TNR_ERR_CONFIG,
 * TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, TNR_ERR_FILE (control:on has no folder or socket);
 * TNR_ERR_SECOND_COPY since 0.2.0. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_init(void);

/* 1 if this library runs, or if another thread is starting it. It runs from tnr_init, or the first
 * call that did the same, to tnr_shutdown. Starts nothing, never fails. Since 0.2.0. */
TNR_API int tnr_is_running(void);

/* Changes settings: "key:value,key:value", the syntax of TENURE_CONF. Keys that are not named keep
 * their value. Tenure checks the whole string before any of it takes effect. Once a device is in
 * use, the call refuses settings that `tenure conf` marks "at start". Does not call the driver.
 * Errors: TNR_ERR_CONFIG (the text names key, value, what is allowed and the nearest key),
 * TNR_ERR_INVALID_ARGUMENT (null), TNR_ERR_BUSY (an "at start" setting; or control is to change a
 * setting of its own), TNR_ERR_FILE (control:on has no folder or socket), TNR_ERR_HOST_MEMORY.
 * Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_configure(const char *settings);

/* Gives all memory back to the driver and forgets everything. Waits for the work that is still
 * enqueued on memory that Tenure handed out. Live blocks are an error, unless `force` is not zero:
 * then Tenure frees them too. Only the calling thread may be inside Tenure. Afterwards the library
 * is as before tnr_init and may be started again. Pools become invalid.
 *
 * If the call fails, it may have given back part of the memory already, and with `force` blocks
 * too. Call it again to go on. Without `force`, graphs and captures that need memory are an error
 * too. For graphs that were destroyed a moment ago the call waits up to graph_end_ms. With `force`
 * Tenure ends captures, and lets go of what graphs keep.
 * Errors: TNR_ERR_BUSY (live blocks, graphs, captures, exports, imports, or the call comes from a
 * callback of an owner of segments), TNR_ERR_CAPTURE (by force: a capture that only the engine or
 * another thread can end; or memory that moved cannot be proved idle while a capture is under way),
 * TNR_ERR_INVALID_STREAM (it ended untold), TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_shutdown(int force);

/* Does what tnr_shutdown does for one device, while the others go on. An engine that resets a
 * device (cuDevicePrimaryCtxReset, cudaDeviceReset) calls it before the reset. Only the calling
 * thread may be inside Tenure, whatever the device. Afterwards the device is as before its first
 * allocation; the next allocation puts it into use again. Settings, history and the memory of other
 * devices stay as they are. Tenure forgets the device's pools, streams and graphs. With `force`,
 * graphs of other devices that refer to its memory keep it no longer: do not launch them any more.
 * A thread that is routed to one of the device's pools must pop it. Pools of other devices that
 * were opened to the device (tnr_pool_access_set) stay open to it. Does nothing for a device that
 * is not in use.
 * Errors: those of tnr_shutdown, and TNR_ERR_INVALID_DEVICE; TNR_ERR_BUSY also for host memory
 * (TNR_HOST) that keeps contents of sleeping pools or parked blocks; TNR_ERR_CAPTURE also if the
 * device has graphs, or memory that is not known to be idle, and a capture of another device is
 * under way. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_device_end(int device, int force);

/* ---- allocate and free --------------------------------------------------------------------- */

/* Allocates `bytes` on `device` for use on `stream` and stores the address in *ptr. The block is
 * aligned to TNR_ALIGNMENT_DEFAULT. Zero bytes give a null pointer and success. On an error *ptr
 * is set to null.
 *
 * The pool is the one that the calling thread was routed to by tnr_pool_push, or else the device's
 * default pool. Usually the call makes no driver call and takes one lock, which only users of this
 * stream share. Otherwise it maps memory, and as the last resort it waits for the device.
 *
 * Tenure asks the driver about a stream when it is first allocated on. The stream must exist then:
 * the driver ends the process when it is asked about a handle that it never gave out, or that is
 * gone ("Handles of CUDA" in docs/errors.md). The call returns TNR_ERR_INVALID_STREAM if the driver
 * can tell that the handle isn't a stream, or if the stream is of another device or context.
 *
 * Errors: TNR_ERR_INVALID_ARGUMENT (ptr is null), TNR_ERR_INVALID_SIZE, TNR_ERR_INVALID_STREAM,
 * TNR_ERR_OUT_OF_MEMORY, TNR_ERR_LIMIT, TNR_ERR_ADDRESS_SPACE, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER,
 * TNR_ERR_ASLEEP, those of a device's first use; TNR_ERR_INVALID_POOL (the thread is routed to a
 * pool that has ended with its device). On a stream that captures: TNR_ERR_CAPTURE (Tenure was not
 * told of the capture, or it has 64 such streams), TNR_ERR_CAPTURE_INVALIDATED. A pool over foreign
 * segments adds TNR_ERR_FOREIGN_SEGMENT (its owner gave memory that cannot be used) and
 * TNR_ERR_BUSY (the call comes from a callback of an owner). Since 0.1.0; TNR_ERR_INVALID_STREAM
 * and TNR_ERR_FOREIGN_SEGMENT since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_malloc(void **ptr, size_t bytes, int device,
                                            tnr_stream stream);

/* As tnr_malloc, with the address at a multiple of `alignment`: a power of two from 1 to
 * TNR_ALIGNMENT_MAX. Costs addresses, and no more memory. Adds TNR_ERR_INVALID_ALIGNMENT. Since
 * 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_malloc_aligned(void **ptr, size_t bytes, size_t alignment,
                                                    int device, tnr_stream stream);

/* Frees a block. The free is ordered on the block's stream: all work enqueued there so far may
 * still use the memory. Null is accepted and does nothing. Never blocks. Calls the driver only for
 * a block of tnr_record_stream (<tenure/lifetime.h>); such a free may fail for that. If two threads
 * free one block at the very same moment, both may be given TNR_OK; the block is freed once. May be
 * called in a host function of a stream (cuLaunchHostFunc): the uses of tnr_record_stream are then
 * marked later, when memory is wanted.
 * Errors, each leaving everything as it was: TNR_ERR_FOREIGN_POINTER, TNR_ERR_INTERIOR_POINTER (the
 * text gives the block's start), TNR_ERR_NOT_LIVE (freed before, or never handed out),
 * TNR_ERR_PARKED (a parked block that a CUDA graph refers to); for a block of tnr_record_stream,
 * TNR_ERR_DRIVER, TNR_ERR_HOST_MEMORY, and TNR_ERR_INVALID_STREAM (a stream of such a use has
 * ended). Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_free(void *ptr);

/* ---- growable blocks ----------------------------------------------------------------------- */

/* Reserves addresses for a block that may grow to `bytes_max`, for use on `stream`, and stores its
 * start in *ptr. The block has no memory yet: tnr_commit gives it some. The addresses never change
 * until tnr_free, so a KV cache can grow while graphs that use it are replayed. Zero bytes give a
 * null pointer and success. Tenure finds the pool as tnr_malloc does, except that a stream capture
 * makes no difference. It deals addresses out in powers of two, 64 MiB at least. When addresses run
 * short, it takes back those that have no memory, and waits for work on them.
 *
 * The block is freed, used and described like any other, with two differences. First, while nothing
 * is committed, Tenure recognises only the block's start. tnr_record_use and its like then refuse
 * the block (TNR_ERR_NOT_LIVE), because there is nothing to use; free it with tnr_free. Second, the
 * block counts once in tnr_stats.served, as grown, when it is reserved.
 *
 * Errors: TNR_ERR_INVALID_ARGUMENT (ptr is null), TNR_ERR_INVALID_SIZE, TNR_ERR_INVALID_STREAM,
 * TNR_ERR_ADDRESS_SPACE, TNR_ERR_HOST_MEMORY, TNR_ERR_ASLEEP, TNR_ERR_FOREIGN_SEGMENT (the pool is
 * over foreign segments), those of a device's first use; TNR_ERR_INVALID_POOL (the thread is routed
 * to a pool that is gone), TNR_ERR_CAPTURE (Tenure was not told of its capture). Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_reserve(void **ptr, size_t bytes_max, int device,
                                             tnr_stream stream);

/* Makes sure that the first `bytes` of a block of tnr_reserve have memory; `ptr` is the block's
 * start. Either all of them get it or, on an error, none more than before. Memory that is there
 * already stays where it is, with its contents. So asking for no more than the block has does
 * nothing. Memory comes in whole pages (the setting chunk_mb), new or idle in the pool. Tenure
 * makes the block's stream wait, on the device, for the streams that used this memory before.
 * Growing calls no driver function that a stream capture forbids, unless memory is short and must
 * be reclaimed; then it may wait, as tnr_malloc does. If another thread frees the block meanwhile,
 * the free wins and the commit fails with TNR_ERR_NOT_LIVE.
 *
 * Errors: TNR_ERR_INVALID_SIZE (more than was reserved), TNR_ERR_BUSY (another thread is committing
 * to the block), TNR_ERR_INVALID_ARGUMENT (a block of tnr_malloc), TNR_ERR_FOREIGN_POINTER,
 * TNR_ERR_INTERIOR_POINTER, TNR_ERR_NOT_LIVE, TNR_ERR_OUT_OF_MEMORY, TNR_ERR_LIMIT, TNR_ERR_ASLEEP,
 * TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_commit(void *ptr, size_t bytes);

/* ---- describing ---------------------------------------------------------------------------- */

/* What is known of the block that contains an address. */
typedef struct tnr_block_info {
    void *base;             /* start of the block */
    size_t bytes;           /* bytes set aside for it, a multiple of TNR_ALIGNMENT_DEFAULT */
    size_t bytes_requested; /* bytes that were asked for */
    size_t bytes_reserved;  /* most that a growable block may grow to; `bytes` for any other */
    int device;
    tnr_stream stream;
    tnr_pool pool;        /* null for the default pool */
    void *segment;        /* start of the foreign segment that it lies in; null: in none */
    size_t segment_bytes; /* size of that segment */
    uint64_t reserved[4]; /* 0: room for what later versions tell */
} tnr_block_info;

/* Describes the live block that contains `ptr`, which may point anywhere inside it. Never blocks,
 * never calls the driver. Errors: TNR_ERR_INVALID_ARGUMENT, TNR_ERR_FOREIGN_POINTER,
 * TNR_ERR_NOT_LIVE. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_block_get(tnr_block_info *info, const void *ptr);

/* ---- pools --------------------------------------------------------------------------------- */

/* Which kinds of handle the chunks of a pool can be exported as, for other processes. */
typedef enum tnr_handle_type {
    TNR_HANDLE_DEFAULT = 0,  /* what the setting handle_type says: posix_fd unless changed */
    TNR_HANDLE_NONE = 1,     /* not exportable */
    TNR_HANDLE_POSIX_FD = 2, /* file descriptor */
    TNR_HANDLE_FABRIC = 3,   /* fabric handle; needs IMEX */
} tnr_handle_type;

/* Foreign segments. A pool may get its memory from functions of an owner instead of the driver: for
 * example from a collective library (ncclMemAlloc), or from another allocator. Tenure asks for a
 * *segment* of many MiB and carves blocks out of it. Streams, uses, retirement, limits, statistics,
 * snapshots and captures work as in any other pool. But the memory is the owner's, so:
 *
 *   - A segment stays where it is, whole, and with the stream that it was asked for on. Nothing in
 *     it moves, is lent to another stream, or is joined with another segment.
 *   - It goes back to the owner whole, when nothing of it is live and all work on it is over. This
 *     happens in tnr_pool_trim and at the pool's end. It also happens when the pool itself lacks
 *     memory, unless some of the pool's memory was registered (tnr_memory_registered). It never
 *     happens in tnr_trim, or for what another pool wants.
 *   - The pool does not sleep and has no growable blocks, and Tenure cannot open it to other
 *     devices: TNR_ERR_FOREIGN_SEGMENT. tnr_device_sleep passes it over. tnr_free_sync assumes that
 *     every device reaches it.
 *
 * tnr_segment_alloc returns `bytes` (a multiple of 2 MiB) for `stream` on `device`, or null if the
 * owner has none. After null, Tenure gives idle segments of the pool back to the owner, and idle
 * memory of other pools to the driver, and asks again. If there is still none, the allocation ends
 * in TNR_ERR_OUT_OF_MEMORY, and the text says who had nothing.
 *
 * The address must be a multiple of 2 MiB, as those of cudaMalloc and ncclMemAlloc are for such
 * sizes. If it is not, or lies in memory of Tenure's, or is another device's by the driver's word,
 * Tenure gives the segment back at once, and the allocation ends in TNR_ERR_FOREIGN_SEGMENT. If it
 * overlaps a segment that Tenure has, the allocation ends in the same error, but Tenure does not
 * give it back.
 *
 * tnr_segment_free takes back what tnr_segment_alloc returned, with the same arguments. It cannot
 * fail. The stream may have ended by then; it is only a name there.
 *
 * Both run on the thread that asks for memory, or gives it back, and the device's primary context
 * is current. Tenure holds no lock then, with one exception: while this thread is in a capture,
 * captures of other threads wait. Both functions may take long. While a stream captures, the
 * thread's capture mode is RELAXED: a call that does not name the captured stream, and waits for
 * nothing, is allowed, as cudaMalloc is. Both may ask Tenure, and may allocate and free in pools of
 * the driver's memory. A call that needs a segment, or gives one back, returns TNR_ERR_BUSY: an
 * allocation from a pool of this kind, tnr_pool_trim and tnr_pool_destroy of one, tnr_device_end,
 * tnr_shutdown. */
typedef void *(*tnr_segment_alloc)(size_t bytes, int device, tnr_stream stream, void *user);
typedef void (*tnr_segment_free)(void *ptr, size_t bytes, int device, tnr_stream stream,
                                 void *user);

/* How a pool is to be made. Zero in any field means its default. */
typedef struct tnr_pool_options {
    size_t struct_bytes;            /* sizeof(tnr_pool_options): set by the initialiser below */
    const char *name;               /* for reports; copied; default "pool N" */
    size_t limit_bytes;             /* most that it may have reserved; default: no own limit */
    size_t release_threshold_bytes; /* idle memory above this goes back; default: the setting */
    tnr_handle_type handle_type;
    /* 1: chunks that network cards may address, where supported. A card that has registered memory
     * is not told when the memory changes. So no chunk of such a pool moves to another address.
     * Only tnr_pool_trim, tnr_tag_trim and the pool's end give its chunks back to the driver;
     * freeing all its blocks does not. Take registrations back before any of these. */
    int gpu_direct_rdma;
    /* Both set: a pool over foreign segments. handle_type and gpu_direct_rdma are then the owner's
     * business. */
    tnr_segment_alloc segment_alloc;
    tnr_segment_free segment_free;
    void *segment_user; /* what both are called with */
    /* Least that Tenure asks the owner for, for blocks above small_limit_kb; default: 20 MiB. If
     * the owner has no such segment, Tenure asks for as much as the block needs. */
    size_t segment_bytes;
    /* 1: for blocks that other processes are to have at the same address (<tenure/publish.h>). The
     * pool's addresses lie away from where every process begins to use its own, and a block has as
     * few chunks as possible. */
    int is_shared;
} tnr_pool_options;

#define TNR_POOL_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(tnr_pool_options), NULL, 0, 0, TNR_HANDLE_DEFAULT, 0, NULL, NULL, NULL, 0, 0        \
    }

/* Makes a pool on a device. `options` may be null for all defaults. May call the driver (first use
 * of the device). Errors: TNR_ERR_INVALID_ARGUMENT (pool is null, struct_bytes is not one that this
 * version knows, a property that the device lacks, one segment callback without the other),
 * TNR_ERR_INVALID_SIZE (segment_bytes), TNR_ERR_HOST_MEMORY, those of a device's first use. Since
 * 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_create(tnr_pool *pool, int device,
                                                 const tnr_pool_options *options);

/* Ends a pool and gives its memory back to the driver, after waiting for work enqueued on it. Later
 * use of the handle is TNR_ERR_INVALID_POOL. If graphs need its memory, the call waits up to
 * graph_end_ms for the driver to let go of those that were destroyed.
 * Errors: TNR_ERR_BUSY (there are live blocks; a thread that lives is routed to it; graphs or
 * captures need it; blocks of it are exported (<tenure/export.h>); or the pool is over foreign
 * segments and the call comes from a callback of an owner of segments), TNR_ERR_INVALID_POOL,
 * TNR_ERR_HOST_MEMORY, TNR_ERR_CAPTURE (a stream that is in a capture used its memory before, and
 * the end of that work was not marked; or it has memory of the legacy stream, and a blocking
 * stream captures), TNR_ERR_INVALID_STREAM (a stream ended untold), TNR_ERR_DRIVER. After an error
 * the pool is there; idle memory of it may have gone back. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_destroy(tnr_pool pool);

/* As tnr_malloc, from this pool (null: the device's default pool, whatever the routing). The
 * device is the pool's; `device` must match it. Adds TNR_ERR_INVALID_POOL (also a pool of graphs
 * outside of captures). Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_malloc(void **ptr, tnr_pool pool, size_t bytes,
                                                 int device, tnr_stream stream);

/* As tnr_pool_malloc, but exactly at `ptr`: the pool's memory of `stream` must be free there, for
 * the whole size. It is for engines that put blocks back where they once were, largest and smallest
 * alike, in a pool whose memory stays in place (gpu_direct_rdma, tnr_vouched_pool_create or
 * tnr_graph_pool_vouch). After tnr_graph_pool_vouch the pool's memory is of no stream, and `stream`
 * means nothing. If memory there was freed and waits for uses of other streams, the call waits for
 * them, on the host. Zero bytes do nothing.
 * Errors: TNR_ERR_BUSY (something is live or kept there, or nothing is mapped),
 * TNR_ERR_FOREIGN_POINTER (never memory of that stream in that pool), TNR_ERR_INVALID_ALIGNMENT (no
 * multiple of TNR_ALIGNMENT_DEFAULT), TNR_ERR_INVALID_SIZE, TNR_ERR_INVALID_STREAM,
 * TNR_ERR_CAPTURE (the stream is being captured, and Tenure was not told of it),
 * TNR_ERR_INVALID_POOL (also a graph pool that is not vouched for), TNR_ERR_HOST_MEMORY,
 * TNR_ERR_ASLEEP, those of a device's first use. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_malloc_at(void *ptr, tnr_pool pool, size_t bytes,
                                                    int device, tnr_stream stream);

/* Says that the memory of the live block that contains `ptr` was registered where it is known
 * by its address, or by the memory behind it, and where neither change is noticed: with a network
 * card, a library that keeps registrations after a free, a dma-buf.
 *
 * From now on all memory of the block's pool stays as it is, even where blocks are freed, as if the
 * pool had been made with gpu_direct_rdma. Nothing moves. Memory goes back to the driver, or to the
 * owner of its segments, only with tnr_pool_trim, tnr_tag_trim and the pool's end. The pool sleeps
 * only if there is a callback. So the next block at these addresses has the memory that was
 * registered. This lasts as long as the pool. Never calls the driver. `tenure run` calls it when a
 * program asks for a dma-buf, or for synchronous memory operations
 * (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), as programs that register memory do.
 * Errors: TNR_ERR_FOREIGN_POINTER, TNR_ERR_NOT_LIVE, TNR_ERR_AFTER_FORK. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_memory_registered(const void *ptr);

/* Routes the calling thread's tnr_malloc calls on the pool's device to this pool, until the
 * matching tnr_pool_pop, or until the thread ends. Null routes the thread's calls on every device
 * to that device's default pool, until tnr_pool_pop(NULL). Calls nest, up to 16 deep; on each
 * device the latest routing for it counts. Other threads are not affected.
 * Errors: TNR_ERR_INVALID_POOL, TNR_ERR_INVALID_ARGUMENT (nested too deep), TNR_ERR_HOST_MEMORY
 * (the thread's first), TNR_ERR_AFTER_FORK; for null, those of tnr_init. Since 0.1.0; null since
 * 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_push(tnr_pool pool);

/* Ends the calling thread's latest routing, which must be to `pool` (or null, as it was pushed).
 * Errors: TNR_ERR_INVALID_ARGUMENT (it is not the latest), TNR_ERR_AFTER_FORK. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_pop(tnr_pool pool);

/* ---- other devices ------------------------------------------------------------------------- */

/* What another device may do with memory. The values are those of CUmemAccess_flags. */
typedef enum tnr_access {
    TNR_ACCESS_NONE = 0,     /* its kernels and copies fail where they touch it */
    TNR_ACCESS_READWRITE = 3 /* it reads and writes */
} tnr_access;

/* Opens the memory of a pool (null: the default pool of `device`; else `device` must be the pool's)
 * to another device, `peer`, or closes it. The call covers what is mapped now and what will be
 * mapped, wherever it moves; a pool that sleeps wakes with the new access. Blocks keep their
 * addresses, and other threads may go on allocating meanwhile. A pool begins closed, or as
 * tnr_device_access_set says.
 *
 * Opening calls the driver once for each chunk that there is. It also makes each new chunk more
 * expensive, because access costs as much again for each device. So open only what a peer needs.
 * Closing waits for all work that `peer` has been given; work that it is given meanwhile fails.
 *
 * Tenure does not know what a peer's streams do: tell it with tnr_record_use, as for any other
 * stream, or free with tnr_free_sync. May block. Like cudaMemPoolSetAccess.
 * Errors: those of a device's first use, TNR_ERR_INVALID_ARGUMENT (access), TNR_ERR_INVALID_POOL,
 * TNR_ERR_INVALID_DEVICE (there is no such peer, or it is the device itself),
 * TNR_ERR_NO_PEER_ACCESS (the devices have no way to each other), TNR_ERR_FOREIGN_SEGMENT (the
 * owner of the pool's segments says who reaches them), TNR_ERR_CAPTURE (closing while a capture is
 * under way), TNR_ERR_ASLEEP (closing a pool that sleeps, but of whose memory the driver refused to
 * take all: the peer reaches that until the pool wakes), TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. On an
 * error the pool is as it was. If the driver refuses the way back too, the pool may be partly
 * changed: then call again. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_access_set(tnr_pool pool, int device, int peer,
                                                     tnr_access access);

/* Stores what `peer` may do with the pool's memory. The device itself always reads and writes.
 * Never blocks. Like cudaMemPoolGetAccess. Errors: TNR_ERR_INVALID_ARGUMENT (access is null),
 * TNR_ERR_INVALID_POOL, TNR_ERR_FOREIGN_SEGMENT, those of a device's first use. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_access_get(tnr_access *access, tnr_pool pool, int device,
                                                     int peer);

/* tnr_pool_access_set for all pools of the device, and for those that will be made later. Pools
 * over foreign segments stay as they are. Like cudaDeviceEnablePeerAccess, called on `peer`.
 * Errors: TNR_ERR_INVALID_ARGUMENT (access), TNR_ERR_INVALID_DEVICE (there is no such device or
 * peer, or both are the same), TNR_ERR_NO_PEER_ACCESS, TNR_ERR_CAPTURE (closing while a capture is
 * under way), TNR_ERR_ASLEEP (as above), TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, those of a device's
 * first use. On an error, pools before the one that is named may have changed. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_device_access_set(int device, int peer, tnr_access access);

/* ---- limits and giving back ---------------------------------------------------------------- */

/* Gives idle memory of the device back to the driver, until at most `keep_bytes` are reserved or
 * nothing idle is left. With `keep_bytes` 0 it also removes the mappings that moved memory has left
 * behind, and gives back what they keep. Waits for work on memory that is free but may still be in
 * use. `released` may be null; otherwise it receives the bytes given back. Never touches live
 * blocks, pools for network cards (gpu_direct_rdma) and pools over foreign segments.
 * Errors: TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, TNR_ERR_CAPTURE (idle memory cannot be proved idle
 * while a capture is under way), those of a device's first use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_trim(size_t *released, size_t keep_bytes, int device);

/* The same for one pool (null: the default pool of `device`; else `device` must be the pool's):
 * until it has at most `keep_bytes` mapped. Waits as tnr_trim does. Unlike tnr_trim, the call also
 * gives back memory of a pool for network cards (gpu_direct_rdma), and foreign segments to their
 * owner. So do tnr_tag_trim (<tenure/tag.h>) and the pool's end; foreign segments also go back if
 * their own pool lacks memory. A pool that sleeps has none to give, and a graph pool keeps what its
 * graphs need. Errors: those of tnr_trim, TNR_ERR_INVALID_POOL, TNR_ERR_BUSY (the call comes from a
 * callback of an owner of segments). Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_trim(size_t *released, tnr_pool pool, size_t keep_bytes,
                                               int device);

/* Sets the most that all pools of the device may have reserved, in bytes; SIZE_MAX: no limit. A
 * limit below what is reserved now takes effect as memory is given back. At first the limit is the
 * part of the device's memory that the setting per_process_memory_fraction says.
 * Errors: those of a device's first use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_limit_set(size_t limit_bytes, int device);

/* Stores that limit. Errors: TNR_ERR_INVALID_ARGUMENT (limit_bytes is null), those of a device's
 * first use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_limit_get(size_t *limit_bytes, int device);

/* Sets the most that a pool (null: the default pool of `device`; else `device` must be the pool's)
 * may have mapped, in bytes; SIZE_MAX: no limit of its own. Takes effect as tnr_limit_set does;
 * tnr_pool_trim gives memory back. tnr_stats shows the limit of a pool that was made. Errors:
 * TNR_ERR_INVALID_POOL, those of a device's first use. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_limit_set(tnr_pool pool, size_t limit_bytes, int device);

/* What an allocation lacks. */
#define TNR_OOM_REASON_LIST(X)                                                                     \
    X(DEVICE, "the device has no memory left")                                                     \
    X(DEVICE_LIMIT, "the limit of the device is reached")      /* tnr_limit_set */                 \
    X(POOL_LIMIT, "the limit of the pool is reached")          /* tnr_pool_limit_set */            \
    X(HEADROOM, "what the device has left is kept for others") /* headroom_mb; since 0.2.0 */      \
    X(SEGMENT, "the owner of the pool's memory has none")      /* tnr_segment_alloc */             \
    X(TAG_LIMIT, "the limit of the tag is reached")  /* tnr_tag_limit_set; since 0.2.0 */          \
    X(GROUP, "its group leaves the process no more") /* floors of others, or group_ceiling_mb */   \
    X(HOST, "the machine or a control group has no host memory left") /* <tenure/host.h>; 1.1.0 */ \
    X(CGROUP, "a control group may have no more of the device")       /* dmem.max; since 1.1.0 */

typedef enum tnr_oom_reason {
#define TNR_OOM_REASON_ENUMERATOR(name, text) TNR_OOM_##name,
    TNR_OOM_REASON_LIST(TNR_OOM_REASON_ENUMERATOR)
#undef TNR_OOM_REASON_ENUMERATOR
        TNR_OOM_REASON_COUNT
} tnr_oom_reason;

/* An allocation that would fail. */
typedef struct tnr_oom_info {
    size_t struct_bytes;   /* sizeof(tnr_oom_info), as the library knows it */
    tnr_oom_reason reason; /* the last obstacle that it met */
    int device;
    tnr_pool pool;     /* the pool that it is from; null for the default pool */
    tnr_stream stream; /* the stream that it is for */
    size_t bytes;      /* asked for; by tnr_commit: all that the block would then have */
} tnr_oom_info;

/* Called when an allocation would otherwise fail. Returns 1 if it has freed something and Tenure
 * should try the allocation once more, else 0. Runs on the allocating thread with no lock of
 * Tenure's held; it may call any function of Tenure. `info` is valid during the call.
 *
 * Tenure does not call it where no free could help: for more than the device has in all or than a
 * limit allows, for an invalid size, and where addresses or host memory run out. */
typedef int (*tnr_oom_callback)(const tnr_oom_info *info, void *user);

/* Sets the callback of the process; null removes it. Never fails. The former callback may still be
 * running on another thread when this call returns. Since 0.1.0; the callback's arguments since
 * 0.2.0. */
TNR_API void tnr_oom_callback_set(tnr_oom_callback callback, void *user);

/* ---- statistics ---------------------------------------------------------------------------- */

/* A quantity that rises and falls. allocated - freed == current, always. The peak of an arena is
 * exact. The peak of a device or pool with several arenas is the sum of their peaks, an upper
 * bound: an exact one would need a counter that all streams share. reserved_bytes is exact
 * everywhere, because it changes only when the driver is called. */
typedef struct tnr_stat {
    uint64_t current, peak, allocated, freed;
} tnr_stat;

/* The kinds of driver call that are counted, with the time spent in them. */
#define TNR_DRIVER_KIND_LIST(X)                                                                    \
    X(CREATE, "create")   /* cuMemCreate */                                                        \
    X(RELEASE, "release") /* cuMemRelease */                                                       \
    X(MAP, "map")         /* cuMemMap */                                                           \
    X(ACCESS, "access")   /* cuMemSetAccess */                                                     \
    X(UNMAP, "unmap")     /* cuMemUnmap */                                                         \
    X(EVENT, "event")     /* create, record, query, destroy */                                     \
    X(ORDER, "order")     /* cuStreamWaitEvent */                                                  \
    X(WAIT, "wait")       /* the host waiting for the device */                                    \
    X(OTHER, "other")     /* start-up, context switches, memory info */

typedef enum tnr_driver_kind {
#define TNR_DRIVER_KIND_ENUMERATOR(name, text) TNR_DRIVER_##name,
    TNR_DRIVER_KIND_LIST(TNR_DRIVER_KIND_ENUMERATOR)
#undef TNR_DRIVER_KIND_ENUMERATOR
        TNR_DRIVER_KIND_COUNT
} tnr_driver_kind;

/* How an allocation was served: the steps of the ladder, cheapest first. */
#define TNR_SERVED_LIST(X)                                                                         \
    X(BIN, "bin")             /* a recently freed block of the same size */                        \
    X(INDEX, "index")         /* a free run of this arena, best fit */                             \
    X(FLUSH, "flush")         /* the same, after the bins had been emptied into the index */       \
    X(RETIRED, "retired")     /* the same, after blocks used by other streams had been ended */    \
    X(LENT, "lent")           /* a free run of another arena of the pool, with its memory */       \
    X(MOVED, "moved")         /* chunks moved under a run that nearly fitted */                    \
    X(SHARED, "shared")       /* the same, with chunks from another arena of the pool */           \
    X(GROWN, "grown")         /* new chunks */                                                     \
    X(RECLAIMED, "reclaimed") /* after memory was taken back from elsewhere */

typedef enum tnr_served {
#define TNR_SERVED_ENUMERATOR(name, text) TNR_SERVED_##name,
    TNR_SERVED_LIST(TNR_SERVED_ENUMERATOR)
#undef TNR_SERVED_ENUMERATOR
        TNR_SERVED_COUNT
} tnr_served;

/* Why the memory of a freed block could be handed out again. */
#define TNR_REUSE_LIST(X)                                                                          \
    X(SAME_STREAM, "same stream")           /* no other stream used it */                          \
    X(EVENT_DONE, "event done")             /* the other streams' uses were seen to be over */     \
    X(ORDERED_BY_CLOCK, "ordered by clock") /* its stream already waits for them */                \
    X(WAITED_ON_DEVICE, "waited on device") /* its stream was made to wait for them */             \
    X(ORDERED_BY_GRAPH, "ordered by graph") /* in a capture: by the graph's edges, or its end */

typedef enum tnr_reuse {
#define TNR_REUSE_ENUMERATOR(name, text) TNR_REUSE_##name,
    TNR_REUSE_LIST(TNR_REUSE_ENUMERATOR)
#undef TNR_REUSE_ENUMERATOR
        TNR_REUSE_COUNT
} tnr_reuse;

enum { TNR_WORLD_ALL = 0, TNR_WORLD_SMALL = 1, TNR_WORLD_LARGE = 2, TNR_WORLD_COUNT = 3 };

/* Room for kinds that later versions add, so that the fields after these arrays stay where they
 * are. */
enum { TNR_DRIVER_KIND_ROOM = 16, TNR_SERVED_ROOM = 16, TNR_REUSE_ROOM = 16 };

/* A picture of one device or pool. Arrays over TNR_WORLD_* hold all blocks, the small ones and the
 * large ones, as PyTorch's "all", "small_pool" and "large_pool".
 *
 * Equation (guarantee 2): bytes_live + bytes_binned + bytes_free + bytes_retired + bytes_slack ==
 * reserved_bytes.current + bytes_asleep + bytes_parked_away. The slack is what rounding and
 * alignment cost inside live blocks. */
typedef struct tnr_stats {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_stats) */

    tnr_stat allocation[TNR_WORLD_COUNT];      /* live blocks */
    tnr_stat allocated_bytes[TNR_WORLD_COUNT]; /* their bytes, rounded */
    tnr_stat requested_bytes[TNR_WORLD_COUNT]; /* their bytes, as asked for */
    tnr_stat active_bytes[TNR_WORLD_COUNT];    /* live, or freed and still waiting for a use */
    tnr_stat segment;                          /* chunks that exist */
    tnr_stat reserved_bytes;                   /* their bytes: physical memory held */

    uint64_t bytes_live;    /* requested by the owners of live blocks */
    uint64_t bytes_slack;   /* rounding and alignment in live blocks */
    uint64_t bytes_binned;  /* freed, kept by exact size */
    uint64_t bytes_free;    /* free runs */
    uint64_t bytes_retired; /* freed, and kept until its last use is provably over */
    uint64_t blocks_retired;

    uint64_t bytes_parked;      /* of whole chunks in parked blocks: <tenure/park.h> */
    uint64_t bytes_parked_away; /* of these, without memory: it serves others, or is gone */
    uint64_t parks, unparks;    /* of a device, not of a pool; so is park_waits */
    uint64_t park_waits;        /* times that the host waited because a block got other chunks */

    uint64_t bytes_asleep;  /* of chunks whose memory is given back until their pool wakes */
    uint64_t sleeps, wakes; /* of pools: <tenure/sleep.h> */

    uint64_t chunks_created, chunks_released;
    uint64_t chunks_moved;             /* given a second address under a run that nearly fitted */
    uint64_t chunks_stale;             /* now: old addresses that wait for proof of idleness */
    uint64_t bytes_chunk_largest_free; /* longest mapped free run */

    uint64_t served[TNR_SERVED_ROOM];
    uint64_t freed_because[TNR_REUSE_ROOM]; /* why memory was free again */
    uint64_t num_alloc_retries;             /* allocations that had to reclaim */
    uint64_t num_ooms;                      /* allocations that failed for lack of memory */
    uint64_t num_sync_all_streams;          /* times the host waited for every stream of a device */
    uint64_t num_device_alloc;              /* chunks mapped, new or moved */
    uint64_t num_device_free;               /* mappings removed */

    uint64_t driver_calls[TNR_DRIVER_KIND_ROOM];
    uint64_t driver_ns[TNR_DRIVER_KIND_ROOM];

    uint64_t arenas, pools;
    uint64_t limit_bytes; /* SIZE_MAX: none */

    /* Of the device, not of a pool, since the process joined its group. */
    uint64_t group_given_bytes; /* given back because other processes of the group asked */
    uint64_t group_taken_bytes; /* what other processes gave for this one */
    uint64_t group_asks;        /* how often this one was short, and asked */

    uint64_t metadata_bytes;       /* host memory of the whole library, all devices */
    uint64_t metadata_live_blocks; /* live blocks of the whole library, to divide that by */

    /* Since 1.1.0. */
    tnr_stat active[TNR_WORLD_COUNT]; /* blocks that are live, or freed and waiting for a use */
    /* Chunks, and their bytes, by what they lie under: small blocks or large ones. A chunk that
     * goes from one to the other is freed there and allocated here. So the current values of the
     * two have the sum of all; allocated and freed may have more. */
    tnr_stat segment_by_size[TNR_WORLD_COUNT];
    tnr_stat reserved_bytes_by_size[TNR_WORLD_COUNT];
    uint64_t idle_blocks[TNR_WORLD_COUNT]; /* binned, and free runs */
    uint64_t idle_bytes[TNR_WORLD_COUNT];  /* their bytes */
    /* Of the device: published blocks that yielded (<tenure/publish.h>), and their bytes. */
    uint64_t group_yields, group_yielded_bytes;
} tnr_stats;

/* tnr_stats stats = TNR_STATS_INIT; sets struct_bytes and zeroes the rest, in C and in C++, without
 * a warning for the fields that are not named. Since 1.1.0. */
#ifdef __cplusplus
static inline tnr_stats tnr_stats_init(void)
{
    tnr_stats stats = {};
    stats.struct_bytes = sizeof(stats);
    return stats;
}
#define TNR_STATS_INIT tnr_stats_init()
#else
#define TNR_STATS_INIT                                                                             \
    {                                                                                              \
        .struct_bytes = sizeof(tnr_stats)                                                          \
    }
#endif

/* Fills *stats for a device, or for one pool of it if `pool` is not null. Takes each arena's lock
 * in turn. So the picture is exact arena by arena, and exact as a whole while no other thread
 * allocates. Calls the driver only if nothing has put the device into use yet, to do that. With the
 * struct_bytes of an earlier 1.x fills what that header had. Errors:
 * TNR_ERR_INVALID_ARGUMENT (struct_bytes not set), TNR_ERR_INVALID_POOL, those of a device's first
 * use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_stats_get(tnr_stats *stats, tnr_pool pool, int device);

/* Sets the peaks of a device to the current values (PyTorch: reset_peak_memory_stats). Errors:
 * those of a device's first use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_stats_reset_peaks(int device);

/* Writes the same as JSON into `buffer` of `bytes`, always terminated. The keys have PyTorch's
 * names where the meaning is the same. Returns the length of the whole text, as snprintf does; 0 on
 * an error. Calls the driver as tnr_stats_get does. Since 0.1.0. */
TNR_API size_t tnr_stats_json(char *buffer, size_t bytes, tnr_pool pool, int device);

/* ---- what is in force ---------------------------------------------------------------------- */

/* The driver that is in use. Strings belong to the library and live until tnr_shutdown. */
typedef struct tnr_driver_info {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_driver_info) */
    const char *path;    /* the library that was loaded, as the loader names it */
    int version;         /* of CUDA, as cuDriverGetVersion gives it: 13000 is 13.0 */
    int simulated;       /* 1: the simulated device, not a GPU */
    int devices_count;
} tnr_driver_info;

/* Loads the driver if that has not been done. Errors: TNR_ERR_INVALID_ARGUMENT (struct_bytes not
 * set), those of tnr_init. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_driver_get(tnr_driver_info *info);

/* A device and what it can do, asked once. */
typedef struct tnr_device_info {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_device_info) */
    char name[256];
    size_t memory_bytes;      /* physical memory of the device */
    size_t granularity_bytes; /* smallest mapping; 0 without VMM */
    int compute_major, compute_minor;
    int has_vmm, has_posix_fd, has_fabric, has_gpu_direct_rdma;
    int in_use;             /* 1 once Tenure has allocated on it; then the next two are set */
    uintptr_t address_base; /* start of the reserved range that all its blocks lie in */
    size_t address_bytes;   /* size of that range */
} tnr_device_info;

/* Describes a device; `in_use` as it is now. Errors: TNR_ERR_INVALID_DEVICE,
 * TNR_ERR_INVALID_ARGUMENT (info is null, struct_bytes not set), those of tnr_init. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_device_get(tnr_device_info *info, int device);

/* One setting of TENURE_CONF. Strings belong to the library; `value` lives until the thread's next
 * call of tnr_setting_get. */
typedef struct tnr_setting_info {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_setting_info) */
    const char *key, *type, *default_value, *value, *allowed, *help;
    int at_start; /* 1: cannot change once a device is in use */
    int is_set;   /* 1: changed by TENURE_CONF or tnr_configure */
} tnr_setting_info;

/* Describes setting number `index`, counted from 0. Does not need the driver. Errors:
 * TNR_ERR_INVALID_ARGUMENT (index, or struct_bytes), TNR_ERR_HOST_MEMORY. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_setting_get(tnr_setting_info *info, size_t index);

/* ---- errors -------------------------------------------------------------------------------- */

/* The name of a status, such as "TNR_ERR_LIMIT"; "TNR_ERR_?" if none has this number. Since
 * 0.1.0. */
TNR_API const char *tnr_status_name(tnr_status status);

/* The default text of a status, without the circumstances. Since 0.1.0. */
TNR_API const char *tnr_status_text(tnr_status status);

/* One or more sentences on the calling thread's latest error: what failed, why, and what to do.
 * The text belongs to the library and lives until the thread's next failing call. Never null;
 * empty if nothing has failed. Since 0.1.0. */
TNR_API const char *tnr_last_error(void);

/* The CUresult behind the calling thread's latest error; 0 if the driver had no part in it. Since
 * 0.1.0. */
TNR_API int tnr_last_driver_result(void);

/* Walks every structure of the device (of all devices if it is negative) and compares all totals
 * both ways. For tests and for bug reports: it locks one arena after the other and takes time in
 * proportion to the number of blocks. While another thread allocates or frees, a total may differ
 * that is right before and after; the text says which. Threads of the library are waited for.
 * Errors: TNR_ERR_INTERNAL (an invariant is broken: the first is in tnr_last_error),
 * TNR_ERR_INVALID_DEVICE. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_validate(int device);

#ifdef __cplusplus
}
#endif
#endif
