/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Tenure serves, and when: the state that all replacements share.
 *
 * Tenure serves memory in a device's primary context, which the CUDA runtime uses, from the first
 * stream or allocation there on. Some calls are passed on to the driver: those in any other
 * context, with no context, before cuInit, in a forked child, or from a signal handler that
 * interrupted Tenure. Once Tenure has failed to start, every call is passed on.
 *
 * A program uses cudaMalloc'ed memory on any stream at once. So this memory comes from a pool of
 * its own, on a stream of its own, on which nothing is ever launched. If a block is free there, its
 * old work has been seen to be over, or that stream waits for it, and then so does the allocation.
 */
#ifndef TENURE_PRELOAD_SERVICE_H
#define TENURE_PRELOAD_SERVICE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <tenure/tenure.h>

#include "counts.h"
#include "driver.h"

enum { SERVICE_DEVICES_MAX = 64 };

/* Memory to which other devices get access together. */
typedef enum service_memory {
    SERVICE_MALLOC, /* what cuMemAlloc gave */
    SERVICE_ASYNC,  /* what cuMemAllocAsync gave from Tenure's default pool */
    SERVICE_MEMORY_COUNT
} service_memory;

/* One device. Written under the service's mutex, published by `is_on`; constant while that is 1. */
typedef struct service_device {
    _Atomic int is_on;
    _Atomic int is_known;      /* its addresses are; since it was on, or an engine used it */
    _Atomic int is_given_up;   /* why has been said */
    _Atomic int is_pool_taken; /* cuMemAllocAsync allocates from a pool of the program's */
    int index;
    int was_on;
    tnr_pool pool;     /* of cudaMalloc */
    tnr_stream stream; /* of cudaMalloc: nothing runs on it */
    CUmemoryPool driver_pool;
    /* Bit i: device i reaches it. Also before it is on, and for the driver's memory after. */
    _Atomic uint64_t peers[SERVICE_MEMORY_COUNT];
    uintptr_t address_base;
    size_t address_bytes;
} service_device;

/* ---- coming in ------------------------------------------------------------------------------ */

/* 1 if the thread may go into Tenure; then service_leave must follow. 0: the thread is inside
 * already (a signal handler), or the process was forked. Cheap. */
int service_enter(void);
void service_leave(void);

/* 1 if this process was forked from one in which Tenure had started. */
int service_is_forked(void);

/* 1 if nothing is served and nothing announced (TENURE_PRELOAD_SERVE=0, for tests). Then an
 * engine's use of Tenure is checked, but works as without this library. */
int service_only_watches(void);

/* 1 if the calling thread is inside of Tenure, through this library. */
int service_is_inside(void);

/* ---- whose is it ---------------------------------------------------------------------------- */

/* The device that serves the calling thread's context. The first call starts it. Null: the call is
 * the driver's. */
service_device *service_here(void);

/* The same, only if it has started; for what is merely announced. */
service_device *service_here_started(void);

/* The device whose addresses these are; null if they are not ours. No driver call. */
service_device *service_of_address(CUdeviceptr address);

/* A device's pool has given memory there. */
void service_given(const service_device *device, CUdeviceptr address);

/* The range from the first to behind the last address that was ever known of any device.
 * service_of_address says null for every address outside of it. The range makes that test cheap:
 * launches have thousands of such words. */
extern _Atomic uintptr_t service_low, service_high;

/* An engine that calls Tenure itself has a block there. From now on it is known whose addresses
 * those are, though nothing is served there. */
void service_learn(CUdeviceptr address);
void service_unlearn(int index);

service_device *service_device_at(int index);

/* The device whose primary context this is; -1: of none. The second gives a device's primary
 * context. */
int service_device_of(CUcontext context);
CUresult service_primary_context(int index, CUcontext *context);

/* 1 once more than one device has been served. Cheap. */
int service_has_several(void);

/* The first gives other devices access to what cuMemAlloc gave and will give on one device: the
 * devices named in the bits, and no others. The second does so for what cuMemAllocAsync gives, as
 * the driver's pools say now. If access cannot be taken away, it stays: that only makes fewer calls
 * fail. On an error, which has been said, no device got access. Inside, without the mutexes of
 * others. */
CUresult service_malloc_peers_set(int index, uint64_t peers);
CUresult service_async_peers_follow(int index);

/* A context has ended, or may have ended: forgets what was known of handles. */
void service_contexts_changed(void);

/* The device's primary context is about to be reset. Returns 1 if nothing is served any more. */
int service_device_reset(int index);

/* ---- failing -------------------------------------------------------------------------------- */

/* Says once what has failed, and, with --strict, ends the process. `what` is a whole sentence. */
__attribute__((format(printf, 1, 2))) void service_say(const char *what, ...);

/* The driver's code for what Tenure said. */
CUresult service_result(tnr_status status);

/* ---- counting ------------------------------------------------------------------------------- */

extern _Atomic uint64_t service_counts[COUNT_COUNT];

static inline void service_count_more(service_count which, uint64_t count)
{
    atomic_fetch_add_explicit(&service_counts[which], count, memory_order_relaxed);
}

static inline void service_count_one(service_count which)
{
    service_count_more(which, 1);
}

/* ---- captures ------------------------------------------------------------------------------- */

/* Makes the driver let this thread ask about streams while others capture. Returns the mode that
 * was in force, for service_relaxed_end. */
CUstreamCaptureMode service_relaxed(void);
void service_relaxed_end(CUstreamCaptureMode before);

#endif
