/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that loses memory, and how to see where. It takes a snapshot when it has come to rest
 * and another one some steps later; then
 *
 *   tenure snapshot diff before.json after.json
 *
 * names the function that holds more than before, and
 *
 *   tenure snapshot html after.json report.html --compare before.json
 *
 * shows it in a browser. The snapshots go to the folder that the first argument names, or to the
 * current one.
 *
 *   cc -g finding_a_leak.c -o finding_a_leak $(pkg-config --cflags --libs tenure tenure-simcuda)
 *
 * That is for the simulated device. docs/install.md has the line for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/history.h>

enum { DEVICE = 0, STEPS = 8, RESULT_BYTES = 3 << 20, SCRATCH_BYTES = 20 << 20 };

/* Ends the program with the reason if a call failed. */
static void must(tnr_status status, const char *what)
{
    if (status != TNR_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, tnr_status_name(status), tnr_last_error());
        exit(1);
    }
}

static void must_cu(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s: driver error %d\n", what, (int)result);
        exit(1);
    }
}

/* The mistake: every result is kept and never freed. */
static __attribute__((noinline)) void *result_keep(CUstream stream)
{
    void *result;
    must(tnr_malloc(&result, RESULT_BYTES, DEVICE, stream), "allocating a result");
    must_cu(cuMemsetD8Async((CUdeviceptr)result, 1, RESULT_BYTES, stream), "computing");
    return result;
}

/* One step: scratch memory that is freed again, and a result that is not. */
static __attribute__((noinline)) void step_run(int step, CUstream stream)
{
    char name[32];
    void *scratch;
    snprintf(name, sizeof(name), "step %d", step);
    must(tnr_mark(name), "tnr_mark"); /* records say from now on what the program was doing */
    must(tnr_malloc(&scratch, SCRATCH_BYTES, DEVICE, stream), "allocating scratch memory");
    must_cu(cuMemsetD8Async((CUdeviceptr)scratch, 0, SCRATCH_BYTES, stream), "computing");
    (void)result_keep(stream);
    must(tnr_free(scratch), "freeing");
}

static void snapshot_take(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    must(tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO), "tnr_snapshot_write");
    printf("%s\n", path);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    CUdevice device;
    CUcontext context;
    CUstream stream;
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");

    /* With call stacks. TENURE_CONF=history:full does the same without this line. */
    must(tnr_history_set(0, TNR_HISTORY_FULL), "tnr_history_set");
    for (int step = 0; step < 2; step++)
        step_run(step, stream);
    snapshot_take(folder, "before.json");
    for (int step = 2; step < STEPS; step++)
        step_run(step, stream);
    snapshot_take(folder, "after.json");

    must(tnr_shutdown(1), "tnr_shutdown"); /* frees what is left, too */
    must_cu(cuStreamDestroy(stream), "cuStreamDestroy");
    must_cu(cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
    return 0;
}
