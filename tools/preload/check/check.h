/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure run --check`, and the setting auto_record: what the replacements tell the checker.
 *
 * The checker follows each use of a block and decides by clocks of its own whether the program has
 * ordered it before the free and after the allocation. Neither Tenure's clocks nor its waits serve
 * here: those also grow by what Tenure orders itself, and may forget, which is safe for an
 * allocator and would be a false alarm here. What is announced to Tenure (order.c, graphs.c) is
 * told here, too.
 *
 * The functions are called on any thread, outside of Tenure (service_enter), without locks, after
 * the driver's call unless said otherwise, and never fail a call of the program. Off, a replacement
 * pays one load and one branch; the rows of the group CHECK in entries.def are then not handed out.
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
    CHECK_SYNCS = 4    /* auto_record:all: frees wait for all streams, which Tenure does itself */
};

/* -1: not asked yet; else of those. Constructors of libraries may call the driver before ours has
 * run, so whoever comes first asks. */
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
    return check_does(CHECK_REPORTS | CHECK_RECORDS);
}

/* Tells the checker, if it is on: CHECK_TELL(check_stream_ends(stream)). */
#define CHECK_TELL(call)                                                                           \
    do {                                                                                           \
        if (check_is_on())                                                                         \
            call;                                                                                  \
    } while (0)

/* Tells it what orders work, which matters only where findings are said: what is recorded is
 * recorded whatever the order. */
#define CHECK_TELL_ORDER(call)                                                                     \
    do {                                                                                           \
        if (check_does(CHECK_REPORTS))                                                             \
            call;                                                                                  \
    } while (0)

/* ---- streams and what they wait for: order.c ------------------------------------------- */

void check_stream_made(CUstream stream, unsigned flags);
void check_stream_ends(CUstream stream);

/* From now on streams may capture, and each is asked first. */
void check_capture_begins(void);

/* All streams and blocks of a device have ended, or are about to. */
void check_device_ends(int device);

/* The program's name for a stream, of the current context's device or of that one; null: none. */
void check_stream_named(CUstream stream, const char *text);
void check_stream_named_on(int device, CUstream stream, const char *text);

/* What orders work: told by CHECK_TELL_ORDER. The host has seen all work of the stream end that was
 * there at a moment, asked for before the call; of an event, its record of then; of the current
 * context's device, all. */
uint64_t check_stream_moment(CUstream stream);
void check_stream_seen(CUstream stream, uint64_t moment);
void *check_event_moment(CUevent event);
void check_event_seen(void *moment, int is_over);
void check_device_seen(void);

void check_event_recorded(CUevent event, CUstream stream);
void check_event_waited(CUstream stream, CUevent event);
void check_event_ends(CUevent event);

/* The program orders work by means that cannot be seen, which are named: what is found from now on
 * is possible, not certain. */
void check_unseen(const char *means);

/* ---- blocks: rules.c -------------------------------------------------------------------- */

/* Memory was handed out, in the order of a stream; or of none, for all at once. */
void check_allocated(const char *call, CUdeviceptr address, size_t bytes, CUstream stream);
void check_allocated_at_once(const char *call, CUdeviceptr address, size_t bytes);

/* Before a free, in the order of a stream or on the host; and after it, if the driver or Tenure
 * refused it, or for what the driver waits for in it. */
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

/* A copy or a set has been enqueued. Operands that are no block are passed over, 0 is none. A copy
 * to pageable memory of the host is over when the call returns. */
void check_copied(const char *call, CUstream stream, CUdeviceptr to, CUdeviceptr from);

/* The same, of a call without a stream, which waits for the copy if one end is the host's. */
void check_copied_at_once(const char *call, CUstream stream, CUdeviceptr to, CUdeviceptr from);

/* A copy between devices, which waits for all work of both. */
void check_copied_between(const char *call, CUdeviceptr to, CUdeviceptr from);

void check_launched(const char *call, CUfunction function, CUstream stream, void **parameters,
                    void **extra);

/* What cuLaunchKernelEx says beyond that: events which the launch records. */
void check_launch_attributes(const CUlaunchConfig *config);

/* The handle is a kernel's, not a function's; and: what was known of functions holds no more. */
void check_kernel_known(CUkernel kernel);
void check_code_unloaded(void);

void check_instantiated(CUgraphExec exec, CUgraph graph);
void check_exec_changed(CUgraphExec exec);
void check_exec_ends(CUgraphExec exec);
void check_graph_launched(CUgraphExec exec, CUstream stream);

/* A host function: what is to be enqueued in its stead, so that the host knows what it knows. Null:
 * the program's own. Taken back if the driver refused it. */
void *check_host_function(CUstream stream, CUhostFn function, void *data);
void CUDA_CB check_host_function_run(void *wrapped);
void check_host_function_refused(void *wrapped);

#endif
