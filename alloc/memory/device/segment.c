/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign segments: see segment.h. */
#include "memory/device/segment.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "log/nvtx.h"
#include "memory/device/allocated.h"
#include "memory/device/host.h"

/* Whose callback the thread is in; null: none's. */
static _Thread_local const tnri_account *inside;

int tnri_segment_is_inside(void)
{
    return inside != NULL;
}

tnr_status tnri_segment_outside(const char *call)
{
    if (inside == NULL)
        return TNR_OK;
    return tnri_error(
        TNR_ERR_BUSY,
        "%s may need a callback of foreign segments, and this is one, of pool \"%s\". "
        "Do it after it.",
        call, inside->name);
}

tnr_status tnri_segment_refuse(const tnri_account *account, const char *what)
{
    if (!tnri_account_is_foreign(account))
        return TNR_OK;
    return tnri_error(TNR_ERR_FOREIGN_SEGMENT,
                      "the memory of pool \"%s\" of device %d is its owner's: %s.", account->name,
                      account->device->index, what);
}

/* ---- what tools are told -------------------------------------------------------------------- */

/* 1 if each segment of the pool's is a heap for tools. Of others' segments Tenure does not know
 * what they are, and graphs go on to use what was freed. */
static int is_told(const tnri_account *account)
{
    return account->foreign.is_own && !account->is_graph && !account->is_vouched &&
           !tnri_device_is_host(account->device);
}

uintptr_t tnri_heap_of(const tnri_account *account, uintptr_t address)
{
    const tnri_space *space = account->space;
    if (!tnri_account_is_foreign(account))
        return account->device->is_allocated || tnri_device_is_host(account->device)
                   ? 0
                   : account->device->range_base;
    return is_told(account) ? tnri_page_address(
                                  space, tnri_page_chunk(space, tnri_page_of(space, address))->page)
                            : 0;
}

/* ---- what an owner gave --------------------------------------------------------------------- */

/* 1 if memory overlaps the range of a device that is in use. */
static int is_of_device(uintptr_t base, size_t bytes)
{
    int count = atomic_load_explicit(&tnri_device_ranges_count, memory_order_acquire);
    for (int i = 0; i < count; i++) {
        uintptr_t range = atomic_load(&tnri_device_ranges[i].base);
        if (base < range + atomic_load(&tnri_device_ranges[i].bytes) && range < base + bytes)
            return 1;
    }
    return 0;
}

/* The device that memory belongs to as the driver says; -1: it does not, or it is managed and may
 * be anywhere. */
static int driver_device_of(uintptr_t base)
{
    int ordinal = -1, is_managed = 0;
    if (!tnri_gpu_has(TNRI_GPU_POINTER_ASK) ||
        tnri_gpu_pointer_ask(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base) != CUDA_SUCCESS)
        return -1;
    if (tnri_gpu_pointer_ask(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, base) == CUDA_SUCCESS &&
        is_managed)
        return -1;
    return ordinal;
}

/* Refuses what is no memory for a pool of the device; the owner takes it back. */
static tnr_status memory_check(const tnri_account *account, uintptr_t base, size_t bytes)
{
    const tnri_device *device = account->device;
    size_t page = tnri_page_bytes(account->space);
    if (base % page != 0)
        return tnri_error(
            TNR_ERR_FOREIGN_SEGMENT,
            "the owner of pool \"%s\"'s memory gave %p, which is not a multiple of %zu. "
            "It was given back.",
            account->name, (void *)base, page);
    if (base > account->space->bytes - bytes || is_of_device(base, bytes))
        return tnri_error(TNR_ERR_FOREIGN_SEGMENT,
                          "the owner of pool \"%s\"'s memory gave %p, which lies in memory of "
                          "Tenure's, or at no address. It was given back.",
                          account->name, (void *)base);
    int other = driver_device_of(base);
    if (other >= 0 && other != device->capabilities.handle)
        return tnri_error(
            TNR_ERR_FOREIGN_SEGMENT,
            "the owner of pool \"%s\"'s memory gave %p of device %d for device %d. It "
            "was given back.",
            account->name, (void *)base, other, device->index);
    return TNR_OK;
}

/* 1 if memory overlaps a segment of any device's. */
static int is_known(uintptr_t base, size_t bytes)
{
    tnri_device *device;
    for (int i = 0; (device = tnri_device_nth(i)) != NULL; i++) {
        const tnri_space *space = atomic_load(&device->foreign);
        if (space == NULL || base > space->bytes - bytes)
            continue;
        size_t last = tnri_page_of(space, base + bytes - 1);
        for (size_t page = tnri_page_of(space, base); page <= last; page++)
            if (tnri_page_chunk(space, page) != NULL)
                return 1;
    }
    return 0;
}

/* Such memory is not given back: it would be taken from the segment. */
static tnr_status known_error(const tnri_account *account, uintptr_t base)
{
    return tnri_error(TNR_ERR_FOREIGN_SEGMENT,
                      "the owner of pool \"%s\"'s memory gave %p, where Tenure has a segment "
                      "already. It was not given back.",
                      account->name, (void *)base);
}

/* Enters a segment at all its pages. 0, and nothing has changed: another one is at one of them. */
static int segment_enter(tnri_space *space, tnri_chunk *segment)
{
    size_t end = segment->page + segment->pages;
    int is_free = 1;
    tnri_lock_take(&space->lock);
    for (size_t page = segment->page; page < end && is_free; page++)
        is_free = space->pages[page] == NULL;
    for (size_t page = segment->page; page < end && is_free; page++)
        tnri_page_enter(space, page, segment);
    tnri_lock_release(&space->lock);
    return is_free;
}

/* ---- asking, and giving back ---------------------------------------------------------------- */

/* The stream that a segment was asked for on stands in for a handle, of which it has none. */
static tnr_stream stream_of(const tnri_chunk *segment)
{
    return (tnr_stream)(uintptr_t)segment->handle;
}

static void *owner_alloc(const tnri_account *account, size_t bytes, tnr_stream stream)
{
    tnri_assert_none_held();
    inside = account;
    void *memory =
        account->foreign.alloc(bytes, account->device->index, stream, account->foreign.user);
    inside = NULL;
    return memory;
}

static void owner_free(const tnri_account *account, void *memory, size_t bytes, tnr_stream stream)
{
    tnri_assert_none_held();
    tnri_assert(inside == NULL);
    inside = account;
    account->foreign.free(memory, bytes, account->device->index, stream, account->foreign.user);
    inside = NULL;
}

/* Takes memory from the owner; *base is set where that succeeds. */
static tnr_status memory_take(const tnri_account *account, size_t bytes, tnr_stream stream,
                              uintptr_t *base)
{
    void *memory = owner_alloc(account, bytes, stream);
    if (memory == NULL && account->foreign.is_own) {
        int is_host = tnri_device_is_host(account->device);
        tnri_chunk_lacks = is_host ? TNR_OOM_HOST : TNR_OOM_DEVICE;
        return tnri_memory_refused(bytes, is_host);
    }
    if (memory == NULL) {
        tnri_chunk_lacks = TNR_OOM_SEGMENT;
        return tnri_error(TNR_ERR_OUT_OF_MEMORY,
                          "the owner of pool \"%s\"'s memory gave none when it was asked for %zu "
                          "bytes (segment_alloc returned null).",
                          account->name, bytes);
    }
    *base = (uintptr_t)memory;
    if (is_known(*base, bytes))
        return known_error(account, *base);
    tnr_status status = memory_check(account, *base, bytes);
    if (status != TNR_OK)
        owner_free(account, memory, bytes, stream);
    return status;
}

/* Makes a segment of what the limits were charged for. */
static tnr_status segment_take(tnri_chunk *segment, tnr_stream stream)
{
    tnri_account *account = segment->account;
    size_t bytes = segment->pages << account->space->page_shift;
    uintptr_t base = 0;
    tnr_status status = account->foreign.is_own ? tnri_host_room(account->device, bytes) : TNR_OK;
    if (status != TNR_OK) {
        tnri_chunk_lacks = TNR_OOM_HOST;
        return status;
    }
    status = memory_take(account, bytes, stream, &base);
    if (status != TNR_OK)
        return status;
    segment->page = tnri_page_of(account->space, base);
    return segment_enter(account->space, segment) ? TNR_OK : known_error(account, base);
}

tnr_status tnri_segment_create(tnri_account *account, size_t pages, int is_small, tnr_stream stream,
                               tnri_chunk **created)
{
    size_t bytes = pages << account->space->page_shift;
    tnr_status status = tnri_segment_outside("allocating here");
    if (status != TNR_OK)
        return status;
    tnri_chunk *segment = tnri_host_alloc(sizeof(*segment));
    if (segment == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a segment.");
    *segment = (tnri_chunk){
        .handle = (uintptr_t)stream, .pages = pages, .account = account, .is_small = is_small};
    status = tnri_chunk_charge(account, bytes);
    if (status == TNR_OK) {
        status = segment_take(segment, stream);
        if (status != TNR_OK)
            tnri_chunk_discharge(account, bytes);
    }
    if (status == TNR_OK) {
        tnri_chunk_count_taken(segment);
        if (tnri_nvtx_listens() && is_told(account))
            tnri_nvtx_heap(tnri_page_address(account->space, segment->page), bytes);
        *created = segment;
    } else {
        tnri_host_free(segment, sizeof(*segment));
    }
    return status;
}

/* The addresses are forgotten first: the owner may give them again to another thread at once. */
void tnri_segment_release(tnri_chunk *segment)
{
    tnri_account *account = segment->account;
    tnri_space *space = account->space;
    uintptr_t base = tnri_page_address(space, segment->page);
    if (tnri_nvtx_listens() && is_told(account))
        tnri_nvtx_heap_end(base);
    tnri_lock_take(&space->lock);
    for (size_t i = 0; i < segment->pages; i++)
        tnri_page_enter(space, segment->page + i, NULL);
    tnri_lock_release(&space->lock);
    owner_free(account, (void *)base, segment->pages << space->page_shift, stream_of(segment));
    tnri_chunk_count_released(segment);
    tnri_host_free(segment, sizeof(*segment));
}
