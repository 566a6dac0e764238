/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is served by Tenure, and when: the state that all replacements share.
 *
 * Memory is served on a device's primary context, which is what the CUDA runtime uses, from the
 * first stream or allocation there on. Calls in any other context, with none, before cuInit, in a
 * forked child, or from a signal handler that interrupted Tenure are passed on to the driver, as is
 * everything once Tenure has failed to start.
 *
 * A program uses cudaMalloc'ed memory on any stream at once. So it comes from a pool of its own, on
 * a stream of its own that nothing is ever launched on: what is free there has been seen to be
 * over, or that stream waits for it, and then so does the allocation.
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

/* Memory that other devices are let in to together. */
typedef enum service_memory {
    SERVICE_MALLOC, /* what cuMemAlloc gave */
    SERVICE_ASYNC,  /* what cuMemAllocAsync gave of Tenure's default pool */
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

/* 1 if the thread may go into Tenure; then service_leave must follow. 0: it is in it already (a
 * signal handler), or the process was forked. Cheap. */
int service_enter(void);
void service_leave(void);

/* 1 if this process was forked from one in which Tenure had started. */
int service_is_forked(void);

/* 1 if nothing is served and nothing announced: what an engine does with Tenure is checked, and is
 * what it is without this library (TENURE_PRELOAD_SERVE=0, for tests). */
int service_only_watches(void);

/* 1 if the calling thread is inside of Tenure, through this library. */
int service_is_inside(void);

/* ---- whose is it ---------------------------------------------------------------------------- */

/* The device that serves the calling thread's context; started if it is the first time. Null: the
 * call is the driver's. */
service_device *service_here(void);

/* The same, only if it has started; for what is merely announced. */
service_device *service_here_started(void);

/* The device that serves a stream; a default stream's is the context's. Null: the driver's. */
service_device *service_of_stream(CUstream stream);

/* The device whose addresses these are; null if they are not ours. No driver call. */
service_device *service_of_address(CUdeviceptr address);

/* From the first address of any device's that was ever known to behind the last: for what is
 * outside, service_of_address says null, and launches have thousands of such words. */
extern _Atomic uintptr_t service_low, service_high;

/* An engine that calls Tenure itself has a block there: whose addresses those are is known from now
 * on, though nothing is served there. */
void service_learn(CUdeviceptr address);
void service_unlearn(int index);

service_device *service_device_at(int index);

/* The device whose primary context this is; -1: of none. And that context. */
int service_device_of(CUcontext context);
CUresult service_primary_context(int index, CUcontext *context);

/* 1 once more than one device has been served. Cheap. */
int service_has_several(void);

/* Lets other devices in to what cuMemAlloc gave and will give on one, those that are named in the
 * bits and no others; or, the second, to what cuMemAllocAsync gives, as the driver's pools say now.
 * What is to be closed and cannot be stays open: that only makes less fail. On an error, which has
 * been said, nobody was let in. Inside, without the mutexes of others. */
CUresult service_malloc_peers_set(int index, uint64_t peers);
CUresult service_async_peers_follow(int index);

/* A context has ended, or may have: what was known of handles is forgotten. */
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

/* Has the driver let this thread ask about streams while others capture; returns the mode that was
 * in force, for service_relaxed_end. */
CUstreamCaptureMode service_relaxed(void);
void service_relaxed_end(CUstreamCaptureMode before);

#endif
