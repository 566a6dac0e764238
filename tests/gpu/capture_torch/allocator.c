/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenure behind the functions that PyTorch's CUDAPluggableAllocator loads, for capture_torch.py.
 * PyTorch cannot be told of an error, so errors are counted and printed.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

#include <tenure/tenure.h>

/* Found by name: there is no header. */
#define FOUND_BY_NAME __attribute__((visibility("default")))
FOUND_BY_NAME void *capture_torch_malloc(size_t bytes, int device, tnr_stream stream);
FOUND_BY_NAME void capture_torch_free(void *ptr, size_t bytes, int device, tnr_stream stream);
FOUND_BY_NAME void capture_torch_record(void *ptr, tnr_stream stream);
FOUND_BY_NAME unsigned capture_torch_failures(void);

static atomic_uint failures;

static void failed(const char *call)
{
    atomic_fetch_add(&failures, 1);
    fprintf(stderr, "%s: %s\n", call, tnr_last_error());
}

void *capture_torch_malloc(size_t bytes, int device, tnr_stream stream)
{
    void *ptr = NULL;
    if (tnr_malloc(&ptr, bytes, device, stream) != TNR_OK)
        failed("tnr_malloc");
    return ptr;
}

void capture_torch_free(void *ptr, size_t bytes, int device, tnr_stream stream)
{
    (void)bytes;
    (void)device;
    (void)stream;
    if (tnr_free(ptr) != TNR_OK)
        failed("tnr_free");
}

void capture_torch_record(void *ptr, tnr_stream stream)
{
    if (tnr_record_stream(ptr, stream) != TNR_OK)
        failed("tnr_record_stream");
}

unsigned capture_torch_failures(void)
{
    return atomic_load(&failures);
}
