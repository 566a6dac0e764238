/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of cuMemAlloc: see allocated.h. */
#include "memory/device/allocated.h"

#include <string.h>

#include "base/bytes_text.h"
#include "base/conf/conf.h"
#include "base/error.h"
#include "base/host_limit.h"
#include "base/lock.h"
#include "base/prim/loader.h"

/* 1 if the file is compute-sanitizer's. */
static int is_sanitizer(const tnri_loaded_file *file, void *unused)
{
    const char *slash = strrchr(file->path, '/');
    (void)unused;
    return strncmp(slash == NULL ? file->path : slash + 1, "libsanitizer-", 13) == 0;
}

int tnri_memory_is_allocated(void)
{
    int memory = tnri_conf_get()->memory;
    if (memory == TNRI_MEMORY_MAPPED || !tnri_gpu_has(TNRI_GPU_ALLOC) ||
        !tnri_gpu_has(TNRI_GPU_FREE))
        return 0;
    return memory == TNRI_MEMORY_ALLOCATED || tnri_loader_each(is_sanitizer, NULL) != 0;
}

/* Why the thread's last allocation here failed. */
static _Thread_local CUresult last_refusal;

tnr_status tnri_memory_refused(size_t bytes, int is_host)
{
    tnri_gpu_verb verb = is_host ? TNRI_GPU_HOST_ALLOC : TNRI_GPU_ALLOC;
    tnr_status status = tnri_driver_error(last_refusal, verb,
                                          is_host ? "pinning host memory" : "allocating a segment");
    int is_short = last_refusal == CUDA_ERROR_OUT_OF_MEMORY;
    /* How the kernel's refusal to pin comes out. */
    is_short |= is_host && last_refusal == CUDA_ERROR_OPERATING_SYSTEM;
    tnri_error_append(" %s were asked for.", TNRI_BYTES(bytes));
    if (is_host && is_short)
        tnri_host_limit_explain();
    return is_short ? TNR_ERR_OUT_OF_MEMORY : status;
}

/* While others capture, the driver wants to hear that the caller knows what it does. */
static CUstreamCaptureMode mode_swap(CUstreamCaptureMode mode)
{
    if (tnri_gpu_has(TNRI_GPU_CAPTURE_MODE))
        (void)tnri_gpu_capture_mode(&mode);
    return mode;
}

static void *segment_alloc(size_t bytes, int device, tnr_stream stream, void *user)
{
    CUdeviceptr made = 0;
    CUstreamCaptureMode before = mode_swap(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUresult result = tnri_gpu_alloc(&made, bytes);
    (void)mode_swap(before);
    (void)device;
    (void)stream;
    (void)user;
    last_refusal = result;
    return result == CUDA_SUCCESS ? (void *)(uintptr_t)made : NULL;
}

static void segment_free(void *ptr, size_t bytes, int device, tnr_stream stream, void *user)
{
    CUstreamCaptureMode before = mode_swap(CU_STREAM_CAPTURE_MODE_RELAXED);
    (void)tnri_gpu_free((CUdeviceptr)(uintptr_t)ptr);
    (void)mode_swap(before);
    (void)bytes;
    (void)device;
    (void)stream;
    (void)user;
}

/* ---- host memory ---------------------------------------------------------------------------- */

/* What a segment is a multiple of, and begins at. */
#define SLAB_PAGE ((size_t)2 << 20)
enum { SLABS_MAX = 1024 };

/* Where the driver's memory begins beside a page, more was taken than the segment has. The driver
 * aligns what is as large as a page, but it promises nothing. What it refused to take back is here
 * too, as the segment SLAB_REFUSED. */
#define SLAB_REFUSED ((uintptr_t)1)
static struct {
    tnri_lock lock;
    uintptr_t base[SLABS_MAX], taken[SLABS_MAX]; /* a segment, and what the driver gave for it */
} slabs = {.lock = {.rank = TNRI_RANK_HOST}};

/* Enters a segment that begins inside of what was taken; 0 if there is no place for it. */
static int slab_enter(uintptr_t base, uintptr_t taken)
{
    int i = 0;
    tnri_lock_take(&slabs.lock);
    while (i < SLABS_MAX && slabs.base[i] != 0)
        i++;
    if (i < SLABS_MAX) {
        slabs.base[i] = base;
        slabs.taken[i] = taken;
    }
    tnri_lock_release(&slabs.lock);
    return i < SLABS_MAX;
}

/* What was taken for a segment, which is forgotten; `other` if it is not there. */
static uintptr_t slab_leave(uintptr_t base, uintptr_t other)
{
    uintptr_t taken = other;
    tnri_lock_take(&slabs.lock);
    for (int i = 0; i < SLABS_MAX; i++)
        if (slabs.base[i] == base) {
            taken = slabs.taken[i];
            slabs.base[i] = 0;
            break;
        }
    tnri_lock_release(&slabs.lock);
    return taken;
}

/* Gives memory back to the driver, or keeps it until that takes it. */
static CUresult slab_release(uintptr_t taken)
{
    CUresult result = tnri_gpu_host_free((void *)taken);
    if (result != CUDA_SUCCESS)
        (void)slab_enter(SLAB_REFUSED, taken);
    return result;
}

/* Takes more than is asked for, so that a page begins in it. */
static CUresult slab_align(void **segment, size_t bytes)
{
    void *taken = NULL;
    CUresult result = tnri_gpu_host_alloc(&taken, bytes + SLAB_PAGE);
    if (result != CUDA_SUCCESS)
        return result;
    uintptr_t base = ((uintptr_t)taken + SLAB_PAGE - 1) & ~(SLAB_PAGE - 1);
    *segment = (void *)base;
    if (slab_enter(base, (uintptr_t)taken))
        return CUDA_SUCCESS;
    (void)slab_release((uintptr_t)taken);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tnri_memory_release_refused(void)
{
    uintptr_t taken;
    while ((taken = slab_leave(SLAB_REFUSED, 0)) != 0) {
        CUresult result = slab_release(taken);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

static void *slab_alloc(size_t bytes, int device, tnr_stream stream, void *user)
{
    void *taken = NULL;
    CUstreamCaptureMode before = mode_swap(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUresult result = tnri_memory_release_refused();
    if (result == CUDA_SUCCESS)
        result = tnri_gpu_host_alloc(&taken, bytes);
    if (result == CUDA_SUCCESS && ((uintptr_t)taken & (SLAB_PAGE - 1)) != 0) {
        (void)slab_release((uintptr_t)taken);
        result = slab_align(&taken, bytes);
    }
    (void)mode_swap(before);
    last_refusal = result;
    (void)device;
    (void)stream;
    (void)user;
    return result == CUDA_SUCCESS ? taken : NULL;
}

static void slab_free(void *ptr, size_t bytes, int device, tnr_stream stream, void *user)
{
    CUstreamCaptureMode before = mode_swap(CU_STREAM_CAPTURE_MODE_RELAXED);
    (void)slab_release(slab_leave((uintptr_t)ptr, (uintptr_t)ptr));
    (void)mode_swap(before);
    (void)bytes;
    (void)device;
    (void)stream;
    (void)user;
}

/* ---- which ---------------------------------------------------------------------------------- */

int tnri_memory_is_own(tnr_segment_alloc alloc)
{
    return alloc == segment_alloc || alloc == slab_alloc;
}

void tnri_memory_options(tnr_pool_options *options, int is_host)
{
    int is_mapped =
        options->segment_alloc != NULL || options->segment_free != NULL ||
        options->gpu_direct_rdma || options->is_shared ||
        (options->handle_type != TNR_HANDLE_DEFAULT && options->handle_type != TNR_HANDLE_NONE);
    if (is_mapped)
        return;
    options->handle_type = TNR_HANDLE_DEFAULT;
    options->segment_alloc = is_host ? slab_alloc : segment_alloc;
    options->segment_free = is_host ? slab_free : segment_free;
}
