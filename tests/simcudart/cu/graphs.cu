/* SPDX-License-Identifier: Apache-2.0 */
/* A graph by capture of two streams, one by hand, an update, and a cooperative launch. */
#include <cooperative_groups.h>
#include <cstdio>

__global__ void touch(float *data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] += 1;
}

__global__ void together(float *data)
{
    cooperative_groups::this_grid().sync();
    data[threadIdx.x] = 0;
}

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                                  \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int captured(cudaStream_t stream, float *data, int n)
{
    cudaStream_t other;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(other, fork, 0));
    touch<<<1, 64, 0, stream>>>(data, n / 2);
    touch<<<1, 64, 0, other>>>(data + n / 2, n / 2);
    CHECK(cudaEventRecord(join, other));
    CHECK(cudaStreamWaitEvent(stream, join, 0));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
    CHECK(cudaStreamDestroy(other));
    return 0;
}

static int by_hand(cudaStream_t stream, float *data, int n)
{
    cudaGraph_t graph;
    cudaGraphNode_t set, kernel;
    cudaGraphExec_t exec;
    void *arguments[] = {&data, &n};
    cudaMemsetParams zeros = {};
    cudaKernelNodeParams launch = {};
    zeros.dst = data;
    zeros.elementSize = sizeof(float);
    zeros.width = size_t(n);
    zeros.height = 1;
    launch.func = reinterpret_cast<void *>(touch);
    launch.gridDim = dim3(4);
    launch.blockDim = dim3(64);
    launch.kernelParams = arguments;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &zeros));
    CHECK(cudaGraphAddKernelNode(&kernel, graph, &set, 1, &launch));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    launch.gridDim = dim3(8);
    CHECK(cudaGraphExecKernelNodeSetParams(exec, kernel, &launch));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    return 0;
}

int main()
{
    enum { N = 128 };
    float *data;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMallocAsync(&data, N * sizeof(float), stream));
    CHECK(cudaMemsetAsync(data, 0, N * sizeof(float), stream));
    CHECK(cudaStreamSynchronize(stream));
    if (captured(stream, data, N) != 0 || by_hand(stream, data, N) != 0)
        return 1;
    void *arguments[] = {&data};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(together), dim3(4), dim3(64),
                                      arguments, 0, stream));
    CHECK(cudaFreeAsync(data, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
    puts("the graphs are done");
    return 0;
}
