/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What entries.def makes: the declarations of the replacements, and the numbers of the rows.
 *
 * A replacement is called replace_<symbol> in C and <symbol> for the linker, so that it does not
 * clash with what cuda.h declares.
 */
#ifndef TENURE_PRELOAD_ENTRIES_H
#define TENURE_PRELOAD_ENTRIES_H

#include <cuda.h>
#include <cudaTypedefs.h>

/* Names that cuda.h gives to the newest version of a function stand for the first one here. */
#undef cuCtxDestroy
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuGetProcAddress
#undef cuGraphAddNode
#undef cuGraphExecKernelNodeSetParams
#undef cuGraphExecUpdate
#undef cuGraphInstantiate
#undef cuIpcOpenMemHandle
#undef cuMemcpy3DBatchAsync
#undef cuMemcpyBatchAsync
#undef cuStreamBatchMemOp
#undef cuStreamBeginCapture
#undef cuStreamDestroy
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64

/* Types that the oldest supported headers lack, and old versions, which cudaTypedefs.h shows only
 * to the driver's own sources. */
typedef CUresult(CUDAAPI *preload_green_stream_create)(CUstream *stream, void *context,
                                                       unsigned flags, int priority);
typedef CUresult(CUDAAPI *preload_green_destroy)(void *context);
typedef CUresult(CUDAAPI *preload_begin_capture_first)(CUstream stream);
typedef CUresult(CUDAAPI *preload_instantiate_first)(CUgraphExec *exec, CUgraph graph,
                                                     CUgraphNode *node, char *log, size_t bytes);

typedef CUresult(CUDAAPI *preload_begin_recapture)(CUstream stream, CUstreamCaptureMode mode,
                                                   CUgraph graph, void *mismatched, void *data);
typedef CUresult(CUDAAPI *preload_begin_graphics)(CUstream stream, void *parameters);
/* Attributes begin with when the source may be read: an int. */
typedef CUresult(CUDAAPI *preload_copy_batch_first)(CUdeviceptr *to, CUdeviceptr *from,
                                                    size_t *bytes, size_t count, void *attributes,
                                                    size_t *first, size_t attributes_count,
                                                    size_t *failed, CUstream stream);
typedef CUresult(CUDAAPI *preload_copy_batch)(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
                                              size_t count, void *attributes, size_t *first,
                                              size_t attributes_count, CUstream stream);
typedef CUresult(CUDAAPI *preload_copy_attributes)(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                                   void *attributes, CUstream stream);
/* One side of a copy of boxes, and one such copy, of CUDA 12.8. Lengths are in elements: those of
 * the array, or bytes where there is none. */
enum { PRELOAD_BOX_POINTER = 1 };
typedef struct preload_box_side {
    int type;
    union {
        struct {
            CUdeviceptr address;
            size_t row, layer; /* 0: as long, and as high, as the box */
            int location[2];
        } pointer;
        struct {
            void *array;
            size_t at[3];
        } array;
    } is;
} preload_box_side;
typedef struct preload_box {
    preload_box_side from, to;
    size_t width, height, depth;
    int order;
    unsigned flags;
} preload_box;
typedef CUresult(CUDAAPI *preload_box_batch_first)(size_t count, preload_box *list, size_t *failed,
                                                   unsigned long long flags, CUstream stream);
typedef CUresult(CUDAAPI *preload_box_batch)(size_t count, preload_box *list,
                                             unsigned long long flags, CUstream stream);
typedef CUresult(CUDAAPI *preload_host_function)(CUstream stream, CUhostFn function, void *data,
                                                 unsigned mode);

typedef CUresult(CUDAAPI *preload_context_synchronize)(CUcontext context);
typedef CUresult(CUDAAPI *preload_context_event)(CUcontext context, CUevent event);
typedef CUresult(CUDAAPI *preload_elapsed)(float *ms, CUevent start, CUevent end);
typedef CUresult(CUDAAPI *preload_enumerate_kernels)(CUkernel *kernels, unsigned count,
                                                     CUlibrary library);
typedef CUresult(CUDAAPI *preload_function_parameter)(CUfunction function, size_t index,
                                                      size_t *offset, size_t *bytes);
typedef CUresult(CUDAAPI *preload_kernel_parameter)(CUkernel kernel, size_t index, size_t *offset,
                                                    size_t *bytes);

typedef CUresult(CUDAAPI *preload_context_create)(CUcontext *context, void *parameters,
                                                  unsigned flags, CUdevice device);
typedef CUresult(CUDAAPI *preload_function_load)(CUfunction function);

/* The newest CUDA version whose names were looked through: every one that begins a capture is in
 * the table. */
enum { ENTRIES_NEWEST = 13040 };

#define PRELOAD_EXPORT __attribute__((visibility("default")))

#define PRELOAD_ENTRY(name, symbol, type, since, form, group)                                      \
    extern __typeof__(*(type)0) replace_##symbol __asm__(#symbol) PRELOAD_EXPORT;
#define PRELOAD_CALL(name, type, since)
#include "entries.def"
#undef PRELOAD_ENTRY
#undef PRELOAD_CALL

/* A function of any type; the true one is in the table. */
typedef void (*entry_function)(void);

typedef enum entry_form { FORM_ONLY, FORM_LEGACY, FORM_THREAD } entry_form;

/* What a row is about, as entries.def has it. */
typedef enum entry_group {
    GROUP_LOOKUP,
    GROUP_ALLOC,
    GROUP_FREE,
    GROUP_INFO,
    GROUP_STREAM,
    GROUP_EVENT,
    GROUP_CAPTURE,
    GROUP_GRAPH,
    GROUP_CONTEXT,
    GROUP_PEERS,
    GROUP_COPY,
    GROUP_SHORTAGE,
    GROUP_IPC,
    GROUP_CHECK,
    GROUP_CODE,
    GROUP_ACCOUNT
} entry_group;

/* One replaced entry point. */
typedef struct entry {
    const char *name, *symbol;
    int since;
    entry_form form;
    entry_group group;
    entry_function replacement;
} entry;

extern const entry entries[];
extern const size_t entries_count;

/* The row of an exported symbol; null if it is not replaced. */
const entry *entry_by_symbol(const char *symbol);

/* The stream that a null handle means in the form for the thread's default stream. */
static inline CUstream stream_of_thread(CUstream stream)
{
    return stream == NULL ? CU_STREAM_PER_THREAD : stream;
}

#endif
