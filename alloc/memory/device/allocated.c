/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of cuMemAlloc: see allocated.h. */
#include "memory/device/allocated.h"

#include <string.h>

#include "base/conf/conf.h"
#include "base/prim/loader.h"
#include "gpu/backend.h"

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

int tnri_memory_is_own(tnr_segment_alloc alloc)
{
    return alloc == segment_alloc;
}

void tnri_memory_options(tnr_pool_options *options)
{
    int is_mapped =
        options->segment_alloc != NULL || options->segment_free != NULL ||
        options->gpu_direct_rdma || options->is_shared ||
        (options->handle_type != TNR_HANDLE_DEFAULT && options->handle_type != TNR_HANDLE_NONE);
    if (is_mapped)
        return;
    options->handle_type = TNR_HANDLE_DEFAULT;
    options->segment_alloc = segment_alloc;
    options->segment_free = segment_free;
}
