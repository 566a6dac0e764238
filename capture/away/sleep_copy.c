/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of kept contents out and in, and the chunks that go and come meanwhile: see sleeper.h.
 *
 * The link is the slowest part of a sleep, so the driver's calls about memory run beside the
 * copies, on the same thread. That works because those calls do not wait for work on the device,
 * and copies to pinned memory run without the host. A chunk's calls take less time than its copy.
 * So a sleep takes the link's time plus the calls for the last chunks, and a wake the link's time
 * plus the calls for the first chunks. More threads would not help: the driver makes such calls one
 * after the other. Through the ring it is the same: the device has copies waiting in several slots,
 * and a crew empties or fills the others.
 */
#include "away/sleeper.h"

#include "away/carry.h"
#include "base/error.h"

/* Where a copy stands: what follows goes to this place in the buffers. */
typedef struct cursor {
    tnri_sleeper *sleeper;
    tnri_carry carry;
    size_t left; /* bytes that are in no opened part yet */
    unsigned char *memory;
    size_t room;           /* bytes at `memory` */
    size_t paged;          /* bytes in parts that went through the ring */
    size_t buffers_opened; /* the other parts, since the last mark */
    size_t mark_buffers;   /* so many between two marks */
} cursor;

static tnr_status cursor_begin(cursor *at, tnri_sleeper *sleeper, tnri_device *device, size_t bytes,
                               int is_out)
{
    *at = (cursor){.sleeper = sleeper, .left = bytes};
    at->mark_buffers = (bytes / TNRI_BUFFER_BYTES + 1) / TNRI_MARKS_MAX + 1;
    return tnri_carry_begin(&at->carry, device, sleeper->buffers, bytes, is_out);
}

static tnr_status cursor_advance(cursor *at)
{
    int is_paged;
    tnr_status status = tnri_carry_open(&at->carry, &at->memory, &at->room, &is_paged);
    if (status != TNR_OK)
        return status;
    if (is_paged)
        at->paged += at->room;
    else
        at->buffers_opened++;
    at->left -= at->room;
    return TNR_OK;
}

/* Passes over a part of the contents, which lies in the opened part of the buffers. */
static tnr_status cursor_pass(cursor *at, size_t bytes)
{
    at->memory += bytes;
    at->room -= bytes;
    return TNR_OK;
}

/* Has a part of the contents copied, which fits into what is opened. */
static tnr_status cursor_copy(cursor *at, CUdeviceptr device, size_t bytes)
{
    CUresult result;
    CUstream stream = tnri_staging_of(at->carry.device)->stream;
    tnri_carry_filled(&at->carry);
    if (at->carry.is_out)
        result = tnri_gpu_copy_out(at->memory, device, bytes, stream);
    else
        result = tnri_gpu_copy_in(device, at->memory, bytes, stream);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, at->carry.is_out ? TNRI_GPU_COPY_OUT : TNRI_GPU_COPY_IN,
                                 "copying kept contents");
    return cursor_pass(at, bytes);
}

/* ---- the way down --------------------------------------------------------------------------- */

/* Marks the end of the copies so far, if that is due: at the end of a buffer, and of everything. */
static tnr_status cursor_mark(cursor *at)
{
    tnri_sleeper *sleeper = at->sleeper;
    int is_due =
        at->buffers_opened >= at->mark_buffers || (at->left == 0 && at->buffers_opened > 0);
    if (!at->carry.is_out || at->room > 0 || !is_due)
        return TNR_OK;
    tnri_assert(sleeper->marks_count < TNRI_MARKS_MAX);
    tnri_mark *mark = &sleeper->marks[sleeper->marks_count];
    tnr_status status = tnri_event_record(at->carry.device,
                                          tnri_staging_of(at->carry.device)->stream, &mark->event);
    if (status != TNR_OK)
        return status;
    mark->until = sleeper->kept_bytes - at->left;
    sleeper->marks_count++;
    at->buffers_opened = 0;
    return TNR_OK;
}

/* Takes a chunk's address and memory away. */
static tnr_status chunk_lower(tnri_sleeper *sleeper, tnri_device *device, tnri_chunk *chunk)
{
    tnri_assert(chunk->kept_until <= sleeper->copied && chunk->kept_until <= sleeper->kept_out);
    tnr_status status = tnri_chunk_unplace(device, chunk);
    if (status != TNR_OK)
        return status;
    sleeper->is_lost = 1;
    return tnri_chunk_sleep(device, chunk);
}

/* Lowers the chunks whose contents have come through the ring, while the device copies what is in
 * its slots. */
static tnr_status cursor_lower(cursor *at)
{
    tnri_sleeper *sleeper = at->sleeper;
    tnr_status status = TNR_OK;
    sleeper->copied = sleeper->kept_out = at->carry.out;
    while (status == TNR_OK && sleeper->copied > 0 && sleeper->lowered < sleeper->chunks_count) {
        tnri_chunk *chunk = sleeper->chunks[sleeper->lowered];
        if (chunk->kept_until > sleeper->copied)
            break;
        status = chunk_lower(sleeper, at->carry.device, chunk);
        if (status == TNR_OK)
            sleeper->lowered++;
    }
    return status;
}

static tnr_status stretch_copy_out(cursor *at, const tnri_kept *kept)
{
    tnr_status status = TNR_OK;
    for (size_t done = 0; done < kept->bytes && status == TNR_OK;) {
        if (at->room == 0)
            status = cursor_advance(at);
        if (status != TNR_OK)
            break;
        size_t bytes = kept->bytes - done < at->room ? kept->bytes - done : at->room;
        status = cursor_copy(at, kept->base + done, bytes);
        if (status == TNR_OK)
            status = cursor_mark(at);
        if (status == TNR_OK && at->room == 0)
            status = cursor_lower(at);
        done += bytes;
    }
    return status;
}

tnr_status tnri_sleeper_copy_out(tnri_sleeper *sleeper, tnri_device *device)
{
    cursor at;
    sleeper->copied = sleeper->kept_out = sleeper->lowered = 0;
    if (sleeper->kept_count == 0)
        return TNR_OK;
    tnr_status status = cursor_begin(&at, sleeper, device, sleeper->kept_bytes, 1);
    if (status != TNR_OK)
        return status;
    for (size_t i = 0; i < sleeper->kept_count && status == TNR_OK; i++)
        status = stretch_copy_out(&at, &sleeper->kept[i]);
    tnr_status ended = tnri_carry_end(&at.carry, status == TNR_OK);
    if (status == TNR_OK)
        status = ended;
    if (status != TNR_OK)
        return status;
    tnri_assert(at.paged == at.carry.out);
    sleeper->copied = at.paged; /* those come first (tnri_staging_take), and have ended */
    sleeper->kept_out = sleeper->kept_bytes;
    return TNR_OK;
}

/* Waits until contents up to a place are in the buffers. */
static tnr_status contents_wait(tnri_sleeper *sleeper, size_t until)
{
    while (sleeper->copied < until) {
        tnri_assert(sleeper->marks_first < sleeper->marks_count);
        tnri_mark *mark = &sleeper->marks[sleeper->marks_first];
        CUresult result = tnri_gpu_event_await(mark->event->handle);
        if (result != CUDA_SUCCESS)
            return tnri_driver_error(result, TNRI_GPU_EVENT_AWAIT,
                                     "waiting for copies of contents");
        sleeper->copied = mark->until;
        sleeper->marks_first++;
        tnri_event_drop(mark->event);
    }
    return TNR_OK;
}

tnr_status tnri_sleeper_lower(tnri_sleeper *sleeper, tnri_device *device)
{
    tnr_status status = TNR_OK;
    while (sleeper->lowered < sleeper->chunks_count && status == TNR_OK) {
        tnri_chunk *chunk = sleeper->chunks[sleeper->lowered];
        status = contents_wait(sleeper, chunk->kept_until);
        if (status == TNR_OK)
            status = chunk_lower(sleeper, device, chunk);
        if (status == TNR_OK)
            sleeper->lowered++;
    }
    return status;
}

void tnri_sleeper_unmark(tnri_sleeper *sleeper)
{
    for (unsigned i = sleeper->marks_first; i < sleeper->marks_count; i++)
        tnri_event_drop(sleeper->marks[i].event);
    sleeper->marks_first = sleeper->marks_count = 0;
}

/* ---- the way up ----------------------------------------------------------------------------- */

/* How much of a part of the contents is alike: there is memory to come back to, or it was given up
 * (pool_shed), with the contents. */
static size_t part_alike(const tnri_space *space, uintptr_t base, size_t bytes, int *is_there)
{
    size_t page = tnri_page_of(space, base), end = tnri_page_of(space, base + bytes - 1) + 1;
    *is_there = space->pages[page] != NULL;
    while (++page < end && (space->pages[page] != NULL) == *is_there)
        ;
    size_t alike = tnri_page_address(space, page) - base;
    return alike < bytes ? alike : bytes;
}

/* Brings the chunks of a part of the contents back. */
static tnr_status part_wake(tnri_device *device, uintptr_t base, size_t bytes)
{
    const tnri_space *space = &device->space;
    tnr_status status = TNR_OK;
    size_t end = tnri_page_of(space, base + bytes - 1) + 1;
    for (size_t page = tnri_page_of(space, base); page < end && status == TNR_OK;) {
        tnri_chunk *chunk = space->pages[page];
        status = tnri_chunk_wake(device, chunk);
        page = chunk->page + chunk->pages;
    }
    return status;
}

/* While the chunks of a part are made, the part before it is copied and, if it goes through the
 * ring, this part is brought there. */
static tnr_status stretch_copy_in(cursor *at, const tnri_kept *kept)
{
    tnr_status status = TNR_OK;
    for (size_t done = 0; done < kept->bytes && status == TNR_OK;) {
        if (at->room == 0 && at->left == 0)
            break; /* what follows has not gone: a sleep failed here */
        if (at->room == 0)
            status = cursor_advance(at);
        if (status != TNR_OK)
            break;
        int is_there;
        size_t bytes = kept->bytes - done < at->room ? kept->bytes - done : at->room;
        bytes = part_alike(&at->carry.device->space, kept->base + done, bytes, &is_there);
        if (is_there)
            status = part_wake(at->carry.device, kept->base + done, bytes);
        if (status == TNR_OK)
            status = is_there ? cursor_copy(at, kept->base + done, bytes) : cursor_pass(at, bytes);
        done += bytes;
    }
    return status;
}

static tnr_status contents_copy_in(tnri_sleeper *sleeper, tnri_device *device)
{
    cursor at;
    tnr_status status = cursor_begin(&at, sleeper, device, sleeper->kept_out, 0);
    if (status != TNR_OK)
        return status;
    tnri_assert(sleeper->marks_count == 0 && !tnri_staging_of(device)->is_busy);
    for (size_t i = 0; i < sleeper->kept_count && status == TNR_OK; i++)
        status = stretch_copy_in(&at, &sleeper->kept[i]);
    tnr_status ended = tnri_carry_end(&at.carry, status == TNR_OK);
    return status == TNR_OK ? ended : status;
}

tnr_status tnri_sleeper_raise(tnri_sleeper *sleeper, tnri_device *device, int has_contents)
{
    tnr_status status = TNR_OK;
    if (has_contents && sleeper->kept_count > 0 && sleeper->kept_out > 0)
        status = contents_copy_in(sleeper, device);
    for (size_t c = 0; c < sleeper->chunks_count && status == TNR_OK; c++)
        status = tnri_chunk_wake(device, sleeper->chunks[c]);
    return status;
}
