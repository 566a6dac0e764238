/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's memory pools. Tenure serves a pool of the program's if the pool promises nothing
 * that Tenure does not. It serves it from Tenure's default pool of the device. If the program's
 * pool has a limit, a Tenure pool of its own stands in for it. The device's default pool is served
 * from Tenure's.
 *
 * The driver remembers which devices have access to a pool: it is told first, and asked when there
 * is something to open. A pool of Tenure's that stands in for several pools is open to every device
 * that has access to one of them. A destroyed pool leaves blocks behind. Its peers reach them as
 * long as before.
 *
 * The mutex is never held while the service's is taken.
 */
#include "pools.h"

#include <pthread.h>
#include <stdlib.h>

#include "handles.h"

/* A pool of plain memory of one device. */
typedef struct plain_pool {
    struct plain_pool *next; /* the mutex */
    CUmemoryPool pool;
    int device;
    size_t bytes_max;      /* as the program said; 0: no limit, and nothing of its own */
    _Atomic(tnr_pool) own; /* ours in its stead, if it has a limit: made when it is first needed */
} plain_pool;

static handles pools_plain = HANDLES_INIT; /* pool -> plain_pool */

static struct {
    pthread_mutex_t mutex; /* whoever makes or ends a pool, or changes who is let in to one */
    plain_pool *list;      /* the mutex */
    uint64_t left[SERVICE_DEVICES_MAX]; /* peers of shared pools that are gone; the mutex */
} pools = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static plain_pool *plain_of(CUmemoryPool pool)
{
    uint64_t value;
    return handles_get(&pools_plain, pool, &value) ? (plain_pool *)(uintptr_t)value : NULL;
}

/* ---- who is let in -------------------------------------------------------------------------- */

/* A bit for each other device that the driver lets in to its pool. */
static uint64_t driver_peers(CUmemoryPool pool, int device)
{
    uint64_t peers = 0;
    int count = 0;
    (void)REAL(cuDeviceGetCount, (&count));
    for (int i = 0; i < count && i < SERVICE_DEVICES_MAX; i++) {
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i};
        CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
        if (i != device && REAL(cuMemPoolGetAccess, (&flags, pool, &location)) == CUDA_SUCCESS &&
            flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            peers |= UINT64_C(1) << i;
    }
    return peers;
}

static CUmemoryPool default_of(int device)
{
    CUmemoryPool usual = NULL;
    (void)REAL(cuDeviceGetDefaultMemPool, (&usual, (CUdevice)device));
    return usual;
}

uint64_t pools_shared_peers(int device)
{
    CUmemoryPool usual = default_of(device);
    uint64_t peers = usual == NULL ? 0 : driver_peers(usual, device);
    pthread_mutex_lock(&pools.mutex);
    peers |= pools.left[device];
    for (const plain_pool *plain = pools.list; plain != NULL; plain = plain->next)
        if (plain->device == device && plain->bytes_max == 0)
            peers |= driver_peers(plain->pool, device);
    pthread_mutex_unlock(&pools.mutex);
    return peers;
}

/* Lets in to a pool of ours whom the driver lets in to its own. Under the mutex. */
static tnr_status own_open(const plain_pool *plain, tnr_pool own)
{
    uint64_t peers = driver_peers(plain->pool, plain->device);
    int count = 0;
    tnr_status status = TNR_OK;
    (void)REAL(cuDeviceGetCount, (&count));
    for (int i = 0; i < count && i < SERVICE_DEVICES_MAX && status == TNR_OK; i++) {
        tnr_access before, wanted = (peers >> i & 1) != 0 ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE;
        if (i == plain->device)
            continue;
        status = tnr_pool_access_get(&before, own, plain->device, i);
        if (status != TNR_OK || before == wanted)
            continue;
        status = tnr_pool_access_set(own, plain->device, i, wanted);
        if (wanted == TNR_ACCESS_NONE)
            status = TNR_OK; /* what cannot be closed stays open */
    }
    return status;
}

/* The driver has changed who is let in to a pool: Tenure follows. */
static CUresult access_follow(CUmemoryPool pool)
{
    int count = 0;
    pthread_mutex_lock(&pools.mutex);
    const plain_pool *plain = plain_of(pool);
    tnr_pool own = plain == NULL ? NULL : atomic_load(&plain->own);
    tnr_status status = own == NULL ? TNR_OK : own_open(plain, own);
    int device = plain != NULL && plain->bytes_max == 0 ? plain->device : -1;
    pthread_mutex_unlock(&pools.mutex);
    if (status != TNR_OK) {
        CUresult result = service_result(status);
        service_say("a memory pool cannot be opened to another device. %s", tnr_last_error());
        return result;
    }
    if (plain == NULL)
        (void)REAL(cuDeviceGetCount, (&count));
    for (int i = 0; i < count && i < SERVICE_DEVICES_MAX && device < 0; i++)
        if (default_of(i) == pool)
            device = i;
    return device < 0 ? CUDA_SUCCESS : service_async_peers_follow(device);
}

/* Has the driver's pool be as it was before a change. */
static void access_restore(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count,
                           const CUmemAccess_flags *before)
{
    for (size_t i = 0; i < count; i++) {
        CUmemAccessDesc one = map[i];
        one.flags = before[i];
        (void)REAL(cuMemPoolSetAccess, (pool, &one, 1));
    }
}

CUresult CUDAAPI replace_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map,
                                            size_t count)
{
    CUmemAccess_flags before[SERVICE_DEVICES_MAX] = {0};
    int is_ours = map != NULL && count > 0 && count <= SERVICE_DEVICES_MAX && service_enter();
    for (size_t i = 0; is_ours && i < count; i++) {
        CUmemLocation location = map[i].location;
        (void)REAL(cuMemPoolGetAccess, (&before[i], pool, &location));
    }
    CUresult result = REAL(cuMemPoolSetAccess, (pool, map, count));
    if (!is_ours)
        return result;
    CUresult followed = result == CUDA_SUCCESS ? access_follow(pool) : result;
    if (followed != result)
        access_restore(pool, map, count, before);
    service_leave();
    return followed;
}

/* ---- standing in ---------------------------------------------------------------------------- */

/* Makes the pool that stands in for one with a limit. Null: it cannot be. */
static tnr_pool own_make(plain_pool *plain)
{
    pthread_mutex_lock(&pools.mutex);
    tnr_pool own = atomic_load(&plain->own);
    if (own == NULL) {
        tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
        options.limit_bytes = plain->bytes_max;
        options.name = "cudaMemPool";
        tnr_status status = tnr_pool_create(&own, plain->device, &options);
        if (status == TNR_OK && own_open(plain, own) != TNR_OK) {
            status = tnr_pool_destroy(own);
            own = NULL;
        }
        atomic_store(&plain->own, status == TNR_OK ? own : NULL);
    }
    own = atomic_load(&plain->own);
    pthread_mutex_unlock(&pools.mutex);
    return own;
}

int pools_stand_in(const service_device *device, CUmemoryPool pool, tnr_pool *own)
{
    *own = NULL;
    if (pool == NULL)
        return !atomic_load(&device->is_pool_taken);
    if (pool == device->driver_pool)
        return 1;
    plain_pool *plain = plain_of(pool);
    if (plain == NULL || plain->device != device->index)
        return 0;
    if (plain->bytes_max == 0)
        return 1;
    *own = atomic_load(&plain->own);
    if (*own == NULL)
        *own = own_make(plain);
    return *own != NULL;
}

void pools_forget(int device)
{
    pthread_mutex_lock(&pools.mutex);
    pools.left[device] = 0;
    for (plain_pool *plain = pools.list; plain != NULL; plain = plain->next)
        if (plain->device == device)
            atomic_store(&plain->own, NULL);
    pthread_mutex_unlock(&pools.mutex);
}

/* ---- the driver's calls --------------------------------------------------------------------- */

/* A pool of plain memory of one device. Memory of any other comes from the driver, which alone can
 * export it, or put it elsewhere. */
static int is_plain(const CUmemPoolProps *properties)
{
    return properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
           properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
           properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           properties->location.id >= 0 && properties->location.id < SERVICE_DEVICES_MAX;
}

CUresult CUDAAPI replace_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult result = REAL(cuMemPoolCreate, (pool, properties));
    if (result != CUDA_SUCCESS || !is_plain(properties) || !service_enter())
        return result;
    plain_pool *plain = calloc(1, sizeof(*plain));
    if (plain != NULL) {
        plain->pool = *pool;
        plain->device = properties->location.id;
        plain->bytes_max = properties->maxSize;
        pthread_mutex_lock(&pools.mutex);
        plain->next = pools.list;
        pools.list = plain;
        handles_set(&pools_plain, *pool, (uint64_t)(uintptr_t)plain);
        pthread_mutex_unlock(&pools.mutex);
    }
    service_leave();
    return result;
}

/* Under the mutex. */
static void plain_unlink(const plain_pool *gone)
{
    plain_pool **link = &pools.list;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    if (gone->bytes_max == 0)
        pools.left[gone->device] |= driver_peers(gone->pool, gone->device);
}

/* Blocks of a pool outlive it, with the driver as with us: ours then stays until the end. */
CUresult CUDAAPI replace_cuMemPoolDestroy(CUmemoryPool pool)
{
    uint64_t value;
    if (service_enter()) {
        if (handles_take(&pools_plain, pool, &value)) {
            plain_pool *plain = (plain_pool *)(uintptr_t)value;
            pthread_mutex_lock(&pools.mutex);
            plain_unlink(plain);
            tnr_pool own = atomic_load(&plain->own);
            tnr_status ended = own == NULL ? TNR_OK : tnr_pool_destroy(own);
            (void)ended;
            pthread_mutex_unlock(&pools.mutex);
            free(plain);
        }
        service_leave();
    }
    return REAL(cuMemPoolDestroy, (pool));
}

CUresult CUDAAPI replace_cuDeviceSetMemPool(CUdevice index, CUmemoryPool pool)
{
    CUresult result = REAL(cuDeviceSetMemPool, (index, pool));
    if (result != CUDA_SUCCESS || index < 0 || index >= SERVICE_DEVICES_MAX || !service_enter())
        return result;
    const plain_pool *plain = plain_of(pool);
    int is_ours = pool == default_of(index) ||
                  (plain != NULL && plain->device == index && plain->bytes_max == 0);
    atomic_store(&service_device_at(index)->is_pool_taken, !is_ours);
    service_leave();
    return result;
}
