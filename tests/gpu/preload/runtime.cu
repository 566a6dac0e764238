// SPDX-License-Identifier: Apache-2.0
//
// A program of the CUDA runtime that knows nothing of Tenure. Prints what must be the same with it
// and without it, on stdout; how long its allocations took, on stderr. Exit code 1: something is
// wrong.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        cudaError_t result_ = (call);                                                              \
        if (result_ != cudaSuccess) {                                                              \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                     \
                         cudaGetErrorString(result_));                                             \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);           \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

__global__ void set(unsigned *out, size_t count, unsigned value)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        out[i] = value * 2654435761u + (unsigned)i;
}

__global__ void add(unsigned *to, const unsigned *from, size_t count)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        to[i] += from[i];
}

static unsigned sum_of(const unsigned *memory, size_t count, cudaStream_t stream)
{
    std::vector<unsigned> copy(count);
    MUST(cudaMemcpyAsync(copy.data(), memory, count * sizeof(unsigned), cudaMemcpyDeviceToHost,
                         stream));
    MUST(cudaStreamSynchronize(stream));
    unsigned sum = 0;
    for (unsigned word : copy)
        sum = sum * 31 + word;
    return sum;
}

// Blocks of many sizes, allocated, written, read and freed on several streams at once.
static void blocks()
{
    cudaStream_t streams[3];
    cudaEvent_t event;
    unsigned sum = 0;
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (cudaStream_t &stream : streams)
        MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 200; round++) {
        size_t count = (size_t)1 << (6 + round * 7 % 15);
        unsigned *first, *second;
        cudaStream_t maker = streams[round % 3], user = streams[(round + 1) % 3];
        MUST(cudaMalloc(&first, count * sizeof(unsigned)));
        MUST(cudaMallocAsync(&second, count * sizeof(unsigned), maker));
        set<<<64, 256, 0, maker>>>(first, count, round);
        set<<<64, 256, 0, maker>>>(second, count, round + 1);
        MUST(cudaEventRecord(event, maker));
        MUST(cudaStreamWaitEvent(user, event, 0));
        add<<<64, 256, 0, user>>>(first, second, count);
        MUST(cudaFreeAsync(second, user));
        sum = sum * 7 + sum_of(first, count, user);
        // Still in use when it is freed: cudaFree's meaning covers that.
        set<<<64, 256, 0, maker>>>(first, count, 0);
        MUST(cudaFree(first));
    }
    MUST(cudaGetLastError());
    MUST(cudaDeviceSynchronize());
    std::printf("blocks: %08x\n", sum);
    for (cudaStream_t stream : streams)
        MUST(cudaStreamDestroy(stream));
    MUST(cudaEventDestroy(event));
}

// What the runtime says of memory, and the ways to allocate that are rarer.
static void descriptions()
{
    char *block, *rows, *pooled;
    void *managed, *pinned;
    size_t pitch, free_bytes, total;
    cudaPointerAttributes told;
    cudaMemPool_t pool;
    MUST(cudaMalloc(&block, 1000));
    MUST(cudaPointerGetAttributes(&told, block + 999));
    CHECK(told.type == cudaMemoryTypeDevice && told.device == 0 &&
          told.devicePointer == block + 999);
    MUST(cudaMallocPitch(&rows, &pitch, 1000, 100));
    CHECK(pitch >= 1000 && pitch % 256 == 0);
    MUST(cudaMemset2D(rows, pitch, 1, 1000, 100));
    MUST(cudaMallocManaged(&managed, 4096));
    MUST(cudaPointerGetAttributes(&told, managed));
    CHECK(told.type == cudaMemoryTypeManaged);
    MUST(cudaMallocHost(&pinned, 4096));
    MUST(cudaPointerGetAttributes(&told, pinned));
    CHECK(told.type == cudaMemoryTypeHost);
    MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
    MUST(cudaMallocFromPoolAsync(&pooled, 5000, pool, nullptr));
    MUST(cudaMemsetAsync(pooled, 1, 5000, nullptr));
    MUST(cudaFreeAsync(pooled, nullptr));
    MUST(cudaMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes > 0 && free_bytes < total);
    MUST(cudaFree(rows));
    MUST(cudaFree(managed));
    MUST(cudaFreeHost(pinned));
    MUST(cudaFree(block));
    MUST(cudaFree(nullptr));
    void *none = (void *)1;
    CHECK(cudaMalloc(&none, (size_t)1 << 50) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaMalloc(nullptr, 16) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    std::printf("descriptions: good\n");
}

// A pool of the program's own, with a limit; and one for export, which only the driver can serve.
static void pools()
{
    for (int is_exported = 0; is_exported < 2; is_exported++) {
        cudaMemPool_t pool;
        cudaMemPoolProps wanted = {};
        unsigned *block, *second;
        wanted.allocType = cudaMemAllocationTypePinned;
        wanted.location.type = cudaMemLocationTypeDevice;
        wanted.location.id = 0;
        wanted.handleTypes =
            is_exported ? cudaMemHandleTypePosixFileDescriptor : cudaMemHandleTypeNone;
        wanted.maxSize = 256 << 20;
        MUST(cudaMemPoolCreate(&pool, &wanted));
        MUST(cudaMallocFromPoolAsync(&block, 64 << 20, pool, nullptr));
        set<<<64, 256>>>(block, 16 << 20, 8);
        std::printf("pool: %08x\n", sum_of(block, 16 << 20, nullptr));
        CHECK(cudaMallocFromPoolAsync(&second, (size_t)1 << 30, pool, nullptr) ==
              cudaErrorMemoryAllocation);
        CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
        MUST(cudaFreeAsync(block, nullptr));
        MUST(cudaStreamSynchronize(nullptr));
        MUST(cudaMemPoolDestroy(pool));
    }
}

// Memory allocated and freed inside of a capture, used again by each launch.
static void graph()
{
    enum { COUNT = 1 << 16 };
    cudaStream_t stream;
    cudaGraph_t captured;
    cudaGraphExec_t exec;
    unsigned *out, *inside, sum = 0;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&out, COUNT * sizeof(unsigned)));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    MUST(cudaMallocAsync(&inside, COUNT * sizeof(unsigned), stream));
    set<<<64, 256, 0, stream>>>(inside, COUNT, 5);
    add<<<64, 256, 0, stream>>>(out, inside, COUNT);
    MUST(cudaFreeAsync(inside, stream));
    MUST(cudaStreamEndCapture(stream, &captured));
    MUST(cudaGraphInstantiate(&exec, captured, 0));
    MUST(cudaGraphDestroy(captured));
    set<<<64, 256, 0, stream>>>(out, COUNT, 1);
    for (int i = 0; i < 20; i++) {
        unsigned *other;
        MUST(cudaGraphLaunch(exec, stream));
        MUST(cudaMallocAsync(&other, COUNT * sizeof(unsigned), stream));
        set<<<64, 256, 0, stream>>>(other, COUNT, 9);
        MUST(cudaFreeAsync(other, stream));
        sum = sum * 3 + sum_of(out, COUNT, stream);
    }
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(out));
    std::printf("graph: %08x\n", sum);
}

static void thread_run(int self, unsigned *result)
{
    for (int i = 0; i < 50; i++) {
        size_t count = (size_t)1000 * (i + 1);
        unsigned *block;
        MUST(cudaMalloc(&block, count * sizeof(unsigned)));
        set<<<64, 256, 0, cudaStreamPerThread>>>(block, count, self + i);
        *result = *result * 5 + sum_of(block, count, cudaStreamPerThread);
        MUST(cudaFree(block));
    }
}

static void threads()
{
    std::vector<std::thread> all;
    std::vector<unsigned> results(8, 0);
    for (int i = 0; i < 8; i++)
        all.emplace_back(thread_run, i, &results[i]);
    unsigned sum = 0;
    for (int i = 0; i < 8; i++) {
        all[i].join();
        sum = sum * 11 + results[i];
    }
    std::printf("threads: %08x\n", sum);
}

static void timing()
{
    enum { ROUNDS = 500 };
    void *kept[16] = {};
    auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < ROUNDS; i++) {
        void *&slot = kept[i % 16];
        MUST(cudaFree(slot));
        MUST(cudaMalloc(&slot, (size_t)(1 + i % 7) << 20));
    }
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    for (void *slot : kept)
        MUST(cudaFree(slot));
    std::fprintf(stderr, "cudaMalloc and cudaFree: %.0f ns a pair\n", took.count() / ROUNDS);
}

int main()
{
    MUST(cudaFree(nullptr));
    blocks();
    descriptions();
    pools();
    graph();
    threads();
    timing();
    MUST(cudaDeviceReset());
    unsigned *again;
    MUST(cudaMalloc(&again, 1 << 20));
    set<<<64, 256>>>(again, 1 << 18, 3);
    std::printf("after a reset: %08x\n", sum_of(again, 1 << 18, nullptr));
    MUST(cudaFree(again));
    return 0;
}
