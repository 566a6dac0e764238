/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of host memory: see idle.h. */
#include "memory/stream/idle.h"

#include "base/error.h"
#include "log/nvtx.h"

/* Gives a stream back that another thread was quicker to make, or that cannot be known. */
static void surplus_end(CUstream handle, tnri_stream *stream)
{
    if (stream != NULL) {
        (void)tnri_stream_end(stream, 0);
        tnri_stream_drop(stream);
    }
    (void)tnri_gpu_stream_end(handle);
}

/* Makes the stream. In the context. */
static tnr_status idle_make(tnri_device *device, tnri_stream **idle)
{
    CUstream handle = NULL;
    CUresult result = tnri_gpu_stream_make(&handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_STREAM_MAKE, "making a stream for host memory");
    tnr_status status = tnri_stream_find(device, handle, idle);
    if (status != TNR_OK) {
        surplus_end(handle, NULL);
        return status;
    }
    tnri_stream *before = NULL;
    tnri_stream_hold(*idle);
    if (atomic_compare_exchange_strong(&device->host.idle, &before, *idle)) {
        tnri_nvtx_stream(handle, "Tenure: host memory");
    } else {
        surplus_end(handle, *idle);
        *idle = before;
    }
    return TNR_OK;
}

tnr_status tnri_stream_for(tnri_device *device, tnr_stream handle, tnri_stream **stream)
{
    tnri_visit visit;
    if (tnri_likely(!tnri_device_is_host(device)))
        return tnri_stream_find(device, handle, stream);
    *stream = atomic_load_explicit(&device->host.idle, memory_order_acquire);
    if (*stream != NULL)
        return TNR_OK;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    status = idle_make(device, stream);
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnri_idle_end(tnri_device *device)
{
    tnri_visit visit;
    tnri_stream *idle = atomic_load(&device->host.idle);
    if (idle == NULL)
        return TNR_OK;
    CUstream handle = idle->handle;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    status = tnri_stream_end(idle, 0);
    if (status == TNR_OK) {
        atomic_store(&device->host.idle, NULL);
        tnri_stream_drop(idle);
        (void)tnri_gpu_stream_await(handle); /* marks are recorded on it */
        (void)tnri_gpu_stream_end(handle);   /* if not now, it ends with the context */
    }
    tnri_device_leave(&visit);
    return status;
}
