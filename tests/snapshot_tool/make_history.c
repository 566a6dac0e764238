/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a large snapshot of Tenure: make_history RECORDS FILE
 *
 * A program that trains, on the simulated device, with history:full: each step allocates
 * activations forwards, at call stacks of their own, and frees them backwards; some are used by a
 * second stream and wait. Every record is one that the library wrote.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#include <tenure/alloc.h>
#include <tenure/history.h>
#include <tenure/lifetime.h>

enum { DEVICE = 0, LAYERS = 200, DEPTHS = 12, UNIT = 512 };

static CUstream streams[2];
static void *kept[LAYERS];
static unsigned drawn = 1;

static void must(tnr_status status, const char *what)
{
    if (status == TNR_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, tnr_status_name(status), tnr_last_error());
    exit(1);
}

static void must_cu(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: driver error %d\n", what, (int)result);
    exit(1);
}

static unsigned draw(unsigned below)
{
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % below;
}

/* Allocates at one of DEPTHS depths of the stack. */
static __attribute__((noinline)) int layer_forward(int layer, int depth)
{
    if (depth > 0)
        return layer_forward(layer, depth - 1) + 1; /* + 1: no tail call */
    size_t bytes = (1 + draw(4096)) * UNIT - draw(500);
    must(tnr_malloc(&kept[layer], bytes, DEVICE, streams[0]), "allocating");
    return 0;
}

static __attribute__((noinline)) void layer_backward(int layer)
{
    if (layer % 16 == 0)
        must(tnr_record_use(kept[layer], streams[1]), "recording a use");
    must(tnr_free(kept[layer]), "freeing");
    kept[layer] = NULL;
}

static __attribute__((noinline)) void step_run(long step)
{
    char name[32];
    snprintf(name, sizeof(name), "step %ld", step);
    must(tnr_mark(name), "tnr_mark");
    for (int layer = 0; layer < LAYERS; layer++)
        (void)layer_forward(layer, layer % DEPTHS);
    for (int layer = LAYERS - 1; layer >= 0; layer--)
        layer_backward(layer);
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    long records = argc == 3 ? atol(argv[1]) : 0;
    if (records <= 0) {
        fprintf(stderr, "usage: make_history RECORDS FILE\n");
        return 2;
    }
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    for (int i = 0; i < 2; i++)
        must_cu(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must(tnr_history_set((size_t)records, TNR_HISTORY_FULL), "tnr_history_set");
    for (long step = 0; step * 2 * LAYERS < records; step++)
        step_run(step);
    for (int layer = 0; layer < LAYERS; layer++)
        (void)layer_forward(layer, layer % DEPTHS);
    must(tnr_snapshot_write(argv[2], TNR_SNAPSHOT_AUTO), "tnr_snapshot_write");
    must(tnr_shutdown(1), "tnr_shutdown");
    return 0;
}
