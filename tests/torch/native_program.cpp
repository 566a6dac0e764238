/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native_program NATIVE [other | waits]: PyTorch's calls of its allocator, through c10 as PyTorch
 * makes them, with the compiled class as that allocator, on the simulated device. test_native.py
 * compiles and runs it where a PyTorch's headers, libc10.so and libc10_cuda.so are.
 *
 * Seen to fail with: the filter not asked in accepts(); id_of() always {0, 0}; no context kept in
 * saw_allocation(); SetAllocator left out; is_vouched never set; what is freed in
 * setCheckpointPoolState not placed again; tnr_graph_pool_vouch left out of pools_vouch(); is_saved
 * left out of trimmed_pools(); segments_settle() left out; peers_record() left out; unclosed_add()
 * left out; saw_mappings() left out of emptyCache() or of saw_allocation(); mappings_follow() left
 * out; `catch (...)` of segment_take() only for std::exception; a number written by a stream in
 * raise_out_of_memory(); -Bsymbolic-functions left out of the command; routings_settle() left out
 * of pools_end(); has_graphs() left out of pools_end(); make_allocator() left out of hand_back().
 *
 * Exit codes: 0 all as it must be; 1 not, and the reason is printed.
 */
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>

#include <tenure/tenure.h>

#include "others.hpp"
#include "owner.hpp"
#include "strangers.hpp"

namespace
{

namespace cca = c10::cuda::CUDACachingAllocator;
using pool_id = c10::MempoolId_t;
using Action = cca::TraceEntry::Action;

constexpr size_t mib = 1 << 20;

void must(bool good, const char *what)
{
    if (!good) {
        std::printf("native_program: not so: %s\n", what);
        std::exit(1);
    }
}

void must_good(CUresult result, const char *what)
{
    must(result == CUDA_SUCCESS, what);
}

tnr_stats stats()
{
    tnr_stats found = {};
    found.struct_bytes = sizeof(found);
    must(tnr_stats_get(&found, nullptr, 0) == TNR_OK, "tnr_stats_get");
    return found;
}

tnr_pool pool_of(const void *block)
{
    tnr_block_info info;
    must(tnr_block_get(&info, block) == TNR_OK, "the block is Tenure's");
    return info.pool;
}

CUstream stream_new()
{
    CUstream stream = nullptr;
    must_good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
}

/* What PyTorch's `with torch.cuda.stream(...)` does. */
struct on_stream {
    c10::cuda::CUDAStream before;
    explicit on_stream(CUstream stream) : before(c10::cuda::getCurrentCUDAStream(0))
    {
        c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromExternal(stream, 0));
    }
    ~on_stream()
    {
        c10::cuda::setCurrentCUDAStream(before);
    }
};

c10::DataPtr take(size_t bytes)
{
    return c10::GetAllocator(c10::kCUDA)->allocate(bytes);
}

template <typename Function> bool refuses(Function function, const char *words)
{
    try {
        function();
    } catch (const c10::Error &error) {
        return std::strstr(error.what(), words) != nullptr;
    }
    return false;
}

/* ---- what each part must do ----------------------------------------------------------------- */

/* A function of the class's that Python calls. */
template <typename Function> Function exported(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        std::printf("%s\n", dlerror());
    must(library != nullptr, "the class can be loaded");
    return reinterpret_cast<Function>(dlsym(library, name));
}

void installed(const char *path)
{
    auto *install = exported<const char *(*)()>(path, "tenure_native_install");
    strangers::watch(reinterpret_cast<const void *>(install));
    must(install != nullptr && install() == nullptr, "it installs itself");
    must(c10::GetAllocator(c10::kCUDA) == cca::get(), "for torch.cuda and torch.accelerator");
    must(c10::getDeviceAllocator(c10::kCUDA)->initialized() == false, "and waits for init");
    cca::init(2);
    must(cca::get()->initialized() && cca::name() == "tenure", "init");
}

/* The class waits for PyTorch's start of CUDA, which comes from C++. With a driver it serves;
 * without one PyTorch's own allocator does, from that moment on. */
int waits(const char *path)
{
    cca::CUDAAllocator *own = cca::get();
    c10::Allocator *own_of_device = c10::GetAllocator(c10::kCUDA);
    auto *wait = exported<const char *(*)(const char *, const char *)>(path, "tenure_native_wait");
    auto *install = exported<const char *(*)()>(path, "tenure_native_install");
    auto *serves = exported<int (*)()>(path, "tenure_native_serves");
    must(wait("PyTorch keeps its own allocator", "a word") == nullptr, "it waits");
    must(cca::get() != own && c10::GetAllocator(c10::kCUDA) == cca::get(), "in its place");
    must(serves() == 0 && !own->initialized(), "and has started nothing");
    cca::init(1);
    if (serves()) {
        must(cca::name() == "tenure" && cca::get()->initialized(), "it serves");
        must(pool_of(take(mib).get()) == nullptr, "memory");
        std::printf("it serves\n");
        return 0;
    }
    must(cca::get() == own && c10::GetAllocator(c10::kCUDA) == own_of_device, "all is as it was");
    must(own->initialized(), "and PyTorch's own has been told");
    const char *why = install();
    must(why != nullptr && std::strstr(why, "started CUDA already") != nullptr, "it is too late");
    must(std::strchr(why, '\n') == nullptr, "which is one sentence");
    std::printf("it does not serve\n");
    return 0;
}

void memory()
{
    int64_t before = cca::getDeviceStats(0).allocated_bytes[0].current;
    {
        c10::DataPtr data = take(3 * mib);
        must(data.get() != nullptr && data.get() == data.get_context(), "memory");
        must(data.get_deleter() == cca::get()->raw_deleter(), "with the standard deleter");
        must(cca::getDeviceStats(0).allocated_bytes[0].current - before == 3 * mib, "counted");
        must(c10::getDeviceAllocator(c10::kCUDA)->getDeviceStats(0).allocation[0].current > 0,
             "as torch.accelerator asks");
        size_t bytes = 0;
        char *inside = static_cast<char *>(data.get()) + mib;
        must(cca::getBaseAllocation(inside, &bytes) == data.get() && bytes == 3 * mib, "its start");
        size_t largest = 0;
        cca::cacheInfo(0, &largest);
        must(largest > mib, "cuDNN is told of a workspace");
    }
    must(cca::getDeviceStats(0).allocated_bytes[0].current == before, "and freed");
    c10::DataPtr none = take(0);
    must(none.get() == nullptr && none.device() == c10::Device(c10::kCUDA, 0), "no bytes");
    void *raw = cca::raw_alloc(mib);
    must(pool_of(raw) == nullptr, "raw memory is of the default pool");
    cca::raw_delete(raw);
    cca::resetAccumulatedStats(0);
    must(cca::getDeviceStats(0).allocation[0].allocated == 0, "sums begin anew");
    cca::setMemoryFraction(0.5, 0);
    must(cca::getMemoryFraction(0) == 0.5, "a fraction");
    cca::setMemoryFraction(1.0, 0);
    must(refuses([] { cca::setMemoryFraction(1.5, 0); }, "invalid fraction"), "a bad fraction");
    cca::enable(false);
    {
        c10::DataPtr plain = take(mib);
        must(tnr_free(plain.get()) == TNR_ERR_FOREIGN_POINTER, "switched off: the driver's memory");
    }
    cca::enable(true);
}

/* What there is of small and of large blocks is what there is of all. */
void sizes()
{
    c10::DataPtr small = take(1000), large = take(3 * mib);
    cca::DeviceStats all = cca::getDeviceStats(0);
    for (const auto &by :
         {all.allocation, all.segment, all.active, all.inactive_split, all.allocated_bytes,
          all.reserved_bytes, all.active_bytes, all.inactive_split_bytes, all.requested_bytes}) {
        must(by[1].current + by[2].current == by[0].current, "small and large are all");
        must(by[1].current <= by[1].peak && by[2].current <= by[2].peak, "peaks by size");
    }
    must(all.reserved_bytes[1].current > 0 && all.segment[2].current > 0, "memory of each size");
}

void out_of_memory()
{
    static size_t wanted = 0, total = 0; /* an observer stays for good */
    cca::attachOutOfMemoryObserver([](int64_t, size_t bytes, size_t whole, size_t) {
        wanted = bytes;
        total = whole;
    });
    size_t bytes = static_cast<size_t>(1) << 50;
    try {
        take(bytes);
        must(false, "memory that is short is thrown");
    } catch (const c10::OutOfMemoryError &error) {
        for (const char *words :
             {"CUDA out of memory. Tried to allocate ", "has a total capacity of", "Tenure"})
            must(std::strstr(error.what(), words) != nullptr, error.what());
    }
    must(wanted == bytes && total > 0, "observers are told");
    must(refuses([] { take(static_cast<size_t>(1) << 61); }, "more than 1EB"), "an exabyte");
    must(take(mib).get() != nullptr, "and all goes on");
}

void uses()
{
    CUstream side = stream_new();
    c10::DataPtr data = take(2 * mib);
    must_good(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(data.get()), 1, 2 * mib, side), "fill");
    cca::recordStream(data, c10::cuda::getStreamFromExternal(side, 0));
    uint64_t before = stats().bytes_retired;
    data.clear();
    must(stats().bytes_retired - before == 2 * mib, "a used block waits for its stream");
    int foreign = 0;
    c10::DataPtr other(&foreign, c10::Device(c10::kCUDA, 0));
    cca::recordStream(other, c10::cuda::getStreamFromExternal(side, 0));
    must_good(cuStreamSynchronize(side), "cuStreamSynchronize");
}

/* A stream of another device uses a block until its free. */
void peer_uses()
{
    must(cudaSetDevice(1) == cudaSuccess, "there are two devices");
    CUstream side = stream_new();
    CUdeviceptr other = 0;
    must_good(cuMemAlloc(&other, 2 * mib), "cuMemAlloc");
    must(cudaSetDevice(0) == cudaSuccess, "and back");
    c10::DataPtr data = take(2 * mib);
    cca::recordStream(data, c10::cuda::getStreamFromExternal(side, 1));
    cca::recordStream(data, c10::cuda::getStreamFromExternal(side, 1));
    must(cudaSetDevice(1) == cudaSuccess, "a copy of the other device's");
    must_good(cuMemsetD8Async(other, 1, 2 * mib, side), "fill");
    must(cudaSetDevice(0) == cudaSuccess, "and back");
    uint64_t before = stats().bytes_retired;
    data.clear();
    must(stats().bytes_retired - before == 2 * mib, "a block waits for another device's stream");
    must_good(cuStreamSynchronize(side), "cuStreamSynchronize");
    cca::emptyCache();
    must(stats().bytes_retired == before, "it does not wait any more");
}

size_t bytes_of(pool_id id)
{
    size_t bytes = 0;
    for (const cca::SegmentInfo &segment : cca::snapshot(id).segments) {
        must(segment.owner_private_pool_id == id, "only segments of the pool");
        size_t sum = 0;
        for (const cca::BlockInfo &block : segment.blocks)
            sum += block.size;
        must(sum == segment.total_size, "blocks tile a segment");
        bytes += segment.allocated_size;
    }
    return bytes;
}

/* The number of the capture that a stream is in; 0 if there is none. */
unsigned long long capture_of(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t found = 0;
#if CUDA_VERSION >= 13000
    must_good(cuStreamGetCaptureInfo(stream, &status, &found, nullptr, nullptr, nullptr, nullptr),
#else
    must_good(cuStreamGetCaptureInfo(stream, &status, &found, nullptr, nullptr, nullptr),
#endif
              "cuStreamGetCaptureInfo");
    return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? found : 0;
}

/* Calls of the driver about events: one for each look of a wait that the driver is to end. */
uint64_t event_calls()
{
    tnr_stats stats = {};
    stats.struct_bytes = sizeof(stats);
    must(tnr_stats_get(&stats, nullptr, 0) == TNR_OK, tnr_last_error());
    return stats.driver_calls[TNR_DRIVER_EVENT];
}

/* A capture as torch.cuda.CUDAGraph makes it, which releases its pool before it ends its graph. */
struct capture {
    pool_id id;
    CUstream stream;
    unsigned long long number = 0;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;

    capture(pool_id of, CUstream on) : id(of), stream(on)
    {
        cca::beginAllocateToPool(0, id, [this](cudaStream_t asked) {
            unsigned long long found = capture_of(asked);
            return found != 0 && found == number;
        });
        must_good(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "cuStreamBeginCapture");
        number = capture_of(stream);
    }

    void end()
    {
        must_good(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
        cca::endAllocateToPool(0, id);
        must_good(cuGraphInstantiate(&executable, graph, 0), "cuGraphInstantiate");
    }

    ~capture()
    {
        if (graph == nullptr)
            return; /* it has come to nothing, and PyTorch says nothing */
        uint64_t before = event_calls();
        cca::releasePool(0, id);
        must(event_calls() - before < 50, "nothing waits for a graph that this thread is to end");
        must_good(cuGraphExecDestroy(executable), "cuGraphExecDestroy");
        must_good(cuGraphDestroy(graph), "cuGraphDestroy");
    }
};

void fill(const c10::DataPtr &data, size_t bytes, int value, CUstream stream)
{
    must_good(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(data.get()),
                              static_cast<unsigned char>(value), bytes, stream),
              "fill");
}

/* ---- exceptions for want of memory ---------------------------------------------------------- */

/* Whoever keeps memory until somebody wants it: PyTorch asks him. */
std::atomic<int> asked{0};
struct keeper : c10::FreeMemoryCallback {
    bool Execute() override
    {
        asked++;
        return true;
    }
};

} // namespace

namespace c10
{
REGISTER_FREE_MEMORY_CALLBACK("tenure_test", keeper)
}

namespace
{

constexpr size_t petabyte = static_cast<size_t>(1) << 50;

/* 1 if it was thrown, as PyTorch catches it. */
int is_thrown(size_t bytes)
{
    try {
        take(bytes);
    } catch (const c10::OutOfMemoryError &error) {
        return std::strstr(error.what(), "CUDA out of memory") != nullptr;
    }
    return 0;
}

struct stranger_error {
};

/* From each place that one can be thrown at, with everybody there who is told of it. */
void thrown(CUstream stream)
{
    static std::atomic<int> told{0}, traced{0}; /* observers stay for good */
    static std::atomic<bool> is_throwing{false}, is_allocating{false};
    cca::attachOutOfMemoryObserver([](int64_t, size_t, size_t, size_t) {
        told++;
        if (is_allocating)
            take(mib); /* no lock is held */
        if (is_throwing)
            throw stranger_error();
    });
    cca::attachAllocatorTraceTracker(
        [](const cca::TraceEntry &entry) { traced += entry.action_ == Action::OOM; });
    cca::recordHistory(true, [] { return std::make_shared<c10::GatheredContext>(); }, 100,
                       cca::RecordContext::ALL, true, {});
    asked = 0;
    must(is_thrown(petabyte) && told == 1 && traced == 1 && asked == 1, "told once, asked once");
    is_allocating = true;
    must(is_thrown(petabyte), "while an observer allocates");
    is_allocating = false;
    cca::setMemoryFraction(0.01, 0);
    must(is_thrown(static_cast<size_t>(64) << 30), "a limit");
    cca::setMemoryFraction(1.0, 0);

    is_throwing = true;
    bool is_passed_on = false;
    try {
        take(petabyte);
    } catch (const stranger_error &) {
        is_passed_on = true;
    }
    is_throwing = false;
    must(is_passed_on, "what an observer throws is passed on");
    must(tnr_validate(-1) == TNR_OK && take(mib).get() != nullptr, "and nothing is left locked");

    pool_id id = {0, 23};
    {
        on_stream guard(stream);
        capture graph(id, stream);
        c10::DataPtr before = take(mib);
        must(is_thrown(petabyte), "in a capture");
        c10::DataPtr after = take(mib);
        fill(after, mib, 1, stream);
        graph.end();
    }
    id = {0, 25};
    cca::createOrIncrefPool(0, id);
    cca::beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
    must(is_thrown(petabyte), "in a MemPool");
    must(pool_of(take(mib).get()) != nullptr, "which goes on");
    cca::endAllocateToPool(0, id);
    cca::releasePool(0, id);
    cca::releasePool(0, id);

    std::atomic<int> count{0};
    std::vector<std::thread> all;
    for (int i = 0; i < 8; i++)
        all.emplace_back([&count] {
            for (int n = 0; n < 25; n++)
                count += is_thrown(petabyte) && take(mib / 4).get() != nullptr;
        });
    for (std::thread &one : all)
        one.join();
    must(count == 8 * 25, "on many threads at once");
    cca::recordHistory(false, nullptr, 0, cca::RecordContext::NEVER, true, {});
    must(tnr_validate(-1) == TNR_OK, tnr_last_error());
}

void graphs(CUstream stream)
{
    pool_id id = {0, 7};
    on_stream guard(stream);
    capture graph(id, stream);
    must(refuses([&] { cca::beginAllocateToPool(0, id, [](cudaStream_t) { return true; }); },
                 "already recording"),
         "one begin of an id at a time");
    void *address = nullptr;
    {
        c10::DataPtr inside = take(4 * mib);
        address = inside.get();
        must(pool_of(address) != nullptr, "a capture has a pool of its own");
        must_good(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(address), 1, 4 * mib, stream),
                  "fill");
    }
    graph.end();
    must(cca::getPoolUseCount(0, id) == 1, "the graph's use is left");
    c10::DataPtr outside = take(4 * mib);
    must(outside.get() != address && pool_of(outside.get()) == nullptr,
         "nobody else gets its memory");
}

/* PyTorch tells of a capture that came to nothing neither its end nor its release: its EndCapture
 * fails, and it throws. The memory comes back all the same, and a free while the capture is invalid
 * is as good as any. */
void failed_captures(const char *path, CUstream stream)
{
    auto *failures = exported<unsigned long (*)()>(path, "tenure_native_failures");
    auto *pools = exported<unsigned (*)()>(path, "tenure_native_pools");
    on_stream guard(stream);
    /* The driver tells of a graph's end when it likes; the simulated one while it has work. */
    c10::DataPtr work = take(512);
    for (int i = 0; i < 10000 && pools() > 0; i++)
        fill(work, 512, 1, stream);
    must(pools() == 0, "the pool of the graph before is gone");
    unsigned long failures_before = failures();
    for (int i = 0; i < 6; i++) {
        c10::DataPtr left, inside;
        {
            capture graph({0, 31}, stream); /* the id comes again, although nobody released it */
            left = take(64 * mib);
            inside = take(mib);
            must_good(
                cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(left.get()), 1, 64 * mib, stream),
                "fill");
            must(cuStreamSynchronize(stream) != CUDA_SUCCESS, "a capture cannot be waited for");
            inside.clear();
            if (i % 2)
                cca::emptyCache(); /* in the program's exception handler */
            must(cuStreamEndCapture(stream, &graph.graph) != CUDA_SUCCESS, "there is no graph");
            graph.graph = nullptr;
        }
        left.clear();
        if (i % 3 == 0)
            (void)stats(); /* notices the end before the class looks */
    }
    must(pools() == 0, "their pools are gone");
    must(failures() == failures_before, "in silence");
    cca::emptyCache();
    must(stats().reserved_bytes.current < 64 * mib, "and so is their memory");
}

/* Where the blocks of a pool are, their sizes and states. */
std::vector<size_t> layout_of(pool_id id)
{
    std::vector<size_t> found;
    for (const cca::SegmentInfo &segment : cca::snapshot(id).segments) {
        found.insert(found.end(), {segment.address, segment.total_size, segment.allocated_size,
                                   segment.active_size});
        for (const cca::BlockInfo &block : segment.blocks)
            found.insert(found.end(), {block.size, block.allocated, block.active});
    }
    return found;
}

size_t live_of(pool_id id)
{
    size_t count = 0;
    for (const cca::SegmentInfo &segment : cca::snapshot(id).segments)
        for (const cca::BlockInfo &block : segment.blocks)
            count += block.allocated;
    return count;
}

/* Whoever captures first and asks for the pool's state then: it is put back wherever PyTorch says.
 * Until somebody asks, what the graph refers to is kept for it. */
void checkpoints(CUstream stream, CUstream other)
{
    pool_id id = {0, 13};
    capture graph(id, stream);
    c10::DataPtr small, large, last;
    {
        on_stream guard(stream);
        c10::DataPtr inside = take(4 * mib);
        small = take(512);
        fill(inside, 4 * mib, 1, stream);
        large = take(2 * mib);
        last = take(20 * mib);
        fill(large, 2 * mib, 2, stream);
    }
    graph.end();
    std::vector<size_t> before = layout_of(id);
    auto saved = cca::getCheckpointState(0, id);
    must(layout_of(id) == before, "to be asked changes nothing");
    cca::CheckpointDelta delta = cca::setCheckpointPoolState(0, saved);
    must(delta.ptrs_freed.size() == 3 && delta.dataptrs_allocd.size() == 3, "all three are back");
    for (c10::DataPtr &data : delta.dataptrs_allocd) {
        must(data.get_deleter() == cca::get()->raw_deleter(), "with the standard deleter");
        data.release_context(); /* their owners live */
    }
    must(layout_of(id) == before, "where they were");

    {
        capture next(id, other);
        c10::DataPtr more;
        {
            on_stream guard(other);
            more = take(512);
            fill(more, 512, 3, other);
        }
        next.end();
        must(live_of(id) == 4, "another graph has a block there too");
        delta = cca::setCheckpointPoolState(0, saved);
        must(delta.ptrs_freed.size() == 4 && delta.dataptrs_allocd.size() == 3, "which goes");
        more.release_context();
        for (c10::DataPtr &data : delta.dataptrs_allocd)
            data.release_context();
        must(layout_of(id) == before, "as if it had never been");
    }

    void *addresses[] = {small.get(), large.get(), last.get()};
    small.clear();
    large.clear();
    last.clear();
    must(live_of(id) == 0, "frees are frees at once");
    cca::emptyCache();
    delta = cca::setCheckpointPoolState(0, saved);
    for (c10::DataPtr &data : delta.dataptrs_allocd)
        data.release_context();
    must(delta.ptrs_freed.empty() && live_of(id) == 3, "what has died is back as well");
    must(layout_of(id) == before, "at the same addresses");
    must_good(cuGraphLaunch(graph.executable, stream), "cuGraphLaunch");
    for (size_t i = 0; i < 3; i++) {
        cca::raw_delete(addresses[i]);
        must(live_of(id) == 2 - i, "and can be freed by its address");
    }
    /* Memory that a thread takes from the pool outside of captures is put back too. */
    cca::beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
    c10::DataPtr outside = take(3 * mib);
    must(live_of(id) == 1, "beside the graphs'");
    saved = cca::getCheckpointState(0, id);
    void *address = outside.get();
    outside.clear();
    cca::endAllocateToPool(0, id);
    cca::emptyCache(id);
    delta = cca::setCheckpointPoolState(0, saved);
    must(delta.dataptrs_allocd.size() == 1 && delta.dataptrs_allocd[0].get() == address, "is back");
    cca::releasePool(0, id);
}

/* The memory of a MemPool moves. */
void checkpoints_refused()
{
    pool_id id = {0, 15};
    cca::createOrIncrefPool(0, id);
    cca::beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
    take(mib);
    cca::endAllocateToPool(0, id);
    cca::releasePool(0, id);
    must(refuses([&] { (void)cca::getCheckpointState(0, id); }, "MemPool"), "it cannot be saved");
    cca::releasePool(0, id);
}

/* What cudagraph trees do: an empty capture, a warm-up, a graph with an output, a checkpoint, the
 * next graph of the path, and back. */
void trees(CUstream stream)
{
    pool_id id = {0, 11};
    on_stream guard(stream);
    auto here = std::this_thread::get_id();
    capture keeper(id, stream);
    keeper.end();
    cca::beginAllocateToPool(0, id,
                             [here](cudaStream_t) { return std::this_thread::get_id() == here; });
    void *warm = take(4 * mib).get();
    cca::endAllocateToPool(0, id);
    cca::releasePool(0, id);
    {
        capture first(id, stream);
        c10::DataPtr inside = take(4 * mib);
        must(inside.get() == warm, "a graph uses the warm-up's memory");
        fill(inside, 4 * mib, 1, stream);
        c10::DataPtr output = take(2 * mib);
        fill(output, 2 * mib, 2, stream);
        inside.clear();
        first.end();
        must(cca::checkPoolLiveAllocations(0, id, {output.get()}), "the output is live");
        must(!cca::checkPoolLiveAllocations(0, id, {}), "and nothing else is said to be");
        auto saved = cca::getCheckpointState(0, id);
        capture second(id, stream);
        c10::DataPtr next = take(4 * mib);
        must(next.get() == warm, "the next graph uses what the first had freed");
        fill(next, 4 * mib, 3, stream);
        output.clear();
        second.end();
        cca::CheckpointDelta delta = cca::setCheckpointPoolState(0, saved);
        must(delta.ptrs_freed.size() == 1 && delta.ptrs_freed[0] == next.get(), "all was freed");
        next.release_context(); /* as PyTorch does with the storages that it calls stale */
        must(delta.dataptrs_allocd.size() == 1, "the output is back");
        output = std::move(delta.dataptrs_allocd[0]);
        must(output.get_deleter() == cca::get()->raw_deleter(), "to be freed as ever");
        must(cca::checkPoolLiveAllocations(0, id, {output.get()}), "and where it was");
        cca::emptyCache();
        must_good(cuGraphLaunch(first.executable, stream), "cuGraphLaunch");
        must_good(cuGraphLaunch(second.executable, stream), "cuGraphLaunch");
        must(bytes_of(id) == 2 * mib, "a snapshot of the pool");
    }
}

void pools()
{
    pool_id id = {0, 9};
    cca::createOrIncrefPool(0, id);
    cca::setUseOnOOM(0, id, true);
    cca::setNoSplit(0, id);
    auto here = std::this_thread::get_id();
    cca::beginAllocateToPool(0, id,
                             [here](cudaStream_t) { return std::this_thread::get_id() == here; });
    must(cca::getPoolUseCount(0, id) == 2, "the pool's use and the routing's");
    c10::DataPtr inside = take(6 * mib);
    must(pool_of(inside.get()) != nullptr, "a thread's memory comes from its pool");
    std::thread([] {
        must(pool_of(take(mib).get()) == nullptr, "another thread's does not");
    }).join();
    cca::endAllocateToPool(0, id);
    cca::releasePool(0, id);
    must(cca::getPoolUseCount(0, id) == 1, "the pool's use is left");
    must(pool_of(take(mib).get()) == nullptr, "and afterwards the default pool's");
    must(bytes_of(id) == 6 * mib, "a snapshot of the pool");
    inside.clear();
    must(bytes_of(id) == 0, "and when it is empty");
    cca::emptyCache();
    must(!cca::snapshot(id).segments.empty(), "a pool that lives keeps what it has");
    cca::emptyCache(id);
    must(cca::snapshot(id).segments.empty(), "until it is named");
    cca::setUseOnOOM(0, id, false);
    cca::releasePool(0, id);
    cca::emptyCache(id);
    cca::emptyCache();
    must(cca::getPoolUseCount(0, id) == 0 && cca::snapshot(id).segments.empty(), "it is gone");
}

/* A MemPool over the memory of another allocator. */
void owned_pools()
{
    static std::vector<Action> told; /* a tracker stays for good */
    pool_id id = {0, 17};
    std::atomic<bool> is_gone{false};
    cca::attachAllocatorTraceTracker([id](const cca::TraceEntry &entry) {
        if (entry.mempool_ == id)
            told.push_back(entry.action_);
    });
    auto own = std::make_shared<owner::allocator>(&is_gone);
    owner::allocator *of = own.get();
    auto route = [id] { cca::beginAllocateToPool(0, id, [](cudaStream_t) { return true; }); };
    auto unroute = [id] {
        cca::endAllocateToPool(0, id);
        cca::releasePool(0, id);
    };
    cca::createOrIncrefPool(0, id, std::move(own));
    route();
    c10::DataPtr first = take(4 * mib), second = take(4 * mib);
    must(of->given.size() == 1, "one segment serves both");
    must(first.get() == *of->given.begin(), "it is the owner's");
    must(told == std::vector<Action>({Action::SEGMENT_ALLOC, Action::ALLOC, Action::ALLOC}),
         "trackers are told of the segment, before its blocks");
    of->is_empty = true;
    must(refuses([] { take(64 * mib); }, "out of memory"), "an owner without memory");
    of->is_empty = false;
    of->is_strange = true; /* which must not pass through Tenure, which is C */
    must(refuses([] { take(64 * mib); }, "out of memory"), "an owner that throws anything");
    of->is_strange = false;
    must(tnr_validate(-1) == TNR_OK, tnr_last_error());
    unroute();
    c10::DataPtr outside = take(mib);
    size_t expandable = 0, segments = 0;
    for (const cca::SegmentInfo &segment : cca::snapshot().segments)
        if (segment.owner_private_pool_id == id) {
            segments++;
            expandable += segment.is_expandable;
        }
    must(segments == 1 && expandable == 0, "a snapshot shows the segment");
    second.clear();
    cca::emptyCache();
    must(of->given.size() == 1, "it lives");
    /* ~MemPool; then the last tensor goes. */
    cca::emptyCache(id);
    cca::releasePool(0, id);
    must(of->given.size() == 1 && !is_gone, "a tensor keeps pool and owner");
    first.clear();
    told.clear();
    cca::emptyCache();
    must(told == std::vector<Action>({Action::SEGMENT_FREE}), "trackers are told of its end");
    must(is_gone, "both are gone");
}

/* A graph in such a pool. */
void owned_graphs(CUstream stream)
{
    pool_id id = {0, 19};
    std::atomic<bool> is_gone{false};
    auto own = std::make_shared<owner::allocator>(&is_gone);
    owner::allocator *of = own.get();
    cca::createOrIncrefPool(0, id, std::move(own));
    {
        on_stream guard(stream);
        capture graph(id, stream);
        c10::DataPtr inside = take(4 * mib);
        fill(inside, 4 * mib, 1, stream);
        must(of->given.count(inside.get()) == 1, "a capture's memory is the owner's too");
        inside.clear();
        graph.end();
        cca::emptyCache(id);
        must(of->given.size() == 1, "the graph keeps it");
        must_good(cuGraphLaunch(graph.executable, stream), "cuGraphLaunch");
        must_good(cuStreamSynchronize(stream), "cuStreamSynchronize");
    }
    must_good(cuCtxSynchronize(), "cuCtxSynchronize");
    cca::releasePool(0, id);
    /* The driver tells of a graph's end when it likes; the simulated one while it has work. */
    c10::DataPtr work = take(512);
    for (int i = 0; i < 10000 && !is_gone; i++) {
        fill(work, 512, 1, stream);
        cca::emptyCache();
    }
    must(is_gone, "all is gone");
}

/* ---- other processes ------------------------------------------------------------------------ */

/* A child that is forked, a DataLoader's worker say, with a tensor that it was born with. */
void forked_after_sharing(const c10::DataPtr &data, int sockets_of_program)
{
    pid_t child = fork();
    if (child == 0) {
        if (others::sockets_count() != sockets_of_program)
            _exit(2);
        if (!refuses([&] { (void)cca::get()->shareIpcHandle(data.get()); }, ""))
            _exit(3);
        cca::raw_delete(data.get());
        _exit(0);
    }
    int status = 0;
    must(waitpid(child, &status, 0) == child && status == 0, "a forked child has nothing of it");
}

void sent(const char *native)
{
    others::process other(native);
    c10::DataPtr data = take(3 * mib), small = take(512);
    char *inside = static_cast<char *>(data.get()) + 5000;
    must(others::value_put(data.get(), 1) && others::value_put(inside, 7), "values");
    must(others::value_put(small.get(), 5), "a small one");
    int sockets_before = others::sockets_count();
    cca::ShareableHandle handle = cca::get()->shareIpcHandle(inside);
    must(handle.offset == 5000, "a tensor may begin inside a block");
    must(cca::get()->shareIpcHandle(data.get()).handle == handle.handle, "a block has one handle");
    must(cca::get()->shareIpcHandle(small.get()).handle != handle.handle, "of its own");
    forked_after_sharing(data, sockets_before);
    for (int i = 0; i < 100; i++) {
        others::message said = other.open(handle);
        must(said.what == 'y' && said.number == 7, "the other process reads it");
        must(said.count == 0, "however often it is sent, it is there once");
    }
    must(other.ask('w', 8).number == 1 && others::value_at(data.get()) == 8, "and writes it");
    must(other.ask('r').what == 'y', "recordStream leaves it alone");
    uint64_t before = stats().bytes_retired;
    data.clear();
    must(stats().bytes_retired - before == 3 * mib, "freed, it stays while somebody has it");
    void *next = take(3 * mib).get();
    must(next != inside - 5000, "and is nobody else's");
    must(other.ask('d').what == 'y', "the other is done");
    cca::emptyCache();
    must(stats().bytes_retired == before, "then it is free");
    others::message said = other.open(handle);
    must(said.what == 'n' && std::strstr(said.handle, "Tenure") != nullptr, "what is gone is told");
    must(other.open(cca::get()->shareIpcHandle(small.get())).number == 5, "a small one");
    must(other.ask('c').number == 1, "a tensor dies in a capture");
    small.clear();
    cca::emptyCache();
    must(stats().bytes_retired == before, "and is given back after it");
    must(other.end(), "the other ends");
}

void received(const char *native)
{
    others::process other(native);
    others::message said = other.ask('s', 0, 3 * mib);
    must(said.what == 'y' && said.count == 1, "the other shares");
    std::shared_ptr<void> here = cca::getIpcDevPtr(others::handle_of(said));
    must(others::value_at(here.get()) == 9, "it is here");
    must(other.ask('f').what == 'y', "freed there");
    must(others::value_at(here.get()) == 9, "it stays here");
    must(other.end(), "the other ends");
    must(others::value_at(here.get()) == 9, "it stays for as long as it is used");
    here.reset();
    must(refuses([&] { (void)cca::getIpcDevPtr(others::handle_of(said)); }, "does not answer"),
         "whose process has ended is told");
    must(refuses([] { (void)cca::getIpcDevPtr(std::string(64, 'x')); }, "install()"),
         "and what is no handle of Tenure's");
    int foreign = 0;
    must(refuses([&] { (void)cca::get()->shareIpcHandle(&foreign); }, "clone it"),
         "nor is memory of others");
}

/* ---- history -------------------------------------------------------------------------------- */

std::atomic<int> contexts_live{0};

struct context : c10::GatheredContext {
    context()
    {
        contexts_live++;
    }
    ~context() override
    {
        contexts_live--;
    }
};

std::shared_ptr<c10::GatheredContext> gather()
{
    return std::make_shared<context>();
}

std::vector<Action> actions_of(const cca::SnapshotInfo &info)
{
    std::vector<Action> found;
    for (const cca::TraceEntry &entry : info.device_traces.at(0))
        found.push_back(entry.action_);
    return found;
}

bool has_context(const cca::SnapshotInfo &info, const void *block)
{
    for (const cca::SegmentInfo &segment : info.segments) {
        size_t at = segment.address;
        for (const cca::BlockInfo &one : segment.blocks) {
            if (at == reinterpret_cast<size_t>(block))
                return one.context_when_allocated != nullptr;
            at += one.size;
        }
    }
    return false;
}

void history()
{
    static std::atomic<int> told{0}; /* a tracker stays for good */
    cca::attachAllocatorTraceTracker([](const cca::TraceEntry &) { told++; });
    { /* so that nothing is mapped for what follows */
        c10::DataPtr small = take(mib), large = take(2 * mib);
    }
    cca::recordHistory(true, gather, 100, cca::RecordContext::ALL, true, {});
    must(cca::isHistoryEnabled(), "it records");
    cca::setUserMetadata("step 1");
    c10::DataPtr kept = take(mib);
    take(2 * mib);
    cca::setUserMetadata("");
    cca::recordAnnotation({{"name", "here"}, {"stage", "START"}});
    cca::SnapshotInfo info = cca::snapshot();
    std::vector<Action> wanted = {Action::ALLOC, Action::ALLOC, Action::FREE_REQUESTED,
                                  Action::FREE_COMPLETED};
    must(actions_of(info) == wanted, "what happened, in its order");
    must(actions_of(cca::snapshot()).back() == Action::SNAPSHOT, "and the snapshot, in the next");
    must(info.device_traces[0][0].user_metadata_ == "step 1" &&
             info.device_traces[0][0].context_ != nullptr &&
             info.device_traces[0][2].context_ != nullptr,
         "with stacks and metadata");
    must(info.external_annotations.size() == 1, "and annotations");
    must(has_context(info, kept.get()), "a live block has its stack");
    must(told >= 4, "trackers are told");
    must(cca::snapshot({0, 0}, false).device_traces.at(0).empty(), "without traces");
    info = {};
    cca::recordHistory(true, gather, 3, cca::RecordContext::STATE, true, {"free_requested"});
    for (int i = 0; i < 10; i++)
        take(mib);
    info = cca::snapshot();
    must(info.device_traces[0].size() == 3, "no more entries than wanted");
    for (const cca::TraceEntry &entry : info.device_traces[0])
        must(entry.action_ != Action::FREE_REQUESTED && entry.context_ == nullptr,
             "some skipped, without stacks");
    info = {};
    cca::recordHistory(false, nullptr, 0, cca::RecordContext::NEVER, true, {});
    kept.clear();
    must(contexts_live == 0, "no stack is left");
    must(cca::snapshot().device_traces.at(0).empty() && !cca::isHistoryEnabled(), "it has ended");
}

/* Before any tracker is there, who records is told as well. */
void segments_recorded()
{
    cca::emptyCache();
    cca::recordHistory(true, gather, 100, cca::RecordContext::STATE, true, {});
    take(64 * mib);
    must(actions_of(cca::snapshot())[0] == Action::SEGMENT_MAP, "what is mapped is recorded");
    cca::recordHistory(false, nullptr, 0, cca::RecordContext::NEVER, true, {});
    cca::emptyCache();
    must(tnr_mappings_take(nullptr, nullptr, 0) == 0, "and then nobody follows");
}

/* Memory that Tenure maps and unmaps: trackers and traces have it. */
void segments(CUstream stream)
{
    static std::vector<cca::TraceEntry> told; /* a tracker stays for good */
    static bool is_nested = false;
    on_stream guard(stream);
    cca::emptyCache();
    told.clear();
    cca::attachAllocatorTraceTracker([stream](const cca::TraceEntry &entry) {
        if (entry.stream_ != stream)
            return;
        told.push_back(entry);
        if (entry.action_ == Action::SEGMENT_MAP && is_nested)
            take(512); /* no lock is held: it may allocate */
    });
    for (cca::RecordContext when : {cca::RecordContext::STATE, cca::RecordContext::ALL}) {
        cca::recordHistory(true, gather, 1000, when, true, {});
        c10::DataPtr data = take(64 * mib);
        size_t mapped = 0, unmapped = 0;
        for (size_t i = 0; i + 1 < told.size(); i++) {
            must(told[i].action_ == Action::SEGMENT_MAP, "what is mapped is told first");
            must((told[i].context_ != nullptr) == (when == cca::RecordContext::ALL),
                 "with the stack of who wanted it, where entries have stacks");
            mapped += told[i].size_;
        }
        must(mapped >= 64 * mib && told.back().action_ == Action::ALLOC, "and then the block");
        must(told[0].addr_ == reinterpret_cast<size_t>(data.get()), "where the block is");
        data.clear();
        told.clear();
        cca::emptyCache();
        for (const cca::TraceEntry &entry : told) {
            must(entry.action_ == Action::SEGMENT_UNMAP, "what is given back is told");
            must((entry.context_ != nullptr) == (when == cca::RecordContext::ALL),
                 "with a stack if all are wanted");
            unmapped += entry.size_;
        }
        must(unmapped == mapped, "all of it");
        told.clear();
        std::vector<Action> trace = actions_of(cca::snapshot());
        must(std::count(trace.begin(), trace.end(), Action::SEGMENT_MAP) > 0 &&
                 std::count(trace.begin(), trace.end(), Action::SEGMENT_UNMAP) > 0,
             "traces have it too");
        cca::recordHistory(false, nullptr, 0, cca::RecordContext::NEVER, true, {});
    }
    must(contexts_live == 0, "no stack is left");
    is_nested = true;
    take(64 * mib);
    is_nested = false;
    std::vector<std::thread> all;
    for (int i = 0; i < 4; i++)
        all.emplace_back([] {
            must(cudaSetDevice(0) == cudaSuccess, "the device");
            on_stream own(stream_new());
            for (int n = 0; n < 20; n++) {
                take(8 * mib);
                cca::emptyCache();
            }
        });
    for (std::thread &one : all)
        one.join();
    tnr_mapping left;
    uint64_t lost = 0;
    must(tnr_mappings_take(&left, &lost, 1) == 0 && lost == 0, "all was told");
}

void threads()
{
    c10::DataPtr held = take(mib);
    cca::recordHistory(true, gather, 1000, cca::RecordContext::STATE, true, {});
    std::vector<std::thread> all;
    for (int i = 0; i < 4; i++)
        all.emplace_back([] {
            for (int n = 0; n < 500; n++)
                take(mib / 4);
        });
    for (int n = 0; n < 20; n++)
        must(cca::snapshot().segments.size() > 0, "a snapshot meanwhile");
    for (std::thread &one : all)
        one.join();
    cca::recordHistory(false, nullptr, 0, cca::RecordContext::NEVER, true, {});
}

} // namespace

int main(int count, char **arguments)
{
    must(count == 2 || count == 3, "one argument, or two");
    must(cudaSetDevice(0) == cudaSuccess, "the simulated device is there");
    if (count == 3 && std::strcmp(arguments[2], "waits") == 0)
        return waits(arguments[1]);
    installed(arguments[1]);
    if (count == 3)
        return others::work();
    memory();
    sizes();
    segments_recorded();
    out_of_memory();
    thrown(stream_new());
    uses();
    peer_uses();
    graphs(stream_new());
    failed_captures(arguments[1], stream_new());
    trees(stream_new());
    checkpoints(stream_new(), stream_new());
    checkpoints_refused();
    pools();
    owned_pools();
    owned_graphs(stream_new());
    sent(arguments[1]);
    received(arguments[1]);
    history();
    segments(stream_new());
    threads();
    must_good(cuCtxSynchronize(), "cuCtxSynchronize");
    cca::emptyCache();
    must(cca::snapshot({0, 11}).segments.empty(), "no memory of cudagraph trees is left");
    must(cca::snapshot({0, 13}).segments.empty(), "nor of graphs that were saved");
    must(tnr_validate(-1) == TNR_OK, tnr_last_error());
    std::printf("the class does what it must\n");
    return 0;
}
