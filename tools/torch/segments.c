/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment provider for torch.cuda.MemPool. PyTorch's own allocator stays, with its caching, its
 * statistics and its snapshots. Tenure only serves the segments that PyTorch carves up (2 MiB, 20
 * MiB, or the size of one large request). Segments are large blocks of one ordinary pool per
 * device. So they can be limited, exported or made fit for network cards apart from everything
 * else, and chunks of freed segments serve new segments of other sizes without the driver.
 *
 * They are not growable blocks: PyTorch never grows a segment of a custom allocator.
 *
 * PyTorch gives segments back where it would call cudaFree, which waits for the device, because
 * blocks of the segment may have been used on any stream. So the free here has that meaning too
 * (tnr_free_sync), without stopping the host.
 */
#include "tenure_torch.h"

#include <pthread.h>

enum { DEVICES_MAX = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static tnr_pool pools[DEVICES_MAX]; /* of mutex; null until the first segment */
static tnr_pool_options options = TNR_POOL_OPTIONS_INIT; /* of mutex */

int tenure_torch_segment_options(size_t limit_bytes, size_t release_threshold_bytes,
                                 int handle_type, int gpu_direct_rdma)
{
    tnr_status status = TNR_OK;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < DEVICES_MAX && status == TNR_OK; i++)
        if (pools[i] != NULL) {
            status = tnr_pool_destroy(pools[i]);
            if (status == TNR_OK)
                pools[i] = NULL;
        }
    if (status == TNR_OK) {
        options.limit_bytes = limit_bytes;
        options.release_threshold_bytes = release_threshold_bytes;
        options.handle_type = (tnr_handle_type)handle_type;
        options.gpu_direct_rdma = gpu_direct_rdma;
    }
    pthread_mutex_unlock(&mutex);
    return (int)status;
}

/* The device's pool, made when it is first asked for. */
static tnr_status pool_get(int device, tnr_pool *pool)
{
    tnr_status status = TNR_OK;
    if (device < 0 || device >= DEVICES_MAX)
        return TNR_ERR_INVALID_DEVICE;
    pthread_mutex_lock(&mutex);
    if (pools[device] == NULL) {
        options.name = "torch segments";
        status = tnr_pool_create(&pools[device], device, &options);
        if (status != TNR_OK)
            pools[device] = NULL;
    }
    *pool = pools[device];
    pthread_mutex_unlock(&mutex);
    return status;
}

/* Null is an answer that PyTorch understands here: it frees what it can spare, asks again, and
 * raises its own out-of-memory error with its own statistics. Nothing is printed or thrown. */
void *tenure_torch_segment_malloc(size_t bytes, int device, tnr_stream stream)
{
    void *ptr = NULL;
    tnr_pool pool;
    tnr_status status = pool_get(device, &pool);
    if (status == TNR_OK)
        status = tnr_pool_malloc(&ptr, pool, bytes, device, stream);
    if (status != TNR_OK && status != TNR_ERR_OUT_OF_MEMORY && status != TNR_ERR_LIMIT)
        torch_failed_quietly("a segment for torch.cuda.MemPool");
    return ptr;
}

void tenure_torch_segment_free(void *ptr, size_t bytes, int device, tnr_stream stream)
{
    (void)bytes;
    (void)device;
    (void)stream;
    if (tnr_free_sync(ptr) != TNR_OK)
        torch_failed_quietly("tnr_free_sync");
}
