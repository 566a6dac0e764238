/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the driver about streams: see facts.h. */
#include "memory/stream/facts.h"

#include "base/error.h"

tnr_status tnri_stream_error(CUresult result, tnri_gpu_verb verb, tnr_stream handle)
{
    if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
        result == CUDA_ERROR_INVALID_CONTEXT)
        return tnri_error_driver(TNR_ERR_INVALID_STREAM, (int)result,
                                 "%p is not a stream: %s says %s. It may have been destroyed.",
                                 (void *)handle, tnri_gpu_name(verb),
                                 tnri_driver_result_name(result));
    return tnri_driver_error(result, verb, "looking at a stream");
}

static tnr_status unknown_captured_error(tnr_stream handle)
{
    return tnri_error(TNR_ERR_CAPTURE,
                      "stream %p is being captured, and Tenure did not know it before. "
                      "Announce it with tnr_stream_created before the capture begins.",
                      (void *)handle);
}

/* The id alone; CUDA_ERROR_INVALID_CONTEXT if it can only be asked for in the context. To ask a
 * stream that captures for its id would end the capture. */
static CUresult id_ask(tnr_stream handle, uint64_t *id)
{
    unsigned long long asked = 0;
    CUresult result = tnri_gpu_stream_id(handle, &asked);
    *id = asked;
    return result;
}

tnr_status tnri_facts_ask(tnri_facts *of, const tnri_device *device, tnr_stream handle)
{
    unsigned flags = 0;
    CUcontext context = NULL;
    if (tnri_stream_is_capturing(handle))
        return unknown_captured_error(handle);
    CUresult result = id_ask(handle, &of->id);
    if (result != CUDA_SUCCESS)
        return tnri_stream_error(result, TNRI_GPU_STREAM_ID, handle);
    result = tnri_gpu_stream_flags(handle, &flags);
    if (result == CUDA_SUCCESS)
        result = tnri_gpu_stream_context(handle, &context);
    if (result != CUDA_SUCCESS)
        return tnri_stream_error(result, TNRI_GPU_STREAM_FLAGS, handle);
    of->is_blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    if (context == device->context)
        return TNR_OK;
    return tnri_error(TNR_ERR_INVALID_STREAM,
                      "stream %p does not belong to the primary context of device %d. Give the "
                      "device that it was created on.",
                      (void *)handle, device->index);
}

CUresult tnri_facts_device(tnr_stream handle, tnri_device **device)
{
    CUcontext context = NULL;
    *device = NULL;
    CUresult result = tnri_gpu_stream_context(handle, &context);
    for (int i = 0; i < tnri_devices_count() && result == CUDA_SUCCESS; i++)
        if (atomic_load(&tnri_device_at(i)->in_use) && tnri_device_at(i)->context == context)
            *device = tnri_device_at(i);
    return result;
}

void tnri_facts_enter(tnri_stream *stream, const tnri_facts *of)
{
    tnri_lock_take(&stream->lock);
    if (atomic_load(&stream->id) == 0) {
        atomic_store(&stream->is_blocking, of->is_blocking);
        atomic_store(&stream->id, of->id);
    }
    tnri_lock_release(&stream->lock);
}

void tnri_stream_introduce(tnri_stream *stream)
{
    tnri_facts of = {0, 0};
    tnri_error_aside aside;
    if (tnri_likely(atomic_load(&stream->id) != 0) || stream->is_default ||
        atomic_load(&stream->is_dead))
        return;
    tnri_error_take(&aside);
    if (tnri_facts_ask(&of, stream->device, stream->handle) == TNR_OK)
        tnri_facts_enter(stream, &of);
    tnri_error_restore(&aside);
}

tnr_status tnri_facts_check(const tnri_stream *known, tnr_stream handle, int *is_same)
{
    uint64_t id;
    uint64_t known_id = atomic_load(&known->id);
    *is_same = tnri_stream_is_capturing(handle);
    if (*is_same || known_id == 0)
        return TNR_OK;
    CUresult result = id_ask(handle, &id);
    *is_same = result == CUDA_SUCCESS && id == known_id;
    /* Without a context this thread cannot ask; the caller goes on in the device's. */
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_CONTEXT)
        return TNR_OK;
    return tnri_stream_error(result, TNRI_GPU_STREAM_ID, handle);
}

int tnri_facts_differ(tnri_stream *known, const tnri_facts *of)
{
    if (atomic_load(&known->id) != 0)
        return atomic_load(&known->id) != of->id;
    tnri_lock_take(&known->lock);
    int was_marked = known->marked != 0;
    tnri_lock_release(&known->lock);
    return was_marked;
}
