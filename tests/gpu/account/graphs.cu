/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the CUDA runtime whose memory is accounted for: streams, events, large and small
 * graphs, code with much local memory and large variables, a heap on the device, arrays, and
 * memory in the order of streams. It says "ready" and waits for a line. */
#include <cstdio>
#include <cstdlib>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        cudaError_t result_ = (call);                                                              \
        if (result_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(result_));                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { STREAMS = 16, NODES = 2000, GRAPHS = 8, EVENTS = 256 };

__device__ float large[16 << 20]; /* 64 MiB */

__global__ void touch(float *values, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        values[at] += large[at % 1024];
}

__global__ void spill(float *values, int which)
{
    float own[4096]; /* local memory, 16 KiB for each thread */
    for (int i = 0; i < 4096; i++)
        own[i] = (float)i * values[0];
    values[threadIdx.x] = own[(which * threadIdx.x) % 4096];
}

__global__ void from_heap(float *values)
{
    float *own = (float *)malloc(1024);
    if (own != nullptr) {
        own[0] = values[0];
        values[threadIdx.x] = own[0];
        free(own);
    }
}

int main()
{
    float *values, *ordered;
    cudaStream_t streams[STREAMS];
    cudaEvent_t events[EVENTS];
    MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 128 << 20));
    MUST(cudaMalloc((void **)&values, 64 << 20));
    for (cudaStream_t &stream : streams)
        MUST(cudaStreamCreate(&stream));
    for (cudaEvent_t &event : events)
        MUST(cudaEventCreate(&event));
    for (cudaStream_t stream : streams)
        touch<<<1024, 256, 0, stream>>>(values, 1 << 18);
    spill<<<64, 256>>>(values, 3);
    from_heap<<<64, 256>>>(values);
    MUST(cudaMallocAsync((void **)&ordered, 96 << 20, streams[0]));
    touch<<<1024, 256, 0, streams[0]>>>(ordered, 1 << 18);
    for (int g = 0; g < GRAPHS; g++) {
        cudaGraph_t graph;
        cudaGraphExec_t executable;
        MUST(cudaStreamBeginCapture(streams[1], cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < NODES; i++)
            touch<<<64, 256, 0, streams[1]>>>(values, 1 << 14);
        MUST(cudaStreamEndCapture(streams[1], &graph));
        MUST(cudaGraphInstantiate(&executable, graph, 0));
        for (int i = 0; i < 3; i++)
            MUST(cudaGraphLaunch(executable, streams[g % STREAMS]));
    }
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    MUST(cudaMallocArray(&array, &format, 4096, 4096));
    MUST(cudaDeviceSynchronize());
    puts("ready");
    fflush(stdout);
    return getchar() == EOF;
}
