/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between devices. The driver copies what cuMemAlloc gave from one device to another without
 * asking whether they reach each other. Memory that was mapped by hand, as ours was, it copies so
 * only where it is told the contexts, in cuMemcpyPeer; cuMemcpy and its like want the stream's
 * device to reach both ends. So where it does not, they become the former.
 *
 * With one device in use nothing is looked at.
 */
#include "check/check.h"
#include "order.h"
#include "peers.h"

/* One end of a copy: memory of a device. */
typedef struct end {
    int device;  /* -1: memory of the host, or managed, or nothing that is known */
    int is_near; /* 1: the stream's own device has it, or is known to reach it */
    CUcontext context;
} end;

static int attribute_of(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    return REAL(cuPointerGetAttribute, (data, attribute, address)) == CUDA_SUCCESS;
}

/* An end that is not ours. */
static end end_of_driver(CUdeviceptr address)
{
    end found = {.device = -1};
    unsigned type = 0, managed = 0;
    int device = -1;
    if (attribute_of(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) &&
        type == CU_MEMORYTYPE_DEVICE &&
        attribute_of(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) && managed == 0 &&
        attribute_of(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) &&
        attribute_of(&found.context, CU_POINTER_ATTRIBUTE_CONTEXT, address))
        found.device = device;
    return found;
}

static end end_of(CUdeviceptr address, const service_device *ours, int here)
{
    end found = ours == NULL ? end_of_driver(address) : (end){.device = ours->index};
    found.is_near = found.device == here || (ours != NULL && peers_may(here, address));
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

/* 1 if the copy is to be made as one between contexts, which it tells. Inside. */
static int copy_ends_find(CUdeviceptr to, CUdeviceptr from, CUstream stream, end ends[2])
{
    const service_device *ours[2] = {service_of_address(to), service_of_address(from)};
    if (ours[0] == NULL && ours[1] == NULL)
        return 0;
    int here = device_of_stream(stream);
    ends[0] = end_of(to, ours[0], here);
    ends[1] = end_of(from, ours[1], here);
    if (here < 0 || ends[0].device < 0 || ends[1].device < 0 ||
        (ends[0].is_near && ends[1].is_near))
        return 0;
    for (int i = 0; i < 2; i++)
        if (ends[i].context == NULL &&
            service_primary_context(ends[i].device, &ends[i].context) != CUDA_SUCCESS)
            return 0;
    return 1;
}

static int copy_crosses(CUdeviceptr to, CUdeviceptr from, CUstream stream, end ends[2])
{
    if (!service_has_several() || !service_enter())
        return 0;
    int crosses = copy_ends_find(to, from, stream, ends);
    service_leave();
    return crosses;
}

/* ---- the driver's calls --------------------------------------------------------------------- */

/* Tells the checker of a copy that the driver was asked for. */
static CUresult copy_told(CUresult result, const char *call, CUdeviceptr to, CUdeviceptr from,
                          CUstream stream)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied(call, stream, to, from));
    return result;
}

static CUresult copy_told_at_once(CUresult result, const char *call, CUdeviceptr to,
                                  CUdeviceptr from, CUstream stream)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied_at_once(call, stream, to, from));
    return result;
}

/* A copy that the host calls for, which the driver orders with all work of both devices. */
static CUresult copy_at_once(CUdeviceptr to, CUdeviceptr from, size_t bytes, const end ends[2])
{
    CUresult result = REAL(cuMemcpyPeer, (to, ends[0].context, from, ends[1].context, bytes));
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied_between("cuMemcpy", to, from));
    return result;
}

CUresult CUDAAPI replace_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    end ends[2];
    if (copy_crosses(to, from, NULL, ends))
        return copy_at_once(to, from, bytes, ends);
    return copy_told_at_once(REAL(cuMemcpy, (to, from, bytes)), "cuMemcpy", to, from, NULL);
}

CUresult CUDAAPI replace_cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    end ends[2];
    if (copy_crosses(to, from, NULL, ends))
        return copy_at_once(to, from, bytes, ends);
    return copy_told_at_once(REAL(cuMemcpy_ptds, (to, from, bytes)), "cuMemcpy", to, from,
                             CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI replace_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    end ends[2];
    if (copy_crosses(to, from, NULL, ends))
        return copy_at_once(to, from, bytes, ends);
    return copy_told_at_once(REAL(cuMemcpyDtoD_v2, (to, from, bytes)), "cuMemcpyDtoD", to, from,
                             NULL);
}

CUresult CUDAAPI replace_cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    end ends[2];
    if (copy_crosses(to, from, NULL, ends))
        return copy_at_once(to, from, bytes, ends);
    return copy_told_at_once(REAL(cuMemcpyDtoD_v2_ptds, (to, from, bytes)), "cuMemcpyDtoD", to,
                             from, CU_STREAM_PER_THREAD);
}

static CUresult copy_across(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                            const end ends[2])
{
    return REAL(cuMemcpyPeerAsync, (to, ends[0].context, from, ends[1].context, bytes, stream));
}

CUresult CUDAAPI replace_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                       CUstream stream)
{
    end ends[2];
    if (copy_crosses(to, from, stream, ends))
        return copy_told(copy_across(to, from, bytes, stream, ends), "cuMemcpyAsync", to, from,
                         stream);
    return copy_told(REAL(cuMemcpyAsync, (to, from, bytes, stream)), "cuMemcpyAsync", to, from,
                     stream);
}

CUresult CUDAAPI replace_cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                            CUstream stream)
{
    return replace_cuMemcpyAsync(to, from, bytes, stream_of_thread(stream));
}

CUresult CUDAAPI replace_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                              CUstream stream)
{
    end ends[2];
    if (copy_crosses(to, from, stream, ends))
        return copy_told(copy_across(to, from, bytes, stream, ends), "cuMemcpyDtoDAsync", to, from,
                         stream);
    return copy_told(REAL(cuMemcpyDtoDAsync_v2, (to, from, bytes, stream)), "cuMemcpyDtoDAsync", to,
                     from, stream);
}

CUresult CUDAAPI replace_cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                                   CUstream stream)
{
    return replace_cuMemcpyDtoDAsync_v2(to, from, bytes, stream_of_thread(stream));
}
