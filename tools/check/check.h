/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure run --check` and `--waste`, and the setting auto_record: what the replacements tell the
 * checker.
 *
 * The checker follows each use of a block. By clocks of its own it decides whether the program has
 * ordered the use before the free and after the allocation. It cannot use Tenure's clocks or waits.
 * Those also grow by what Tenure orders itself. And they may forget: that is safe for an allocator,
 * but would be a false alarm here. What is announced to Tenure (order.c, graphs.c) is told to the
 * checker, too.
 *
 * The functions are called on any thread, outside of Tenure (service_enter), without locks, after
 * the driver's call unless said otherwise, and never fail a call of the program. With the checker
 * off, a replacement pays one load and one branch, and the rows of the group CHECK in entries.def
 * are not handed out.
 */
#ifndef TENURE_PRELOAD_CHECK_H
#define TENURE_PRELOAD_CHECK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "entries.h"

/* What is done with what is seen. */
enum {
    CHECK_REPORTS = 1, /* --check: findings are said */
    CHECK_RECORDS = 2, /* auto_record:seen: uses of other streams are recorded with Tenure */
    CHECK_SYNCS = 4,   /* auto_record:all: frees wait for all streams, which Tenure does itself */
    CHECK_WASTE = 8    /* --waste: how long blocks lie unused is summed up. Never with the first */
};

/* -1: not asked yet; else a sum of the above. Constructors of libraries may call the driver before
 * ours has run, so the first caller asks. */
extern _Atomic int check_state;

/* Reads the environment. Returns the state. */
int check_begin(void);

static inline int check_does(int what)
{
    int state = atomic_load_explicit(&check_state, memory_order_relaxed);
    if (__builtin_expect(state < 0, 0))
        state = check_begin();
    return __builtin_expect((state & what) != 0, 0) != 0;
}

/* 1 if the checker follows what happens. */
static inline int check_is_on(void)
{
    return check_does(CHECK_REPORTS | CHECK_RECORDS | CHECK_WASTE);
}

/* Tells the checker, if it is on: CHECK_TELL(check_stream_ends(stream)). */
#define CHECK_TELL(call)                                                                           \
    do {                                                                                           \
        if (check_is_on())                                                                         \
            call;                                                                                  \
    } while (0)

/* Tells the checker what orders work. That matters only if findings are reported: uses are recorded
 * with Tenure whatever the order. */
#define CHECK_TELL_ORDER(call)                                                                     \
    do {                                                                                           \
        if (check_does(CHECK_REPORTS))                                                             \
            call;                                                                                  \
    } while (0)

/* ---- the time, for --waste alone: waste.c ---------------------------------------------- */

uint64_t check_now(void); /* in ns, of the host */

/* Around a call in which the host waits for the work of a stream; null: for more than one. */
static inline uint64_t check_wait_begins(void)
{
    return check_does(CHECK_WASTE) ? check_now() : 0;
}
void check_wait_is_over(CUstream stream, uint64_t began);
static inline void check_wait_ends(CUstream stream, uint64_t began)
{
    if (__builtin_expect(began != 0, 0))
        check_wait_is_over(stream, began);
}

/* ---- streams and what they wait for: order.c ------------------------------------------- */

void check_stream_made(CUstream stream, unsigned flags);
void check_stream_ends(CUstream stream);

/* From now on streams may capture, and each is asked first. */
void check_capture_begins(void);

/* All streams and blocks of a device have ended, or are about to. */
void check_device_ends(int device);

/* The program's name for a stream, of the current context's device or of the given one; null:
 * none. */
void check_stream_named(CUstream stream, const char *text);
void check_stream_named_on(int device, CUstream stream, const char *text);

/* What orders work: told by CHECK_TELL_ORDER. The host has seen work end. Of a stream: all work
 * that was there at a moment, which is asked for before the call. Of an event: its record at that
 * moment. Of the current context's device: all work. */
uint64_t check_stream_moment(CUstream stream);
void check_stream_seen(CUstream stream, uint64_t moment);
void *check_event_moment(CUevent event);
void check_event_seen(void *moment, int is_over);
void check_device_seen(void);

void check_event_recorded(CUevent event, CUstream stream);
void check_event_waited(CUstream stream, CUevent event);
void check_event_ends(CUevent event);

/* The program orders work by means that the checker cannot see; `means` names them, and `call`
 * began them. What depends on order is possible from now on, not certain. The second: it is the
 * next work of this stream that waits for such means, a value in memory or a semaphore. */
void check_unseen(const char *call, const char *means);
void check_unseen_on(const char *call, CUstream stream);

/* Memory that the host reads and kernels can write: it is there, or gone. `is_pinned`: pages that
 * stay where they are, which the process may protect. */
void check_host_memory_made(const void *base, size_t bytes, int is_pinned);
void check_host_memory_gone(const void *base);

/* ---- blocks: rules.c -------------------------------------------------------------------- */

/* Memory was handed out: in the order of a stream, or in no order, for all streams at once. */
void check_allocated(const char *call, CUdeviceptr address, size_t bytes, CUstream stream);
void check_allocated_at_once(const char *call, CUdeviceptr address, size_t bytes);

/* The first two before a free, in the order of a stream or on the host. The third after a free: if
 * the driver or Tenure refused it, or for what the driver waits for in it. */
void check_freeing(const char *call, CUdeviceptr address, CUstream stream);
void check_freeing_at_once(const char *call, CUdeviceptr address);
void check_freed_at_once(CUdeviceptr address);

/* The same of an engine that calls Tenure itself. Streams are those of the block's device, whatever
 * context is current; or a block whose order is its caller's, and which is not followed. Its frees
 * are ordered on the block's own stream, after what it has recorded; `is_sync`: after all. And what
 * it records, for findings alone: the use of a stream ends here, or with the free; or
 * where the event is. */
void check_allocated_own(const char *call, CUdeviceptr address, size_t bytes, int device,
                         CUstream stream);
void check_allocated_unseen(CUdeviceptr address, size_t bytes);
void check_freeing_own(const char *call, CUdeviceptr address, int is_sync);
void check_use_recorded(CUdeviceptr address, CUstream stream, int until_free);
void check_use_kept(CUdeviceptr address, CUevent event);

/* ---- uses: launch.c, graph.c, host.c ------------------------------------------------------ */

/* An operand of a copy or a set: from its first byte to its last one. */
typedef struct check_span {
    CUdeviceptr address; /* 0: there is none, or it is an array */
    size_t bytes;        /* 0: nothing is touched, and the address may lead anywhere */
    int has_gaps;        /* rows, between which lies what is not touched */
} check_span;

/* A copy or a set has been enqueued. Operands that are no block are passed over. A copy to pageable
 * memory of the host is over when the call returns. */
void check_copied(const char *call, CUstream stream, check_span to, check_span from);

/* The same, of a call without a stream. It waits for the copy if one end is the host's. */
void check_copied_at_once(const char *call, CUstream stream, check_span to, check_span from);

/* The sides of a copy of boxes. */
check_span check_to_of_3d(const CUDA_MEMCPY3D *copy);
check_span check_from_of_3d(const CUDA_MEMCPY3D *copy);

/* A copy between devices, which waits for all work of both. */
void check_copied_between(const char *call, check_span to, check_span from);

void check_launched(const char *call, CUfunction function, CUstream stream, void **parameters,
                    void **extra);

/* What cuLaunchKernelEx says beyond that: events which the launch records. */
void check_launch_attributes(const CUlaunchConfig *config);

/* The first: the handle is a kernel's, not a function's. The second: a library is about to be
 * unloaded, and its kernels with it; kernels outlive contexts, and what another thread gets
 * meanwhile is not to be forgotten. The third: code is unloaded, so all that was known of functions
 * is forgotten. */
void check_kernel_known(CUkernel kernel);
void check_kernels_end(void);
void check_code_unloaded(void);

/* Makes a call that unloads code, by itself or with its context. What is known of functions is
 * forgotten before, as later ones may get their handles, and after, as other threads launch
 * meanwhile. */
#define CHECK_UNLOADS(...)                                                                         \
    do {                                                                                           \
        CHECK_TELL(check_code_unloaded());                                                         \
        __VA_ARGS__;                                                                               \
        CHECK_TELL(check_code_unloaded());                                                         \
    } while (0)

void check_instantiated(CUgraphExec exec, CUgraph graph);
/* A node of an executable was changed: it is read again. */
void check_exec_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);
void check_exec_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy);
void check_exec_set(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set);
void check_exec_values(CUgraphExec exec, CUgraphNode node, unsigned count,
                       const CUstreamBatchMemOpParams *list);
void check_exec_event(CUgraphExec exec, CUgraphNode node, CUevent event, int is_wait);
void check_exec_child(CUgraphExec exec, CUgraphNode node);
void check_exec_changed(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params);
void check_exec_enabled(CUgraphExec exec, CUgraphNode node, int is_enabled);
void check_exec_ends(CUgraphExec exec);
void check_graph_launched(CUgraphExec exec, CUstream stream);

/* A host function. The first gives what to enqueue in its stead, so that the host knows what the
 * function knows; null: enqueue the program's own. The last takes that back if the driver refused
 * it. */
void *check_host_function(CUstream stream, CUhostFn function, void *data);
void CUDA_CB check_host_function_run(void *wrapped);
void check_host_function_refused(void *wrapped);

/* The same of a callback of a stream. */
void *check_callback(CUstream stream, CUstreamCallback function, void *data);
void CUDA_CB check_callback_run(CUstream stream, CUresult status, void *wrapped);

#endif
