/* SPDX-License-Identifier: Apache-2.0 */
/* Physical memory: see chunk.h. */
#include "memory/device/chunk.h"

#include "base/bytes_text.h"
#include "base/conf/conf.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "memory/device/cgroup.h"
#include "memory/device/group.h"
#include "memory/device/host.h"
#include "memory/device/tag.h"

tnri_chunk tnri_mapping_refused;
_Thread_local tnr_oom_reason tnri_chunk_lacks;
_Thread_local size_t tnri_chunk_withheld;

/* Adds to a sum unless that would exceed its limit. Returns 1 if it did. */
static int sum_charge(_Atomic uint64_t *sum, uint64_t bytes, uint64_t limit)
{
    uint64_t now = atomic_load_explicit(sum, memory_order_relaxed);
    do {
        if (bytes > limit || now > limit - bytes)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(sum, &now, now + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return 1;
}

/* Takes `bytes` of the limit of the account's tag, if it carries one. */
static tnr_status tag_charge(tnri_account *account, size_t bytes)
{
    if (account->tag == NULL)
        return TNR_OK;
    tnri_tag_sum *sum = &account->tag->on[account->device->index];
    uint64_t limit = atomic_load_explicit(&sum->limit_bytes, memory_order_relaxed);
    if (sum_charge(&sum->reserved_bytes, bytes, limit))
        return TNR_OK;
    tnri_chunk_lacks = TNR_OOM_TAG_LIMIT;
    return tnri_error(
        TNR_ERR_LIMIT,
        "pools of tag \"%s\" may have %llu bytes reserved on device %d and have %llu; "
        "%zu more were needed. Raise tnr_tag_limit_set.",
        account->tag->name, (unsigned long long)limit, account->device->index,
        (unsigned long long)atomic_load(&sum->reserved_bytes), bytes);
}

static void tag_discharge(tnri_account *account, size_t bytes)
{
    if (account->tag != NULL)
        atomic_fetch_sub_explicit(&account->tag->on[account->device->index].reserved_bytes, bytes,
                                  memory_order_relaxed);
}

/* What the device may have mapped is too little; `bytes` more, or in all, were needed. */
static tnr_status device_limit_error(const tnri_device *device, size_t bytes)
{
    uint64_t limit = atomic_load_explicit(&device->limit_bytes, memory_order_relaxed);
    uint64_t most = tnri_device_most(device);
    unsigned long long has = atomic_load(&device->reserved_bytes);
    if (most < limit) {
        tnri_chunk_lacks = TNR_OOM_GROUP;
        return tnri_error(TNR_ERR_LIMIT,
                          "in group \"%s\" this process may have %llu bytes reserved on device %d "
                          "and has %llu; %zu were needed. Raise %s.",
                          tnri_conf_get()->group, (unsigned long long)most, device->index, has,
                          bytes, tnri_group_ceiling().key);
    }
    tnri_chunk_lacks = TNR_OOM_DEVICE_LIMIT;
    return tnri_error(TNR_ERR_LIMIT,
                      "device %d may have %llu bytes reserved and has %llu; %zu were needed. Raise "
                      "per_process_memory_fraction or tnr_limit_set.",
                      device->index, (unsigned long long)most, has, bytes);
}

/* Takes them of the limits of the device and of the pool. */
static tnr_status account_charge(tnri_account *account, size_t bytes)
{
    tnri_device *device = account->device;
    if (!sum_charge(&device->reserved_bytes, bytes, tnri_device_most(device)))
        return device_limit_error(device, bytes);
    uint64_t limit = atomic_load_explicit(&account->limit_bytes, memory_order_relaxed);
    if (!sum_charge(&account->reserved_bytes, bytes, limit)) {
        atomic_fetch_sub_explicit(&device->reserved_bytes, bytes, memory_order_relaxed);
        tnri_chunk_lacks = TNR_OOM_POOL_LIMIT;
        return tnri_error(TNR_ERR_LIMIT,
                          "pool \"%s\" may have %llu bytes reserved and has %llu; %zu more were "
                          "needed. Raise tnr_pool_limit_set.",
                          account->name, (unsigned long long)limit,
                          (unsigned long long)atomic_load(&account->reserved_bytes), bytes);
    }
    return TNR_OK;
}

tnr_status tnri_chunk_charge(tnri_account *account, size_t bytes)
{
    tnr_status status = tag_charge(account, bytes);
    if (status != TNR_OK)
        return status;
    status = account_charge(account, bytes);
    if (status != TNR_OK)
        tag_discharge(account, bytes);
    return status;
}

/* The most that a sum can ever be: idle memory over a lowered limit still serves. */
static uint64_t sum_most(const _Atomic uint64_t *sum, uint64_t most)
{
    uint64_t now = atomic_load_explicit(sum, memory_order_relaxed);
    return now > most ? now : most;
}

tnr_status tnri_chunk_check(tnri_account *account, size_t bytes)
{
    const tnri_device *device = account->device;
    if (bytes > device->capabilities.memory_bytes && !tnri_account_is_foreign(account))
        return tnri_error(TNR_ERR_OUT_OF_MEMORY, "device %d has %s in all; %s were needed.",
                          device->index, TNRI_BYTES(device->capabilities.memory_bytes),
                          TNRI_BYTES(bytes));
    if (bytes > sum_most(&device->reserved_bytes, tnri_device_most(device)))
        return device_limit_error(device, bytes);
    if (bytes > sum_most(&account->reserved_bytes, atomic_load(&account->limit_bytes)))
        return tnri_error(TNR_ERR_LIMIT,
                          "pool \"%s\" may have %llu bytes reserved; %zu were needed. Raise "
                          "tnr_pool_limit_set.",
                          account->name, (unsigned long long)atomic_load(&account->limit_bytes),
                          bytes);
    if (account->tag == NULL)
        return TNR_OK;
    const tnri_tag_sum *sum = &account->tag->on[device->index];
    if (bytes > sum_most(&sum->reserved_bytes, atomic_load(&sum->limit_bytes)))
        return tnri_error(TNR_ERR_LIMIT,
                          "pools of tag \"%s\" may have %llu bytes reserved on device %d; %zu were "
                          "needed. Raise tnr_tag_limit_set.",
                          account->tag->name, (unsigned long long)atomic_load(&sum->limit_bytes),
                          device->index, bytes);
    return TNR_OK;
}

void tnri_chunk_discharge(tnri_account *account, size_t bytes)
{
    atomic_fetch_sub_explicit(&account->device->reserved_bytes, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&account->reserved_bytes, bytes, memory_order_relaxed);
    tag_discharge(account, bytes);
}

static CUmemAllocationProp chunk_properties(const tnri_account *account)
{
    CUmemAllocationProp properties = {0};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    if (tnri_device_is_host(account->device)) {
        properties.location = account->device->host.location;
        return properties; /* which is neither exported nor addressed by network cards */
    }
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = account->device->capabilities.handle;
    if (account->handle_type == TNR_HANDLE_POSIX_FD)
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    else if (account->handle_type == TNR_HANDLE_FABRIC)
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    properties.allocFlags.gpuDirectRDMACapable = (unsigned char)(account->gpu_direct_rdma != 0);
    return properties;
}

/* What control groups allow, and a host that shares its memory, once `gone` bytes have gone
 * back. */
static tnr_status outside_check(const tnri_device *device, size_t gone, size_t come)
{
    tnr_status status = tnri_cgroup_room(device, gone, come);
    if (status != TNR_OK) {
        tnri_chunk_lacks = TNR_OOM_CGROUP;
        return status;
    }
    if (come > gone)
        status = tnri_host_room(device, come - gone);
    if (status != TNR_OK)
        tnri_chunk_lacks = TNR_OOM_HOST;
    return status;
}

/* Leaves others what the setting headroom_mb says, and of host memory what the system needs; keeps
 * to what control groups allow. Two threads may each see room for one chunk. */
static tnr_status headroom_check(const tnri_device *device, size_t bytes)
{
    size_t kept = (size_t)tnri_conf_get()->headroom_mb << 20;
    size_t left = 0;
    size_t total = 0;
    if (tnri_device_is_host(device)) {
        tnri_chunk_lacks = TNR_OOM_HOST; /* in case */
        return tnri_host_room(device, bytes);
    }
    tnr_status status = outside_check(device, 0, bytes);
    if (status != TNR_OK)
        return status;
    if (tnri_likely(kept == 0) || tnri_device_left(device, &left, &total) != CUDA_SUCCESS ||
        (left >= kept && left - kept >= bytes))
        return TNR_OK;
    tnri_chunk_lacks = TNR_OOM_HEADROOM;
    return tnri_error(TNR_ERR_OUT_OF_MEMORY,
                      "device %d has %zu bytes left, of which headroom_mb keeps %zu for others; "
                      "%zu more were needed. Lower headroom_mb.",
                      device->index, left, kept, bytes);
}

size_t tnri_chunk_headroom_lack(const tnri_device *device, size_t bytes)
{
    size_t kept = (size_t)tnri_conf_get()->headroom_mb << 20;
    size_t over = tnri_cgroup_over_hard(device);
    size_t left = 0;
    size_t total = 0;
    if (kept == 0 || tnri_device_is_host(device) ||
        tnri_device_left(device, &left, &total) != CUDA_SUCCESS)
        return over;
    size_t most = device->capabilities.memory_bytes;
    size_t lack = left < kept && kept < most && bytes <= most - kept ? kept - left : 0;
    return lack > over ? lack : over;
}

static int sum_allows(const _Atomic uint64_t *sum, size_t gone, size_t come, uint64_t most)
{
    return atomic_load_explicit(sum, memory_order_relaxed) - gone + come <= most;
}

tnr_status tnri_chunk_exchange_check(const tnri_account *account, size_t gone, size_t come)
{
    const tnri_device *device = account->device;
    const tnri_tag_sum *sum = account->tag == NULL ? NULL : &account->tag->on[device->index];
    size_t kept = (size_t)tnri_conf_get()->headroom_mb << 20;
    size_t left = 0;
    size_t total = 0;
    if (!sum_allows(&device->reserved_bytes, gone, come, tnri_device_most(device)) ||
        !sum_allows(&account->reserved_bytes, gone, come, atomic_load(&account->limit_bytes)) ||
        (sum != NULL &&
         !sum_allows(&sum->reserved_bytes, gone, come, atomic_load(&sum->limit_bytes))))
        return tnri_error(TNR_ERR_LIMIT,
                          "pool \"%s\" has more than a limit now allows. "
                          "Raise the limit, or free memory.",
                          account->name);
    if (kept != 0 && tnri_device_left(device, &left, &total) == CUDA_SUCCESS &&
        left + gone < kept + come)
        return tnri_error(TNR_ERR_OUT_OF_MEMORY,
                          "device %d has %zu bytes left, and headroom_mb keeps %zu for others.",
                          device->index, left, kept);
    return outside_check(device, gone, come);
}

/* 1 if the driver may well refuse so many bytes: it says that less is left, or, on a device that
 * has been full before, not twice as much. It is asked if the bytes are most of what is left by
 * the books, or if the device has been full. *left is its answer, or 0. */
static int may_be_refused(const tnri_device *device, size_t bytes, size_t *left)
{
    size_t memory = device->capabilities.memory_bytes;
    size_t total = 0;
    uint64_t reserved = atomic_load_explicit(&device->reserved_bytes, memory_order_relaxed);
    int was_full = atomic_load_explicit(&device->retries_count, memory_order_relaxed) > 0;
    *left = 0;
    if (!was_full && reserved < memory && bytes <= (memory - reserved) / 2 &&
        !device->capabilities.is_integrated) /* where others are not in the books */
        return 0;
    if (tnri_device_left(device, left, &total) != CUDA_SUCCESS)
        return 0;
    return bytes > (was_full ? *left / 2 : *left);
}

enum { REFUSALS_MAX = 8 };

/* Asks the driver for memory. If it refuses and as much is left, either it keeps that back, or
 * another process has given memory meanwhile. So it is asked again unless no more is left than was
 * before; what is left then is what it keeps. A refusal takes milliseconds: where one is likely, a
 * look before it spares the second. */
static CUresult memory_ask(const tnri_account *account, size_t bytes,
                           CUmemGenericAllocationHandle *handle)
{
    CUmemAllocationProp properties = chunk_properties(account);
    size_t most = bytes - tnri_page_bytes(&account->device->space);
    size_t before = 0;
    if (!tnri_device_is_host(account->device))
        (void)may_be_refused(account->device, bytes, &before);
    for (int i = 0; i < REFUSALS_MAX; i++) {
        size_t left = 0;
        size_t total = 0;
        CUresult result = tnri_gpu_create(handle, bytes, &properties);
        if (result != CUDA_ERROR_OUT_OF_MEMORY)
            return result;
        (void)tnri_device_left(account->device, &left, &total);
        tnri_chunk_withheld = left > most ? left - most : 0;
        if (left < bytes || left <= before)
            return result;
        before = left;
    }
    tnri_chunk_withheld = 0; /* it never stood still */
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static tnr_status memory_take(const tnri_account *account, size_t bytes,
                              CUmemGenericAllocationHandle *handle)
{
    CUresult result = memory_ask(account, bytes, handle);
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    tnr_status status = tnri_driver_error(result, TNRI_GPU_CREATE, "taking memory from the device");
    tnri_host_explain(account->device);
    return status;
}

/* Takes the memory of a chunk from the driver, within the limits, and counts it. */
static tnr_status chunk_take(tnri_chunk *chunk)
{
    tnri_account *account = chunk->account;
    tnri_device *device = account->device;
    size_t bytes = chunk->pages << device->space.page_shift;
    tnri_assert_none_held();
    tnr_status status = tnri_chunk_charge(account, bytes);
    if (status != TNR_OK)
        return status;
    status = headroom_check(device, bytes);
    if (status == TNR_OK)
        status = tnri_group_take(device, bytes);
    if (status != TNR_OK) {
        tnri_chunk_discharge(account, bytes);
        return status;
    }
    status = memory_take(account, bytes, &chunk->handle);
    tnri_group_taken(device, bytes, status == TNR_OK);
    if (status != TNR_OK) {
        tnri_chunk_discharge(account, bytes);
        return status;
    }
    tnri_chunk_count_taken(chunk);
    return TNR_OK;
}

static void held_add(const tnri_chunk *chunk)
{
    tnri_account *account = chunk->account;
    uint64_t bytes = (uint64_t)chunk->pages << account->space->page_shift;
    tnri_held_add(&account->held[chunk->is_small], bytes);
    tnri_held_add(&account->device->held[chunk->is_small], bytes);
}

static void held_subtract(const tnri_chunk *chunk)
{
    tnri_account *account = chunk->account;
    uint64_t bytes = (uint64_t)chunk->pages << account->space->page_shift;
    tnri_held_subtract(&account->held[chunk->is_small], bytes);
    tnri_held_subtract(&account->device->held[chunk->is_small], bytes);
}

void tnri_chunk_enter(tnri_chunk *chunk, int is_small)
{
    if (tnri_likely(chunk->is_small == is_small))
        return;
    tnri_assert(chunk->state != TNRI_CHUNK_ASLEEP); /* it counts for nothing */
    held_subtract(chunk); /* first: the two together never have more than there is */
    chunk->is_small = is_small;
    held_add(chunk);
}

/* Takes so many bytes from the driver as one, and gives them back. */
static tnr_status memory_try(const tnri_account *account, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    tnr_status status = memory_take(account, bytes, &handle);
    if (status == TNR_OK)
        tnri_chunk_release_bare(account->device, handle);
    return status;
}

tnr_status tnri_chunk_foresee(tnri_account *account, size_t bytes, int was_refused)
{
    const tnri_device *device = account->device;
    size_t left = 0;
    size_t total = 0;
    tnri_assert_none_held();
    tnr_status status = tnri_chunk_charge(account, bytes);
    if (status != TNR_OK)
        return status;
    tnri_chunk_discharge(account, bytes);
    if (tnri_device_is_host(device)) /* nobody tries what the machine has no room for */
        return tnri_host_room(device, bytes);
    status = outside_check(device, 0, bytes);
    if (status != TNR_OK)
        return status;
    if (!was_refused)
        return may_be_refused(device, bytes, &left) ? memory_try(account, bytes) : TNR_OK;
    size_t withheld = tnri_chunk_withheld;
    if (tnri_device_left(device, &left, &total) != CUDA_SUCCESS ||
        (left >= withheld && left - withheld >= bytes))
        return TNR_OK;
    return tnri_error_driver(TNR_ERR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY,
                             "device %d hands out %s more; %s were needed.", device->index,
                             TNRI_BYTES(left > withheld ? left - withheld : 0), TNRI_BYTES(bytes));
}

int tnri_chunk_was_refused(tnr_status status)
{
    return status == TNR_ERR_OUT_OF_MEMORY && tnr_last_driver_result() == CUDA_ERROR_OUT_OF_MEMORY;
}

void tnri_chunk_count_taken(const tnri_chunk *chunk)
{
    tnri_account *account = chunk->account;
    tnri_device *device = account->device;
    size_t bytes = chunk->pages << account->space->page_shift;
    /* Not where it was charged: what the driver refuses was never there. What another thread has
     * charged, and asks the driver for at this moment, counts. */
    tnri_peak_raise(&device->reserved_peak_bytes, atomic_load(&device->reserved_bytes));
    tnri_peak_raise(&account->reserved_peak_bytes, atomic_load(&account->reserved_bytes));
    tnri_flow_come(&device->chunks, 1);
    atomic_fetch_add_explicit(&device->reserved_total_bytes, bytes, memory_order_relaxed);
    tnri_flow_come(&account->chunks, 1);
    atomic_fetch_add_explicit(&account->reserved_total_bytes, bytes, memory_order_relaxed);
    held_add(chunk);
}

void tnri_chunk_count_released(const tnri_chunk *chunk)
{
    tnri_device *device = chunk->account->device;
    held_subtract(chunk);
    tnri_flow_go(&device->chunks, 1);
    tnri_flow_go(&chunk->account->chunks, 1);
    tnri_chunk_discharge(chunk->account, chunk->pages << chunk->account->space->page_shift);
}

tnr_status tnri_chunk_create(tnri_account *account, size_t pages, int is_small,
                             tnri_chunk **created)
{
    tnri_chunk *chunk = tnri_host_alloc(sizeof(*chunk));
    if (chunk == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a chunk.");
    chunk->pages = pages;
    chunk->account = account;
    chunk->is_small = is_small;
    chunk->page = SIZE_MAX;
    chunk->home = SIZE_MAX;
    chunk->state = TNRI_CHUNK_READY;
    tnr_status status = chunk_take(chunk);
    if (status != TNR_OK) {
        tnri_host_free(chunk, sizeof(*chunk));
        return status;
    }
    tnri_turnover_comes(&account->turnover, pages << account->space->page_shift,
                        atomic_load_explicit(&account->reserved_bytes, memory_order_relaxed));
    *created = chunk;
    return TNR_OK;
}

tnri_chunk *tnri_chunk_create_asleep(const tnri_chunk *whole, size_t pages, size_t page)
{
    tnri_account *account = whole->account;
    tnri_chunk *chunk = tnri_host_alloc(sizeof(*chunk));
    if (chunk == NULL)
        return NULL;
    chunk->pages = pages;
    chunk->account = account;
    chunk->page = page;
    chunk->home = page;
    chunk->state = TNRI_CHUNK_ASLEEP;
    chunk->is_small = whole->is_small;
    atomic_fetch_add_explicit(&account->asleep_bytes,
                              (uint64_t)pages << account->device->space.page_shift,
                              memory_order_relaxed);
    return chunk;
}

/* Keeps a chunk that the driver did not take back. */
static void chunk_refuse(tnri_device *device, tnri_chunk *chunk)
{
    tnri_lock_take(&device->lock);
    chunk->next = device->refused;
    device->refused = chunk;
    tnri_lock_release(&device->lock);
}

/* The driver has its memory back. */
static void chunk_gone(tnri_device *device, tnri_chunk *chunk)
{
    tnri_group_released(device, chunk->pages << device->space.page_shift);
    tnri_host_free(chunk, sizeof(*chunk));
}

void tnri_chunk_release(tnri_device *device, tnri_chunk *chunk)
{
    tnri_assert_none_held();
    if (chunk->state == TNRI_CHUNK_ASLEEP) { /* its memory went when it fell asleep */
        atomic_fetch_sub_explicit(&chunk->account->asleep_bytes,
                                  (uint64_t)chunk->pages << device->space.page_shift,
                                  memory_order_relaxed);
        tnri_host_free(chunk, sizeof(*chunk));
        return;
    }
    CUresult result = tnri_gpu_release(chunk->handle);
    tnri_chunk_count_released(chunk);
    if (result == CUDA_SUCCESS)
        chunk_gone(device, chunk);
    else
        chunk_refuse(device, chunk);
}

void tnri_chunk_release_bare(tnri_device *device, CUmemGenericAllocationHandle handle)
{
    if (tnri_gpu_release(handle) == CUDA_SUCCESS)
        return;
    tnri_chunk *chunk = tnri_host_alloc(sizeof(*chunk)); /* of no pages: they were not counted */
    if (chunk == NULL)
        return;
    chunk->handle = handle;
    chunk_refuse(device, chunk);
}

CUresult tnri_chunks_release_refused(tnri_device *device, size_t *released)
{
    CUresult first_error = CUDA_SUCCESS;
    tnri_lock_take(&device->lock);
    tnri_chunk *list = device->refused;
    device->refused = NULL;
    tnri_lock_release(&device->lock);
    while (list != NULL) {
        tnri_chunk *chunk = list;
        list = chunk->next;
        CUresult result = tnri_gpu_release(chunk->handle);
        if (result == CUDA_SUCCESS) {
            *released += chunk->pages << device->space.page_shift;
            chunk_gone(device, chunk);
            continue;
        }
        chunk_refuse(device, chunk);
        if (first_error == CUDA_SUCCESS)
            first_error = result;
    }
    return first_error;
}

void tnri_chunk_placed(tnri_chunk *chunk)
{
    static _Atomic uint64_t placed_last;
    atomic_store_explicit(&chunk->placed, atomic_fetch_add(&placed_last, 1) + 1,
                          memory_order_relaxed);
}

tnr_status tnri_chunk_map(tnri_device *device, tnri_chunk *chunk, size_t page)
{
    CUdeviceptr address = tnri_page_address(&device->space, page);
    size_t bytes = chunk->pages << device->space.page_shift;
    tnri_assert_none_held();
    CUresult result = tnri_gpu_map(address, bytes, chunk->handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_MAP, "mapping a chunk");
    atomic_fetch_add_explicit(&device->mappings_made, 1, memory_order_relaxed);
    tnri_chunk_placed(chunk);
    return TNR_OK;
}

tnr_status tnri_pages_unmap(tnri_device *device, size_t page, size_t pages, size_t mappings)
{
    tnri_assert_none_held();
    CUresult result =
        tnri_gpu_unmap(tnri_page_address(&device->space, page), pages << device->space.page_shift);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_UNMAP, "removing the old address of a chunk");
    atomic_fetch_add_explicit(&device->mappings_removed, mappings, memory_order_relaxed);
    return TNR_OK;
}

/* ---- sleeping ------------------------------------------------------------------------------- */

tnr_status tnri_chunk_rouse(tnri_device *device, tnri_chunk *chunk)
{
    if (chunk->state != TNRI_CHUNK_ASLEEP)
        return TNR_OK;
    tnr_status status = chunk_take(chunk);
    if (status != TNR_OK)
        return status;
    atomic_fetch_sub_explicit(&chunk->account->asleep_bytes,
                              (uint64_t)chunk->pages << device->space.page_shift,
                              memory_order_relaxed);
    chunk->state = TNRI_CHUNK_HELD;
    return TNR_OK;
}

tnr_status tnri_chunk_wake(tnri_device *device, tnri_chunk *chunk)
{
    tnr_status status = tnri_chunk_rouse(device, chunk);
    if (status != TNR_OK)
        return status;
    if (chunk->state == TNRI_CHUNK_HELD) {
        status = tnri_chunk_map(device, chunk, chunk->page);
        if (status != TNR_OK)
            return status;
        chunk->state = TNRI_CHUNK_PLACED;
    }
    if (chunk->state == TNRI_CHUNK_PLACED) {
        status = tnri_pages_access(device, &chunk->account->access, chunk->page, chunk->pages);
        if (status == TNR_OK)
            chunk->state = TNRI_CHUNK_READY;
    }
    return status;
}

tnr_status tnri_chunk_unplace(tnri_device *device, tnri_chunk *chunk)
{
    if (chunk->state >= TNRI_CHUNK_HELD)
        return TNR_OK;
    tnr_status status = tnri_pages_unmap(device, chunk->page, chunk->pages, 1);
    if (status == TNR_OK)
        chunk->state = TNRI_CHUNK_HELD;
    return status;
}

tnr_status tnri_chunk_sleep(tnri_device *device, tnri_chunk *chunk)
{
    tnri_assert_none_held();
    if (chunk->state == TNRI_CHUNK_ASLEEP)
        return TNR_OK;
    tnri_assert(chunk->state == TNRI_CHUNK_HELD);
    CUresult result = tnri_gpu_release(chunk->handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_RELEASE, "giving memory back for a sleep");
    chunk->state = TNRI_CHUNK_ASLEEP;
    atomic_fetch_add_explicit(&chunk->account->asleep_bytes,
                              (uint64_t)chunk->pages << device->space.page_shift,
                              memory_order_relaxed);
    tnri_chunk_count_released(chunk);
    tnri_group_released(device, chunk->pages << device->space.page_shift);
    return TNR_OK;
}
