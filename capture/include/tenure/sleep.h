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
 * go through two pinned pieces of 32 MiB, which is as fast as up to 16 threads copy host memory,
 * and spares the pinning. Before any of it is taken, what the machine has left is looked at, and
 * what the process's control groups (version 1 and 2) have: a sleep that would leave less than 64
 * MiB there is refused, because the kernel would end the process later. Discarded contents are
 * undefined after the wake, and cost only the mapping calls. What is free in the pool is never
 * kept, except in a graph pool: replays read what was written while capturing, in memory that is
 * free by now, so there everything is kept unless the sleep says otherwise.
 *
 * While it sleeps. tnr_malloc, tnr_reserve, tnr_commit from the pool give TNR_ERR_ASLEEP, and so do
 * launches through Tenure of its graphs and of graphs that refer to its blocks. Everything that
 * needs no memory goes on: frees (a freed block's contents are dropped, its memory is free after
 * the wake), uses, tnr_block_get, statistics, tnr_pool_destroy, tnr_shutdown. tnr_trim passes the
 * pool by. Work of your own that touches its blocks faults, as any access to unmapped memory does.
 *
 * All or nothing. A sleep that fails leaves every pool awake and unchanged, a wake that fails
 * leaves them asleep with what was kept, and both can be tried again. There is one exception: if,
 * after a refusal, the driver also refuses the way back, the pool is asleep; the sentence of
 * tnr_last_error says so, and tnr_pool_wake goes on from there. Another pool's threads are not
 * disturbed, except that they wait as cuCtxSynchronize makes them.
 *
 * The idea is torch_memory_saver's and vLLM's sleep mode; there, a second sleep ends the process,
 * and running work is not waited for.
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
    TNR_CONTENT_DISCARD = 2  /* undefined after the wake */
} tnr_content;

/* How to sleep. Zero in any field means its default. */
typedef struct tnr_sleep_options {
    size_t struct_bytes; /* sizeof(tnr_sleep_options): set by the initialiser below */
    tnr_content content; /* of blocks that say nothing else */
    int keep_backing;    /* 1: the host memory stays for the next sleep; see tnr_sleep_prepare */

    /* The most pinned host memory that the device's sleeping pools may use: whole pieces of 32 MiB,
     * two of which are for what passes through, and are had at least. 0: no limit. */
    size_t pinned_bytes_max;
} tnr_sleep_options;

#define TNR_SLEEP_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(tnr_sleep_options), TNR_CONTENT_DEFAULT, 0, 0                                       \
    }

/* ---- sleeping ------------------------------------------------------------------------------ */

/* Puts a pool to sleep (null: the default pool of `device`, which otherwise must be the pool's).
 * Waits for all work of the device and of those that reach the pool, copies what is to be kept, and
 * gives the pool's memory back while later parts are still being copied.
 * An explicit TNR_CONTENT_DISCARD discards a graph pool's free memory too: only for graphs that are
 * not replayed again, or write all that they read. A pool that sleeps already is left as it is, and
 * that is success. `options` may be null. Calls the driver and the callbacks.
 *
 * Errors: TNR_ERR_INVALID_ARGUMENT, TNR_ERR_INVALID_DEVICE, TNR_ERR_INVALID_POOL, TNR_ERR_BUSY (a
 * stream capture is under way, this is a callback of a sleep, the pool is for network cards and no
 * callback is there that could take their registrations back, or other processes have exports of it
 * open after the callbacks: <tenure/export.h>), TNR_ERR_FOREIGN_SEGMENT (the pool's memory is
 * foreign segments), TNR_ERR_HOST_MEMORY (also when not even two pieces can be pinned, or when the
 * machine or a control group has no room for what is kept; the sentence names it), TNR_ERR_DRIVER,
 * TNR_ERR_DRIVER_TOO_OLD, TNR_ERR_AFTER_FORK, those of tnr_init. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_sleep(tnr_pool pool, int device,
                                                const tnr_sleep_options *options);

/* Wakes a pool. If memory is short, or a limit is too low by now, idle memory of other pools is
 * given back, and what is free in this one is not woken: for what lives there is room then, or
 * there is none. A pool in which nothing lives wakes without memory. A pool that is awake is left
 * as it is, and that is success. Adds to the errors of tnr_pool_sleep:
 * TNR_ERR_OUT_OF_MEMORY, TNR_ERR_LIMIT (others took the memory meanwhile). Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_pool_wake(tnr_pool pool, int device);

/* All pools of a device that are awake, or asleep, at once: all of them or none. Graph pools keep
 * their contents whatever `options` says, and pools over foreign segments stay awake. Errors: those
 * of tnr_pool_sleep and tnr_pool_wake. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_device_sleep(int device, const tnr_sleep_options *options);
TNR_NODISCARD TNR_API tnr_status tnr_device_wake(int device);

/* ---- contents ------------------------------------------------------------------------------ */

/* Says what becomes of the contents of the live block that contains `ptr`, in every sleep until it
 * is freed. A block of tnr_reserve can be spoken of from its first commit on. Does not call the
 * driver. Errors: TNR_ERR_INVALID_ARGUMENT, TNR_ERR_FOREIGN_POINTER, TNR_ERR_NOT_LIVE,
 * TNR_ERR_AFTER_FORK. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_block_content_set(const void *ptr, tnr_content content);

/* Has pinned host memory for `bytes` of contents of the device ready, so that sleeping does not
 * have to pin it: that costs much more than the copy. No more and no less: 0 gives all of it back
 * that is not in use. Errors: TNR_ERR_INVALID_DEVICE, TNR_ERR_BUSY (a stream capture is under way),
 * TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, TNR_ERR_DRIVER_TOO_OLD, those of tnr_init. Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_sleep_prepare(size_t bytes, int device);

/* ---- being told ---------------------------------------------------------------------------- */

typedef enum tnr_sleep_event {
    TNR_SLEEP_GOING,     /* about to sleep: take back registrations of the pool's memory now */
    TNR_SLEEP_CANCELLED, /* it did not come to that: the memory is the same as before */
    TNR_SLEEP_AWAKE      /* awake again: the addresses are the same, the memory behind is other */
} tnr_sleep_event;

/* Called on the thread that sleeps or wakes, with no lock of Tenure's held, while the pool is
 * awake. For one pool, GOING and one of the others take turns, also when several threads sleep and
 * wake. A pool whose sleep failed and could not be taken back gets no CANCELLED, but AWAKE when it
 * wakes. `pool` is null for the default pool. `generation` grows with each wake.
 *
 * Memory may be allocated and freed. What would wait for the callback's own end may not be done: to
 * sleep or wake is refused (TNR_ERR_BUSY); do not destroy a pool that is being put to sleep or
 * woken, do not end Tenure, do not begin a capture. */
typedef void (*tnr_sleep_callback)(tnr_pool pool, int device, tnr_sleep_event event,
                                   uint64_t generation, void *user);

/* Adds a callback of the process, or removes it; the same function with another `user` is another
 * callback. At most 64. One that is removed may still be running on another thread. Errors:
 * TNR_ERR_INVALID_ARGUMENT (null, too many, or not there). Since 0.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_sleep_callback_add(tnr_sleep_callback callback, void *user);
TNR_NODISCARD TNR_API tnr_status tnr_sleep_callback_remove(tnr_sleep_callback callback, void *user);

/* How often the pool has woken; a registration made at another number is void. 0 also for what is
 * no pool of the device. Never blocks, never calls the driver. Since 0.1.0. */
TNR_API uint64_t tnr_pool_generation(tnr_pool pool, int device);

#ifdef __cplusplus
}
#endif
#endif
