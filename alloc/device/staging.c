/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory and the stream for copies: see staging.h. */
#include "device/staging.h"

#include <sched.h>
#include <time.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "device/device.h"

/* Waits until a flag was 0, and sets it. */
static void flag_take(_Atomic int *flag)
{
    tnri_assert_none_held();
    for (int tries = 0; atomic_exchange(flag, 1); tries++) {
        if (tries < 100)
            sched_yield();
        else
            nanosleep(&(struct timespec){0, 100000}, NULL);
    }
}

void tnri_staging_turn_begin(tnri_device *device)
{
    flag_take(&device->staging.is_in_turn);
}

void tnri_staging_turn_end(tnri_device *device)
{
    atomic_store(&device->staging.is_in_turn, 0);
}

void tnri_staging_claim(tnri_device *device)
{
    flag_take(&device->staging.is_claimed);
}

void tnri_staging_unclaim(tnri_device *device)
{
    atomic_store(&device->staging.is_claimed, 0);
}

/* ---- the stream ----------------------------------------------------------------------------- */

/* All optional entry points that keeping contents needs are there. */
static tnr_status staging_check(void)
{
    if (tnri_driver.cuMemHostAlloc != NULL && tnri_driver.cuMemFreeHost != NULL &&
        tnri_driver.cuMemcpyDtoHAsync != NULL && tnri_driver.cuMemcpyHtoDAsync != NULL &&
        tnri_driver.cuStreamSynchronize != NULL)
        return TNR_OK;
    return tnri_error(TNR_ERR_DRIVER_TOO_OLD,
                      "the driver lacks calls for copying to pinned host memory. Sleep with "
                      "TNR_CONTENT_DISCARD, or install a newer NVIDIA driver.");
}

tnr_status tnri_staging_stream(tnri_device *device, CUstream *stream)
{
    tnri_staging *staging = &device->staging;
    if (!staging->has_stream) {
        CUresult result = tnri_drive(cuStreamCreate, (&staging->stream, CU_STREAM_NON_BLOCKING));
        if (result != CUDA_SUCCESS)
            return tnri_driver_error(result, "cuStreamCreate", "making a stream for copies");
        staging->has_stream = 1;
    }
    if (staging->is_busy) {
        tnr_status status = tnri_staging_wait(device);
        if (status != TNR_OK)
            return status;
    }
    *stream = staging->stream;
    return TNR_OK;
}

tnr_status tnri_staging_wait(tnri_device *device)
{
    tnri_staging *staging = &device->staging;
    CUresult result = tnri_drive(cuStreamSynchronize, (staging->stream));
    /* Tried once more: what the copies use cannot be given back without an answer. */
    if (result != CUDA_SUCCESS &&
        tnri_drive(cuStreamSynchronize, (staging->stream)) == CUDA_SUCCESS)
        result = CUDA_SUCCESS;
    staging->is_busy = result != CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, "cuStreamSynchronize", "waiting for copies of contents");
}

/* ---- pieces --------------------------------------------------------------------------------- */

static size_t pieces_for(size_t bytes)
{
    return bytes / TNRI_PIECE_BYTES + (bytes % TNRI_PIECE_BYTES != 0);
}

/* Adds one spare. */
static tnr_status piece_make(tnri_device *device)
{
    tnri_staging *staging = &device->staging;
    tnri_piece *piece = tnri_host_alloc(sizeof(*piece));
    if (piece == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of pinned memory.");
    void *memory;
    CUresult result = tnri_drive(cuMemHostAlloc, (&memory, TNRI_PIECE_BYTES, 0));
    if (result != CUDA_SUCCESS) {
        tnri_host_free(piece, sizeof(*piece));
        tnr_status status =
            tnri_driver_error(result, "cuMemHostAlloc", "pinning host memory for contents");
        /* Out of host memory, that is, not of the device's. */
        return status == TNR_ERR_OUT_OF_MEMORY ? TNR_ERR_HOST_MEMORY : status;
    }
    piece->memory = memory;
    piece->next = staging->spares;
    staging->spares = piece;
    staging->spares_count++;
    staging->pieces_count++;
    return TNR_OK;
}

/* Frees spares until `most` pieces exist, or none is spare. */
static CUresult pieces_trim(tnri_device *device, size_t most)
{
    tnri_staging *staging = &device->staging;
    while (staging->spares != NULL && staging->pieces_count > most) {
        if (staging->is_busy && tnri_staging_wait(device) != TNR_OK)
            return CUDA_ERROR_NOT_READY;
        tnri_piece *piece = staging->spares;
        CUresult result = tnri_drive(cuMemFreeHost, (piece->memory));
        if (result != CUDA_SUCCESS)
            return result;
        staging->spares = piece->next;
        staging->spares_count--;
        staging->pieces_count--;
        tnri_host_free(piece, sizeof(*piece));
    }
    return CUDA_SUCCESS;
}

/* Has at least `count` spares, or as many as before. */
static tnr_status pieces_make(tnri_device *device, size_t count)
{
    size_t before = device->staging.pieces_count;
    while (device->staging.spares_count < count) {
        tnr_status status = staging_check();
        if (status == TNR_OK)
            status = piece_make(device);
        if (status != TNR_OK) {
            (void)pieces_trim(device, before);
            return status;
        }
    }
    return TNR_OK;
}

tnr_status tnri_staging_take(tnri_device *device, size_t bytes, tnri_piece **pieces)
{
    tnri_staging *staging = &device->staging;
    *pieces = NULL;
    tnr_status status = pieces_make(device, pieces_for(bytes));
    for (size_t left = status == TNR_OK ? pieces_for(bytes) : 0; left > 0; left--) {
        tnri_piece *piece = staging->spares;
        staging->spares = piece->next;
        staging->spares_count--;
        piece->next = *pieces;
        *pieces = piece;
    }
    return status;
}

void tnri_staging_give(tnri_device *device, tnri_piece *pieces, int keep_all)
{
    tnri_staging *staging = &device->staging;
    while (pieces != NULL) {
        tnri_piece *piece = pieces;
        pieces = piece->next;
        piece->next = staging->spares;
        staging->spares = piece;
        staging->spares_count++;
    }
    if (!keep_all)
        (void)pieces_trim(device, staging->kept_count);
}

tnr_status tnri_staging_prepare(tnri_device *device, size_t bytes)
{
    tnri_staging *staging = &device->staging;
    size_t count = pieces_for(bytes);
    tnr_status status = TNR_OK;
    size_t used = staging->pieces_count - staging->spares_count;
    if (staging->pieces_count < count)
        status = pieces_make(device, count - used);
    if (status != TNR_OK)
        return status;
    staging->kept_count = count;
    CUresult result = pieces_trim(device, count);
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, "cuMemFreeHost", "giving pinned memory back");
}

CUresult tnri_staging_empty(tnri_device *device, const char **call)
{
    tnri_staging *staging = &device->staging;
    *call = "cuMemFreeHost";
    CUresult result = pieces_trim(device, 0);
    if (result != CUDA_SUCCESS)
        return result;
    tnri_assert(staging->pieces_count == 0);
    staging->kept_count = 0;
    *call = "cuStreamDestroy";
    if (staging->has_stream)
        result = tnri_drive(cuStreamDestroy, (staging->stream));
    if (result == CUDA_SUCCESS)
        staging->has_stream = 0;
    return result;
}
