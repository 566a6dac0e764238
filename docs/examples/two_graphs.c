/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two graphs on one pool, such as one for each batch size. Each uses the memory that the other has
 * freed, so they must not run at once: tnr_graph_launch orders them on the device, whichever
 * streams they are launched on. What one of them leaves behind is safe from the other: a launch
 * that would overwrite a live block is refused.
 *
 *   cc two_graphs.c -o two_graphs $(pkg-config --cflags --libs tenure tenure-simcuda)
 *
 * That is for the simulated device. docs/install.md has the line for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/capture.h>

enum { DEVICE = 0, VALUES = 1 << 20, BYTES = VALUES * 4, ROUNDS = 50 };

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

typedef struct step {
    tnr_graph number;
    CUgraphExec exec;
    CUdeviceptr output; /* an ordinary block */
    unsigned value;
} step;

/* Captures a step that fills temporary memory with its value and copies it to its output. The
 * temporary memory stays allocated if `keeps` is not null. */
static step step_capture(tnr_pool pool, CUstream stream, unsigned value, void **keeps)
{
    step made = {.value = value};
    void *output, *scratch;
    tnr_cuda_graph graph;
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = pool;
    must(tnr_malloc(&output, BYTES, DEVICE, stream), "allocating the output");
    made.output = (CUdeviceptr)output;
    must(tnr_capture_begin(DEVICE, stream, &options), "beginning a capture");
    must(tnr_malloc(&scratch, BYTES, DEVICE, stream), "allocating inside");
    must_cu(cuMemsetD32Async((CUdeviceptr)scratch, value, VALUES, stream), "filling");
    must_cu(cuMemcpyDtoDAsync(made.output, (CUdeviceptr)scratch, BYTES, stream), "copying");
    if (keeps == NULL)
        must(tnr_free(scratch), "freeing inside");
    else
        *keeps = scratch;
    must(tnr_capture_end(&graph, &made.number, DEVICE, stream), "ending a capture");
    must_cu(cuGraphInstantiateWithFlags(&made.exec, graph, 0), "instantiating");
    must_cu(cuGraphDestroy(graph), "destroying the graph");
    return made;
}

static int wrong_values(const step *of, CUstream stream)
{
    static unsigned host[VALUES];
    int wrong = 0;
    must_cu(cuMemcpyDtoHAsync(host, of->output, BYTES, stream), "reading back");
    must_cu(cuStreamSynchronize(stream), "waiting");
    for (int i = 0; i < VALUES; i++)
        wrong += host[i] != of->value;
    return wrong;
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUstream streams[2];
    tnr_pool pool;
    void *kept;
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "retaining the primary context");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    for (int i = 0; i < 2; i++)
        must_cu(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must(tnr_graph_pool_create(&pool, DEVICE, NULL), "making a pool");
    step small = step_capture(pool, streams[0], 1, NULL);
    step large = step_capture(pool, streams[0], 2, NULL);
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    must(tnr_stats_get(&stats, pool, DEVICE), "asking for statistics");
    printf("two graphs, %llu bytes\n", (unsigned long long)stats.reserved_bytes.current);

    for (int i = 0; i < ROUNDS; i++) { /* the device waits, the host does not */
        must(tnr_graph_launch(small.number, small.exec, streams[0]), "launching");
        must(tnr_graph_launch(large.number, large.exec, streams[1]), "launching");
    }
    int wrong = wrong_values(&small, streams[0]) + wrong_values(&large, streams[1]);

    /* A third one keeps its memory: the others would overwrite it. */
    step third = step_capture(pool, streams[0], 3, &kept);
    tnr_status refused = tnr_graph_launch(small.number, small.exec, streams[0]);
    printf("%s: %s\n", tnr_status_name(refused), tnr_last_error());
    must(tnr_graph_launch(third.number, third.exec, streams[1]), "launching the third");
    must(tnr_free(kept), "freeing what it kept");
    must(tnr_graph_launch(small.number, small.exec, streams[0]), "launching again");
    wrong += wrong_values(&small, streams[0]) + wrong_values(&third, streams[1]);
    printf("%d wrong\n", wrong);

    const step *const all[] = {&small, &large, &third};
    for (int i = 0; i < 3; i++) {
        must_cu(cuGraphExecDestroy(all[i]->exec), "destroying an executable");
        must(tnr_free((void *)all[i]->output), "freeing an output");
    }
    for (int i = 0; i < 2; i++) {
        must(tnr_stream_destroying(DEVICE, streams[i]), "announcing the end of a stream");
        cuStreamDestroy(streams[i]);
    }
    must(tnr_shutdown(1), "ending Tenure");
    cuDevicePrimaryCtxRelease(device);
    return wrong == 0 && refused == TNR_ERR_OVERWRITE && stats.reserved_bytes.current < 2 * BYTES
               ? 0
               : 1;
}
