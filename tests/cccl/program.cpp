/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/cccl.hpp> on the simulated device, under the lazy schedule and its race detector, which
 * end the program where memory is used that nothing orders: compiled against CCCL's headers, or
 * against concept/, which states what CCCL asks (TENURE_TEST_CONCEPT). check_cccl.py compiles and
 * runs it.
 *
 * Seen to fail: without the wait of allocate_sync (any_stream), with tnr_free for tnr_free_on
 * (another_stream), without tnr_record_use (uses), with the pool left out (pools), without the
 * relaxed capture mode (captures), without the free after a failed wait (faults).
 */
#include <tenure/cccl.hpp>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include <unistd.h>

#include <tenure/simcuda.h>

using cuda::mr::device_accessible;
using tenure::memory_resource;

static const std::size_t MIB = std::size_t(1) << 20;

/* ---- what the compiler says ----------------------------------------------------------------- */

#if CCCL_VERSION >= 3001000
static_assert(cuda::mr::resource_with<memory_resource, device_accessible>, "");
static_assert(cuda::mr::synchronous_resource_with<memory_resource, device_accessible>, "");
static_assert(!cuda::mr::resource_with<memory_resource, cuda::mr::host_accessible>, "");
#else
static_assert(cuda::mr::async_resource_with<memory_resource, device_accessible>, "");
static_assert(cuda::mr::resource_with<memory_resource, device_accessible>, "");
static_assert(!cuda::mr::async_resource_with<memory_resource, cuda::mr::host_accessible>, "");
#endif

static_assert(std::is_nothrow_copy_constructible<memory_resource>::value, "");

/* ---- checks --------------------------------------------------------------------------------- */

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition,  \
                         tnr_last_error());                                                        \
            std::abort();                                                                          \
        }                                                                                          \
    } while (0)
#define CHECK_OK(call) CHECK((call) == TNR_OK)
#define CHECK_CUDA(call) CHECK((call) == cudaSuccess)

static tnr_stats stats_now(tnr_pool pool = nullptr)
{
    tnr_stats stats;
    stats.struct_bytes = sizeof(stats);
    CHECK_OK(tnr_validate(-1));
    CHECK_OK(tnr_stats_get(&stats, pool, 0));
    return stats;
}

static std::uint64_t live()
{
    return stats_now().allocated_bytes[TNR_WORLD_ALL].current;
}

static cudaStream_t stream_new()
{
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static void stream_end(cudaStream_t stream)
{
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_OK(tnr_stream_destroying(0, stream));
    CHECK_CUDA(cudaStreamDestroy(stream));
}

/* ---- in the order of streams ---------------------------------------------------------------- */

static void own_stream()
{
    memory_resource resource(0);
    cudaStream_t stream = stream_new();
    void *first = resource.allocate(stream, 3 * MIB);
    CHECK(live() == 3 * MIB);
    CHECK_CUDA(cudaMemsetAsync(first, 1, 3 * MIB, stream));
    resource.deallocate(stream, first, 3 * MIB);
    void *second = resource.allocate_async(3 * MIB, stream); /* by its older name */
    CHECK(second == first);
    resource.deallocate_async(second, 3 * MIB, 256, stream);
    for (std::size_t alignment = 1; alignment <= 4 * MIB; alignment *= 2) {
        void *block = resource.allocate(stream, 100, alignment);
        CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
        resource.deallocate(stream, block, 100, alignment);
    }
    CHECK(resource.allocate(stream, 0) == nullptr);
    resource.deallocate(stream, nullptr, 0);
    stream_end(stream);
}

/* Its work on the memory is not over when another stream, the block's, wants that back. */
static void another_stream()
{
    memory_resource resource(0);
    cudaStream_t own = stream_new(), side = stream_new();
    void *block = resource.allocate(own, 2 * MIB);
    CHECK_CUDA(cudaStreamSynchronize(own));
    CHECK_CUDA(cudaMemsetAsync(block, 1, 2 * MIB, side));
    resource.deallocate(side, block, 2 * MIB);
    CHECK(stats_now().bytes_retired == 2 * MIB);
    void *next = resource.allocate(own, 2 * MIB);
    CHECK_CUDA(cudaMemsetAsync(next, 2, 2 * MIB, own));
    resource.deallocate(own, next, 2 * MIB);
    stream_end(side);
    stream_end(own);
}

static void uses()
{
    memory_resource resource(0);
    cudaStream_t own = stream_new(), side = stream_new();
    void *block = resource.allocate(own, 2 * MIB);
    CHECK_CUDA(cudaMemsetAsync(block, 1, 2 * MIB, side));
    resource.record_use(static_cast<char *>(block) + 5, side);
    resource.deallocate(own, block, 2 * MIB);
    CHECK(stats_now().bytes_retired == 2 * MIB);
    void *next = resource.allocate(own, 2 * MIB);
    CHECK_CUDA(cudaMemsetAsync(next, 2, 2 * MIB, own));
    resource.deallocate(own, next, 2 * MIB);
    try {
        resource.record_use(&resource, side);
        CHECK(false); /* a stranger's address was taken */
    } catch (const tenure::error &failure) {
        CHECK(failure.status() == TNR_ERR_FOREIGN_POINTER);
    }
    stream_end(side);
    stream_end(own);
}

static void default_stream()
{
    memory_resource resource(0);
    void *block = resource.allocate(cudaStream_t(nullptr), MIB);
    tnr_block_info info;
    CHECK_OK(tnr_block_get(&info, block));
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
    CHECK(info.stream == reinterpret_cast<tnr_stream>(std::uintptr_t(2)));
#else
    CHECK(info.stream != reinterpret_cast<tnr_stream>(std::uintptr_t(2)));
#endif
    resource.deallocate(cudaStream_t(nullptr), block, MIB);
}

/* ---- of no stream --------------------------------------------------------------------------- */

/* The only memory there is was used a moment ago, elsewhere; then another stream uses it at once.
 * Freed by each of the two ways. */
static void any_stream()
{
    memory_resource resource(0);
    cudaStream_t busy = stream_new(), other = stream_new();
    CHECK_OK(tnr_trim(nullptr, 0, 0));
    CHECK_OK(tnr_limit_set(8 * MIB, 0));
    for (int way = 0; way < 2; way++) {
        void *block = way == 0 ? resource.allocate(busy, 6 * MIB) : resource.allocate_sync(6 * MIB);
        CHECK_CUDA(cudaMemsetAsync(block, 1, 6 * MIB, busy));
        if (way == 0)
            resource.deallocate(busy, block, 6 * MIB);
        else
            resource.deallocate_sync(block, 6 * MIB);
        void *next = resource.allocate(6 * MIB); /* by its older name */
        CHECK_CUDA(cudaMemsetAsync(next, 2, 6 * MIB, other));
        CHECK_CUDA(cudaStreamSynchronize(other));
        CHECK(*static_cast<char *>(simcuda_memory_at(reinterpret_cast<CUdeviceptr>(next))) == 2);
        resource.deallocate(next, 6 * MIB);
    }
    CHECK_OK(tnr_limit_set(SIZE_MAX, 0));
    stream_end(other);
    stream_end(busy);
}

/* The calling thread's device is nobody's to change. */
static void other_device()
{
    memory_resource resource(1);
    void *block = resource.allocate_sync(MIB);
    int current = -1;
    tnr_block_info info;
    CHECK_CUDA(cudaGetDevice(&current));
    CHECK_OK(tnr_block_get(&info, block));
    CHECK(current == 0 && info.device == 1);
    resource.deallocate(cudaStream_t(nullptr), block, MIB); /* device 0's: it has no use of it */
}

static void captures()
{
    memory_resource resource(0);
    cudaStream_t stream = stream_new();
    cudaGraph_t graph = nullptr;
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    void *block = resource.allocate_sync(MIB);
    resource.deallocate_sync(block, MIB);
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphDestroy(graph));
    stream_end(stream);
}

/* ---- pools ---------------------------------------------------------------------------------- */

static void pools()
{
    tnr_pool pool;
    CHECK_OK(tnr_pool_create(&pool, 0, nullptr));
    memory_resource resource(0, pool), plain(0);
    CHECK(resource.pool() == pool && resource.device() == 0);
    CHECK(resource == memory_resource(0, pool) && resource != plain && plain != memory_resource(1));
    cudaStream_t stream = stream_new();
    for (std::size_t alignment = 256; alignment <= MIB; alignment *= 4096) {
        void *block = resource.allocate(stream, MIB, alignment);
        tnr_block_info info;
        CHECK_OK(tnr_block_get(&info, block));
        CHECK(info.pool == pool);
        plain.deallocate(stream, block, MIB, alignment); /* whose it is counts */
    }
    void *block = resource.allocate_sync(MIB);
    CHECK(stats_now(pool).allocated_bytes[TNR_WORLD_ALL].current == MIB);
    resource.deallocate_sync(block, MIB);
    /* Without a pool, where the thread is routed to. */
    CHECK_OK(tnr_pool_push(pool));
    block = plain.allocate(stream, MIB);
    CHECK_OK(tnr_pool_pop(pool));
    CHECK(stats_now(pool).allocated_bytes[TNR_WORLD_ALL].current == MIB);
    plain.deallocate(stream, block, MIB);
    CHECK_OK(tnr_pool_destroy(pool));
    try {
        (void)resource.allocate(stream, MIB, 4096);
        CHECK(false); /* a pool that is gone served */
    } catch (const tenure::error &failure) {
        CHECK(failure.status() == TNR_ERR_INVALID_POOL);
    }
    stream_end(stream);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* TNR_OK, the status of a bad_alloc, or minus that of an error. */
template <class Body> static int status_of(Body body)
{
    try {
        body();
    } catch (const tenure::bad_alloc &failure) {
        const std::bad_alloc copy(failure), &seen = failure;
        CHECK(std::strlen(seen.what()) > 10);
        return failure.status();
    } catch (const tenure::error &failure) {
        CHECK(std::strlen(failure.what()) > 10);
        return -int(failure.status());
    }
    return TNR_OK;
}

static void bad_input()
{
    memory_resource resource(0), nowhere(99);
    cudaStream_t stream = stream_new();
    CHECK_OK(tnr_limit_set(8 * MIB, 0));
    CHECK(status_of([&] { (void)resource.allocate(stream, 16 * MIB); }) == TNR_ERR_LIMIT);
    CHECK(status_of([&] { (void)resource.allocate_sync(16 * MIB); }) == TNR_ERR_LIMIT);
    CHECK_OK(tnr_limit_set(SIZE_MAX, 0));
    CHECK(status_of([&] { (void)resource.allocate(stream, SIZE_MAX); }) == TNR_ERR_INVALID_SIZE);
    for (std::size_t alignment : {std::size_t(0), std::size_t(24), std::size_t(1) << 40})
        CHECK(status_of([&] { (void)resource.allocate(stream, 1, alignment); }) ==
              -TNR_ERR_INVALID_ALIGNMENT);
    CHECK(status_of([&] { (void)nowhere.allocate(stream, 1); }) == -TNR_ERR_INVALID_DEVICE);
    CHECK(status_of([&] { (void)nowhere.allocate_sync(1); }) == -TNR_ERR_DRIVER);
    tenure::allocator<double> many(resource);
    CHECK(status_of([&] { (void)many.allocate(SIZE_MAX / sizeof(double) + 2); }) ==
          TNR_ERR_INVALID_SIZE);
    CHECK(live() == 0);
    stream_end(stream);
}

/* A free that is refused is told on standard error. */
static void refused_frees()
{
    memory_resource resource(0);
    void *block = resource.allocate_sync(MIB);
    resource.deallocate_sync(block, MIB);
    char name[] = "/tmp/tenure_cccl_XXXXXX", text[4096];
    int file = mkstemp(name), before = dup(2);
    CHECK(file >= 0 && dup2(file, 2) == 2 && unlink(name) == 0);
    resource.deallocate_sync(block, MIB);
    resource.deallocate(cudaStream_t(nullptr), &resource, MIB);
    CHECK(dup2(before, 2) == 2);
    ssize_t length = pread(file, text, sizeof(text) - 1, 0);
    CHECK(length > 0);
    text[length] = '\0';
    const char *second = std::strstr(text, "\ntenure: freeing memory: ");
    CHECK(std::strstr(text, "tenure: freeing memory: ") == text && second != nullptr);
    CHECK(std::strstr(second, "was not allocated by Tenure") != nullptr);
    close(file);
    close(before);
}

/* Each call that allocate_sync makes of the driver fails at each of its places: nothing leaks. */
static void faults()
{
    memory_resource resource(0);
    cudaStream_t busy = stream_new();
    for (std::uint64_t nth = 1;; nth++) {
        CHECK_OK(tnr_trim(nullptr, 0, 0));
        void *block = resource.allocate(busy, 6 * MIB);
        CHECK_CUDA(cudaMemsetAsync(block, 1, 6 * MIB, busy));
        resource.deallocate(busy, block, 6 * MIB);
        CHECK_OK(tnr_limit_set(8 * MIB, 0));
        simcuda_fail("*", nth, 0, CUDA_ERROR_UNKNOWN);
        void *got = nullptr;
        int status = status_of([&] { got = resource.allocate_sync(6 * MIB); });
        std::uint64_t hits = simcuda_fail_hits();
        simcuda_fail_clear();
        CHECK((status == TNR_OK) == (got != nullptr));
        resource.deallocate_sync(got, 6 * MIB);
        CHECK(live() == 0);
        CHECK_OK(tnr_limit_set(SIZE_MAX, 0));
        CHECK_CUDA(cudaStreamSynchronize(busy));
        if (hits == 0)
            break;
    }
    stream_end(busy);
}

/* ---- the allocator -------------------------------------------------------------------------- */

static void allocators()
{
    memory_resource resource(0);
    cudaStream_t stream = stream_new();
    tenure::allocator<char> ordered(resource, stream), loose(resource);
    tenure::allocator<int> rebound(ordered);
    CHECK(rebound == ordered && ordered != loose && !(loose != tenure::allocator<int>(resource)));
    CHECK(rebound.resource() == resource);
    int *block = rebound.allocate(1000);
    tnr_block_info info;
    CHECK_OK(tnr_block_get(&info, block));
    CHECK(info.stream == stream && info.bytes_requested == 1000 * sizeof(int));
    rebound.deallocate(block, 1000);
    {
        /* Simulated memory is the host's: a container of the host's can live there. */
        std::vector<int, tenure::allocator<int>> values(loose);
        for (int i = 0; i < 100000; i++)
            values.push_back(i);
        CHECK(values[99999] == 99999 && live() >= 100000 * sizeof(int));
    }
    struct alignas(4096) wide {
        char bytes[4096];
    };
    tenure::allocator<wide> wides(resource, stream);
    wide *one = wides.allocate(1);
    CHECK(reinterpret_cast<std::uintptr_t>(one) % 4096 == 0);
    wides.deallocate(one, 1);
    stream_end(stream);
}

/* ---- what CCCL makes of a resource ---------------------------------------------------------- */

#ifndef TENURE_TEST_CONCEPT
static void erased()
{
    memory_resource resource(0);
    cudaStream_t stream = stream_new();
#if CCCL_VERSION >= 3001000
    cuda::mr::resource_ref<device_accessible> ref(resource);
    void *block = ref.allocate(stream, MIB, 256);
    CHECK(live() == MIB);
    ref.deallocate(stream, block, MIB, 256);
#if CCCL_VERSION >= 3002000
    cuda::mr::any_resource<device_accessible> any(resource);
    block = any.allocate_sync(MIB, 256);
    any.deallocate_sync(block, MIB, 256);
#endif
#else
    cuda::mr::async_resource_ref<device_accessible> ref(resource);
    void *block = ref.allocate_async(MIB, 256, stream);
    CHECK(live() == MIB);
    ref.deallocate_async(block, MIB, 256, stream);
    block = ref.allocate(MIB, 256);
    ref.deallocate(block, MIB, 256);
#endif
    memory_resource same(0), other(1);
    CHECK(ref == decltype(ref)(same) && ref != decltype(ref)(other));
    stream_end(stream);
}
#endif

int main()
{
    static const struct {
        const char *name;
        void (*body)();
    } tests[] = {
        {"own_stream", own_stream},
        {"another_stream", another_stream},
        {"uses", uses},
        {"default_stream", default_stream},
        {"any_stream", any_stream},
        {"other_device", other_device},
        {"captures", captures},
        {"pools", pools},
        {"bad_input", bad_input},
        {"refused_frees", refused_frees},
        {"faults", faults},
        {"allocators", allocators},
#ifndef TENURE_TEST_CONCEPT
        {"erased", erased},
#endif
    };
    for (const auto &test : tests) {
        test.body();
        CHECK(live() == 0);
        std::printf("%s\n", test.name);
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_OK(tnr_shutdown(0));
    CHECK(simcuda_races() == 0 && simcuda_violations() == 0);
    return 0;
}
