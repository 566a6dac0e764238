/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios of memory that another device reaches. The first device uses what the second has.
 *
 * Lines changed to see them fail:
 *   service_malloc_peers_set not called in ways_apply: peers, peers_contexts, peers_refused
 *   peers_start without its loop: peers_early, peers_pools
 *   the way back in peers_set, or cuCtxDisablePeerAccess in replace_cuCtxEnablePeerAccess, left
 *     out: peers_refused
 *   peers_context_ended not called: peers_contexts
 *   device_peers in lifetime/order/batch.c 0, or service_here not called in
 *     replace_cuCtxEnablePeerAccess: peers_frees
 *   access_follow without own_open or service_async_peers_follow, own_make without own_open,
 *     pools_shared_peers without the program's pools: peers_pools
 *   graph_open not called: peers_graph
 *   copy_ends_find 0: peers_copies, peers_host_copies; end_of_driver without is_host:
 *     peers_host_copies
 *   access_of always READWRITE: peers
 */
#include "engine.h"
#include "scenarios.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 200000 };

/* The driver's codes are part of what must be the same. */
#define TELL(call) printf("%s: %d\n", #call, (int)(call))

static CUcontext contexts[2];

static void start(void)
{
    contexts[1] = engine_start(1);
    contexts[0] = engine_start(0);
}

static void use(int device)
{
    MUST(cu.cuCtxSetCurrent(contexts[device]));
}

static CUdeviceptr malloc_on(int device)
{
    CUdeviceptr block;
    use(device);
    MUST(cu.cuMemAlloc(&block, BYTES));
    use(0);
    return block;
}

static CUstream stream_on(int device)
{
    CUstream stream;
    use(device);
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    use(0);
    return stream;
}

/* What the current context's device may do with it. */
static unsigned access_to(CUdeviceptr block)
{
    unsigned flags = 99, listed = 99;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_ACCESS_FLAGS;
    void *data = &listed;
    MUST(cu.cuPointerGetAttribute(&flags, attribute, block));
    MUST(cu.cuPointerGetAttributes(1, &attribute, &data, block));
    CHECK(flags == listed);
    return flags;
}

/* The first device writes and reads what the second has. */
static void reach(CUdeviceptr block, int value)
{
    CHECK(access_to(block) == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    fill(block, value, BYTES, NULL);
    verify(block, value, BYTES, NULL);
    MUST(cu.cuCtxSynchronize());
}

/* ---- contexts ------------------------------------------------------------------------------- */

void scenario_peers(void)
{
    start();
    CUdeviceptr before = malloc_on(1), after, here = malloc_on(0), pooled;
    use(1);
    MUST(cu.cuMemAllocAsync(&pooled, BYTES, NULL));
    use(0);
    printf("before: %u, its own: %u\n", access_to(before), access_to(here));
    MUST(cu.cuCtxEnablePeerAccess(contexts[1], 0));
    TELL(cu.cuCtxEnablePeerAccess(contexts[1], 0));
    TELL(cu.cuCtxEnablePeerAccess(contexts[1], 5));
    TELL(cu.cuCtxEnablePeerAccess(contexts[0], 0));
    reach(before, 9);
    after = malloc_on(1);
    reach(after, 10);
    printf("of a pool: %u\n", access_to(pooled));
    use(1);
    printf("the other way: %u\n", access_to(here));
    use(0);
    MUST(cu.cuCtxDisablePeerAccess(contexts[1]));
    TELL(cu.cuCtxDisablePeerAccess(contexts[1]));
    printf("closed: %u %u\n", access_to(before), access_to(after));
    MUST(cu.cuCtxEnablePeerAccess(contexts[1], 0));
    reach(after, 11);
    use(1);
    verify(before, 9, BYTES, NULL);
    MUST(cu.cuMemFree(before));
    MUST(cu.cuMemFree(after));
    MUST(cu.cuMemFree(here));
    MUST(cu.cuMemFree(pooled));
}

/* Before the second device has allocated anything. */
void scenario_peers_early(void)
{
    start();
    MUST(cu.cuCtxEnablePeerAccess(contexts[1], 0));
    CUdeviceptr block = malloc_on(1);
    reach(block, 3);
    MUST(cu.cuMemFree(block));
}

/* Contexts of the program's own may use it too; the last of them closes the door. */
void scenario_peers_contexts(void)
{
    start();
    CUcontext own;
    CUdeviceptr block = malloc_on(1);
    MUST(cu.cuCtxCreate(&own, 0, 0));
    MUST(cu.cuCtxEnablePeerAccess(contexts[1], 0));
    reach(block, 4);
    use(0);
    MUST(cu.cuCtxEnablePeerAccess(contexts[1], 0));
    MUST(cu.cuCtxDestroy(own));
    reach(block, 5);
    MUST(cu.cuCtxDisablePeerAccess(contexts[1]));
    printf("closed: %u\n", access_to(block));
    MUST(cu.cuCtxCreate(&own, 0, 0));
    MUST(cu.cuCtxEnablePeerAccess(contexts[1], 0));
    reach(block, 6);
    MUST(cu.cuCtxDestroy(own));
    use(0);
    printf("closed: %u\n", access_to(block));
    MUST(cu.cuMemFree(block));
}

/* Freed while the first device still writes: nobody may get it before. At first that device has no
 * stream but its default one. */
void scenario_peers_frees(void)
{
    enum { ROUNDS = 40, PLAIN_ROUNDS = 10 };
    start();
    CUstream far[2] = {NULL, NULL}, near = stream_on(1);
    MUST(cu.cuCtxEnablePeerAccess(contexts[1], 0));
    for (int i = 0; i < ROUNDS; i++) {
        if (i == PLAIN_ROUNDS)
            far[0] = stream_on(0);
        CUdeviceptr block = malloc_on(1);
        fill(block, i, BYTES, far[i % 2]);
        use(1);
        MUST(i < PLAIN_ROUNDS || i % 6 != 0 ? cu.cuMemFree(block)
                                            : cu.cuMemFreeAsync(block, far[0]));
        MUST(cu.cuMemAlloc(&block, BYTES));
        fill(block, i + 1, BYTES, near);
        verify(block, i + 1, BYTES, near);
        MUST(cu.cuMemFree(block));
    }
    use(0);
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuStreamDestroy(far[0]));
    use(1);
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuStreamDestroy(near));
}

/* ---- pools ---------------------------------------------------------------------------------- */

static CUmemoryPool pool_of_second(size_t bytes_max)
{
    CUmemoryPool pool;
    CUmemPoolProps wanted = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                             .maxSize = bytes_max};
    MUST(cu.cuMemPoolCreate(&pool, &wanted));
    return pool;
}

static CUresult pool_open(CUmemoryPool pool, int device, int flags)
{
    CUmemAccessDesc wanted = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = (CUmemAccess_flags)flags};
    return cu.cuMemPoolSetAccess(pool, &wanted, 1);
}

static int pool_access(CUmemoryPool pool, int device)
{
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    CUmemAccess_flags flags = (CUmemAccess_flags)99;
    MUST(cu.cuMemPoolGetAccess(&flags, pool, &location));
    return (int)flags;
}

static CUdeviceptr alloc_from(CUmemoryPool pool, CUstream stream)
{
    CUdeviceptr block;
    use(1);
    MUST(cu.cuMemAllocFromPoolAsync(&block, BYTES, pool, stream));
    MUST(cu.cuStreamSynchronize(stream));
    use(0);
    return block;
}

static void pool_bad_calls(CUmemoryPool pool)
{
    CUmemoryPool gone = pool_of_second(0);
    TELL(pool_open(pool, 7, 3));
    TELL(pool_open(pool, 1, 0));
    TELL(pool_open(pool, 1, 3));
    TELL(pool_open(pool, 0, 2));
    TELL(cu.cuMemPoolSetAccess(pool, NULL, 1));
    TELL(cu.cuMemPoolSetAccess(pool, NULL, 0));
    TELL(cu.cuMemPoolGetAccess(NULL, pool, NULL));
    MUST(cu.cuMemPoolDestroy(gone));
    printf("still: %d %d\n", pool_access(pool, 0), pool_access(pool, 1));
}

/* Each kind of pool, opened before it has memory, and after. */
static void pool_in_use(CUmemoryPool pool, CUstream stream, int is_early)
{
    if (is_early)
        MUST(pool_open(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CUdeviceptr first = alloc_from(pool, stream);
    printf("begins with %u, the pool %d\n", access_to(first), pool_access(pool, 0));
    MUST(pool_open(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CUdeviceptr second = alloc_from(pool, stream);
    reach(first, 20);
    reach(second, 21);
    printf("open: the pool %d\n", pool_access(pool, 0));
    MUST(pool_open(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    printf("closed: %u %u, the pool %d\n", access_to(first), access_to(second),
           pool_access(pool, 0));
    MUST(cu.cuMemFreeAsync(first, stream));
    MUST(cu.cuMemFreeAsync(second, stream));
    use(1);
    MUST(cu.cuStreamSynchronize(stream));
    use(0);
}

void scenario_peers_pools(void)
{
    start();
    CUmemoryPool usual, early;
    CUdeviceptr block;
    MUST(cu.cuDeviceGetDefaultMemPool(&usual, 1));
    /* Before Tenure, or anybody, has memory there. */
    MUST(pool_open(usual, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CUstream stream = stream_on(1);
    use(1);
    MUST(cu.cuMemAllocAsync(&block, BYTES, stream));
    MUST(cu.cuStreamSynchronize(stream));
    use(0);
    reach(block, 19);
    MUST(cu.cuMemFreeAsync(block, stream));
    MUST(pool_open(usual, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    pool_in_use(usual, stream, 0);
    pool_bad_calls(usual);
    for (int i = 0; i < 4; i++) {
        early = pool_of_second(i < 2 ? 0 : (size_t)64 << 20);
        pool_in_use(early, stream, i % 2);
        MUST(cu.cuMemPoolDestroy(early));
    }
    /* What cuMemAlloc gives has nothing to do with it. */
    MUST(pool_open(usual, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    block = malloc_on(1);
    printf("no pool's: %u\n", access_to(block));
    MUST(cu.cuMemFree(block));
    MUST(cu.cuStreamDestroy(stream));
}

/* Memory that a capture allocates is as its pool is. Not in the simulation alone, which has no such
 * nodes. */
void scenario_peers_graph(void)
{
    start();
    CUmemoryPool usual;
    CUdeviceptr block;
    CUgraph graph;
    CUstream stream = stream_on(1);
    MUST(cu.cuDeviceGetDefaultMemPool(&usual, 1));
    MUST(pool_open(usual, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    use(1);
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.cuMemAllocAsync(&block, BYTES, stream));
    use(0);
    printf("in the capture: %u\n", access_to(block));
    use(1);
    MUST(cu.cuMemFreeAsync(block, stream));
    MUST(cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphDestroy(graph));
    MUST(cu.cuStreamDestroy(stream));
}

/* ---- copies --------------------------------------------------------------------------------- */

enum { COPIES = 6 };

static CUresult copy_in_way(int way, CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
    switch (way) {
    case 0:
        return cu.cuMemcpyDtoDAsync(to, from, BYTES, stream);
    case 1:
        return cu.cuMemcpyAsync(to, from, BYTES, stream);
    case 2:
        return cu.cuMemcpyDtoD(to, from, BYTES);
    case 3:
        return cu.cuMemcpy(to, from, BYTES);
    case 4:
        return cu.cuMemcpyPeerAsync(to, contexts[0], from, contexts[1], BYTES, stream);
    default:
        return cu.cuMemcpyPeer(to, contexts[0], from, contexts[1], BYTES);
    }
}

/* From the second device to the first, with the context of either; access or not. The driver's own
 * memory needs none. */
void scenario_peers_copies(void)
{
    start();
    CUstream streams[2] = {stream_on(0), stream_on(1)};
    for (int i = 0; i < COPIES * 4; i++) {
        int here = i / COPIES % 2, value = i + 1;
        if (i == COPIES * 2)
            MUST(cu.cuCtxEnablePeerAccess(contexts[1], 0));
        CUdeviceptr from = malloc_on(1), to = malloc_on(0);
        use(1);
        fill(from, value, BYTES, NULL);
        MUST(cu.cuCtxSynchronize());
        use(here);
        MUST(copy_in_way(i % COPIES, to, from, streams[here]));
        MUST(cu.cuStreamSynchronize(streams[here]));
        MUST(cu.cuCtxSynchronize());
        use(0);
        verify(to, value, BYTES, NULL);
        MUST(cu.cuMemFree(to));
        MUST(cu.cuMemFree(from));
    }
    MUST(cu.cuStreamDestroy(streams[0]));
    use(1);
    MUST(cu.cuStreamDestroy(streams[1]));
}

enum { HOST_COPIES = 4 };

static CUresult host_copy_to(int way, CUdeviceptr to, const void *from, CUstream stream)
{
    switch (way) {
    case 0:
        return cu.cuMemcpyHtoDAsync(to, from, BYTES, stream);
    case 1:
        return cu.cuMemcpyAsync(to, (CUdeviceptr)(uintptr_t)from, BYTES, stream);
    case 2:
        return cu.cuMemcpyHtoD(to, from, BYTES);
    default:
        return cu.cuMemcpy(to, (CUdeviceptr)(uintptr_t)from, BYTES);
    }
}

static CUresult host_copy_from(int way, void *to, CUdeviceptr from, CUstream stream)
{
    switch (way) {
    case 0:
        return cu.cuMemcpyDtoHAsync(to, from, BYTES, stream);
    case 1:
        return cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, from, BYTES, stream);
    case 2:
        return cu.cuMemcpyDtoH(to, from, BYTES);
    default:
        return cu.cuMemcpy((CUdeviceptr)(uintptr_t)to, from, BYTES);
    }
}

/* From and to the host, by the first device what the second has: pinned memory and not, on a stream
 * and on the default one, without access and with it. Nor does the driver's own memory need any. */
void scenario_peers_host_copies(void)
{
    start();
    unsigned char *pageable = malloc(BYTES), *pinned;
    CHECK(pageable != NULL);
    CUdeviceptr there = malloc_on(1);
    MUST(cu.cuMemHostAlloc((void **)&pinned, BYTES, 1 /* portable */));
    CUstream streams[2] = {NULL, stream_on(0)};
    for (int i = 0; i < HOST_COPIES * 8; i++) {
        unsigned char *host = i / HOST_COPIES % 2 ? pinned : pageable;
        CUstream stream = streams[i / HOST_COPIES / 2 % 2];
        int value = 2 * i + 1;
        if (i == HOST_COPIES * 4)
            MUST(cu.cuCtxEnablePeerAccess(contexts[1], 0));
        memset(host, value, BYTES);
        MUST(host_copy_to(i % HOST_COPIES, there, host, stream));
        MUST(cu.cuCtxSynchronize());
        use(1);
        verify(there, value, BYTES, NULL);
        fill(there, value + 1, BYTES, NULL);
        MUST(cu.cuCtxSynchronize());
        use(0);
        MUST(host_copy_from(i % HOST_COPIES, host, there, stream));
        MUST(cu.cuCtxSynchronize());
        for (int at = 0; at < BYTES; at += BYTES - 1)
            CHECK(host[at] == (unsigned char)(value + 1));
    }
    MUST(cu.cuStreamDestroy(streams[1]));
    MUST(cu.cuMemFree(there));
    MUST(cu.cuMemFreeHost(pinned));
    free(pageable);
}

/* ---- failing -------------------------------------------------------------------------------- */

/* The test has the driver refuse what Tenure asks for the first time. */
void scenario_peers_refused(void)
{
    start();
    CUmemoryPool usual;
    CUdeviceptr block = malloc_on(1);
    MUST(cu.cuDeviceGetDefaultMemPool(&usual, 1));
    TELL(cu.cuCtxEnablePeerAccess(contexts[1], 0));
    printf("refused: %u\n", access_to(block));
    MUST(cu.cuCtxEnablePeerAccess(contexts[1], 0)); /* it had not been enabled, then */
    reach(block, 12);
    MUST(cu.cuMemFree(block));
}
