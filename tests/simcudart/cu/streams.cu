/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and kernels of several streams, pinned memory, events, callbacks, templates, symbols. */
#include <cstdio>

__constant__ float factors[16];
__device__ int launches = 5;
__managed__ int shared_number = 3;

template <typename T, int WIDTH> __global__ void scale(T *data, int n)
{
    __shared__ T tile[WIDTH];
    int i = blockIdx.x * WIDTH + threadIdx.x;
    tile[threadIdx.x] = i < n ? data[i] : T(0);
    __syncthreads();
    if (i < n)
        data[i] = tile[threadIdx.x] * T(factors[i % 16]);
    if (i == 0)
        atomicAdd(&launches, 1);
}

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                                  \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static void CUDART_CB count(void *at)
{
    ++*static_cast<int *>(at);
}

int main()
{
    enum { STREAMS = 4, N = 1 << 14 };
    cudaStream_t streams[STREAMS];
    cudaEvent_t begin, end;
    float *pinned, *device, ms = -1, host_factors[16];
    int counted = 0, was = 0, block = 0, grid = 0;
    for (float &factor : host_factors)
        factor = 2;
    CHECK(cudaMemcpyToSymbol(factors, host_factors, sizeof(host_factors)));
    CHECK(cudaMemcpyFromSymbol(&was, launches, sizeof(was)));
    if (was != 5 || shared_number != 3) {
        printf("variables are %d and %d\n", was, shared_number);
        return 1;
    }
    CHECK(cudaMallocHost(&pinned, N * sizeof(float)));
    CHECK(cudaMalloc(&device, N * sizeof(float)));
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, scale<float, 128>));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin));
    for (int i = 0; i < STREAMS; i++) {
        const size_t part = N / STREAMS, bytes = part * sizeof(float);
        CHECK(cudaStreamCreate(&streams[i]));
        CHECK(cudaMemcpyAsync(device + i * part, pinned + i * part, bytes, cudaMemcpyHostToDevice,
                              streams[i]));
        scale<float, 128><<<part / 128, 128, 0, streams[i]>>>(device + i * part, int(part));
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(pinned + i * part, device + i * part, bytes, cudaMemcpyDeviceToHost,
                              streams[i]));
        CHECK(cudaLaunchHostFunc(streams[i], count, &counted));
        CHECK(cudaStreamSynchronize(streams[i])); /* the count is one thread's at a time */
    }
    CHECK(cudaEventRecord(end));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (counted != STREAMS || ms < 0 || block <= 0 || grid <= 0) {
        printf("%d host functions ran, %f ms, occupancy %d x %d\n", counted, double(ms), grid,
               block);
        return 1;
    }
    for (cudaStream_t stream : streams)
        CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaDeviceReset());
    puts("the streams are done");
    return 0;
}
