/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenure as PyTorch's own kind of allocator: a c10::cuda::CUDACachingAllocator::CUDAAllocator over
 * <tenure/tenure.h>. `python3 -m tenure.torch build` compiles this folder against the PyTorch that
 * is installed, with a C++ compiler and the headers of its wheels alone.
 *
 *   allocator.cpp  memory: allocate, free, uses, copies, errors
 *   pools.cpp      PyTorch's pools by id: graphs, torch.cuda.MemPool
 *   checkpoint.cpp what cudagraph trees save and restore
 *   stats.cpp      statistics, limits
 *   seen.cpp       history, snapshots, observers
 *   shared.cpp     tensors of other processes
 *   pinned.cpp     pinned host memory
 *   install.cpp    what Python calls
 *
 * Texts are made of strings, never by streams of the C++ library. TORCH_CHECK uses such streams if
 * it is given a number. But a compiler's version of that library need not fit PyTorch's version.
 *
 * The interface changes from release to release. If a method has gained or lost an argument, both
 * forms are here without `override`. The form that this PyTorch knows overrides, the other is never
 * called. That is why no method has the word. Other things that have moved are found by name,
 * wherever they are (`names`), or by a test whether they exist (`requires`).
 * tests/torch/compile_against.py tries other versions' headers.
 */
#ifndef TENURE_NATIVE_ALLOCATOR_H
#define TENURE_NATIVE_ALLOCATOR_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <tenure/tenure.h>

namespace tenure_torch
{

namespace cca = c10::cuda::CUDACachingAllocator;
/* Since 2.11 some of it is for all devices. */
namespace names
{
using namespace c10::CachingDeviceAllocator;
using namespace c10::cuda::CUDACachingAllocator;
} // namespace names
using c10::DeviceIndex;
using pool_id = c10::MempoolId_t;
using stream_filter = std::function<bool(cudaStream_t)>;
using rejection_observer = std::function<void(int64_t, size_t, size_t, size_t)>;

/* ---- allocator.cpp -------------------------------------------------------------------------- */

/* Throws what PyTorch throws for a failed call of Tenure's. */
[[noreturn]] void fail(const char *call, tnr_status status);
/* The same where nothing may be thrown: counts, and prints the first few. */
void fail_quietly(const char *call) noexcept;
/* Calls that have failed so far. */
unsigned long failures() noexcept;
/* Raises PyTorch's exception for short memory, and catches it. A class that was compiled with a
 * compiler unlike PyTorch's may not survive that. Needs no device. */
bool can_raise();
/* Throws unless `status` is TNR_OK. */
inline void check(tnr_status status, const char *call)
{
    if (C10_UNLIKELY(status != TNR_OK))
        fail(call, status);
}
/* Throws for something that Tenure cannot do, with a sentence that says what to do instead. */
[[noreturn]] void refuse(const std::string &sentence);

/* The deleter of every DataPtr of Tenure's memory: PyTorch compares it. Never throws. */
void free_block(void *ptr) noexcept;

/* Memory, wherever it comes from; null for no bytes. Throws. */
void *take(size_t bytes, DeviceIndex device, cudaStream_t stream);

/* ---- the class ------------------------------------------------------------------------------ */

class allocator final : public cca::CUDAAllocator
{
  public:
    /* allocator.cpp */
    c10::DataPtr allocate(size_t bytes);
    c10::DeleterFnPtr raw_deleter() const;
    void *raw_alloc(size_t bytes);
    void *raw_alloc_with_stream(size_t bytes, cudaStream_t stream);
    void raw_delete(void *ptr);
    void copy_data(void *to, const void *from, std::size_t bytes) const;
    void init(int devices_count);
    bool initialized();
    void enable(bool value);
    bool isEnabled() const;
    void *getBaseAllocation(void *ptr, size_t *bytes);
    void recordStream(const c10::DataPtr &data, c10::cuda::CUDAStream stream);
    void enablePeerAccess(DeviceIndex device, DeviceIndex to);
    cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device,
                            size_t bytes, cudaStream_t stream, bool has_peer_access);
    std::string name();

    /* stats.cpp */
    double getMemoryFraction(DeviceIndex device);
    void setMemoryFraction(double fraction, DeviceIndex device);
    std::vector<cca::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device);
    void cacheInfo(DeviceIndex device, size_t *largest);
    cca::DeviceStats getDeviceStats(DeviceIndex device);
    void resetAccumulatedStats(DeviceIndex device);
    void resetPeakStats(DeviceIndex device);

    /* pools.cpp */
    void emptyCache(pool_id id = {0, 0});
    void beginAllocateToPool(DeviceIndex device, pool_id id, stream_filter filter);
    void endAllocateToPool(DeviceIndex device, pool_id id);
    void releasePool(DeviceIndex device, pool_id id);
    int getPoolUseCount(DeviceIndex device, pool_id id);
    void createOrIncrefPool(DeviceIndex device, pool_id id,
                            std::shared_ptr<cca::CUDAAllocator> inner = nullptr);
    void ensureExistsAndIncrefPool(DeviceIndex device, pool_id id);
    void setUseOnOOM(DeviceIndex device, pool_id id);
    void setUseOnOOM(DeviceIndex device, pool_id id, bool is_used);
    void setNoSplit(DeviceIndex device, pool_id id);

    /* checkpoint.cpp */
    bool checkPoolLiveAllocations(DeviceIndex device, pool_id id,
                                  const std::unordered_set<void *> &expected);
    std::shared_ptr<cca::AllocatorState> getCheckpointState(DeviceIndex device, pool_id id);
    cca::CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                                std::shared_ptr<cca::AllocatorState> state);

    /* shared.cpp */
    cca::ShareableHandle shareIpcHandle(void *ptr);
    std::shared_ptr<void> getIpcDevPtr(std::string handle);

    /* seen.cpp */
    cca::SnapshotInfo snapshot(pool_id id = {0, 0});
    cca::SnapshotInfo snapshot(pool_id id, bool has_traces);
    bool isHistoryEnabled();
    void recordHistory(bool is_enabled, cca::CreateContextFn recorder, size_t entries_max,
                       cca::RecordContext when, bool clears);
    void recordHistory(bool is_enabled, cca::CreateContextFn recorder, size_t entries_max,
                       cca::RecordContext when, bool clears,
                       const std::vector<std::string> &skipped);
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &texts);
    void pushCompileContext(std::string &text);
    void popCompileContext();
    void setUserMetadata(const std::string &text);
    std::string getUserMetadata();
    std::shared_ptr<c10::GatheredContext> getContextForPointer(const void *ptr);
    std::shared_ptr<c10::GatheredContext> getContextForPointer(void *ptr);
    void attachOutOfMemoryObserver(cca::OutOfMemoryObserver observer);
    void attachOomRejectionObserver(rejection_observer observer);
    void attachAllocatorTraceTracker(cca::AllocatorTraceTracker tracker);
};

/* ---- install.cpp ---------------------------------------------------------------------------- */

/* The one object; never destroyed. */
allocator &instance();
/* PyTorch starts CUDA, and Tenure serves it. Throws if PyTorch does not take that. */
void started();
/* PyTorch starts CUDA, and Tenure cannot serve it. True: it was only waiting for that, so PyTorch's
 * own allocator does, from now on. */
bool hand_back(int devices_count);

/* ---- pools.cpp ------------------------------------------------------------------------------ */

/* Set while allocations may be routed anywhere but to the device's default pool. */
extern std::atomic<unsigned> routings_count;
/* Follows the capture that `stream` belongs to, if PyTorch has announced it. True: *pool is the
 * pool to allocate from, null for the one that Tenure chooses itself. */
bool route(DeviceIndex device, cudaStream_t stream, tnr_pool *pool);
/* Memory from a pool that may serve others when there is no other memory; null if there is no such
 * pool. */
void *take_from_reserve(size_t bytes, DeviceIndex device, cudaStream_t stream);
/* Ends the released pools whose last graph and block have gone. */
void pools_end();
/* Pools that exist, also those that wait for their end. */
unsigned pools_count();
/* PyTorch's id of a pool of Tenure's; {0, 0} for the default pool and for pools that are not
 * PyTorch's. */
pool_id id_of(tnr_pool pool);
/* True: the pool's memory comes from a MemPool's own allocator. */
bool is_foreign(tnr_pool pool);

/* The pools of Tenure's behind an id. */
std::vector<tnr_pool> pools_of(DeviceIndex device, pool_id id);
/* From now on PyTorch orders all that uses these pools. False: their blocks do not stay in
 * place. */
bool pools_vouch(DeviceIndex device, pool_id id);

/* ---- stats.cpp ------------------------------------------------------------------------------ */

tnr_stats stats_of(DeviceIndex device);
/* tnr_memory_walk, with a function that may throw: its exception is thrown here, not through C. */
void memory_walk(tnr_pool pool, DeviceIndex device,
                 const std::function<void(const tnr_stretch &)> &visit);
/* The devices that Tenure has allocated on. */
std::vector<DeviceIndex> devices_in_use();

/* ---- seen.cpp ------------------------------------------------------------------------------- */

/* Not 0 while an observer wants to know of each allocation and free. */
extern std::atomic<unsigned> watched;
/* Called before an allocation, with no lock held: the stack, if it is wanted. */
std::shared_ptr<c10::GatheredContext> context_of_allocation();
/* The same before memory is given back. */
std::shared_ptr<c10::GatheredContext> context_of_release();
/* Called after a call that may have mapped or unmapped memory: tells observers of it. Cheap if
 * nobody watches. */
void saw_mappings(const std::shared_ptr<c10::GatheredContext> &context);
void saw_allocation(void *ptr, size_t bytes, DeviceIndex device, cudaStream_t stream,
                    std::shared_ptr<c10::GatheredContext> context);
/* Before the free of a block, which is live. */
void seeing_free(void *ptr);
/* Called after an allocator of a MemPool's has given a segment, and before it takes one back. */
void saw_segment(bool is_new, void *ptr, size_t bytes, int device, cudaStream_t stream, pool_id id);
/* Before the exception: writes it down and tells the observers. */
void saw_out_of_memory(size_t bytes, DeviceIndex device, size_t total, size_t free,
                       cudaStream_t stream);

/* ---- pinned.cpp ----------------------------------------------------------------------------- */

/* Makes Tenure the allocator of pinned memory, if this PyTorch has such a thing and the settings do
 * not leave it to PyTorch. Once, when CUDA starts. */
void pinned_install();

/* ---- shared.cpp ----------------------------------------------------------------------------- */

/* Closes what could not be closed during a capture. */
void imports_settle();
/* Device `by` has been let in to the memory of `device`: also to what is opened for it from now on.
 */
void imports_reached_by(DeviceIndex device, DeviceIndex by);

} // namespace tenure_torch

#endif
