/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions about memory that other devices reach: checks, and waiting for a peer. */
#include <tenure/alloc.h>

#include "api/library.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "gpu/capturing.h"
#include "memory/device/segment.h"
#include "memory/pool/handle.h"
#include "memory/pool/peers.h"
#include "memory/pool/pool.h"

#define ACCESS_IS_THEIRS "who reaches it is for its owner to say"

/* Waits for the work of a peer that may use the memory that is being closed. */
static tnr_status peer_finish(int peer)
{
    if (tnri_capturing())
        return tnri_error(TNR_ERR_CAPTURE,
                          "closing memory to device %d waits for its work, which a capture under "
                          "way forbids. End the capture first.",
                          peer);
    return tnri_peer_finish(peer, "closing memory to a peer");
}

static tnr_status change_check(const tnri_device *device, int peer, tnr_access access)
{
    if (access != TNR_ACCESS_NONE && access != TNR_ACCESS_READWRITE)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "%d is not an access: TNR_ACCESS_NONE or TNR_ACCESS_READWRITE.",
                          (int)access);
    tnr_status status = tnri_peer_check(device, peer);
    if (status != TNR_OK || access != TNR_ACCESS_NONE)
        return status;
    return peer_finish(peer);
}

static tnr_status change_begin(tnri_device *device, tnri_visit *visit, int peer, tnr_access access)
{
    tnr_status status = tnri_device_enter(device, visit);
    if (status != TNR_OK)
        return status;
    status = change_check(device, peer, access);
    if (status != TNR_OK)
        tnri_device_leave(visit);
    return status;
}

/* ---- public --------------------------------------------------------------------------------- */

tnr_status tnr_pool_access_set(tnr_pool handle, int device, int peer, tnr_access access)
{
    TNRI_CALM_CALL;
    tnr_pool pool;
    tnri_visit visit;
    tnr_status status = tnri_library_pool_named(handle, device, &pool);
    if (status != TNR_OK)
        return status;
    status = tnri_segment_refuse(&pool->account, ACCESS_IS_THEIRS);
    if (status == TNR_OK)
        status = change_begin(pool->device, &visit, peer, access);
    if (status == TNR_OK) {
        status = tnri_pool_access(pool, peer, access);
        tnri_device_leave(&visit);
    }
    tnri_pool_drop(pool);
    return status;
}

tnr_status tnr_pool_access_get(tnr_access *access, tnr_pool handle, int device, int peer)
{
    TNRI_CALM_CALL;
    tnr_pool pool;
    if (access == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_pool_access_get: access is null.");
    *access = TNR_ACCESS_NONE;
    tnr_status status = tnri_library_pool_named(handle, device, &pool);
    if (status != TNR_OK)
        return status;
    if (tnri_account_is_foreign(&pool->account))
        status = tnri_segment_refuse(&pool->account, ACCESS_IS_THEIRS);
    else if (peer == pool->device->index)
        *access = TNR_ACCESS_READWRITE;
    else if (peer < 0 || peer >= tnri_devices_count())
        status = tnri_error(TNR_ERR_INVALID_DEVICE, "there is no device %d: there are %d.", peer,
                            tnri_devices_count());
    else
        *access = tnri_access_get(&pool->account.access, peer);
    tnri_pool_drop(pool);
    return status;
}

tnr_status tnr_device_access_set(int index, int peer, tnr_access access)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    tnri_visit visit;
    tnr_status status = tnri_library_device(index, &device);
    if (status == TNR_OK)
        status = change_begin(device, &visit, peer, access);
    if (status != TNR_OK)
        return status;
    status = tnri_device_access(device, peer, access);
    tnri_device_leave(&visit);
    return status;
}
