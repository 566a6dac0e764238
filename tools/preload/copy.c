/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies where one end is memory of another device than the stream's. The driver copies memory from
 * cuMemAlloc without asking whether the devices reach each other. Our memory is mapped by hand. The
 * driver copies such memory in that way only where it is told the contexts: in cuMemcpyPeer between
 * devices, in cuMemcpy3DPeer also from and to the host. For all other copies the stream's device
 * must reach both ends. So if it does not reach them, the copy becomes one of those two.
 *
 * With one device in use the replacements look at nothing. Copies of rows are not changed.
 */
#include "check/check.h"
#include "order.h"
#include "peers.h"
#include "pinned.h"

/* One end of a copy. */
typedef struct end {
    int device;  /* whose memory it is; -1: of the host, managed, or nothing that is known */
    int is_host; /* 1: memory of the host */
    int is_near; /* 1: of the host, of the stream's own device, or known to be reached by that */
    CUcontext context;
} end;

/* Ends that a call says are memory of the host. */
enum { HOST_NONE = 0, HOST_TO = 1, HOST_FROM = 2 };

static int attribute_of(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    return REAL(cuPointerGetAttribute, (data, attribute, address)) == CUDA_SUCCESS;
}

/* An end that is not ours. The driver knows nothing of the host's memory but of what is pinned. */
static end end_of_driver(CUdeviceptr address)
{
    end found = {.device = -1};
    unsigned type = 0, managed = 0;
    int device = -1;
    if (!attribute_of(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address))
        found.is_host = 1;
    else if (attribute_of(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) && managed == 0)
        found.is_host = type == CU_MEMORYTYPE_HOST;
    else
        return found;
    if (!found.is_host && type == CU_MEMORYTYPE_DEVICE &&
        attribute_of(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) &&
        attribute_of(&found.context, CU_POINTER_ATTRIBUTE_CONTEXT, address))
        found.device = device;
    return found;
}

static end end_of(CUdeviceptr address, const service_device *ours, int is_host, int here)
{
    end found = {.device = -1, .is_host = is_host};
    if (ours != NULL)
        found = (end){.device = ours->index};
    else if (!is_host && pinned_has(address))
        found.is_host = 1;
    else if (!is_host)
        found = end_of_driver(address);
    found.is_near =
        found.is_host || found.device == here || (ours != NULL && peers_may(here, address));
    return found;
}

/* The device that a copy on a stream is made by; -1: nobody knows. */
static int device_of_stream(CUstream stream)
{
    const service_device *device = order_device_started(stream);
    CUdevice here = -1;
    if (device != NULL)
        return device->index;
    return REAL(cuCtxGetDevice, (&here)) == CUDA_SUCCESS ? here : -1;
}

static int end_is_known(const end *one)
{
    return one->is_host || one->device >= 0;
}

/* 1 if the copy is to be made as one between contexts, which it tells. What the host has is copied
 * in the context of the stream's device. Inside. */
static int copy_ends_find(CUdeviceptr to, CUdeviceptr from, unsigned host, CUstream stream,
                          end ends[2])
{
    const service_device *ours[2] = {service_of_address(to), service_of_address(from)};
    if (ours[0] == NULL && ours[1] == NULL)
        return 0;
    int here = device_of_stream(stream);
    ends[0] = end_of(to, ours[0], (host & HOST_TO) != 0, here);
    ends[1] = end_of(from, ours[1], (host & HOST_FROM) != 0, here);
    if (here < 0 || !end_is_known(&ends[0]) || !end_is_known(&ends[1]) ||
        (ends[0].is_near && ends[1].is_near))
        return 0;
    for (int i = 0; i < 2; i++) {
        int device = ends[i].is_host ? here : ends[i].device;
        if (ends[i].context == NULL &&
            service_primary_context(device, &ends[i].context) != CUDA_SUCCESS)
            return 0;
    }
    return 1;
}

/* 0: it is surely no memory of ours. */
static int is_among_ours(CUdeviceptr address)
{
    uintptr_t low = atomic_load_explicit(&service_low, memory_order_relaxed);
    return (uintptr_t)address - low <
           atomic_load_explicit(&service_high, memory_order_relaxed) - low;
}

static int copy_crosses(CUdeviceptr to, CUdeviceptr from, unsigned host, CUstream stream,
                        end ends[2])
{
    if (!service_has_several() || (!is_among_ours(to) && !is_among_ours(from)) || !service_enter())
        return 0;
    int crosses = copy_ends_find(to, from, host, stream, ends);
    service_leave();
    return crosses;
}

/* ---- the driver's calls --------------------------------------------------------------------- */

/* Tells the checker of a copy that the driver was asked for. */
static CUresult copy_told(CUresult result, const char *call, CUdeviceptr to, CUdeviceptr from,
                          size_t bytes, CUstream stream)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL(
            check_copied(call, stream, (check_span){to, bytes, 0}, (check_span){from, bytes, 0}));
    return result;
}

static CUresult copy_told_at_once(CUresult result, const char *call, CUdeviceptr to,
                                  CUdeviceptr from, size_t bytes, CUstream stream)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied_at_once(call, stream, (check_span){to, bytes, 0},
                                        (check_span){from, bytes, 0}));
    return result;
}

static int is_with_host(const end ends[2])
{
    return ends[0].is_host || ends[1].is_host;
}

/* The same copy in the words of cuMemcpy3DPeer: one row. */
static CUDA_MEMCPY3D_PEER row_of(CUdeviceptr to, CUdeviceptr from, size_t bytes, const end ends[2])
{
    return (CUDA_MEMCPY3D_PEER){
        .dstMemoryType = ends[0].is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .dstHost = ends[0].is_host ? (void *)(uintptr_t)to : NULL,
        .dstDevice = ends[0].is_host ? 0 : to,
        .dstContext = ends[0].context,
        .dstPitch = bytes,
        .dstHeight = 1,
        .srcMemoryType = ends[1].is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .srcHost = ends[1].is_host ? (const void *)(uintptr_t)from : NULL,
        .srcDevice = ends[1].is_host ? 0 : from,
        .srcContext = ends[1].context,
        .srcPitch = bytes,
        .srcHeight = 1,
        .WidthInBytes = bytes,
        .Height = 1,
        .Depth = 1,
    };
}

/* A copy that the host calls for, on a default stream. Between devices the driver orders it with
 * all work of both. */
static CUresult copy_at_once(const char *call, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                             CUstream stream, const end ends[2])
{
    if (is_with_host(ends)) {
        CUDA_MEMCPY3D_PEER row = row_of(to, from, bytes, ends);
        CUresult made = stream == NULL ? REAL(cuMemcpy3DPeer, (&row))
                                       : REAL(cuMemcpy3DPeerAsync, (&row, stream));
        if (made == CUDA_SUCCESS && stream != NULL)
            made = REAL(cuStreamSynchronize, (stream));
        return copy_told_at_once(made, call, to, from, bytes, stream);
    }
    CUresult result = REAL(cuMemcpyPeer, (to, ends[0].context, from, ends[1].context, bytes));
    if (result == CUDA_SUCCESS)
        CHECK_TELL(
            check_copied_between(call, (check_span){to, bytes, 0}, (check_span){from, bytes, 0}));
    return result;
}

static CUresult copy_across(const char *call, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                            CUstream stream, const end ends[2])
{
    CUDA_MEMCPY3D_PEER row = row_of(to, from, bytes, ends);
    CUresult result =
        is_with_host(ends)
            ? REAL(cuMemcpy3DPeerAsync, (&row, stream))
            : REAL(cuMemcpyPeerAsync, (to, ends[0].context, from, ends[1].context, bytes, stream));
    return copy_told(result, call, to, from, bytes, stream);
}

/* ADDRESS: of a parameter that is a pointer or an address already. */
#define ADDRESS(parameter) ((CUdeviceptr)(uintptr_t)(parameter))

/* A copy that the host waits for, in the form for the legacy stream or for the thread's. `host`:
 * which of its ends are the host's by what it is called. */
#define COPY_AT_ONCE(symbol, form, call, to_type, from_type, host, default_stream)                 \
    CUresult CUDAAPI replace_##symbol##form(to_type to, from_type from, size_t bytes)              \
    {                                                                                              \
        end ends[2];                                                                               \
        if (copy_crosses(ADDRESS(to), ADDRESS(from), host, default_stream, ends))                  \
            return copy_at_once(call, ADDRESS(to), ADDRESS(from), bytes, default_stream, ends);    \
        uint64_t wait = check_wait_begins();                                                       \
        CUresult result = REAL(symbol##form, (to, from, bytes));                                   \
        check_wait_ends(default_stream, wait);                                                     \
        return copy_told_at_once(result, call, ADDRESS(to), ADDRESS(from), bytes, default_stream); \
    }
#define COPY_ON_STREAM(symbol, call, to_type, from_type, host)                                     \
    CUresult CUDAAPI replace_##symbol(to_type to, from_type from, size_t bytes, CUstream stream)   \
    {                                                                                              \
        end ends[2];                                                                               \
        if (copy_crosses(ADDRESS(to), ADDRESS(from), host, stream, ends))                          \
            return copy_across(call, ADDRESS(to), ADDRESS(from), bytes, stream, ends);             \
        return copy_told(REAL(symbol, (to, from, bytes, stream)), call, ADDRESS(to),               \
                         ADDRESS(from), bytes, stream);                                            \
    }                                                                                              \
    CUresult CUDAAPI replace_##symbol##_ptsz(to_type to, from_type from, size_t bytes,             \
                                             CUstream stream)                                      \
    {                                                                                              \
        return replace_##symbol(to, from, bytes, stream_of_thread(stream));                        \
    }
#define COPY(name, version, to_type, from_type, host)                                              \
    COPY_AT_ONCE(name##version, , #name, to_type, from_type, host, NULL)                           \
    COPY_AT_ONCE(name##version, _ptds, #name, to_type, from_type, host, CU_STREAM_PER_THREAD)      \
    COPY_ON_STREAM(name##Async##version, #name "Async", to_type, from_type, host)

/* The headers give the newest versions' names to these. */
#undef cuMemcpyDtoD
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
COPY(cuMemcpy, , CUdeviceptr, CUdeviceptr, HOST_NONE)
COPY(cuMemcpyDtoD, _v2, CUdeviceptr, CUdeviceptr, HOST_NONE)
COPY(cuMemcpyHtoD, _v2, CUdeviceptr, const void *, HOST_FROM)
COPY(cuMemcpyDtoH, _v2, void *, CUdeviceptr, HOST_TO)

/* ---- copies with attributes ----------------------------------------------------------------- */

/* The source must have been read when the call returns. Nothing else that attributes say changes
 * what is copied. */
enum { READ_DURING_CALL = 2 };

static int is_read_during_call(const void *attributes)
{
    return attributes != NULL && *(const int *)attributes == READ_DURING_CALL;
}

CUresult CUDAAPI replace_cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                                     void *attributes, CUstream stream)
{
    static const char call[] = "cuMemcpyWithAttributesAsync";
    end ends[2];
    if (!is_read_during_call(attributes) && copy_crosses(to, from, HOST_NONE, stream, ends))
        return copy_across(call, to, from, bytes, stream, ends);
    return copy_told(REAL(cuMemcpyWithAttributesAsync, (to, from, bytes, attributes, stream)), call,
                     to, from, bytes, stream);
}

CUresult CUDAAPI replace_cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr to, CUdeviceptr from,
                                                          size_t bytes, void *attributes,
                                                          CUstream stream)
{
    return replace_cuMemcpyWithAttributesAsync(to, from, bytes, attributes,
                                               stream_of_thread(stream));
}

/* Copies of a batch: all, in any order. */
typedef struct batch {
    const CUdeviceptr *to, *from;
    const size_t *bytes;
    size_t count;
    CUstream stream;
} batch;

/* 1 if one of its copies is not to be made as it is: then they are made one by one. Not if several
 * attributes say something of them, since only the first is read. */
static int batch_crosses(const batch *self, const void *attributes, size_t attributes_count)
{
    end ends[2];
    int crosses = 0;
    if (self->to == NULL || self->from == NULL || self->bytes == NULL || attributes_count > 1 ||
        is_read_during_call(attributes))
        return 0;
    for (size_t i = 0; i < self->count && !crosses; i++)
        crosses = copy_crosses(self->to[i], self->from[i], HOST_NONE, self->stream, ends);
    return crosses;
}

static CUresult batch_copy(const batch *self)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < self->count && result == CUDA_SUCCESS; i++)
        result = replace_cuMemcpyAsync(self->to[i], self->from[i], self->bytes[i], self->stream);
    return result;
}

static CUresult batch_told(CUresult result, const batch *self)
{
    for (size_t i = 0; i < self->count && result == CUDA_SUCCESS && check_is_on(); i++)
        CHECK_TELL(check_copied("cuMemcpyBatchAsync", self->stream,
                                (check_span){self->to[i], self->bytes[i], 0},
                                (check_span){self->from[i], self->bytes[i], 0}));
    return result;
}

CUresult CUDAAPI replace_cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
                                               size_t count, void *attributes, size_t *first,
                                               size_t attributes_count, CUstream stream)
{
    batch self = {to, from, bytes, count, stream};
    if (batch_crosses(&self, attributes, attributes_count))
        return batch_copy(&self);
    return batch_told(REAL(cuMemcpyBatchAsync_v2,
                           (to, from, bytes, count, attributes, first, attributes_count, stream)),
                      &self);
}

CUresult CUDAAPI replace_cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *to, CUdeviceptr *from,
                                                    size_t *bytes, size_t count, void *attributes,
                                                    size_t *first, size_t attributes_count,
                                                    CUstream stream)
{
    return replace_cuMemcpyBatchAsync_v2(to, from, bytes, count, attributes, first,
                                         attributes_count, stream_of_thread(stream));
}

CUresult CUDAAPI replace_cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
                                            size_t count, void *attributes, size_t *first,
                                            size_t attributes_count, size_t *failed,
                                            CUstream stream)
{
    batch self = {to, from, bytes, count, stream};
    if (batch_crosses(&self, attributes, attributes_count))
        return batch_copy(&self);
    return batch_told(REAL(cuMemcpyBatchAsync, (to, from, bytes, count, attributes, first,
                                                attributes_count, failed, stream)),
                      &self);
}

CUresult CUDAAPI replace_cuMemcpyBatchAsync_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes,
                                                 size_t count, void *attributes, size_t *first,
                                                 size_t attributes_count, size_t *failed,
                                                 CUstream stream)
{
    return replace_cuMemcpyBatchAsync(to, from, bytes, count, attributes, first, attributes_count,
                                      failed, stream_of_thread(stream));
}
