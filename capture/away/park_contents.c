/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of parked blocks: see park_contents.h. */
#include "away/park_contents.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "gpu/capturing.h"

/* Pinned buffers for so many bytes. The staging is claimed. */
static tnr_status buffers_take(tnri_contents *contents, tnri_device *device, size_t bytes)
{
    const tnri_staging *staging = tnri_staging_of(device);
    size_t pinned = staging->pinned.count;
    if (tnri_capturing())
        return tnri_error(TNR_ERR_BUSY, "a stream capture is under way; it forbids pinning memory. "
                                        "Park before or after it, or discard the contents.");
    tnr_status status = tnri_staging_take_pinned(device, bytes, &contents->buffers);
    contents->is_fresh = 1;
    contents->made = staging->pinned.count - pinned;
    return status;
}

tnr_status tnri_contents_make(tnri_contents **made, tnri_device *device, size_t bytes,
                              tnri_stream *stream)
{
    tnri_contents *contents = tnri_staging_take_late(device, bytes, stream);
    if (contents != NULL) {
        contents->bytes = bytes;
        contents->is_fresh = 0;
        *made = contents;
        return TNR_OK;
    }
    contents = tnri_host_alloc(sizeof(*contents));
    if (contents == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of contents.");
    contents->device = device;
    contents->bytes = bytes;
    tnri_staging_claim(device);
    tnr_status status = buffers_take(contents, device, bytes);
    tnri_staging_unclaim(device);
    if (status == TNR_OK)
        *made = contents;
    else
        tnri_host_free(contents, sizeof(*contents));
    return status;
}

tnr_status tnri_contents_copy(const tnri_contents *contents, void *ptr, CUstream stream, int is_out)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)ptr;
    size_t done = 0;
    for (const tnri_buffer *buffer = contents->buffers; done < contents->bytes;
         buffer = buffer->next) {
        size_t bytes = contents->bytes - done;
        if (bytes > buffer->bytes)
            bytes = buffer->bytes;
        CUresult result = is_out ? tnri_gpu_copy_out(buffer->memory, address + done, bytes, stream)
                                 : tnri_gpu_copy_in(address + done, buffer->memory, bytes, stream);
        if (result != CUDA_SUCCESS)
            return tnri_driver_error(result, is_out ? TNRI_GPU_COPY_OUT : TNRI_GPU_COPY_IN,
                                     "copying a parked block's contents");
        done += bytes;
    }
    return TNR_OK;
}

void tnri_contents_unmake(tnri_contents *contents)
{
    tnri_device *device = contents->device;
    const tnri_staging *staging = tnri_staging_of(device);
    tnri_staging_claim(device);
    if (!contents->is_fresh || tnri_capturing()) /* a capture forbids giving memory back */
        tnri_staging_give(device, contents->buffers, 1);
    else
        tnri_staging_undo(device, contents->buffers, staging->pinned.count - contents->made,
                          staging->paged.count);
    tnri_staging_unclaim(device);
    tnri_host_free(contents, sizeof(*contents));
}

void tnri_contents_end(void *of, tnri_event *event)
{
    tnri_contents *contents = of;
    contents->event = event;
    tnri_staging_give_late(contents);
}

void tnri_contents_end_after(tnri_contents *contents, tnri_event *event, tnri_stream *stream,
                             uint64_t number)
{
    tnri_stream_hold(stream);
    contents->stream = stream;
    contents->number = number;
    tnri_contents_end(contents, event);
}
