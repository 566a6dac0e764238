/* SPDX-License-Identifier: Apache-2.0 */
/* An owner of foreign segments: see owner.h. */
#include "owner.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

owner the_owner = {.device = -1};
static pthread_mutex_t owner_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- memory --------------------------------------------------------------------------------- */

/* A call of the owner's own that fails while he takes memory back is his own business: he goes on
 * with it later. 1 if all is gone. */
static int memory_unmap(owner_segment *segment)
{
    CUdeviceptr address = (CUdeviceptr)segment->ptr;
    if (segment->undone == 0)
        segment->undone += cuMemUnmap(address, segment->bytes) == CUDA_SUCCESS;
    if (segment->undone == 1)
        segment->undone += cuMemAddressFree(address, segment->bytes) == CUDA_SUCCESS;
    if (segment->undone == 2)
        segment->undone += cuMemRelease(segment->handle) == CUDA_SUCCESS;
    return segment->undone == 3;
}

/* Undoes a mapping half way, as far as it came. */
static void memory_undo(owner_segment *segment, CUdeviceptr address, int undone)
{
    owner_segment *kept = NULL;
    segment->ptr = (void *)address;
    segment->undone = undone;
    if (memory_unmap(segment))
        return;
    for (kept = the_owner.returned; kept->bytes != 0;)
        kept++;
    *kept = *segment;
}

static int memory_map(owner_segment *segment, int device)
{
    CUmemAllocationProp properties = {0};
    CUmemAccessDesc access = {0};
    CUdeviceptr address = 0;
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (cuMemCreate(&segment->handle, segment->bytes, &properties, 0) != CUDA_SUCCESS)
        return 0;
    int undone = cuMemAddressReserve(&address, segment->bytes, 0, 0, 0) != CUDA_SUCCESS     ? 2
                 : cuMemMap(address, segment->bytes, 0, segment->handle, 0) != CUDA_SUCCESS ? 1
                 : cuMemSetAccess(address, segment->bytes, &access, 1) != CUDA_SUCCESS      ? 0
                                                                                            : -1;
    if (undone < 0)
        segment->ptr = (void *)address;
    else
        memory_undo(segment, address, undone);
    return undone < 0;
}

static void owner_settle(owner *own)
{
    for (owner_segment *kept = own->returned; kept->bytes != 0; kept++)
        assert_true(kept->undone == 3 || memory_unmap(kept));
    for (int i = 0; i < OWNER_SEGMENTS; i++)
        if (own->segments[i].is_cached) {
            assert_true(memory_unmap(&own->segments[i]));
            own->segments[i] = (owner_segment){0};
        }
}

/* ---- the callbacks -------------------------------------------------------------------------- */

static owner_segment *segment_place(owner *own)
{
    for (int i = 0; i < OWNER_SEGMENTS; i++)
        if (own->segments[i].ptr == NULL)
            return &own->segments[i];
    fail_msg("the owner has given %d segments", OWNER_SEGMENTS);
    return NULL;
}

/* Memory that was given before; null: none of that size. */
static void *segment_again(owner *own, size_t bytes, int device, tnr_stream stream)
{
    for (int i = 0; i < OWNER_SEGMENTS; i++) {
        owner_segment *segment = &own->segments[i];
        if (!segment->is_cached || segment->bytes != bytes || segment->device != device)
            continue;
        segment->is_cached = 0;
        segment->stream = stream;
        own->lives++;
        return segment->ptr;
    }
    return NULL;
}

static void *segment_make(owner *own, size_t bytes, int device, tnr_stream stream)
{
    owner_segment made = {.bytes = bytes, .device = device, .stream = stream};
    void *again = segment_again(own, bytes, device, stream);
    if (again != NULL)
        return again;
    if (!memory_map(&made, own->device < 0 ? device : own->device)) {
        own->failures++;
        return NULL;
    }
    *segment_place(own) = made;
    own->lives++;
    return made.ptr;
}

void *owner_alloc(size_t bytes, int device, tnr_stream stream, void *user)
{
    owner *own = user;
    CUcontext context = NULL;
    void *ptr = NULL;
    if (cuCtxGetCurrent(&context) == CUDA_SUCCESS)
        assert_non_null(context);
    assert_true(bytes > 0 && bytes % (2 * MIB) == 0);
    if (own->inside != NULL)
        own->inside(own, 1);
    assert_int_equal(pthread_mutex_lock(&owner_lock), 0);
    own->allocs++;
    if (own->fail_from != 0 && own->allocs >= own->fail_from) {
        own->failures++;
    } else if (own->instead != NULL) {
        ptr = own->instead(own);
        own->instead = NULL;
    } else {
        ptr = segment_make(own, bytes, device, stream);
    }
    assert_int_equal(pthread_mutex_unlock(&owner_lock), 0);
    return ptr;
}

void owner_free(void *ptr, size_t bytes, int device, tnr_stream stream, void *user)
{
    owner *own = user;
    if (own->inside != NULL)
        own->inside(own, 0);
    assert_int_equal(pthread_mutex_lock(&owner_lock), 0);
    own->frees++;
    for (int i = 0; i < OWNER_SEGMENTS; i++) {
        owner_segment *segment = &own->segments[i];
        if (segment->ptr == NULL || segment->ptr != ptr || segment->is_cached)
            continue;
        assert_int_equal(segment->bytes, bytes);
        assert_int_equal(segment->device, device);
        assert_ptr_equal(segment->stream, stream);
        segment->is_cached = own->caches;
        if (!own->caches) {
            memory_undo(segment, (CUdeviceptr)ptr, 0);
            segment->ptr = NULL;
        }
        own->lives--;
        break;
    }
    assert_int_equal(pthread_mutex_unlock(&owner_lock), 0);
    if (own->lingers_us > 0)
        usleep((unsigned)own->lingers_us);
}

/* ---- for tests ------------------------------------------------------------------------------ */

void owner_reset(void)
{
    assert_int_equal(the_owner.lives, 0);
    memset(&the_owner, 0, sizeof(the_owner));
    the_owner.device = -1;
}

const owner_segment *owner_find(const void *ptr)
{
    for (int i = 0; i < OWNER_SEGMENTS; i++) {
        const owner_segment *segment = &the_owner.segments[i];
        if (segment->ptr != NULL && !segment->is_cached &&
            (uintptr_t)ptr - (uintptr_t)segment->ptr < segment->bytes)
            return segment;
    }
    return NULL;
}

tnr_pool_options owner_options(void)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = "owned";
    options.segment_alloc = owner_alloc;
    options.segment_free = owner_free;
    options.segment_user = &the_owner;
    return options;
}

tnr_pool owner_pool(void)
{
    tnr_pool pool;
    tnr_pool_options options = owner_options();
    owner_reset();
    assert_ok(tnr_pool_create(&pool, 0, &options));
    return pool;
}

int owner_stop(void **state)
{
    the_owner.inside = NULL;
    owner_settle(&the_owner);
    int failed = unit_stop(state);
    if (the_owner.lives == 0)
        return failed;
    print_error("%d segments never came back to their owner\n", the_owner.lives);
    the_owner.lives = 0;
    return -1;
}
