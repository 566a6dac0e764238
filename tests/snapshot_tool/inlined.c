/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that allocates in functions that were inlined into each other, and takes a snapshot,
 * for test_symbols.py, which finds the lines by the comments at their ends.
 *
 *   inlined SNAPSHOT
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/history.h>

static inline __attribute__((always_inline)) tnr_status inner(void **memory)
{
    tnr_status status = tnr_malloc(memory, 1 << 20, 0, NULL); /* in inner */
    if (status != TNR_OK)
        fprintf(stderr, "%s\n", tnr_last_error());
    return status;
}

static inline __attribute__((always_inline)) tnr_status middle(void **memory)
{
    return inner(memory); /* in middle */
}

static __attribute__((noinline)) tnr_status outer(void **memory)
{
    tnr_status status = middle(memory); /* in outer */
    return *memory != NULL ? status : TNR_ERR_INTERNAL;
}

/* The end of the program. The compiler knows that it does not come back, so what follows the call
 * in main is no part of main. */
static __attribute__((noinline, noreturn)) void run(const char *path)
{
    void *memory = NULL;
    if (tnr_history_set(0, TNR_HISTORY_FULL) == TNR_OK && outer(&memory) == TNR_OK &&
        tnr_snapshot_write(path, TNR_SNAPSHOT_JSON) == TNR_OK && tnr_shutdown(1) == TNR_OK)
        exit(0);
    fprintf(stderr, "inlined: %s\n", tnr_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    if (argc != 2 || cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS) {
        fprintf(stderr, "usage: inlined SNAPSHOT (with a driver)\n");
        return 2;
    }
    run(argv[1]); /* in main */
}
