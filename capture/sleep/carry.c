/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying contents, through the ring where it must be: see carry.h. */
#include "sleep/carry.h"

#include "base/error.h"

tnr_status tnri_carry_begin(tnri_carry *carry, tnri_device *device, int is_out)
{
    *carry = (tnri_carry){.device = device, .is_out = is_out};
    tnr_status status = tnri_staging_open(device);
    /* Without a crew it only takes longer. */
    if (status == TNR_OK && tnri_staging_of(device)->ring[0] != NULL)
        carry->crew = tnri_crew_hire();
    return status;
}

/* Waits until the device has done with a slot, and empties it. */
static tnr_status slot_clear(tnri_carry *carry, unsigned index)
{
    tnri_staging *staging = tnri_staging_of(carry->device);
    tnri_carry_slot *slot = &carry->slots[index];
    if (slot->buffer == NULL)
        return TNR_OK;
    CUresult result = tnri_drive(cuStreamSynchronize, (staging->streams[1 + index]));
    if (result != CUDA_SUCCESS) {
        staging->is_busy = 1;
        return tnri_driver_error(result, "cuStreamSynchronize", "waiting for copies of contents");
    }
    if (carry->is_out)
        tnri_crew_copy(carry->crew, slot->buffer->memory, staging->ring[index]->memory,
                       slot->bytes);
    slot->buffer = NULL;
    return TNR_OK;
}

tnr_status tnri_carry_open(tnri_carry *carry, tnri_buffer *buffer, size_t bytes,
                           unsigned char **memory, CUstream *stream)
{
    tnri_staging *staging = tnri_staging_of(carry->device);
    if (!buffer->is_paged) {
        *memory = buffer->memory;
        *stream = staging->streams[0];
        return TNR_OK;
    }
    unsigned index = carry->turns % TNRI_RING;
    tnr_status status = slot_clear(carry, index);
    if (status != TNR_OK)
        return status;
    *memory = staging->ring[index]->memory;
    *stream = staging->streams[1 + index];
    if (!carry->is_out)
        tnri_crew_begin(carry->crew, *memory, buffer->memory, bytes);
    carry->slots[index] = (tnri_carry_slot){buffer, bytes};
    carry->turns++;
    return TNR_OK;
}

void tnri_carry_filled(tnri_carry *carry)
{
    tnri_crew_end(carry->crew);
}

tnr_status tnri_carry_end(tnri_carry *carry, int is_whole)
{
    tnr_status status = TNR_OK;
    tnri_crew_end(carry->crew); /* an error may have come before its end was waited for */
    for (unsigned i = 0; i < TNRI_RING && is_whole && status == TNR_OK; i++)
        status = slot_clear(carry, (carry->turns + i) % TNRI_RING);
    tnri_crew_dismiss(carry->crew);
    return status;
}
