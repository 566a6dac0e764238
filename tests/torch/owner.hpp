/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator as torch.cuda.MemPool(allocator) is given one, a CUDAPluggableAllocator for example:
 * it has memory of the driver's, and counts. PyTorch asks it for nothing else.
 */
#ifndef TENURE_TESTS_TORCH_OWNER_H
#define TENURE_TESTS_TORCH_OWNER_H

#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda.h>

namespace owner
{

namespace cca = c10::cuda::CUDACachingAllocator;

struct allocator final : cca::CUDAAllocator {
    std::set<void *> given;
    std::atomic<bool> *is_gone; /* set when it goes */
    bool is_empty = false;      /* it has nothing */
    bool is_strange = false;    /* it throws what is no exception */

    explicit allocator(std::atomic<bool> *gone) : is_gone(gone)
    {
    }
    ~allocator() override
    {
        *is_gone = true;
    }

    void *raw_alloc_with_stream(size_t bytes, cudaStream_t) override
    {
        CUdeviceptr address = 0;
        if (is_strange)
            throw 7;
        if (is_empty || cuMemAlloc(&address, bytes) != CUDA_SUCCESS)
            throw std::runtime_error("it has nothing");
        given.insert(reinterpret_cast<void *>(address));
        return reinterpret_cast<void *>(address);
    }
    void raw_delete(void *ptr) override
    {
        if (given.erase(ptr) != 1 || cuMemFree(reinterpret_cast<CUdeviceptr>(ptr)) != CUDA_SUCCESS)
            throw std::runtime_error("it did not give that");
    }

    /* ---- nobody calls these ----------------------------------------------------------------- */
    void *raw_alloc(size_t bytes) override
    {
        return raw_alloc_with_stream(bytes, nullptr);
    }
    c10::DataPtr allocate(size_t) override
    {
        throw std::logic_error("allocate");
    }
    void copy_data(void *, const void *, std::size_t) const override
    {
    }
    bool initialized() override
    {
        return true;
    }
    void emptyCache(c10::MempoolId_t) override
    {
    }
    using cca::CUDAAllocator::recordStream;
    void recordStream(const c10::DataPtr &, c10::cuda::CUDAStream) override
    {
    }
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override
    {
        return {};
    }
    void resetAccumulatedStats(c10::DeviceIndex) override
    {
    }
    void resetPeakStats(c10::DeviceIndex) override
    {
    }
    void init(int) override
    {
    }
    double getMemoryFraction(c10::DeviceIndex) override
    {
        return 1;
    }
    void setMemoryFraction(double, c10::DeviceIndex) override
    {
    }
    std::vector<cca::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex) override
    {
        return {};
    }
    void enable(bool) override
    {
    }
    bool isEnabled() const override
    {
        return true;
    }
    void cacheInfo(c10::DeviceIndex, size_t *) override
    {
    }
    void *getBaseAllocation(void *ptr, size_t *) override
    {
        return ptr;
    }
    cca::SnapshotInfo snapshot(c10::MempoolId_t, bool) override
    {
        return {};
    }
    void beginAllocateToPool(c10::DeviceIndex, c10::MempoolId_t,
                             std::function<bool(cudaStream_t)>) override
    {
    }
    void endAllocateToPool(c10::DeviceIndex, c10::MempoolId_t) override
    {
    }
    void releasePool(c10::DeviceIndex, c10::MempoolId_t) override
    {
    }
    cca::ShareableHandle shareIpcHandle(void *) override
    {
        return {};
    }
    std::shared_ptr<void> getIpcDevPtr(std::string) override
    {
        return nullptr;
    }
    void recordHistory(bool, cca::CreateContextFn, size_t, cca::RecordContext, bool,
                       const std::vector<std::string> &) override
    {
    }
    void attachOutOfMemoryObserver(cca::OutOfMemoryObserver) override
    {
    }
    void attachAllocatorTraceTracker(cca::AllocatorTraceTracker) override
    {
    }
    void enablePeerAccess(c10::DeviceIndex, c10::DeviceIndex) override
    {
    }
    cudaError_t memcpyAsync(void *, int, const void *, int, size_t, cudaStream_t, bool) override
    {
        return cudaSuccess;
    }
    std::shared_ptr<cca::AllocatorState> getCheckpointState(c10::DeviceIndex,
                                                            c10::MempoolId_t) override
    {
        return nullptr;
    }
    cca::CheckpointDelta setCheckpointPoolState(c10::DeviceIndex,
                                                std::shared_ptr<cca::AllocatorState>) override
    {
        return {};
    }
    std::string name() override
    {
        return "owner";
    }
};

} // namespace owner

#endif
