/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/host.h>: pinned host memory, from the same arenas, bins and chunks as device memory.
 *
 *   void *staging;
 *   tnr_host_malloc(&staging, bytes);                 the host may write to it at once
 *   fill(staging, bytes);
 *   cudaMemcpyAsync(weights, staging, bytes, cudaMemcpyHostToDevice, stream);
 *   tnr_free_on(staging, stream);                     free again when the copy has ended
 *
 * Sizes are rounded up to 512 bytes and to nothing else. Freed blocks are merged, and idle memory
 * goes back when it is asked for. An allocation waits for copies only before it would fail, a free
 * never does, and only a growth calls the driver.
 *
 * Whose it is. Host memory is of no stream, because the host itself reads and writes it. So
 * tnr_host_malloc hands out only memory whose recorded uses are over, as the host has seen. The
 * memory is the caller's at once, on the host and on every stream.
 *
 * Uses. A copy or a kernel that uses a block when it is freed must be recorded, as a use of another
 * stream of device memory is: with tnr_record_use after the copy has been enqueued, tnr_free_on at
 * the free, tnr_record_stream, tnr_keep_until, or tnr_free_sync, which assumes all streams of all
 * devices in use (<tenure/lifetime.h>). As there, tnr_record_stream is for streams of the device
 * that the memory is near; the others take any stream. A free waits for none of them. A block that
 * no stream uses any more is freed with tnr_free or tnr_host_free, and its memory is free at once.
 *
 * TNR_HOST(device) is the number of the host memory near a GPU. It stands wherever a function asks
 * for a device: tnr_stats_get, tnr_limit_set, tnr_trim, tnr_pool_create, tnr_pool_malloc,
 * tnr_malloc_aligned, tnr_reserve, tnr_validate, tnr_device_end. Where such a function asks for a
 * stream too, it means nothing. Snapshots, reports and `tenure top` show the same number. Its sums
 * and limits are apart from the GPU's. Its first use also puts the GPU into use, and the GPU's end
 * ends it.
 *
 * What it is made of (the setting `host`): memory that the driver makes at the GPU's NUMA node and
 * Tenure maps; where the driver cannot, as in containers without the right to choose nodes, slabs
 * of cuMemHostAlloc, in which nothing moves. A slab is a whole number of the blocks that are asked
 * for: about 20 MiB, 45 MiB once the pool has a GiB, 90 MiB at 4 GiB, 181 MiB at 16 GiB.
 * Every GPU that this process uses reaches it at the same address. cuMemHostRegister is never
 * called.
 *
 * Limits. Before Tenure takes more, it asks the machine (MemAvailable) and each control group of
 * the process (memory.max), because the kernel kills a process that takes more than that. An
 * allocation that would leave less than 64 MiB ends in TNR_ERR_OUT_OF_MEMORY, with a sentence that
 * names the file. tnr_host_get and `tenure doctor` say what is allowed.
 *
 * What it does not do: host pools do not sleep, are not compacted, parked, exported, published or
 * captured into (TNR_ERR_INVALID_DEVICE or TNR_ERR_INVALID_ARGUMENT). During a capture
 * tnr_host_malloc serves as always. A block that a captured copy uses lives as long as the graph,
 * like any other: docs/graphs.md.
 */
#ifndef TENURE_HOST_H
#define TENURE_HOST_H

#include <tenure/alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Host memory near a device, where a function asks for a device. Since 1.1.0. */
#define TNR_HOST(device) (64 + (device))

/* Allocates `bytes` of pinned host memory near device 0, the only one of most processes, and stores
 * the address in *ptr: tnr_malloc on TNR_HOST(0). The memory is the caller's at once. Zero bytes
 * give a null pointer and success. On an error *ptr is set to null. Usually it neither calls the
 * driver nor waits; before it would fail for lack of memory it waits for recorded uses.
 *
 * Errors: TNR_ERR_INVALID_ARGUMENT (ptr is null), TNR_ERR_INVALID_SIZE, TNR_ERR_OUT_OF_MEMORY (the
 * machine, a control group or the driver has no host memory left), TNR_ERR_LIMIT,
 * TNR_ERR_ADDRESS_SPACE, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER, TNR_ERR_NO_VMM (host:mapped, and the
 * driver does not map host memory), those of a device's first use; TNR_ERR_INVALID_POOL (the thread
 * is routed to a pool that has ended with its device); TNR_ERR_FOREIGN_SEGMENT and TNR_ERR_BUSY as
 * tnr_malloc. Since 1.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_host_malloc(void **ptr, size_t bytes);

/* As tnr_host_malloc, near `device`: at its NUMA node, where the driver can choose it. Adds
 * TNR_ERR_INVALID_DEVICE. Since 1.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_host_malloc_near(void **ptr, size_t bytes, int device);

/* As tnr_free, for a block of host memory; refuses any other. Null is accepted and does nothing.
 * Adds TNR_ERR_INVALID_ARGUMENT (the block is device memory: free it with tnr_free). Since
 * 1.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_host_free(void *ptr);

/* What the system allows. */
typedef struct tnr_host_info {
    size_t struct_bytes;      /* set by the caller to sizeof(tnr_host_info) */
    uint64_t left_bytes;      /* by the tightest limit that was found; UINT64_MAX: none was */
    uint64_t untouched_bytes; /* of these, what Tenure leaves: 64 MiB; shared_rest_mb once it has
                               * started and GPU 0 shares the memory */
    uint64_t locked_bytes;    /* the limit on locked memory (ulimit -l); UINT64_MAX: none */
    char limited_by[256];     /* the file that says left_bytes: /proc/meminfo, or a group's */
    uint64_t reserved[4];     /* 0: room for what later versions tell */
} tnr_host_info;

/* Looks at the limits that an allocation of host memory would meet now. Needs no driver; reads
 * files. The limit on locked memory is not one of them: NVIDIA's driver pins without asking for it,
 * as far as is known, so it is told only where the driver has refused. Errors:
 * TNR_ERR_INVALID_ARGUMENT (struct_bytes not set). Since 1.1.0. */
TNR_NODISCARD TNR_API tnr_status tnr_host_get(tnr_host_info *info);

#ifdef __cplusplus
}
#endif
#endif
