/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/sleep.h>: pools that give their memory back for a while and keep their addresses. This
 * header is the manual of that part of the layer.
 *
 * What it is for. An engine that waits holds memory that another could use. Ending it loses what
 * took long to make: graphs, compiled kernels, registrations. A pool that sleeps gives its physical
 * memory back to the driver; when it wakes, memory is mapped at the same addresses again, so graphs
 * that were captured before replay as they are.
 *
 *   tnr_pool_sleep, tnr_pool_wake        one pool
 *   tnr_device_sleep, tnr_device_wake    all pools of a device, those of graphs too
 *   tnr_block_content_set                what becomes of a block's contents
 *   tnr_sleep_callback_add               for registrations of your own (NCCL, RDMA, dma-buf)
 *   tnr_sleep_prepare                    pinned host memory, ahead of time
 *
 * Contents. Kept contents are copied to pinned host memory and back, at the link's full speed. Past
 * pinned_bytes_max, or where the system refuses to pin more, they lie in ordinary host memory and
 * go through two pinned pieces of 32 MiB. That is as fast as up to 16 threads copy host memory, and
 * spares the pinning. The pinned memory is host memory near the device (TNR_HOST, <tenure/host.h>),
 * in the pool "contents": limits, sums and snapshots of that have it. What a limit there leaves no
 * room for goes through ordinary memory, too. Before it takes any host memory, Tenure looks at what
 * the machine has left, and at what the process's control groups (version 1 and 2) have left. It
 * refuses a sleep that would leave less than 64 MiB there, because the kernel would end the process
 * later. Discarded contents are undefined after the wake, and cost only the mapping calls.
 *
 * TNR_CONTENT_DISK keeps contents in files, so that a sleep takes no more host memory than the two
 * pinned pieces. They lie in the folder of the setting contents_dir, are called
 * tenure-PID-N.contents, have up to 64 MiB each, and are for the process's user alone. The disk's
 * room is taken before anything is copied: a full disk refuses the sleep. The sleep ends when the
 * disk has everything. Files go at the wake, when the pool ends, and at the process's exit; a
 * process that is killed leaves them. After the sleep they are as good as memory that the system
 * has swapped out: a disk that fails then, or a process that makes a file shorter, ends this one
 * with SIGBUS.
 *
 * What is free in the pool is never kept, except in a graph pool. Replays read there what was
 * written while capturing, in memory that is free by now. So in a graph pool everything is kept
 * unless the sleep says otherwise.
 *
 * While it sleeps. tnr_malloc, tnr_reserve and tnr_commit from the pool return TNR_ERR_ASLEEP. So
 * do launches through Tenure of the pool's graphs, and of graphs that refer to its blocks.
 * Everything that needs no memory goes on: frees (a freed block's contents are dropped, and its
 * memory is free after the wake), uses, tnr_block_get, statistics, tnr_pool_destroy, tnr_shutdown.
 * tnr_trim passes the pool by. Work of your own that touches the pool's blocks faults, as any
 * access to unmapped memory does.
 *
 * All or nothing. A sleep that fails leaves every pool awake and unchanged. A wake that fails
 * leaves them asleep with what was kept. Both can be tried again. There is one exception: if, after
 * a refusal, the driver also refuses the way back, the pool is asleep. The sentence of
 * tnr_last_error says so, and tnr_pool_wake goes on from there. Another pool's threads are not
 * disturbed, except that they wait as cuCtxSynchronize makes them. That call also ends a capture of
 * the device's streams that Tenure was not told of, whatever its mode, a relaxed one too: capture
 * through Tenure (<tenure/capture.h>), where the sleep is refused instead.
 *
 * The idea is torch_memory_saver's and vLLM's sleep mode. There a second sleep ends the process,
 * and the sleep does not wait for running work.
 *
 * Threads, context, fork: as <tenure/alloc.h> says. Sleeps and wakes of a device are made one after
 * the other.
 */
#ifndef TENURE_SLEEP_H
#define TENURE_SLEEP_H

#include <tenure/alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of contents in a sleep. */
typedef enum tnr_content {
    TNR_CONTENT_DEFAULT = 0, /* of a block: what the sleep says; of a sleep: keep, but see tag.h */
    TNR_CONTENT_KEEP = 1,    /* the same bytes after the wake */
    TNR_CONTENT_DISCARD = 2, /* undefined after the wake */
    TNR_CONTENT_DISK = 3     /* of a sleep, and of tnr_tag_pool: kept, in files */
} tnr_content;

/* How to sleep. Zero in any field means its default. */
typedef struct tnr_sleep_options {
    size_t struct_bytes; /* sizeof(tnr_sleep_options): set by the initialiser below */
    tnr_content content; /* for blocks that say nothing else */
    int keep_backing;    /* 1: the host memory stays for the next sleep; see tnr_sleep_prepare */

    /* The most pinned host memory that the device's sleeping pools may use, in whole pieces of
     * 32 MiB. Two of these are for what passes through, and there are at least those two. 0: no
     * limit. */
    size_t pinned_bytes_max;
} tnr_sleep_options;

#define TNR_SLEEP_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(tnr_sleep_options), TNR_CONTENT_DEFAULT, 0, 0                                       \
    }

/* ---- sleeping ------------------------------------------------------------------------------ */

/* Puts a pool to sleep (null: the default pool of `device`; else `device` must be the pool's).
 * Waits for all work of the device and of those that reach the pool, copies what is to be kept, and
 * gives the pool's memory back while it still copies later parts. An explicit TNR_CONTENT_DISCARD
 * discards a graph pool's free memory too. Use it only for graphs that are not replayed again, or
 * that write all that they read. If the pool sleeps already, the call leaves it as it is and
 * succeeds. `options` may be null. Calls the driver and the callbacks.
 *
 * Errors: TNR_ERR_INVALID_ARGUMENT, TNR_ERR_INVALID_DEVICE, TNR_ERR_INVALID_POOL, TNR_ERR_BUSY (a
 * stream capture is under way; this is a callback of a sleep; the pool is for network cards, and
 * there is no callback that could take their registrations back; or other processes have exports of
 * it open after the callbacks: <tenure/export.h>), TNR_ERR_CAPTURE (a capture that Tenure does not
 * follow was under way; the wait for the device has made it invalid), TNR_ERR_FOREIGN_SEGMENT (the
 * pool's memory is foreign segments), TNR_ERR_HOST_MEMORY (also if not even two pieces can be
 * pinned, or if the machine or a control group has no room for what is kept; the sentence names
 * it), TNR_ERR_FILE (TNR_CONTENT_DISK: the files cannot be made; without contents_dir it is
 * TNR_ERR_INVALID_ARGUMENT), TNR_ERR_DRIVER, TNR_ERR_DRIVER_TOO_OLD, those of a device's first use.
 * Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_sleep(tnr_pool pool, int device,
                                                const tnr_sleep_options *options);

/* Wakes a pool, and waits until its contents are back. If memory is short, or a limit is too low by
 * now, Tenure gives idle memory of other pools back, and does not wake what is free in this one. If
 * what is live does not fit then, the wake fails. A pool in which nothing is live wakes without
 * memory. If the pool is awake, the call leaves it as it is and succeeds. Errors: those of
 * tnr_pool_sleep but TNR_ERR_INVALID_ARGUMENT, TNR_ERR_CAPTURE and TNR_ERR_FOREIGN_SEGMENT;
 * TNR_ERR_OUT_OF_MEMORY, TNR_ERR_LIMIT (others took the memory meanwhile). Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_wake(tnr_pool pool, int device);

/* Puts all pools of a device that are awake to sleep, or none. Graph pools keep their contents
 * whatever `options` says, and pools over foreign segments stay awake. Errors: those of
 * tnr_pool_sleep but TNR_ERR_INVALID_POOL and TNR_ERR_FOREIGN_SEGMENT. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_device_sleep(int device, const tnr_sleep_options *options);

/* Wakes all pools of a device that are asleep, or none. Errors: those of tnr_pool_wake but
 * TNR_ERR_INVALID_POOL. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_device_wake(int device);

/* ---- contents ------------------------------------------------------------------------------ */

/* Says what becomes of the contents of the live block that contains `ptr`, in every sleep until the
 * block is freed: kept, where the sleep says, or discarded. For a block of tnr_reserve this works
 * from its first commit on. Does not call the driver. Errors: TNR_ERR_INVALID_ARGUMENT
 * (TNR_CONTENT_DISK, too), TNR_ERR_FOREIGN_POINTER, TNR_ERR_NOT_LIVE, TNR_ERR_AFTER_FORK. Since
 * 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_block_content_set(const void *ptr, tnr_content content);

/* Makes pinned host memory ready for `bytes` of contents of the device, so that a sleep does not
 * have to pin it. May block: pinning costs much more than the copy. No more and no less is ready
 * afterwards: 0 gives back all of it that is not in use. Errors: TNR_ERR_BUSY (a stream capture is
 * under way), TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, TNR_ERR_DRIVER_TOO_OLD, those of a device's
 * first use. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_sleep_prepare(size_t bytes, int device);

/* ---- being told ---------------------------------------------------------------------------- */

typedef enum tnr_sleep_event {
    TNR_SLEEP_GOING,     /* about to sleep: take back registrations of the pool's memory now */
    TNR_SLEEP_CANCELLED, /* it did not come to that: the memory is the same as before */
    TNR_SLEEP_AWAKE      /* awake again: the addresses are the same, but with other memory behind */
} tnr_sleep_event;

/* Called on the thread that sleeps or wakes, with no lock of Tenure's held, while the pool is
 * awake. For one pool, GOING and one of the others take turns, also when several threads sleep and
 * wake. If a sleep failed and could not be taken back, the pool gets no CANCELLED, but AWAKE when
 * it wakes. `pool` is null for the default pool. `generation` grows with each wake.
 *
 * The callback may allocate and free memory. It must not do anything that would wait for its own
 * end. Sleeping and waking are refused (TNR_ERR_BUSY). Do not destroy a pool that is being put to
 * sleep or woken, do not end Tenure, do not begin a capture. */
typedef void (*tnr_sleep_callback)(tnr_pool pool, int device, tnr_sleep_event event,
                                   uint64_t generation, void *user);

/* Adds a callback of the process, or removes it. The same function with another `user` is another
 * callback. At most 64. A callback that is removed may still be running on another thread. Errors:
 * TNR_ERR_INVALID_ARGUMENT (null, too many, or not there). Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_sleep_callback_add(tnr_sleep_callback callback, void *user);
TNR_NODISCARD TNR_API tnr_status tnr_sleep_callback_remove(tnr_sleep_callback callback, void *user);

/* Copies to `buffer` what a sleep has kept of the live block that contains `ptr`, which may point
 * anywhere into it: `bytes` from there on. The memory sleeps on. Errors: TNR_ERR_INVALID_ARGUMENT
 * (buffer is null, the pool does not sleep), TNR_ERR_FOREIGN_POINTER, TNR_ERR_NOT_LIVE (no such
 * block, or its contents were not kept), TNR_ERR_BUSY (called by a callback of a sleep). Since
 * 1.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_sleep_read(char *buffer, size_t bytes, const void *ptr);

/* How often the pool has woken. A registration that was made at another number is void. 0 also if
 * `pool` isn't a pool of the device. Never blocks, never calls the driver. Since 0.1.0. */
TNR_API uint64_t tnr_pool_generation(tnr_pool pool, int device);

#ifdef __cplusplus
}
#endif
#endif
