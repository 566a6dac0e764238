/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtenure_torch.so: the functions that PyTorch's CUDAPluggableAllocator and torch.cuda.MemPool
 * look up by name, over Tenure. This header is for code that binds them by hand (tools/python does
 * so for Python) and for the tests. It is not installed.
 *
 * Signatures are PyTorch's own, and PyTorch checks none of them. It takes a null address for a
 * block of no bytes, and an allocator cannot return an error to it. So a failure is counted, and
 * raised through the function of tenure_torch_raise_set. That function throws a C++ exception
 * through our frames, which are compiled to allow this. Without such a function the failure is
 * printed, and the address is null.
 *
 * Any function may be called from any thread.
 */
#ifndef TENURE_TORCH_H
#define TENURE_TORCH_H

#include <tenure/tenure.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TNR_TORCH_API __attribute__((visibility("default")))

/* PyTorch's MempoolId_t: std::pair of two such numbers, which is passed as this structure is. */
typedef struct tenure_torch_id {
    unsigned long long first, second;
} tenure_torch_id;

/* ---- memory.c: the allocator ---------------------------------------------------------------- */

TNR_TORCH_API void *tenure_torch_malloc(size_t bytes, int device, tnr_stream stream);
/* Ordered on the stream that the block was allocated on, which is what PyTorch passes here. */
TNR_TORCH_API void tenure_torch_free(void *ptr, size_t bytes, int device, tnr_stream stream);
/* tensor.record_stream(): the use ends no later than the free. */
TNR_TORCH_API void tenure_torch_record_stream(void *ptr, tnr_stream stream);
TNR_TORCH_API void tenure_torch_init(int devices_count);
/* torch.cuda.empty_cache(): idle memory of all devices in use goes back. */
TNR_TORCH_API void tenure_torch_reset(void);
/* torch.cuda.set_per_process_memory_fraction(): 1 or more is no limit. */
TNR_TORCH_API void tenure_torch_memory_fraction(double fraction, int device);
/* The start of the block that contains `ptr`, and its bytes; `ptr` itself if it is not ours. */
TNR_TORCH_API void *tenure_torch_base_alloc(void *ptr, size_t *bytes);

/* ---- memory.c: failures --------------------------------------------------------------------- */

/* Throws `text` as a C++ exception and does not return; the signature is c10's own. */
typedef void (*tenure_torch_raise)(const char *function, const char *file, uint32_t line,
                                   const char *text);

/* The functions that raise: one for short memory, one for any other error. Null: print, return
 * null. */
TNR_TORCH_API void tenure_torch_raise_set(tenure_torch_raise out_of_memory,
                                          tenure_torch_raise other);
/* How many calls have failed so far, out of memory or otherwise. */
TNR_TORCH_API unsigned long tenure_torch_failures(void);

/* ---- pools.c: private pools, which captures of CUDA graphs allocate from ----------------------
 * */

/* Whether a stream's allocations belong to the pool: a plain function around a std::function of
 * PyTorch's. Must not throw. `end` drops it; may be null. */
typedef struct tenure_torch_filter {
    int (*accepts)(void *context, tnr_stream stream);
    void (*end)(void *context);
    void *context;
} tenure_torch_filter;

/* For set_begin_allocate_to_pool, once the std::function is wrapped in C++. From now on
 * allocations on streams that the filter accepts come from the pool of this id, which is made if it
 * is new. Takes over the filter's context, also when it fails (and raises). */
TNR_TORCH_API void tenure_torch_pool_begin(int device, tenure_torch_id id,
                                           const tenure_torch_filter *filter);
/* The same for a capture that has already begun on `stream`, if there is no begin hook. */
TNR_TORCH_API void tenure_torch_capture_begun(int device, tenure_torch_id id, tnr_stream stream);
/* set_end_allocate_to_pool_fn: ends the latest routing to the pool. */
TNR_TORCH_API void tenure_torch_pool_end(int device, tenure_torch_id id);
/* set_release_pool: one graph of the pool is gone. With the last one the pool ends, as soon as its
 * graphs and blocks allow it. */
TNR_TORCH_API void tenure_torch_pool_release(int device, tenure_torch_id id);
/* Pools that exist, also those that only wait for their end: for tests. */
TNR_TORCH_API unsigned tenure_torch_pools(void);

/* ---- segments.c: memory for the segments of a torch.cuda.MemPool ------------------------------
 * */

TNR_TORCH_API void *tenure_torch_segment_malloc(size_t bytes, int device, tnr_stream stream);
TNR_TORCH_API void tenure_torch_segment_free(void *ptr, size_t bytes, int device,
                                             tnr_stream stream);
/* Options of the pools that segments come from; each device has one pool. Ends the present pools;
 * they begin anew with the next segment. Returns a tnr_status. While segments are live it is
 * TNR_ERR_BUSY, and the options stay as they were. */
TNR_TORCH_API int tenure_torch_segment_options(size_t limit_bytes, size_t release_threshold_bytes,
                                               int handle_type, int gpu_direct_rdma);

/* ---- between the files ---------------------------------------------------------------------- */

/* A call failed with `status`: counts it and raises or prints tnr_last_error(). */
void torch_failed(const char *call, tnr_status status);
/* The same, when throwing is not allowed: counts and prints. */
void torch_failed_quietly(const char *call);
/* Attaches Tenure to the capture that `stream` belongs to, if a begin hook has announced it. If it
 * returns 1, *pool is the pool to allocate from, null for the one that Tenure itself chooses. Cheap
 * when nothing has been announced. */
int torch_pool_of(int device, tnr_stream stream, tnr_pool *pool);
/* Ends the released pools whose last graph and block have gone. Returns how many. */
unsigned torch_pools_end(void);

#ifdef __cplusplus
}
#endif
#endif
