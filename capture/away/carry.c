/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying contents, through the ring where it must be: see carry.h. */
#include "away/carry.h"

#include "base/error.h"

size_t tnri_slot_bytes = TNRI_SLOT_BYTES_MAX;

_Static_assert((int)TNRI_SLOTS <= (int)TNRI_CREW_JOBS, "each slot may have a job");

/* ---- parts ---------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The size of the part at a place. */
static size_t part_bytes(const tnri_carry_place *place)
{
    size_t bytes = least(place->left, place->buffer->bytes - place->at);
    return place->buffer->is_paged ? least(bytes, tnri_slot_bytes) : bytes;
}

static void place_advance(tnri_carry_place *place, size_t bytes)
{
    place->at += bytes;
    place->left -= bytes;
    if (place->at < place->buffer->bytes)
        return;
    place->buffer = place->buffer->next;
    place->at = 0;
}

static int place_is_paged(const tnri_carry_place *place)
{
    return place->left > 0 && place->buffer->is_paged;
}

static tnri_carry_slot *slot_of(tnri_carry *carry, unsigned turn)
{
    return &carry->slots[turn % TNRI_SLOTS];
}

static unsigned char *slot_memory(const tnri_carry *carry, unsigned turn)
{
    const tnri_staging *staging = tnri_staging_of(carry->device);
    size_t at = turn % TNRI_SLOTS * TNRI_SLOT_BYTES_MAX;
    return staging->ring[at / TNRI_BUFFER_BYTES]->memory + at % TNRI_BUFFER_BYTES;
}

/* ---- the device's side ---------------------------------------------------------------------- */

/* Marks the end of the copies that the caller has put into the slot opened last. */
static tnr_status slot_seal(tnri_carry *carry)
{
    if (!carry->is_open)
        return TNR_OK;
    tnr_status status = tnri_event_record(carry->device, tnri_staging_of(carry->device)->stream,
                                          &slot_of(carry, carry->turns - 1)->event);
    if (status == TNR_OK)
        carry->is_open = 0;
    return status;
}

/* Waits until the device has done with a slot. */
static tnr_status slot_wait(tnri_carry *carry, tnri_carry_slot *slot)
{
    if (slot->event == NULL)
        return TNR_OK;
    CUresult result = tnri_gpu_event_await(slot->event->handle);
    if (result != CUDA_SUCCESS) {
        tnri_staging_of(carry->device)->is_busy = 1;
        return tnri_driver_error(result, TNRI_GPU_EVENT_AWAIT, "waiting for copies of contents");
    }
    tnri_event_drop(slot->event);
    slot->event = NULL;
    return TNR_OK;
}

/* ---- the crew's side ------------------------------------------------------------------------ */

/* Way out: has slots emptied, in turn, until the device has at most `ahead` of them. */
static tnr_status slots_empty(tnri_carry *carry, unsigned ahead)
{
    while (carry->given + ahead < carry->turns) {
        tnri_carry_slot *slot = slot_of(carry, carry->given);
        tnr_status status = slot_wait(carry, slot);
        if (status != TNR_OK)
            return status;
        tnri_crew_give(carry->crew, slot->paged, slot_memory(carry, carry->given), slot->bytes);
        carry->given++;
    }
    return TNR_OK;
}

/* Way out: waits until the crew has at most so many slots. */
static void slots_finish(tnri_carry *carry, unsigned left)
{
    tnri_crew_wait(carry->crew, left);
    for (; carry->finished + left < carry->given; carry->finished++)
        carry->out += slot_of(carry, carry->finished)->bytes;
}

/* Way in: has slots filled for the part to be opened and for those after it. */
static tnr_status slots_fill(tnri_carry *carry)
{
    tnri_carry_place *ahead = &carry->ahead;
    while (place_is_paged(ahead) && carry->given < carry->turns + TNRI_SLOTS_AHEAD) {
        size_t bytes = part_bytes(ahead);
        tnr_status status = slot_wait(carry, slot_of(carry, carry->given));
        if (status != TNR_OK)
            return status;
        tnri_crew_give(carry->crew, slot_memory(carry, carry->given),
                       ahead->buffer->memory + ahead->at, bytes);
        place_advance(ahead, bytes);
        carry->given++;
    }
    return TNR_OK;
}

/* ---- both ----------------------------------------------------------------------------------- */

tnr_status tnri_carry_begin(tnri_carry *carry, tnri_device *device, const tnri_buffer *buffers,
                            size_t bytes, int is_out)
{
    tnri_carry_place place = {buffers, 0, bytes};
    *carry = (tnri_carry){.device = device, .is_out = is_out, .place = place, .ahead = place};
    tnr_status status = tnri_staging_open(device);
    /* Without a crew it only takes longer. What is brought into a slot, the device reads at once;
     * what is taken out of one, nobody does. */
    if (status == TNR_OK && place_is_paged(&place))
        carry->crew = tnri_crew_hire(bytes, !is_out);
    return status;
}

tnr_status tnri_carry_open(tnri_carry *carry, unsigned char **memory, size_t *bytes, int *is_paged)
{
    tnr_status status = slot_seal(carry);
    *bytes = part_bytes(&carry->place);
    *is_paged = place_is_paged(&carry->place);
    *memory = carry->place.buffer->memory + carry->place.at;
    if (status == TNR_OK && *is_paged && carry->is_out) {
        status = slots_empty(carry, TNRI_SLOTS_AHEAD - 1);
        slots_finish(carry, TNRI_SLOTS - TNRI_SLOTS_AHEAD);
    } else if (status == TNR_OK && *is_paged) {
        tnri_carry_filled(carry); /* of the part before, if nobody wanted it */
        status = slots_fill(carry);
    }
    if (status != TNR_OK)
        return status;
    if (*is_paged) {
        tnri_assert(slot_of(carry, carry->turns)->event == NULL);
        *slot_of(carry, carry->turns) = (tnri_carry_slot){NULL, *memory, *bytes};
        *memory = slot_memory(carry, carry->turns);
        carry->turns++;
        carry->is_open = 1;
    }
    place_advance(&carry->place, *bytes);
    return TNR_OK;
}

void tnri_carry_filled(tnri_carry *carry)
{
    if (!carry->is_out && carry->given > 0)
        tnri_crew_wait(carry->crew, carry->given - carry->turns);
}

tnr_status tnri_carry_end(tnri_carry *carry, int is_whole)
{
    tnr_status status = is_whole ? slot_seal(carry) : TNR_OK;
    if (is_whole && carry->is_out && status == TNR_OK)
        status = slots_empty(carry, 0);
    /* The next carry begins with the same slots. */
    for (unsigned i = 0; i < TNRI_SLOTS && is_whole && status == TNR_OK; i++)
        status = slot_wait(carry, &carry->slots[i]);
    if (carry->is_out)
        slots_finish(carry, 0);
    else
        tnri_crew_wait(carry->crew, 0);
    for (unsigned i = 0; i < TNRI_SLOTS; i++)
        tnri_event_drop(carry->slots[i].event);
    tnri_crew_dismiss(carry->crew);
    return status;
}
