/* SPDX-License-Identifier: Apache-2.0 */
/* Access of peers to a pool's memory: see access.h. */
#include "memory/device/access.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/plural.h"
#include "base/rest.h"
#include "memory/device/device.h"

/* ---- placing memory ------------------------------------------------------------------------- */

unsigned tnri_placing_begin(tnri_access *access)
{
    for (;;) {
        uint32_t epoch = atomic_load(&access->epoch);
        atomic_fetch_add(&access->placing[epoch & 1], 1);
        if (atomic_load(&access->epoch) == epoch)
            return epoch & 1;
        atomic_fetch_sub(&access->placing[epoch & 1], 1);
    }
}

void tnri_placing_end(tnri_access *access, unsigned epoch)
{
    atomic_fetch_sub(&access->placing[epoch], 1);
}

void tnri_placing_wait(tnri_access *access)
{
    tnri_assert_none_held();
    uint32_t before = atomic_fetch_add(&access->epoch, 1);
    for (unsigned round = 0; atomic_load(&access->placing[before & 1]) != 0; round++)
        tnri_rest(round);
}

/* ---- asking the driver ---------------------------------------------------------------------- */

static CUmemAccessDesc access_of(int device, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {0};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = tnri_device_at(device)->capabilities.handle;
    access.flags = flags;
    return access;
}

static CUresult pages_set(const tnri_device *device, size_t page, size_t pages,
                          const CUmemAccessDesc *wanted, size_t count)
{
    tnri_assert_none_held();
    return tnri_gpu_access(tnri_page_address(&device->space, page),
                           pages << device->space.page_shift, wanted, count);
}

tnr_status tnri_pages_access(const tnri_device *device, const tnri_access *access, size_t page,
                             size_t pages)
{
    CUmemAccessDesc wanted[TNRI_DEVICES_MAX + 1];
    size_t count = 0;
    wanted[count++] = access_of(device->gpu->index, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (tnri_device_is_host(device))
        wanted[count++] = (CUmemAccessDesc){.location = device->host.location,
                                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    uint64_t peers = atomic_load(&access->peers);
    for (; peers != 0; peers &= peers - 1)
        wanted[count++] = access_of(__builtin_ctzll(peers), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUresult result = pages_set(device, page, pages, wanted, count);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_ACCESS, "giving the device access to a chunk");
    return TNR_OK;
}

tnr_status tnri_pages_access_peer(const tnri_device *device, size_t page, size_t pages, int peer,
                                  tnr_access wanted)
{
    CUmemAccessDesc one = access_of(peer, (CUmemAccess_flags)wanted);
    CUresult result = pages_set(device, page, pages, &one, 1);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_ACCESS, "changing what a peer reaches");
    return TNR_OK;
}

tnr_status tnri_pages_access_again(const tnri_device *device, const tnri_access *access,
                                   size_t page, size_t pages)
{
    CUmemAccessDesc wanted[TNRI_DEVICES_MAX];
    size_t count = 0;
    uint64_t peers = atomic_load(&access->peers), changed = atomic_load(&access->changed);
    for (; changed != 0; changed &= changed - 1) {
        int peer = __builtin_ctzll(changed);
        wanted[count++] =
            access_of(peer, (peers >> peer & 1) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                     : CU_MEM_ACCESS_FLAGS_PROT_NONE);
    }
    CUresult result = count == 0 ? CUDA_SUCCESS : pages_set(device, page, pages, wanted, count);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_ACCESS, "giving peers access to an old mapping");
    return TNR_OK;
}

tnr_status tnri_peer_finish(int peer, const char *why)
{
    CUdevice handle = tnri_device_at(peer)->capabilities.handle;
    CUcontext context, popped;
    unsigned flags;
    int is_active = 0;
    CUresult result = tnri_gpu_context_is_active(handle, &flags, &is_active);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_CONTEXT_IS_ACTIVE, why);
    if (!is_active)
        return TNR_OK; /* no work, then */
    result = tnri_gpu_context_retain(&context, handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_CONTEXT_RETAIN, why);
    result = tnri_gpu_context_push(context);
    if (result == CUDA_SUCCESS) {
        result = tnri_gpu_context_await();
        (void)tnri_gpu_context_pop(&popped);
    }
    (void)tnri_gpu_context_release(handle);
    return result == CUDA_SUCCESS ? TNR_OK : tnri_driver_error(result, TNRI_GPU_CONTEXT_AWAIT, why);
}

tnr_status tnri_peers_finish(const tnri_access *access, const char *why)
{
    uint64_t reached = atomic_load(&access->peers);
    tnr_status status = TNR_OK;
    for (; reached != 0 && status == TNR_OK; reached &= reached - 1)
        status = tnri_peer_finish(__builtin_ctzll(reached), why);
    return status;
}

tnr_status tnri_peer_check(const tnri_device *device, int peer)
{
    int owner = device->gpu->index, can = 0;
    if (peer < 0 || peer >= tnri_devices_count() || peer == owner)
        return tnri_error(TNR_ERR_INVALID_DEVICE,
                          "device %d is not a peer of device %d: the machine has %d device%s.",
                          peer, owner, tnri_devices_count(),
                          tnri_plural((uint64_t)tnri_devices_count()));
    if (tnri_device_is_host(device))
        return TNR_OK; /* every GPU reaches that */
    CUresult result = tnri_gpu_reaches(&can, tnri_device_at(peer)->capabilities.handle,
                                       device->capabilities.handle);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_REACHES, "asking what a device reaches");
    if (!can)
        return tnri_error(TNR_ERR_NO_PEER_ACCESS,
                          "device %d cannot reach memory of device %d: the driver says that "
                          "there is no way between them. Copy by way of the host.",
                          peer, owner);
    return TNR_OK;
}
