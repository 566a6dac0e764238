/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program has said of ranges of managed memory: where to prefetch them, where they should
 * be, who reads them. Nothing depends on it here; it is what the program is told when it asks.
 *
 * Spans are sorted and do not overlap. Bytes that no span has were never spoken of.
 */
#include "rt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct said_of {
    struct cudaMemLocation prefetched, preferred; /* of type Invalid: none */
    uint64_t accessed_by;                         /* a bit for each device */
    int is_host_accessor;
    int is_read_mostly;
} said_of;

typedef struct span {
    uintptr_t begin, end;
    said_of said;
} span;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static span *spans; /* under the lock, with the two numbers */
static size_t span_count, span_room;

/* ---- spans ---------------------------------------------------------------------------------- */

/* The first that ends after `address`. */
static size_t span_after(uintptr_t address)
{
    size_t low = 0, high = span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void span_insert(size_t at, uintptr_t begin, uintptr_t end, const said_of *said)
{
    memmove(spans + at + 1, spans + at, (span_count - at) * sizeof(*spans));
    spans[at] = (span){begin, end, *said};
    span_count++;
}

/* Has a span begin at `address` if one has bytes on both sides of it. There is room. */
static void span_split(uintptr_t address)
{
    size_t i = span_after(address);
    if (i == span_count || spans[i].begin >= address)
        return;
    span_insert(i + 1, address, spans[i].end, &spans[i].said);
    spans[i].end = address;
}

/* Has spans cover the range, and begin and end with it; 0 when memory is short. */
static int spans_cover(uintptr_t begin, uintptr_t end)
{
    const said_of nothing = {0};
    size_t needed = span_count * 2 + 3; /* two splits, and a gap before each and at the end */
    if (span_room < needed) {
        span *grown = realloc(spans, needed * 2 * sizeof(*grown));
        if (grown == NULL)
            return 0;
        spans = grown;
        span_room = needed * 2;
    }
    span_split(begin);
    span_split(end);
    for (size_t i = span_after(begin); begin < end; i++) {
        uintptr_t next = i < span_count && spans[i].begin < end ? spans[i].begin : end;
        if (begin < next)
            span_insert(i, begin, next, &nothing);
        begin = spans[i].end;
    }
    return 1;
}

/* Of whole blocks: no span reaches out of one. */
void rt_advice_forget(uintptr_t begin, size_t bytes)
{
    size_t kept = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < span_count; i++)
        if (spans[i].end <= begin || spans[i].begin >= begin + bytes)
            spans[kept++] = spans[i];
    span_count = kept;
    pthread_mutex_unlock(&lock);
}

/* ---- saying --------------------------------------------------------------------------------- */

static cudaError_t location_check(const struct cudaMemLocation *location)
{
    int count = 0;
    if (location->type == cudaMemLocationTypeHost ||
        location->type == cudaMemLocationTypeHostNuma ||
        location->type == cudaMemLocationTypeHostNumaCurrent)
        return cudaSuccess;
    if (location->type != cudaMemLocationTypeDevice)
        return cudaErrorInvalidValue;
    (void)rt.cuDeviceGetCount(&count);
    return location->id >= 0 && location->id < count ? cudaSuccess : cudaErrorInvalidDevice;
}

enum { PREFETCH = 0 }; /* beside the values of cudaMemoryAdvise */

static void said_change(said_of *said, int advice, const struct cudaMemLocation *location)
{
    const struct cudaMemLocation none = {0};
    int is_device = location->type == cudaMemLocationTypeDevice;
    uint64_t bit = is_device ? UINT64_C(1) << location->id : 0;
    switch (advice) {
    case PREFETCH:
        said->prefetched = *location;
        break;
    case cudaMemAdviseSetPreferredLocation:
        said->preferred = *location;
        break;
    case cudaMemAdviseUnsetPreferredLocation:
        said->preferred = none;
        break;
    case cudaMemAdviseSetAccessedBy:
        said->accessed_by |= bit;
        said->is_host_accessor |= !is_device;
        break;
    case cudaMemAdviseUnsetAccessedBy:
        said->accessed_by &= ~bit;
        said->is_host_accessor &= is_device;
        break;
    default:
        said->is_read_mostly = advice == cudaMemAdviseSetReadMostly;
        break;
    }
}

static cudaError_t say(const void *address, size_t bytes, int advice,
                       const struct cudaMemLocation *location)
{
    uintptr_t begin = (uintptr_t)address;
    if (!rt_managed_holds(address, bytes))
        return cudaErrorInvalidValue;
    pthread_mutex_lock(&lock);
    int is_covered = spans_cover(begin, begin + bytes);
    for (size_t i = span_after(begin); is_covered && i < span_count; i++) {
        if (spans[i].begin >= begin + bytes)
            break;
        said_change(&spans[i].said, advice, location);
    }
    pthread_mutex_unlock(&lock);
    return is_covered ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t prefetch(const void *address, size_t bytes,
                            const struct cudaMemLocation *location)
{
    cudaError_t error = location_check(location);
    return error != cudaSuccess ? error : say(address, bytes, PREFETCH, location);
}

cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream)
{
    (void)stream;
    RT_BEGIN();
    return rt_fail(flags != 0 ? cudaErrorInvalidValue : prefetch(devPtr, count, &location));
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    cudaError_t error = cudaSuccess;
    RT_BEGIN();
    if (advice < cudaMemAdviseSetReadMostly || advice > cudaMemAdviseUnsetAccessedBy)
        return rt_fail(cudaErrorInvalidValue);
    /* The others do not look at the place. */
    if (advice == cudaMemAdviseSetPreferredLocation || advice == cudaMemAdviseSetAccessedBy ||
        advice == cudaMemAdviseUnsetAccessedBy)
        error = location_check(&location);
    return rt_fail(error != cudaSuccess ? error : say(devPtr, count, advice, &location));
}

/* ---- batches -------------------------------------------------------------------------------- */

static int batch_is_valid(void *const *pointers, const size_t *sizes, size_t count,
                          unsigned long long flags, cudaStream_t stream)
{
    if (pointers == NULL || sizes == NULL || count == 0 || flags != 0 || stream == NULL)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (!rt_managed_holds(pointers[i], sizes[i]))
            return 0;
    return 1;
}

cudaError_t cudaMemPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count,
                                      struct cudaMemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                      size_t numPrefetchLocs, unsigned long long flags,
                                      cudaStream_t stream)
{
    RT_BEGIN();
    if (!batch_is_valid(dptrs, sizes, count, flags, stream) || prefetchLocs == NULL ||
        prefetchLocIdxs == NULL || numPrefetchLocs == 0 || numPrefetchLocs > count ||
        prefetchLocIdxs[0] != 0)
        return rt_fail(cudaErrorInvalidValue);
    for (size_t i = 0, place = 0; i < count; i++) {
        if (place + 1 < numPrefetchLocs && prefetchLocIdxs[place + 1] == i)
            place++;
        cudaError_t error = prefetch(dptrs[i], sizes[i], &prefetchLocs[place]);
        if (error != cudaSuccess)
            return rt_fail(error);
    }
    return cudaSuccess;
}

/* What memory has after it was discarded is not defined: here, what it had. */
cudaError_t cudaMemDiscardBatchAsync(void **dptrs, size_t *sizes, size_t count,
                                     unsigned long long flags, cudaStream_t stream)
{
    RT_BEGIN();
    return rt_fail(batch_is_valid(dptrs, sizes, count, flags, stream) ? cudaSuccess
                                                                      : cudaErrorInvalidValue);
}

cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count,
                                                struct cudaMemLocation *prefetchLocs,
                                                size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                                unsigned long long flags, cudaStream_t stream)
{
    return cudaMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                     numPrefetchLocs, flags, stream);
}

/* ---- asking --------------------------------------------------------------------------------- */

static int is_same(struct cudaMemLocation one, struct cudaMemLocation other)
{
    return one.type == other.type && (one.type == cudaMemLocationTypeInvalid ||
                                      one.type == cudaMemLocationTypeHost || one.id == other.id);
}

/* What holds for the whole range: what was said of each byte of it. */
static said_of said_of_all(uintptr_t begin, uintptr_t end)
{
    const struct cudaMemLocation none = {0};
    said_of all = {0};
    int is_first = 1;
    pthread_mutex_lock(&lock);
    for (size_t i = span_after(begin); begin < end; i++, is_first = 0) {
        int is_gap = i == span_count || spans[i].begin > begin;
        if (is_gap) {
            all = (said_of){0};
            break;
        }
        const said_of *one = &spans[i].said;
        if (is_first)
            all = *one;
        if (!is_same(all.prefetched, one->prefetched))
            all.prefetched = none;
        if (!is_same(all.preferred, one->preferred))
            all.preferred = none;
        all.accessed_by &= one->accessed_by;
        all.is_host_accessor &= one->is_host_accessor;
        all.is_read_mostly &= one->is_read_mostly;
        begin = spans[i].end;
    }
    pthread_mutex_unlock(&lock);
    return all;
}

/* As a number: a device, the host, or none. */
static int number_of(struct cudaMemLocation location)
{
    return location.type == cudaMemLocationTypeDevice ? location.id
           : location.type == cudaMemLocationTypeHost ? cudaCpuDeviceId
                                                      : cudaInvalidDeviceId;
}

static void accessors_write(int *out, size_t count, const said_of *said)
{
    size_t used = 0;
    if (said->is_host_accessor && used < count)
        out[used++] = cudaCpuDeviceId;
    for (int device = 0; device < RT_DEVICES_MAX && used < count; device++)
        if ((said->accessed_by >> device & 1) != 0)
            out[used++] = device;
    while (used < count)
        out[used++] = cudaInvalidDeviceId;
}

static cudaError_t answer(void *data, size_t bytes, enum cudaMemRangeAttribute attribute,
                          const said_of *said)
{
    int values[] = {[cudaMemRangeAttributeReadMostly] = said->is_read_mostly,
                    [cudaMemRangeAttributePreferredLocation] = number_of(said->preferred),
                    [cudaMemRangeAttributeLastPrefetchLocation] = number_of(said->prefetched),
                    [cudaMemRangeAttributePreferredLocationType] = (int)said->preferred.type,
                    [cudaMemRangeAttributePreferredLocationId] = said->preferred.id,
                    [cudaMemRangeAttributeLastPrefetchLocationType] = (int)said->prefetched.type,
                    [cudaMemRangeAttributeLastPrefetchLocationId] = said->prefetched.id};
    if (data == NULL || attribute < cudaMemRangeAttributeReadMostly ||
        attribute > cudaMemRangeAttributeLastPrefetchLocationId)
        return cudaErrorInvalidValue;
    if (attribute == cudaMemRangeAttributeAccessedBy && bytes != 0 && bytes % sizeof(int) == 0)
        accessors_write(data, bytes / sizeof(int), said);
    else if (attribute != cudaMemRangeAttributeAccessedBy && bytes == sizeof(int))
        memcpy(data, &values[attribute], sizeof(int));
    else
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *dataSizes,
                                      enum cudaMemRangeAttribute *attributes, size_t numAttributes,
                                      const void *devPtr, size_t count)
{
    RT_BEGIN();
    if (data == NULL || dataSizes == NULL || attributes == NULL || numAttributes == 0 ||
        !rt_managed_holds(devPtr, count))
        return rt_fail(cudaErrorInvalidValue);
    const said_of said = said_of_all((uintptr_t)devPtr, (uintptr_t)devPtr + count);
    for (size_t i = 0; i < numAttributes; i++) {
        cudaError_t error = answer(data[i], dataSizes[i], attributes[i], &said);
        if (error != cudaSuccess)
            return rt_fail(error);
    }
    return cudaSuccess;
}

cudaError_t cudaMemRangeGetAttribute(void *data, size_t dataSize,
                                     enum cudaMemRangeAttribute attribute, const void *devPtr,
                                     size_t count)
{
    return cudaMemRangeGetAttributes(&data, &dataSize, &attribute, 1, devPtr, count);
}
