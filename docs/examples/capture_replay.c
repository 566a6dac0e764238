/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step with temporary memory on two streams, captured once and replayed a hundred times. Memory
 * that is freed inside is used again inside, where the graph's edges allow it; nothing is allocated
 * in a replay. Only the CUDA objects are destroyed at the end: the memory follows them.
 *
 *   cc capture_replay.c -o capture_replay $(pkg-config --cflags --libs tenure tenure-simcuda)
 *
 * That is for the simulated device. docs/install.md has the line for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/capture.h>

enum { DEVICE = 0, VALUES = 1 << 20, BYTES = VALUES * 4, REPLAYS = 100 };

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

static CUdeviceptr allocate(CUstream stream)
{
    void *block;
    must(tnr_malloc(&block, BYTES, DEVICE, stream), "allocating");
    return (CUdeviceptr)block;
}

static void order(CUstream later, CUstream earlier, CUevent event)
{
    must_cu(cuEventRecord(event, earlier), "recording");
    must_cu(cuStreamWaitEvent(later, event, 0), "waiting");
}

/* The step, as it would run without a capture: the side stream doubles what the main stream has
 * made, and four temporary blocks come and go. */
static void step_enqueue(CUstream main_stream, CUstream side, CUevent event, CUdeviceptr output)
{
    CUdeviceptr made = allocate(main_stream);
    must_cu(cuMemsetD32Async(made, 7, VALUES, main_stream), "making");
    order(side, main_stream, event);
    for (int i = 0; i < 3; i++) {
        CUdeviceptr scratch = allocate(side); /* the same memory each time */
        must_cu(cuMemcpyDtoDAsync(scratch, made, BYTES, side), "working");
        must_cu(cuMemcpyDtoDAsync(output, scratch, BYTES, side), "working");
        must(tnr_free((void *)scratch), "freeing");
    }
    must(tnr_record_use((void *)made, side), "recording a use"); /* which ends here */
    must(tnr_free((void *)made), "freeing");
    order(main_stream, side, event);
}

int main(void)
{
    static unsigned host[VALUES];
    CUdevice device;
    CUcontext context;
    CUstream main_stream, side;
    CUevent event;
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "retaining the primary context");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must_cu(cuStreamCreate(&main_stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    CUdeviceptr output = allocate(main_stream); /* from outside: kept for the graph */

    tnr_cuda_graph graph;
    tnr_graph number;
    CUgraphExec step;
    must(tnr_capture_begin(DEVICE, main_stream, NULL), "beginning the capture");
    step_enqueue(main_stream, side, event, output);
    must(tnr_capture_end(&graph, &number, DEVICE, main_stream), "ending the capture");
    must_cu(cuGraphInstantiateWithFlags(&step, graph, 0), "instantiating");
    must_cu(cuGraphDestroy(graph), "destroying the graph"); /* the executable keeps the memory */
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    must(tnr_graph_get(&info, number), "describing the graph");
    printf("%llu blocks, %llu of them of memory freed before; %llu bytes\n",
           (unsigned long long)info.blocks, (unsigned long long)info.reused,
           (unsigned long long)info.bytes);

    int wrong = 0;
    for (int i = 0; i < REPLAYS; i++)
        must(tnr_graph_launch(number, step, main_stream), "launching");
    must_cu(cuMemcpyDtoHAsync(host, output, BYTES, main_stream), "reading back");
    must_cu(cuStreamSynchronize(main_stream), "waiting");
    for (int i = 0; i < VALUES; i++)
        wrong += host[i] != 7;
    printf("%d replays, %d wrong\n", (int)REPLAYS, wrong);

    must_cu(cuGraphExecDestroy(step), "destroying the executable");
    must(tnr_free((void *)output), "freeing the output");
    must(tnr_stream_destroying(DEVICE, main_stream), "announcing the end of a stream");
    must(tnr_stream_destroying(DEVICE, side), "announcing the end of a stream");
    cuEventDestroy(event);
    cuStreamDestroy(main_stream);
    cuStreamDestroy(side);
    /* Whether the driver has let go of the graph yet is its own affair. */
    must(tnr_shutdown(1), "ending Tenure");
    cuDevicePrimaryCtxRelease(device);
    return wrong == 0 && info.reused == 2 ? 0 : 1;
}
