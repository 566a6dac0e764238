/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pipeline as programs of the CUDA runtime have it: frames of varying sizes are uploaded on one
 * stream and worked on by another, with memory for each frame and for each step.
 *
 *   cc pipeline3.c -o pipeline -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lcudart \
 *       $(pkg-config --cflags --libs tenure)
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>
#include <tenure/cudart_replace.h>
#include <tenure/history.h>

enum { FRAMES = 60, VALUES_MAX = 1 << 18 };

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
}

static void must_tnr(tnr_status status, const char *what)
{
    if (status != TNR_OK) {
        fprintf(stderr, "%s: %s\n", what, tnr_last_error());
        exit(1);
    }
}

static size_t frame_bytes(int i)
{
    return (size_t)(VALUES_MAX - (i * 7919) % (VALUES_MAX / 2)) * sizeof(unsigned);
}

/* The work on a frame: its last value, by way of memory of its own, becomes a result. */
static void work(const char *frame, size_t bytes, unsigned *result, cudaStream_t compute)
{
    void *scratch;
    must(cudaMallocAsync(&scratch, bytes, compute), "memory for the work");
    must(cudaMemcpyAsync(scratch, frame, bytes, cudaMemcpyDeviceToDevice, compute), "working");
    must(cudaMemcpyAsync(result, (char *)scratch + bytes - sizeof(unsigned), sizeof(unsigned),
                         cudaMemcpyDeviceToDevice, compute),
         "working");
    must(cudaFreeAsync(scratch, compute), "freeing the memory of the work");
}

/* All of a frame's work as a graph; the memory that it takes for it stays the graph's. */
static cudaGraphExec_t capture(const void *frame, size_t bytes, unsigned *result,
                               cudaStream_t compute)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    must(cudaStreamBeginCapture(compute, cudaStreamCaptureModeGlobal), "beginning a capture");
    work(frame, bytes, result, compute);
    must(cudaStreamEndCapture(compute, &graph), "ending a capture");
    must(cudaGraphInstantiateWithFlags(&exec, graph, 0), "instantiating a graph");
    must(cudaGraphDestroy(graph), "destroying a graph");
    return exec;
}

static void pipeline(const unsigned *host, unsigned *results, cudaStream_t upload,
                     cudaStream_t compute)
{
    cudaEvent_t arrived;
    must(cudaEventCreateWithFlags(&arrived, cudaEventDisableTiming), "an event");
    for (int i = 0; i < FRAMES; i++) {
        size_t bytes = frame_bytes(i);
        void *frame;
        must_tnr(tnr_mark(i % 2 == 0 ? "even frame" : "odd frame"), "a mark in the history");
        must(cudaMallocAsync(&frame, bytes, upload), "memory for a frame");
        must(cudaMemcpyAsync(frame, host + i, bytes, cudaMemcpyHostToDevice, upload), "uploading");
        must(cudaEventRecord(arrived, upload), "marking the arrival");
        must(cudaStreamWaitEvent(compute, arrived, 0), "ordering the work after the upload");
        cudaGraphExec_t graph = capture(frame, bytes, results + i, compute);
        must(cudaGraphLaunch(graph, compute), "launching a graph");
        must(cudaGraphExecDestroy(graph), "destroying a graph");
        must_tnr(tnr_record_use(frame, compute), "the use of a frame ends here");
        must(cudaFreeAsync(frame, upload), "freeing a frame");
    }
    must(cudaEventDestroy(arrived), "destroying an event");
}

int main(void)
{
    must_tnr(tnr_history_set(0, TNR_HISTORY_LIGHT), "recording what happens to memory");
    void *host, *results;
    static unsigned answers[FRAMES];
    cudaStream_t upload, compute;
    int wrong = 0;
    must(cudaMallocHost(&host, (VALUES_MAX + FRAMES) * sizeof(unsigned)), "pinned memory");
    for (unsigned i = 0; i < VALUES_MAX + FRAMES; i++)
        ((unsigned *)host)[i] = i;
    must(cudaStreamCreateWithFlags(&upload, cudaStreamNonBlocking), "a stream");
    must(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "a stream");
    must(cudaMalloc(&results, sizeof(answers)), "memory for the results");

    pipeline(host, results, upload, compute);
    must(cudaMemcpyAsync(answers, results, sizeof(answers), cudaMemcpyDeviceToHost, compute),
         "reading back");
    must(cudaStreamSynchronize(compute), "waiting for the answers");
    for (int i = 0; i < FRAMES; i++)
        wrong += answers[i] != (unsigned)i + frame_bytes(i) / sizeof(unsigned) - 1;
    must_tnr(tnr_snapshot_write("pipeline.json", TNR_SNAPSHOT_AUTO), "writing a snapshot");
    printf("%d frames, %d wrong\n", (int)FRAMES, wrong);

    must(cudaFree(results), "freeing the results");
    must(cudaStreamDestroy(upload), "destroying a stream");
    must(cudaStreamDestroy(compute), "destroying a stream");
    must(cudaFreeHost(host), "freeing pinned memory");
    return wrong != 0;
}
