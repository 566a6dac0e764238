/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam to the GPU: what one can do, a function for each. The layers reach a device through
 * these and in no other way. Behind them lies cuda/, which alone names functions of CUDA's driver.
 * The simulated device is loaded through it as the driver is (TENURE_DRIVER).
 *
 * Types and results are those of cuda.h: the handles that callers give and get are CUDA's (a
 * tnr_stream is a CUstream), and names of our own for each would be a second list to keep.
 * docs/porting.md says what other GPUs have in their place.
 *
 * Rules for every verb:
 *   - the caller holds no lock, except for the event records that say so at their place;
 *   - the device's context is current (memory/device/device.h), except for start-up calls;
 *   - its call and its time are counted to the device whose context is current;
 *   - one that the driver lacks gives CUDA_ERROR_NOT_SUPPORTED (tnri_gpu_has).
 *
 * Time for decisions comes from here too, because the simulated device has a time of its own.
 */
#ifndef TNRI_GPU_BACKEND_H
#define TNRI_GPU_BACKEND_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include <tenure/alloc.h>

#include "base/prim/clock.h"

/* ---- the driver ----------------------------------------------------------------------------- */

/* What is known of the loaded driver. Constant while loaded. */
typedef struct tnri_driver_state {
    void *library; /* of dlopen; null while none is loaded */
    char path[512];
    int version; /* 13000 for CUDA 13.0 */
    int simulated;
    uint64_t (*played_ns)(void); /* time as the simulated device plays it; null: it stands still */
} tnri_driver_state;

extern tnri_driver_state tnri_driver_loaded;

/* Loads the driver that TENURE_DRIVER names and calls cuInit. Harmless if loaded already. Under
 * the library lock. Errors: TNR_ERR_NO_DRIVER, TNR_ERR_DRIVER_TOO_OLD, TNR_ERR_NO_DEVICE,
 * TNR_ERR_CONFIG (TENURE_DRIVER is not understood), TNR_ERR_DRIVER. */
tnr_status tnri_driver_load(void);

/* Forgets the table. The library itself stays loaded: CUDA cannot be unloaded safely. */
void tnri_driver_unload(void);

/* Calls made and time spent, by kind. Synchronisation: internal, relaxed atomics. */
typedef struct tnri_driver_counters {
    _Atomic uint64_t calls[TNR_DRIVER_KIND_COUNT];
    _Atomic uint64_t ns[TNR_DRIVER_KIND_COUNT];
} tnri_driver_counters;

/* Sets where the calling thread's calls are counted; returns what was set before. Null: nowhere. */
tnri_driver_counters *tnri_driver_count_into(tnri_driver_counters *counters);

/* The time for decisions. On the simulated device it is the time that the device plays, which
 * stands still unless a program says otherwise. So equal inputs give equal decisions. */
uint64_t tnri_decision_ns(void);

/* For a call that is too quick to be counted one by one: the caller counts its calls itself, times
 * one in TNRI_SAMPLE of them, and hands in both with tnri_driver_count. */
enum { TNRI_SAMPLE = 64 };
void tnri_driver_count(tnri_driver_counters *counters, tnr_driver_kind kind, uint64_t calls,
                       uint64_t ns);

/* Each verb: for its name, and whether the driver has it. */
typedef enum tnri_gpu_verb {
    TNRI_GPU_DEVICES,
    TNRI_GPU_DEVICE_FIND,
    TNRI_GPU_DEVICE_ATTRIBUTE,
    TNRI_GPU_DEVICE_UUID,
    TNRI_GPU_REACHES,
    TNRI_GPU_CONTEXT_IS_ACTIVE,
    TNRI_GPU_CONTEXT_RETAIN,
    TNRI_GPU_CONTEXT_RELEASE,
    TNRI_GPU_CONTEXT_PUSH,
    TNRI_GPU_CONTEXT_POP,
    TNRI_GPU_CONTEXT_AWAIT,
    TNRI_GPU_MEMORY_LEFT,
    TNRI_GPU_GRANULARITY,
    TNRI_GPU_RESERVE,
    TNRI_GPU_UNRESERVE,
    TNRI_GPU_CREATE,
    TNRI_GPU_RELEASE,
    TNRI_GPU_MAP,
    TNRI_GPU_UNMAP,
    TNRI_GPU_ACCESS,
    TNRI_GPU_EXPORT,
    TNRI_GPU_IMPORT,
    TNRI_GPU_ALLOC,
    TNRI_GPU_FREE,
    TNRI_GPU_POINTER_ASK,
    TNRI_GPU_HOST_ALLOC,
    TNRI_GPU_HOST_FREE,
    TNRI_GPU_COPY_OUT,
    TNRI_GPU_COPY_IN,
    TNRI_GPU_COPY,
    TNRI_GPU_FILL,
    TNRI_GPU_EVENT_MAKE,
    TNRI_GPU_EVENT_END,
    TNRI_GPU_EVENT_RECORD,
    TNRI_GPU_EVENT_QUERY,
    TNRI_GPU_EVENT_AWAIT,
    TNRI_GPU_STREAM_FOLLOW,
    TNRI_GPU_STREAM_MAKE,
    TNRI_GPU_STREAM_END,
    TNRI_GPU_STREAM_AWAIT,
    TNRI_GPU_STREAM_ID,
    TNRI_GPU_STREAM_FLAGS,
    TNRI_GPU_STREAM_CONTEXT,
    TNRI_GPU_CAPTURE_BEGIN,
    TNRI_GPU_CAPTURE_END,
    TNRI_GPU_IS_CAPTURING,
    TNRI_GPU_CAPTURE_ASK,
    TNRI_GPU_CAPTURE_MODE,
    TNRI_GPU_GRAPH_END,
    TNRI_GPU_GRAPH_LAUNCH,
    TNRI_GPU_GRAPH_NODES,
    TNRI_GPU_NODE_TYPE,
    TNRI_GPU_NODE_FOLLOWS,
    TNRI_GPU_NODE_KERNEL,
    TNRI_GPU_NODE_COPY,
    TNRI_GPU_NODE_FILL,
    TNRI_GPU_NODE_BATCH,
    TNRI_GPU_NODE_CHILD,
    TNRI_GPU_NODE_PARAMS,
    TNRI_GPU_KERNEL_PARAM,
    TNRI_GPU_KERNEL_NAME,
    TNRI_GPU_TETHER_MAKE,
    TNRI_GPU_TETHER_GIVE,
    TNRI_GPU_TETHER_DROP,
    TNRI_GPU_VERBS
} tnri_gpu_verb;

/* 1 if the driver has it. */
int tnri_gpu_has(tnri_gpu_verb verb);
/* The driver's name for it: "cuMemMap". */
const char *tnri_gpu_name(tnri_gpu_verb verb);

/* Turns a failed verb into a status with a sentence: `doing` says what it was for. Out of memory, a
 * shut-down driver and everything else are told apart. */
tnr_status tnri_driver_error(CUresult result, tnri_gpu_verb verb, const char *doing);

/* "CUDA_ERROR_OUT_OF_MEMORY" and the like; never null. */
const char *tnri_driver_result_name(CUresult result);

/* ---- devices and contexts ------------------------------------------------------------------- */

/* How many devices there are. */
CUresult tnri_gpu_devices(int *count);
/* A device: its handle, its name, and how much memory it has. */
CUresult tnri_gpu_device_find(int index, CUdevice *device, char *name, size_t room, size_t *bytes);
/* What it can do. CUDA_ERROR_INVALID_VALUE: the driver does not know the attribute. */
CUresult tnri_gpu_device_attribute(int *value, CUdevice_attribute attribute, CUdevice device);
/* By what other processes know it. */
CUresult tnri_gpu_device_uuid(CUuuid *uuid, CUdevice device);
/* Whether the device can use memory of the peer's. */
CUresult tnri_gpu_reaches(int *reaches, CUdevice device, CUdevice peer);
/* Whether somebody uses the device's context, the one that engines share. */
CUresult tnri_gpu_context_is_active(CUdevice device, unsigned *flags, int *is_active);
/* Makes that context, or counts one more user. */
CUresult tnri_gpu_context_retain(CUcontext *context, CUdevice device);
CUresult tnri_gpu_context_release(CUdevice device);
/* Makes a context the calling thread's, until it is popped. */
CUresult tnri_gpu_context_push(CUcontext context);
CUresult tnri_gpu_context_pop(CUcontext *context);
/* 1 in a host function of a stream, where no verb may be used but this one. It is not counted: the
 * caller is in no device's visit. */
int tnri_gpu_in_host_function(void);
/* Waits for all work of the context. */
CUresult tnri_gpu_context_await(void);

/* ---- memory --------------------------------------------------------------------------------- */

/* What the device has left, other processes counted. */
CUresult tnri_gpu_memory_left(size_t *left, size_t *total);
/* The smallest mapping. */
CUresult tnri_gpu_granularity(size_t *bytes, CUmemLocation where);
/* Addresses without memory; `wanted` is a wish. */
CUresult tnri_gpu_reserve(CUdeviceptr *base, size_t bytes, size_t alignment, CUdeviceptr wanted);
CUresult tnri_gpu_unreserve(CUdeviceptr base, size_t bytes);
/* Physical memory without addresses. */
CUresult tnri_gpu_create(CUmemGenericAllocationHandle *memory, size_t bytes,
                         const CUmemAllocationProp *what);
/* It goes back when its last mapping does. */
CUresult tnri_gpu_release(CUmemGenericAllocationHandle memory);
/* Memory may be mapped at several addresses at once. */
CUresult tnri_gpu_map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle memory);
/* Does not wait for running work. */
CUresult tnri_gpu_unmap(CUdeviceptr address, size_t bytes);
/* Which devices may use what is mapped. */
CUresult tnri_gpu_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *whom,
                         size_t count);
/* A handle of it for other processes. */
CUresult tnri_gpu_export(void *shared, CUmemGenericAllocationHandle memory,
                         CUmemAllocationHandleType type);
CUresult tnri_gpu_import(CUmemGenericAllocationHandle *memory, void *shared,
                         CUmemAllocationHandleType type);
/* Memory with addresses, in one. */
CUresult tnri_gpu_alloc(CUdeviceptr *address, size_t bytes);
/* Waits for running work. */
CUresult tnri_gpu_free(CUdeviceptr address);
/* What the driver knows of an address. */
CUresult tnri_gpu_pointer_ask(void *answer, CUpointer_attribute attribute, CUdeviceptr address);
/* Host memory that the device copies from and to. */
CUresult tnri_gpu_host_alloc(void **memory, size_t bytes);
CUresult tnri_gpu_host_free(void *memory);
/* Copies in a stream's order: to the host, */
CUresult tnri_gpu_copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
/* from the host, */
CUresult tnri_gpu_copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
/* and on the device. */
CUresult tnri_gpu_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult tnri_gpu_fill(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream);

/* ---- events and streams --------------------------------------------------------------------- */

/* One that orders and measures nothing. */
CUresult tnri_gpu_event_make(CUevent *event);
CUresult tnri_gpu_event_end(CUevent event);
/* Marks the end of what the stream has been given. */
CUresult tnri_gpu_event_record(CUevent event, CUstream stream);
/* The same for a thread that counts its calls itself: tnri_driver_count. The driver's own function,
 * because every mark of a stream comes here. Constant while the driver is loaded. */
extern CUresult (*tnri_gpu_event_mark)(CUevent event, CUstream stream);
/* CUDA_ERROR_NOT_READY: what it marks is not over. */
CUresult tnri_gpu_event_query(CUevent event);
CUresult tnri_gpu_event_await(CUevent event);
/* Later work of the stream waits for what the event marks, on the device. */
CUresult tnri_gpu_stream_follow(CUstream stream, CUevent event);
/* One that does not wait for the legacy stream. */
CUresult tnri_gpu_stream_make(CUstream *stream);
CUresult tnri_gpu_stream_end(CUstream stream);
CUresult tnri_gpu_stream_await(CUstream stream);
/* A number that no later stream has, unlike the handle. */
CUresult tnri_gpu_stream_id(CUstream stream, unsigned long long *id);
CUresult tnri_gpu_stream_flags(CUstream stream, unsigned *flags);
CUresult tnri_gpu_stream_context(CUstream stream, CUcontext *context);

/* ---- captures and graphs -------------------------------------------------------------------- */

CUresult tnri_gpu_capture_begin(CUstream stream, CUstreamCaptureMode mode);
CUresult tnri_gpu_capture_end(CUstream stream, CUgraph *graph);
CUresult tnri_gpu_is_capturing(CUstream stream, CUstreamCaptureStatus *status);
/* The graph that is being made, and the nodes that the stream's next work follows. */
CUresult tnri_gpu_capture_ask(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                              CUgraph *graph, const CUgraphNode **frontier,
                              const CUgraphEdgeData **edges, size_t *count);
/* Swaps what the calling thread may do while others capture. */
CUresult tnri_gpu_capture_mode(CUstreamCaptureMode *mode);
CUresult tnri_gpu_graph_end(CUgraph graph);
CUresult tnri_gpu_graph_launch(CUgraphExec exec, CUstream stream);
CUresult tnri_gpu_graph_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUresult tnri_gpu_node_type(CUgraphNode node, CUgraphNodeType *type);
/* The nodes before it. */
CUresult tnri_gpu_node_follows(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
                               size_t *count);
/* What a node does. `verb` is one of NODE_KERNEL to NODE_PARAMS, and `params` its type: kernel,
 * CUDA_KERNEL_NODE_PARAMS; copy, CUDA_MEMCPY3D; fill, CUDA_MEMSET_NODE_PARAMS; batch,
 * CUDA_BATCH_MEM_OP_NODE_PARAMS; child, CUgraph; params, CUgraphNodeParams. */
CUresult tnri_gpu_node_read(CUgraphNode node, tnri_gpu_verb verb, void *params);
/* Place and size of a kernel's parameter. CUDA_ERROR_INVALID_VALUE: there are no more. */
CUresult tnri_gpu_kernel_param(const CUDA_KERNEL_NODE_PARAMS *kernel, size_t index, size_t *offset,
                               size_t *bytes);
CUresult tnri_gpu_kernel_name(const CUDA_KERNEL_NODE_PARAMS *kernel, const char **name);
/* A thing for which `let_go` is called when no graph has it any more. */
CUresult tnri_gpu_tether_make(CUuserObject *tether, void *object, void (*let_go)(void *object));
/* Gives the caller's part of it to a graph. */
CUresult tnri_gpu_tether_give(CUgraph graph, CUuserObject tether);
/* Gives the caller's part of it up. */
CUresult tnri_gpu_tether_drop(CUuserObject tether);

#endif
