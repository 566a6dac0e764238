/* SPDX-License-Identifier: Apache-2.0 */
/* Filling memory and copying it to the host, in the order of a stream: see work.h. */
#include "see/trap/work.h"

#include "gpu/capturing.h"
#include "memory/stream/mark.h"

/* Takes the stream's lock if it may be given work; 0, without the lock, if not. */
static int stream_enter(tnri_stream *stream)
{
    if (tnri_capturing() || !tnri_stream_is_markable(stream))
        return 0;
    tnri_lock_take(&stream->lock);
    if (atomic_load(&stream->seal) == NULL && atomic_load(&stream->capture_mark) == NULL)
        return 1;
    tnri_lock_release(&stream->lock);
    return 0;
}

int tnri_work_fill(tnri_stream *stream, uintptr_t address, unsigned char value, size_t bytes)
{
    if (!stream_enter(stream))
        return 0;
    CUresult result = tnri_gpu_fill(address, value, bytes, stream->handle);
    tnri_lock_release(&stream->lock);
    return result == CUDA_SUCCESS;
}

int tnri_work_copy(tnri_stream *stream, void *host, const tnri_looked *looked)
{
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (!stream_enter(stream))
        return 0;
    if (looked->is_still == NULL || looked->is_still(looked))
        result = tnri_gpu_copy_out(host, looked->address, looked->bytes, stream->handle);
    tnri_lock_release(&stream->lock);
    return result == CUDA_SUCCESS;
}
