/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuCtxEnablePeerAccess: from now on the current context may use what cuMemAlloc gives and gave in
 * the peer's context. What Tenure serves belongs to primary contexts, and is mapped for devices,
 * not for contexts. So a device has access to the memory of another device as long as one of its
 * contexts may use it. Memory of cuMemAllocAsync comes from pools, which have access rights of
 * their own: pools.c.
 *
 * The driver is asked first. If Tenure cannot follow, the driver takes back what it has done, and
 * the program gets the error.
 *
 * The mutex here is taken before the service's.
 */
#include "peers.h"

#include <pthread.h>
#include <stdlib.h>

#include "handles.h"

/* A context that may use memory of a device. */
typedef struct way {
    struct way *next;
    CUcontext from;
    int device; /* of that context */
    int owner;  /* whose memory it may use: what its primary context has */
} way;

static struct {
    pthread_mutex_t mutex;
    way *list; /* the mutex */
} ways = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Has the service do what the list says of a device's memory. Under the mutex. */
static CUresult ways_apply(int owner)
{
    uint64_t peers = 0;
    for (const way *one = ways.list; one != NULL; one = one->next)
        if (one->owner == owner)
            peers |= UINT64_C(1) << one->device;
    return service_malloc_peers_set(owner, peers);
}

/* Under the mutex. */
static way **way_find(CUcontext from, int owner)
{
    way **link = &ways.list;
    while (*link != NULL && ((*link)->from != from || (*link)->owner != owner))
        link = &(*link)->next;
    return link;
}

static void way_remove(way **link)
{
    way *gone = *link;
    *link = gone->next;
    free(gone);
}

static CUresult way_open(CUcontext from, int device, int owner)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&ways.mutex);
    way **link = way_find(from, owner);
    if (*link == NULL)
        *link = calloc(1, sizeof(**link));
    if (*link != NULL) {
        (*link)->from = from;
        (*link)->device = device;
        (*link)->owner = owner;
        result = ways_apply(owner);
        if (result != CUDA_SUCCESS)
            way_remove(link);
    }
    pthread_mutex_unlock(&ways.mutex);
    return result;
}

static void way_close(CUcontext from, int owner)
{
    pthread_mutex_lock(&ways.mutex);
    way **link = way_find(from, owner);
    if (*link != NULL) {
        way_remove(link);
        (void)ways_apply(owner);
    }
    pthread_mutex_unlock(&ways.mutex);
}

/* Removes what is of a context, or from or to a device (-1: none). */
static void ways_forget(CUcontext from, int device)
{
    uint64_t changed = 0;
    pthread_mutex_lock(&ways.mutex);
    for (way **link = &ways.list; *link != NULL;) {
        const way *one = *link;
        int is_gone =
            from != NULL ? one->from == from : one->owner == device || one->device == device;
        if (is_gone) {
            changed |= UINT64_C(1) << one->owner;
            way_remove(link);
        } else {
            link = &(*link)->next;
        }
    }
    for (int i = 0; changed >> i != 0; i++)
        if ((changed >> i & 1) != 0)
            (void)ways_apply(i);
    pthread_mutex_unlock(&ways.mutex);
}

void peers_context_ended(CUcontext context)
{
    if (context == NULL || !service_enter())
        return;
    ways_forget(context, -1);
    service_leave();
}

void peers_device_resets(int device)
{
    ways_forget(NULL, device);
}

int peers_may(int device, CUdeviceptr address)
{
    tnr_block_info block;
    tnr_access access = TNR_ACCESS_NONE;
    if (tnr_block_get(&block, (const void *)(uintptr_t)address) != TNR_OK)
        return 0;
    tnr_status status = tnr_pool_access_get(&access, block.pool, block.device, device);
    return status == TNR_OK && access != TNR_ACCESS_NONE;
}

/* ---- the driver's calls --------------------------------------------------------------------- */

/* The current context and its device, and the device whose memory the peer's context has, if that
 * is one that Tenure serves. */
static int ends_find(CUcontext peer, CUcontext *from, int *device, int *owner)
{
    CUdevice here;
    if (REAL(cuCtxGetCurrent, (from)) != CUDA_SUCCESS ||
        REAL(cuCtxGetDevice, (&here)) != CUDA_SUCCESS || here >= SERVICE_DEVICES_MAX)
        return 0;
    *device = here;
    *owner = service_device_of(peer);
    return *owner >= 0;
}

CUresult CUDAAPI replace_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CUcontext from;
    int device, owner;
    CUresult result = REAL(cuCtxEnablePeerAccess, (peer, flags));
    if (result != CUDA_SUCCESS || !service_enter())
        return result;
    if (ends_find(peer, &from, &device, &owner)) {
        /* Frees of the memory are ordered after what this context's streams do: so they are to be
         * known from now on. */
        (void)service_here();
        result = way_open(from, device, owner);
    }
    if (result != CUDA_SUCCESS)
        (void)REAL(cuCtxDisablePeerAccess, (peer));
    service_leave();
    return result;
}

CUresult CUDAAPI replace_cuCtxDisablePeerAccess(CUcontext peer)
{
    CUcontext from;
    int device, owner;
    CUresult result = REAL(cuCtxDisablePeerAccess, (peer));
    if (result != CUDA_SUCCESS || !service_enter())
        return result;
    if (ends_find(peer, &from, &device, &owner)) {
        /* Closing waits for the primary context's work; this one's, too. */
        if (service_device_of(from) < 0)
            (void)REAL(cuCtxSynchronize, ());
        way_close(from, owner);
    }
    service_leave();
    return result;
}
