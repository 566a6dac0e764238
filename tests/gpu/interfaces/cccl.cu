/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/cccl.hpp> beside the driver's own pool (cudaMallocAsync, which is what cuda_async
 * resources have): what an allocation costs, and that Thrust and CUB give the same results with
 * their temporaries from either. ../interfaces.sh compiles and runs it, and so does
 * tests/cccl/check_cccl.py, on the simulated device, with Thrust's host back end and without CUB.
 *
 *   cccl [--quick]
 *
 * A line for each measure: nanoseconds for one, the median of seven rounds in turns, and the
 * extremes. Exit codes: 0 all results are right, 1 one is not.
 */
#include <tenure/cccl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <thrust/execution_policy.h>
#include <thrust/sort.h>
#ifdef __CUDACC__
#include <cub/cub.cuh>
#include <thrust/system/cuda/execution_policy.h>
#endif

#define CHECK_CUDA(call)                                                                           \
    do {                                                                                           \
        cudaError_t check_code = (call);                                                           \
        if (check_code != cudaSuccess) {                                                           \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                     \
                         cudaGetErrorString(check_code));                                          \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                   \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

enum { ROUNDS = 7, STREAMS = 4 };

static const std::size_t KIB = 1024, MIB = 1024 * KIB;
static int is_quick;

/* ---- the other resource, and what Thrust takes ---------------------------------------------- */

/* The driver's pool of the device, which keeps what is freed: so cuda_async resources set it. */
struct cuda_async {
    cuda_async()
    {
#ifdef __CUDACC__
        cudaMemPool_t pool;
        std::uint64_t all = UINT64_MAX;
        CHECK_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
        CHECK_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
#endif
    }

    void *allocate(cudaStream_t stream, std::size_t bytes)
    {
        void *ptr;
        CHECK_CUDA(cudaMallocAsync(&ptr, bytes, stream));
        return ptr;
    }

    void deallocate(cudaStream_t stream, void *ptr, std::size_t)
    {
        CHECK_CUDA(cudaFreeAsync(ptr, stream));
    }
};

/* Temporaries from a resource, in the order of a stream. Tenure has tenure::allocator for this. */
struct async_temporaries {
    using value_type = char;

    char *allocate(std::ptrdiff_t count)
    {
        return static_cast<char *>(resource.allocate(stream, std::size_t(count)));
    }

    void deallocate(char *ptr, std::size_t count)
    {
        resource.deallocate(stream, ptr, count);
    }

    cuda_async resource;
    cudaStream_t stream;
};

static tenure::allocator<char> temporaries(tenure::memory_resource memory, cudaStream_t stream)
{
    return tenure::allocator<char>(memory, stream);
}

static async_temporaries temporaries(cuda_async memory, cudaStream_t stream)
{
    return {memory, stream};
}

template <class Resource>
static void thrust_sort(Resource memory, std::uint32_t *keys, std::size_t count,
                        cudaStream_t stream)
{
    auto from = temporaries(memory, stream);
#ifdef __CUDACC__
    thrust::sort(thrust::cuda::par_nosync(from).on(stream), keys, keys + count);
#else
    CHECK_CUDA(cudaStreamSynchronize(stream));
    thrust::sort(thrust::device(from), keys, keys + count);
#endif
}

#ifdef __CUDACC__
/* Storage is given back right behind the call that uses it: in the order of the stream. */
template <class Resource>
static void cub_sort(Resource memory, const std::uint32_t *from, std::uint32_t *to,
                     std::size_t count, cudaStream_t stream)
{
    std::size_t bytes = 0;
    CHECK_CUDA(cub::DeviceRadixSort::SortKeys(nullptr, bytes, from, to, int(count), 0, 32, stream));
    void *storage = memory.allocate(stream, bytes);
    CHECK_CUDA(cub::DeviceRadixSort::SortKeys(storage, bytes, from, to, int(count), 0, 32, stream));
    memory.deallocate(stream, storage, bytes);
}

template <class Resource>
static void cub_sum(Resource memory, const std::uint32_t *from, std::uint32_t *to,
                    std::size_t count, cudaStream_t stream)
{
    std::size_t bytes = 0;
    CHECK_CUDA(cub::DeviceReduce::Sum(nullptr, bytes, from, to, int(count), stream));
    void *storage = memory.allocate(stream, bytes);
    CHECK_CUDA(cub::DeviceReduce::Sum(storage, bytes, from, to, int(count), stream));
    memory.deallocate(stream, storage, bytes);
}
#endif

/* ---- times ---------------------------------------------------------------------------------- */

static double now_ns()
{
    auto since = std::chrono::steady_clock::now().time_since_epoch();
    return double(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

struct timing {
    std::vector<double> ns;

    std::string text()
    {
        char buffer[96];
        std::sort(ns.begin(), ns.end());
        std::snprintf(buffer, sizeof(buffer), "%.0f (%.0f to %.0f)", ns[ns.size() / 2], ns.front(),
                      ns.back());
        return buffer;
    }
};

/* Runs both in turns, after a round that does not count. Each answers the nanoseconds for one. */
static void compare(const char *name, const std::function<double()> &with_tenure,
                    const std::function<double()> &with_async)
{
    timing ours, theirs;
    (void)with_tenure();
    (void)with_async();
    for (int i = 0; i < ROUNDS; i++) {
        ours.ns.push_back(with_tenure());
        theirs.ns.push_back(with_async());
    }
    std::printf("%-40s tenure %-28s cuda_async %s\n", name, ours.text().c_str(),
                theirs.text().c_str());
    std::fflush(stdout);
}

template <class Resource>
static double pairs(Resource memory, cudaStream_t stream, std::size_t bytes)
{
    int count = is_quick ? 100 : 10000;
    double began = now_ns();
    for (int i = 0; i < count; i++)
        memory.deallocate(stream, memory.allocate(stream, bytes), bytes);
    return (now_ns() - began) / count;
}

/* 256 blocks of many sizes are live at once; the time of the allocations, or of the frees. */
template <class Resource> static double live(Resource memory, cudaStream_t stream, int is_of_frees)
{
    int count = is_quick ? 2 : 40;
    double spent = 0;
    void *blocks[256];
    for (int i = 0; i < count; i++) {
        double began = now_ns();
        for (std::size_t j = 0; j < 256; j++)
            blocks[j] = memory.allocate(stream, 512 * (1 + j * 37 % 256));
        double between = now_ns();
        for (std::size_t j = 0; j < 256; j++)
            memory.deallocate(stream, blocks[j * 101 % 256], 512 * (1 + j * 101 % 256 * 37 % 256));
        spent += is_of_frees ? now_ns() - between : between - began;
    }
    return spent / (256 * count);
}

/* Times of calls that enqueue work: all of it is over before the clock stops. */
static double calls(int count, cudaStream_t stream, const std::function<void()> &body)
{
    count = is_quick ? 2 : count;
    CHECK_CUDA(cudaStreamSynchronize(stream));
    double began = now_ns();
    for (int i = 0; i < count; i++)
        body();
    CHECK_CUDA(cudaStreamSynchronize(stream));
    return (now_ns() - began) / count;
}

static void times(tenure::memory_resource ours, cuda_async theirs, cudaStream_t stream)
{
    char name[64];
    for (std::size_t bytes : {512 * std::size_t(1), 64 * KIB, 2 * MIB, 64 * MIB}) {
        std::snprintf(name, sizeof(name), "allocation and free, %zu KiB [ns]", bytes / KIB);
        compare(
            bytes < KIB ? "allocation and free, 512 B [ns]" : name,
            [&] { return pairs(ours, stream, bytes); },
            [&] { return pairs(theirs, stream, bytes); });
    }
    for (int is_of_frees : {0, 1})
        compare(
            is_of_frees ? "free, of 256 live [ns]" : "allocation, up to 256 live [ns]",
            [&] { return live(ours, stream, is_of_frees); },
            [&] { return live(theirs, stream, is_of_frees); });
    std::uint32_t *keys, *sorted;
    std::size_t most = 4 * MIB;
    CHECK_CUDA(cudaMalloc(reinterpret_cast<void **>(&keys), most * sizeof(*keys)));
    CHECK_CUDA(cudaMalloc(reinterpret_cast<void **>(&sorted), most * sizeof(*keys)));
    CHECK_CUDA(cudaMemsetAsync(keys, 0x5a, most * sizeof(*keys), stream));
    for (std::size_t count : {4 * KIB, 256 * KIB, 4 * MIB}) {
        std::snprintf(name, sizeof(name), "thrust::sort, %zu K keys [ns]", count / KIB);
        compare(
            name,
            [&] { return calls(200, stream, [&] { thrust_sort(ours, keys, count, stream); }); },
            [&] { return calls(200, stream, [&] { thrust_sort(theirs, keys, count, stream); }); });
#ifdef __CUDACC__
        std::snprintf(name, sizeof(name), "cub sort, %zu K keys [ns]", count / KIB);
        compare(
            name,
            [&] {
                return calls(200, stream, [&] { cub_sort(ours, keys, sorted, count, stream); });
            },
            [&] {
                return calls(200, stream, [&] { cub_sort(theirs, keys, sorted, count, stream); });
            });
        std::snprintf(name, sizeof(name), "cub sum, %zu K keys [ns]", count / KIB);
        compare(
            name,
            [&] { return calls(200, stream, [&] { cub_sum(ours, keys, sorted, count, stream); }); },
            [&] {
                return calls(200, stream, [&] { cub_sum(theirs, keys, sorted, count, stream); });
            });
#endif
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaFree(keys));
    CHECK_CUDA(cudaFree(sorted));
}

/* ---- results -------------------------------------------------------------------------------- */

/* Arrays on several streams at once, whose memory and temporaries are given back with the work
 * under way. Each must come out as std::sort leaves it. How many do not. */
template <class Resource> static int wrong_results(Resource memory, cudaStream_t *streams)
{
    enum { ARRAYS = 200 };
    int wrong = 0, arrays = is_quick ? 8 : ARRAYS;
    std::uint64_t random = 7;
    std::vector<std::vector<std::uint32_t>> inputs, outputs;
    std::vector<std::uint32_t> sums(std::size_t(arrays), 0);
    for (int i = 0; i < arrays; i++) {
        std::vector<std::uint32_t> values(1000 + std::size_t(i) * 977 % 60000);
        for (auto &value : values) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            value = std::uint32_t(random >> 32);
        }
        outputs.emplace_back(values.size());
        inputs.push_back(std::move(values));
    }
    for (int i = 0; i < arrays; i++) {
        cudaStream_t stream = streams[i % STREAMS];
        std::size_t count = inputs[i].size(), bytes = count * sizeof(std::uint32_t);
        auto *keys = static_cast<std::uint32_t *>(memory.allocate(stream, bytes));
        CHECK_CUDA(cudaMemcpyAsync(keys, inputs[i].data(), bytes, cudaMemcpyHostToDevice, stream));
#ifdef __CUDACC__
        auto *sorted = static_cast<std::uint32_t *>(memory.allocate(stream, bytes));
        auto *sum = static_cast<std::uint32_t *>(memory.allocate(stream, sizeof(std::uint32_t)));
        cub_sum(memory, keys, sum, count, stream);
        if (i % 2 == 0) {
            cub_sort(memory, keys, sorted, count, stream);
            std::swap(keys, sorted);
        } else {
            thrust_sort(memory, keys, count, stream);
        }
        CHECK_CUDA(cudaMemcpyAsync(&sums[i], sum, sizeof(*sum), cudaMemcpyDeviceToHost, stream));
        memory.deallocate(stream, sum, sizeof(*sum));
        memory.deallocate(stream, sorted, bytes);
#else
        thrust_sort(memory, keys, count, stream);
#endif
        CHECK_CUDA(cudaMemcpyAsync(outputs[i].data(), keys, bytes, cudaMemcpyDeviceToHost, stream));
        memory.deallocate(stream, keys, bytes);
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < arrays; i++) {
        std::uint32_t sum = 0;
        for (std::uint32_t value : inputs[i])
            sum += value;
        std::sort(inputs[i].begin(), inputs[i].end());
        wrong += inputs[i] != outputs[i];
#ifdef __CUDACC__
        wrong += sum != sums[i];
#endif
    }
    return wrong;
}

int main(int count, char **words)
{
    is_quick = count > 1 && std::strcmp(words[1], "--quick") == 0;
    CHECK_CUDA(cudaSetDevice(0));
    tenure::memory_resource ours(0);
    cuda_async theirs;
    cudaStream_t streams[STREAMS];
    for (auto &stream : streams)
        CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int wrong = 0;
    for (int i = 0; i < (is_quick ? 1 : 5); i++)
        wrong += wrong_results(ours, streams);
    std::printf("%-40s tenure %d wrong, cuda_async %d wrong\n", "sorts and sums on 4 streams",
                wrong, wrong_results(theirs, streams));
    times(ours, theirs, streams[0]);
    tnr_stats stats;
    stats.struct_bytes = sizeof(stats);
    CHECK(tnr_validate(-1) == TNR_OK && tnr_stats_get(&stats, nullptr, 0) == TNR_OK);
    CHECK(stats.allocated_bytes[TNR_WORLD_ALL].current == 0);
    std::printf("%-40s %llu MiB reserved at most\n", "tenure's memory",
                (unsigned long long)(stats.reserved_bytes.peak / MIB));
    for (auto stream : streams) {
        CHECK(tnr_stream_destroying(0, stream) == TNR_OK);
        CHECK_CUDA(cudaStreamDestroy(stream));
    }
    return wrong != 0;
}
