/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory and streams for contents: see staging.h. */
#include "away/staging.h"

#include "api/library.h"
#include "api/pool_end.h"
#include "base/bytes_text.h"
#include "base/error.h"
#include "base/host_limit.h"
#include "base/host_memory.h"
#include "base/prim/clock.h"
#include "base/prim/pages.h"
#include "base/thread_number.h"
#include "gpu/capturing.h"
#include "memory/device/host.h"
#include "miss/reclaim.h"

tnri_staging tnri_stagings[TNRI_DEVICE_NUMBERS];
static tnri_lock late_lock = {.rank = TNRI_RANK_HOST};

/* ---- the stream ----------------------------------------------------------------------------- */

/* All optional entry points that keeping contents needs are there. */
static tnr_status staging_check(void)
{
    if (tnri_gpu_has(TNRI_GPU_HOST_ALLOC) && tnri_gpu_has(TNRI_GPU_HOST_FREE) &&
        tnri_gpu_has(TNRI_GPU_COPY_OUT) && tnri_gpu_has(TNRI_GPU_COPY_IN) &&
        tnri_gpu_has(TNRI_GPU_STREAM_AWAIT))
        return TNR_OK;
    return tnri_error(TNR_ERR_DRIVER_TOO_OLD,
                      "the driver lacks calls for copying to pinned host memory. Sleep with "
                      "TNR_CONTENT_DISCARD, or install a newer NVIDIA driver.");
}

tnr_status tnri_staging_open(tnri_device *device)
{
    tnri_staging *staging = tnri_staging_of(device);
    tnri_assert(tnri_staging_is_mine(device));
    if (!staging->has_stream) {
        CUresult result = tnri_gpu_stream_make(&staging->stream);
        if (result != CUDA_SUCCESS)
            return tnri_driver_error(result, TNRI_GPU_STREAM_MAKE, "making a stream for copies");
        staging->has_stream = 1;
    }
    return staging->is_busy ? tnri_staging_wait(device) : TNR_OK;
}

tnr_status tnri_staging_wait(tnri_device *device)
{
    tnri_staging *staging = tnri_staging_of(device);
    CUresult result = CUDA_SUCCESS;
    if (staging->has_stream)
        result = tnri_gpu_stream_await(staging->stream);
    /* Tried once more: what the copies use cannot be given back without an answer. */
    if (result != CUDA_SUCCESS && tnri_gpu_stream_await(staging->stream) == CUDA_SUCCESS)
        result = CUDA_SUCCESS;
    staging->is_busy = result != CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, TNRI_GPU_STREAM_AWAIT, "waiting for copies of contents");
}

/* ---- buffers --------------------------------------------------------------------------------- */

size_t tnri_buffers_for(size_t bytes)
{
    return bytes / TNRI_BUFFER_BYTES + (bytes % TNRI_BUFFER_BYTES != 0);
}

size_t tnri_buffers_bytes(size_t count)
{
    return count > SIZE_MAX / TNRI_BUFFER_BYTES ? SIZE_MAX : count * TNRI_BUFFER_BYTES;
}

static void buffer_push(tnri_buffers *buffers, tnri_buffer *buffer)
{
    buffer->next = buffers->spares;
    buffers->spares = buffer;
    buffers->spares_count++;
}

static void file_end(tnri_staging *staging, tnri_buffer *buffer)
{
    tnri_disk_unmap(buffer->file, buffer->memory, buffer->bytes);
    tnri_host_free(buffer, sizeof(*buffer));
    staging->files_count--;
}

static void pinned_free(tnri_buffer *buffer)
{
    tnr_status status = tnr_free(buffer->memory);
    tnri_assert(status == TNR_OK); /* no stream was told of it */
    (void)status;
    tnri_host_free(buffer, sizeof(*buffer));
}

static void short_end(tnri_staging *staging, tnri_buffer *buffer)
{
    staging->short_bytes -= buffer->bytes;
    pinned_free(buffer);
}

static void buffers_push(tnri_staging *staging, tnri_buffer *buffers)
{
    while (buffers != NULL) {
        tnri_buffer *buffer = buffers;
        buffers = buffer->next;
        if (buffer->file != NULL)
            file_end(staging, buffer);
        else if (buffer->bytes != TNRI_BUFFER_BYTES)
            short_end(staging, buffer);
        else
            buffer_push(buffer->is_paged ? &staging->paged : &staging->pinned, buffer);
    }
}

static tnri_buffer *buffer_pop(tnri_buffers *buffers)
{
    tnri_buffer *buffer = buffers->spares;
    buffers->spares = buffer->next;
    buffers->spares_count--;
    return buffer;
}

/* Puts the host memory near the device into use, and makes the pool there. */
static tnr_status pool_open(tnri_device *device)
{
    tnr_pool pool;
    tnri_device *host;
    tnri_staging *staging = tnri_staging_of(device);
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = "contents";
    if (staging->pool != NULL)
        return TNR_OK;
    tnr_status status = tnri_library_device(TNR_HOST(device->index), &host);
    if (status == TNR_OK)
        status = tnri_pool_make(host, &options, TNRI_POOL_CONTENTS, NULL, &pool);
    if (status == TNR_OK)
        staging->pool = pool->handle;
    return status;
}

static tnr_status memory_pin(tnri_device *device, void **memory, size_t bytes)
{
    tnr_status status = staging_check();
    if (status == TNR_OK)
        status = pool_open(device);
    if (status == TNR_OK)
        status = tnr_pool_malloc(memory, tnri_staging_of(device)->pool, bytes,
                                 TNR_HOST(device->index), NULL);
    /* Out of host memory, that is, not of the device's. */
    return status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT ? TNR_ERR_HOST_MEMORY
                                                                      : status;
}

/* Gives what is free in the pool back. Not by tnr_pool_trim, which ends what graphs have left, and
 * with that pools that sleep: their ends want the claim, too. */
static tnr_status pool_trim(const tnri_staging *staging)
{
    tnr_pool pool;
    tnr_status status = tnri_pool_resolve(staging->pool, &pool);
    if (status != TNR_OK)
        return status;
    (void)tnri_release_idle(pool->device, pool, SIZE_MAX, 1, &status);
    tnri_pool_drop(pool);
    return status;
}

/* Ends the pool, which has nothing of Tenure's any more. */
static tnr_status pool_close(tnri_staging *staging)
{
    tnr_pool pool;
    if (staging->pool == NULL)
        return TNR_OK;
    tnr_status status = tnri_pool_resolve(staging->pool, &pool);
    if (status != TNR_OK)
        return status;
    status = tnri_pool_end(pool, 1);
    if (status == TNR_OK)
        staging->pool = NULL;
    else
        tnri_pool_drop(pool);
    return status;
}

/* Large pages, because the first touch of small ones takes longer than the copy. */
static tnr_status memory_page(void **memory)
{
    *memory = tnri_host_pages_map(TNRI_BUFFER_BYTES, 0);
    if (*memory == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "the system has no memory for contents.");
    tnri_host_pages_enlarge(*memory, TNRI_BUFFER_BYTES);
    return TNR_OK;
}

/* Makes a buffer the first of a list. */
static tnr_status buffer_add(tnri_device *device, tnri_buffer **list, size_t bytes, int is_paged)
{
    tnri_buffer *buffer = tnri_host_alloc(sizeof(*buffer));
    if (buffer == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of contents.");
    void *memory;
    tnr_status status = is_paged ? memory_page(&memory) : memory_pin(device, &memory, bytes);
    if (status != TNR_OK) {
        tnri_host_free(buffer, sizeof(*buffer));
        return status;
    }
    *buffer = (tnri_buffer){memory, bytes, *list, NULL, is_paged};
    *list = buffer;
    return TNR_OK;
}

/* Adds one spare. */
static tnr_status buffer_make(tnri_device *device, tnri_buffers *buffers, int is_paged)
{
    tnr_status status = buffer_add(device, &buffers->spares, TNRI_BUFFER_BYTES, is_paged);
    buffers->count += status == TNR_OK;
    buffers->spares_count += status == TNR_OK;
    return status;
}

/* Frees pinned spares until `most` exist, or none is spare, and gives their memory back, and that
 * of short ones that have ended, but for these alone not while a capture is under way. */
static tnr_status pinned_trim(tnri_device *device, size_t most)
{
    tnri_staging *staging = tnri_staging_of(device);
    tnri_buffers *pinned = &staging->pinned;
    int is_more = pinned->spares != NULL && pinned->count > most;
    if (staging->pool == NULL || (!is_more && tnri_capturing()))
        return TNR_OK;
    tnr_status status = staging->is_busy ? tnri_staging_wait(device) : TNR_OK;
    if (status != TNR_OK)
        return status;
    while (pinned->spares != NULL && pinned->count > most) {
        pinned_free(buffer_pop(pinned));
        pinned->count--;
    }
    return pool_trim(staging);
}

/* The same for ordinary ones. No copy of the device's touches these. */
static void paged_trim(tnri_device *device, size_t most)
{
    tnri_buffers *paged = &tnri_staging_of(device)->paged;
    while (paged->spares != NULL && paged->count > most) {
        tnri_buffer *buffer = buffer_pop(paged);
        tnri_host_pages_unmap(buffer->memory, TNRI_BUFFER_BYTES);
        tnri_host_free(buffer, sizeof(*buffer));
        paged->count--;
    }
}

static size_t at_least_0(size_t wanted, size_t there)
{
    return wanted > there ? wanted - there : 0;
}

/* Has at least so many spares, or as many as can be had. */
static tnr_status buffers_make(tnri_device *device, tnri_buffers *buffers, size_t count,
                               int is_paged)
{
    tnr_status status = TNR_OK;
    while (status == TNR_OK && buffers->spares_count < count)
        status = buffer_make(device, buffers, is_paged);
    return status;
}

static size_t ring_missing(const tnri_staging *staging)
{
    return staging->ring[0] == NULL ? TNRI_RING : 0;
}

/* Takes the ring out of the spares, if it is missing. */
static void ring_open(tnri_staging *staging, size_t missing)
{
    for (size_t i = 0; i < missing; i++)
        staging->ring[i] = buffer_pop(&staging->pinned);
}

/* How many buffers of `count` are pinned, and how many more the ring takes if it is needed and not
 * there. Room for the ring is left in any case, for the next pool. */
static size_t pinned_share(const tnri_staging *staging, size_t count, size_t pinned_max,
                           size_t *ring)
{
    size_t missing = ring_missing(staging);
    size_t used = staging->pinned.count - staging->pinned.spares_count + missing;
    size_t most = pinned_max == 0 ? SIZE_MAX : pinned_max / TNRI_BUFFER_BYTES;
    size_t room = most > used ? most - used : 0;
    *ring = count > room ? missing : 0;
    return count > room ? room : count;
}

/* Has the spares for `count` buffers, of which *pinned are to be pinned, and for *ring. Where the
 * system does not pin so much, *pinned is less, and the ring is needed. */
static tnr_status spares_make(tnri_device *device, size_t count, size_t *pinned, size_t *ring)
{
    tnri_staging *staging = tnri_staging_of(device);
    tnr_status status = buffers_make(device, &staging->pinned, *pinned + *ring, 0);
    if (status == TNR_ERR_HOST_MEMORY && staging->pinned.spares_count >= ring_missing(staging)) {
        *ring = ring_missing(staging);
        *pinned = staging->pinned.spares_count - *ring;
        status = TNR_OK;
    }
    return status == TNR_OK ? buffers_make(device, &staging->paged, count - *pinned, 1) : status;
}

/* Forgets where copies end. */
static void late_unmark(tnri_late *late)
{
    tnri_event_drop(late->event);
    if (late->stream != NULL)
        tnri_stream_drop(late->stream);
    late->event = NULL;
    late->stream = NULL;
}

void tnri_staging_give_late(tnri_late *late)
{
    tnri_staging *staging = tnri_staging_of(late->device);
    tnri_lock_take(&late_lock);
    late->next = staging->late;
    staging->late = late;
    tnri_lock_release(&late_lock);
}

/* Whether the buffers have room for `bytes`, and not for more than twice as much. */
static int buffers_fit(const tnri_buffer *buffers, size_t bytes)
{
    size_t room = 0;
    for (; buffers != NULL; buffers = buffers->next)
        room += buffers->bytes;
    return bytes <= room && bytes >= room / 2;
}

tnri_late *tnri_staging_take_late(tnri_device *device, size_t bytes, tnri_stream *stream)
{
    tnri_staging *staging = tnri_staging_of(device);
    tnri_late *found = NULL;
    tnri_lock_take(&late_lock);
    tnri_late *list = staging->late;
    staging->late = NULL;
    tnri_lock_release(&late_lock);
    while (list != NULL) {
        tnri_late *late = list;
        list = late->next;
        if (found == NULL && late->stream != NULL &&
            buffers_fit(late->buffers, bytes) &&
            tnri_stream_is_after(stream, late->stream, late->number, 1))
            found = late;
        else
            tnri_staging_give_late(late);
    }
    if (found != NULL)
        late_unmark(found);
    return found;
}

/* Whether copies are over that may use late buffers; waits for them if `wait`. */
static CUresult late_prove(const tnri_late *late, int wait, int *is_over)
{
    *is_over = tnri_event_is_over(late->event);
    if (*is_over || !wait)
        return CUDA_SUCCESS;
    CUresult result = tnri_gpu_context_await();
    *is_over = result == CUDA_SUCCESS;
    return result;
}

/* Makes spares of the late buffers that no copy uses any more. Returns the driver's first
 * refusal. */
static CUresult late_collect(tnri_device *device, int wait)
{
    tnri_staging *staging = tnri_staging_of(device);
    CUresult first = CUDA_SUCCESS;
    tnri_lock_take(&late_lock);
    tnri_late *list = staging->late;
    staging->late = NULL;
    tnri_lock_release(&late_lock);
    while (list != NULL) {
        tnri_late *late = list;
        list = late->next;
        int is_over;
        CUresult result = late_prove(late, wait, &is_over);
        if (first == CUDA_SUCCESS)
            first = result;
        if (!is_over) {
            tnri_staging_give_late(late);
            continue;
        }
        late_unmark(late);
        buffers_push(staging, late->buffers);
        tnri_host_free(late, sizeof(*late));
    }
    return first;
}

tnr_status tnri_staging_take(tnri_device *device, size_t bytes, size_t pinned_max,
                             tnri_buffer **buffers)
{
    tnri_staging *staging = tnri_staging_of(device);
    size_t ring;
    size_t count = tnri_buffers_for(bytes);
    tnri_assert(tnri_staging_is_mine(device));
    (void)late_collect(device, 0);
    size_t pinned = pinned_share(staging, count, pinned_max, &ring);
    size_t pinned_before = staging->pinned.count, paged_before = staging->paged.count;
    *buffers = NULL;
    tnr_status status = spares_make(device, count, &pinned, &ring);
    if (status != TNR_OK) {
        tnri_staging_undo(device, NULL, pinned_before, paged_before);
        return status;
    }
    ring_open(staging, ring);
    for (size_t i = 0; i < count; i++) {
        tnri_buffer *buffer = buffer_pop(i < pinned ? &staging->pinned : &staging->paged);
        buffer->next = *buffers;
        *buffers = buffer;
    }
    return TNR_OK;
}

tnr_status tnri_staging_check(tnri_device *device, size_t wanted)
{
    const tnri_staging *staging = tnri_staging_of(device);
    size_t spares = staging->pinned.spares_count + staging->paged.spares_count;
    size_t bytes = at_least_0(wanted, tnri_buffers_bytes(spares));
    tnri_host_limit limit;
    if (bytes == 0 || tnri_host_limit_allows(&limit, bytes, tnri_host_rest(device)))
        return TNR_OK;
    /* What parked blocks have left in the pool is pinned, and no spare. */
    (void)late_collect(device, 0);
    if (pinned_trim(device, staging->pinned.count) == TNR_OK &&
        tnri_host_limit_allows(&limit, bytes, tnri_host_rest(device)))
        return TNR_OK;
    return tnri_error(TNR_ERR_HOST_MEMORY,
                      "contents need %s of host memory, and %s has %s left, of which %s are not "
                      "touched. Nothing was taken. Raise that limit, keep less "
                      "(TNR_CONTENT_DISCARD), or let fewer pools sleep.",
                      TNRI_BYTES(bytes), limit.where, TNRI_BYTES(limit.left),
                      TNRI_BYTES(tnri_host_rest(device)));
}

tnr_status tnri_staging_take_pinned(tnri_device *device, size_t bytes, tnri_buffer **buffers)
{
    tnri_staging *staging = tnri_staging_of(device);
    size_t count = tnri_buffers_for(bytes), rest = bytes % TNRI_BUFFER_BYTES;
    tnri_assert(tnri_staging_is_mine(device));
    (void)late_collect(device, 0);
    size_t before = staging->pinned.count;
    int has_short = rest > 0 && staging->pinned.spares_count < count;
    *buffers = NULL;
    tnr_status status = buffers_make(device, &staging->pinned, count - (size_t)has_short, 0);
    if (status == TNR_OK && has_short) {
        status = buffer_add(device, buffers, rest, 0);
        staging->short_bytes += status == TNR_OK ? rest : 0;
    }
    if (status != TNR_OK) {
        (void)pinned_trim(device, before);
        return status;
    }
    for (count -= (size_t)has_short; count > 0; count--) {
        tnri_buffer *buffer = buffer_pop(&staging->pinned);
        buffer->next = *buffers;
        *buffers = buffer;
    }
    return TNR_OK;
}

/* Makes a buffer that is a file the first of a list. */
static tnr_status file_add(tnri_staging *staging, tnri_buffer **buffers, size_t bytes)
{
    tnri_buffer *buffer = tnri_host_alloc(sizeof(*buffer));
    if (buffer == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of contents.");
    void *memory;
    tnr_status status = tnri_disk_map(&buffer->file, &memory, bytes);
    if (status != TNR_OK) {
        tnri_host_free(buffer, sizeof(*buffer));
        return status;
    }
    buffer->memory = memory;
    buffer->bytes = bytes;
    buffer->is_paged = 1;
    buffer->next = *buffers;
    *buffers = buffer;
    staging->files_count++;
    return TNR_OK;
}

tnr_status tnri_staging_take_files(tnri_device *device, size_t bytes, tnri_buffer **buffers)
{
    tnri_staging *staging = tnri_staging_of(device);
    tnri_assert(tnri_staging_is_mine(device));
    *buffers = NULL;
    if (bytes == 0)
        return TNR_OK;
    (void)late_collect(device, 0);
    size_t ring = ring_missing(staging), pinned_before = staging->pinned.count;
    tnr_status status = buffers_make(device, &staging->pinned, ring, 0);
    /* The last one first, because each becomes the first of the list. */
    size_t first = bytes < TNRI_DISK_FIRST_BYTES ? bytes : TNRI_DISK_FIRST_BYTES;
    size_t left = bytes - first, most = tnri_disk_file_bytes;
    for (size_t part = left % most == 0 ? most : left % most; left > 0 && status == TNR_OK;
         part = most) {
        status = file_add(staging, buffers, part);
        left -= part;
    }
    if (status == TNR_OK)
        status = file_add(staging, buffers, first);
    if (status == TNR_OK) {
        ring_open(staging, ring);
        return TNR_OK;
    }
    tnri_staging_undo(device, *buffers, pinned_before, staging->paged.count);
    *buffers = NULL;
    return status;
}

/* The ring goes too when nothing needs it. */
static void buffers_return(tnri_staging *staging, tnri_buffer *buffers)
{
    buffers_push(staging, buffers);
    if (staging->ring[0] != NULL && staging->files_count == 0 &&
        staging->paged.count == staging->paged.spares_count)
        for (int i = 0; i < TNRI_RING; i++) {
            buffer_push(&staging->pinned, staging->ring[i]);
            staging->ring[i] = NULL;
        }
}

void tnri_staging_undo(tnri_device *device, tnri_buffer *buffers, size_t pinned, size_t paged)
{
    tnri_assert(tnri_staging_is_mine(device));
    buffers_return(tnri_staging_of(device), buffers);
    (void)pinned_trim(device, pinned);
    paged_trim(device, paged);
}

void tnri_staging_give(tnri_device *device, tnri_buffer *buffers, int keep_all)
{
    tnri_staging *staging = tnri_staging_of(device);
    tnri_assert(tnri_staging_is_mine(device));
    buffers_return(staging, buffers);
    if (keep_all)
        return;
    (void)pinned_trim(device, staging->kept_count);
    paged_trim(device, 0);
}

tnr_status tnri_staging_prepare(tnri_device *device, size_t bytes)
{
    tnri_staging *staging = tnri_staging_of(device);
    tnri_assert(tnri_staging_is_mine(device));
    (void)late_collect(device, 0);
    size_t count = tnri_buffers_for(bytes);
    size_t before = staging->pinned.count, used = before - staging->pinned.spares_count;
    tnr_status status = tnri_staging_check(device, tnri_buffers_bytes(at_least_0(count, used)));
    if (status == TNR_OK)
        status = buffers_make(device, &staging->pinned, at_least_0(count, used), 0);
    if (status != TNR_OK) {
        (void)pinned_trim(device, before);
        return status;
    }
    staging->kept_count = count;
    paged_trim(device, 0);
    return pinned_trim(device, count);
}

/* ---- whose it is ---------------------------------------------------------------------------- */

/* Waits until something is nobody's, and makes it the thread's. */
static void owner_become(_Atomic uint64_t *owner)
{
    uint64_t nobody = 0;
    tnri_assert_none_held();
    for (int tries = 0; !atomic_compare_exchange_strong(owner, &nobody, tnri_thread_number());
         tries++, nobody = 0) {
        tnri_assert(nobody != tnri_thread_number());
        if (tries < 100)
            tnri_yield();
        else
            tnri_nap(100000);
    }
}

static void owner_end(_Atomic uint64_t *owner)
{
    tnri_assert(atomic_load(owner) == tnri_thread_number());
    atomic_store(owner, 0);
}

void tnri_staging_turn_begin(tnri_device *device)
{
    owner_become(&tnri_staging_of(device)->turn_of);
}

void tnri_staging_turn_end(tnri_device *device)
{
    owner_end(&tnri_staging_of(device)->turn_of);
}

int tnri_staging_is_my_turn(const tnri_device *device)
{
    return atomic_load(&tnri_staging_of(device)->turn_of) == tnri_thread_number();
}

void tnri_staging_claim(tnri_device *device)
{
    owner_become(&tnri_staging_of(device)->claimed_by);
    tnri_staging_of(device)->is_used = 1;
}

void tnri_staging_unclaim(tnri_device *device)
{
    owner_end(&tnri_staging_of(device)->claimed_by);
}

int tnri_staging_is_mine(const tnri_device *device)
{
    return atomic_load(&tnri_staging_of(device)->claimed_by) == tnri_thread_number();
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Gives everything back, also what copies still use, when these are over. */
static tnr_status staging_close(tnri_device *device)
{
    tnri_staging *staging = tnri_staging_of(device);
    CUresult result = late_collect(device, 1);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_CONTEXT_AWAIT, "waiting for copies of contents");
    size_t kept = (staging->pinned.count - staging->pinned.spares_count) * TNRI_BUFFER_BYTES +
                  staging->short_bytes;
    if (kept > 0)
        return tnri_error(TNR_ERR_BUSY,
                          "%s of host memory keep contents of sleeping pools and parked blocks of "
                          "device %d. Wake and unpark them first, or end device %d.",
                          TNRI_BYTES(kept), device->index, device->index);
    tnr_status status = pinned_trim(device, 0);
    if (status != TNR_OK)
        return status;
    tnri_assert(staging->pinned.count == 0);
    paged_trim(device, 0);
    staging->kept_count = 0;
    staging->is_busy = 0;
    status = pool_close(staging);
    if (status != TNR_OK)
        return status;
    if (staging->has_stream)
        result = tnri_gpu_stream_end(staging->stream);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_STREAM_END, "ending the stream of copies");
    staging->has_stream = 0;
    return TNR_OK;
}

/* Gives back what is spare beyond what was asked to be ready. A capture forbids that. */
static tnr_status staging_trim(tnri_device *device)
{
    if (tnri_capturing())
        return TNR_OK;
    (void)late_collect(device, 0);
    paged_trim(device, 0);
    return pinned_trim(device, tnri_staging_of(device)->kept_count);
}

tnr_status tnri_staging_empty(tnri_device *device, int is_end)
{
    tnri_visit visit;
    if (!atomic_load(&tnri_staging_of(device)->is_used))
        return TNR_OK;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    tnri_staging_claim(device);
    status = is_end ? staging_close(device) : staging_trim(device);
    tnri_staging_unclaim(device);
    tnri_device_leave(&visit);
    return status;
}
