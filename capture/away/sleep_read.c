/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what a sleep has kept, while the memory sleeps: see <tenure/sleep.h>. The contents lie in
 * the sleeper's buffers, one stretch after the other. They belong to the thread that has claimed
 * the staging, so nobody wakes the pool meanwhile.
 */
#include <tenure/sleep.h>

#include <string.h>

#include "api/library.h"
#include "away/sleeper.h"
#include "base/error.h"
#include "base/prim/calm.h"
#include "memory/arena/find.h"
#include "memory/pool/asleep.h"

/* The sleeper of the pool that the live block at an address is of; an error if it does not sleep.
 * The caller has the claim. */
static tnr_status sleeper_find(const tnri_sleeper **sleeper, tnri_device *device, const void *ptr)
{
    tnr_status status = TNR_OK;
    tnri_block *block = tnri_live_find(device, (uintptr_t)ptr);
    if (block == NULL)
        return tnri_error(TNR_ERR_NOT_LIVE, "%p lies in no live block of device %d.", ptr,
                          device->index);
    tnr_pool pool = block->world->arena->pool;
    *sleeper = pool->asleep.sleeper;
    if (atomic_load(&pool->asleep.state) != TNRI_ASLEEP)
        status = tnri_error(TNR_ERR_INVALID_ARGUMENT,
                            "%p lies in pool \"%s\", which does not sleep: copy from the device.",
                            ptr, pool->account.name);
    tnri_live_leave(device, block);
    return status;
}

/* Where the contents of [address, address + bytes) begin among all that is kept; SIZE_MAX: they are
 * not all there. */
static size_t kept_offset(const tnri_sleeper *sleeper, uintptr_t address, size_t bytes)
{
    size_t offset = 0;
    for (size_t i = 0; i < sleeper->kept_count; i++) {
        const tnri_kept *kept = &sleeper->kept[i];
        size_t from = address - kept->base;
        if (address >= kept->base && from < kept->bytes && bytes <= kept->bytes - from)
            return offset + from + bytes <= sleeper->kept_out ? offset + from : SIZE_MAX;
        offset += kept->bytes;
    }
    return SIZE_MAX;
}

static void buffers_read(const tnri_buffer *buffer, size_t offset, char *to, size_t bytes)
{
    for (; bytes > 0; buffer = buffer->next) {
        if (offset >= buffer->bytes) {
            offset -= buffer->bytes;
            continue;
        }
        size_t part = buffer->bytes - offset;
        part = part < bytes ? part : bytes;
        memcpy(to, buffer->memory + offset, part);
        to += part;
        bytes -= part;
        offset = 0;
    }
}

tnr_status tnr_sleep_read(char *buffer, size_t bytes, const void *ptr)
{
    TNRI_CALM_CALL;
    if (buffer == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_sleep_read: buffer is null.");
    tnri_device *device;
    tnr_status status = tnri_library_find(ptr, &device);
    if (status != TNR_OK)
        return status;
    if (tnri_staging_is_mine(device) || tnri_staging_is_my_turn(device))
        return tnri_error(TNR_ERR_BUSY, "a callback of a sleep cannot read what the sleep keeps.");
    const tnri_sleeper *sleeper = NULL;
    tnri_staging_claim(device);
    status = sleeper_find(&sleeper, device, ptr);
    size_t offset = status != TNR_OK || sleeper == NULL
                        ? SIZE_MAX
                        : kept_offset(sleeper, (uintptr_t)ptr, bytes);
    if (offset != SIZE_MAX)
        buffers_read(sleeper->buffers, offset, buffer, bytes);
    tnri_staging_unclaim(device);
    if (status == TNR_OK && offset == SIZE_MAX)
        return tnri_error(TNR_ERR_NOT_LIVE,
                          "the sleep has not kept all of the %zu bytes at %p: their contents were "
                          "to be discarded, or they are no one block's.",
                          bytes, ptr);
    return status;
}
