/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of PyTorch's interfaces as tools/python/tenure/native/pinned.cpp meets, played: names,
 * arguments and what they do here, so that it is compiled and run where there is no PyTorch.
 */
#ifndef TENURE_TESTS_TORCH_PLAYED_H
#define TENURE_TESTS_TORCH_PLAYED_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#define C10_UNLIKELY(condition) (condition)
#define C10_LIKELY(condition) (condition)

typedef struct CUstream_st *cudaStream_t;
typedef int cudaError_t;

namespace c10
{

using DeviceIndex = int8_t;
using MempoolId_t = std::pair<unsigned long long, unsigned long long>;
using DeleterFnPtr = void (*)(void *);
enum class DeviceType : int8_t { CPU, CUDA };

struct Device {
    explicit Device(DeviceType type, DeviceIndex = -1) : type(type)
    {
    }
    DeviceType type;
};

struct DataPtr {
    DataPtr(void *data, void *context, DeleterFnPtr deleter, Device)
        : data(data), context(context), deleter(deleter)
    {
    }
    void *data, *context;
    DeleterFnPtr deleter;
};

struct Stream {
    DeviceIndex device_index() const
    {
        return device;
    }
    DeviceIndex device;
    cudaStream_t handle;
};

struct Allocator {
    virtual ~Allocator() = default;
    virtual DataPtr allocate(size_t bytes) = 0;
    virtual DeleterFnPtr raw_deleter() const
    {
        return nullptr;
    }
    virtual void copy_data(void *to, const void *from, std::size_t bytes) const = 0;
};

struct GatheredContext {
};
namespace CachingAllocator
{
struct Stat {
    int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};
} // namespace CachingAllocator
namespace CachingDeviceAllocator
{
}

namespace cuda
{

struct CUDAStream {
    enum Unchecked { UNCHECKED };
    CUDAStream(Unchecked, Stream one) : one(one)
    {
    }
    Stream unwrap() const
    {
        return one;
    }
    cudaStream_t stream() const
    {
        return one.handle;
    }
    Stream one;
};
CUDAStream getCurrentCUDAStream(DeviceIndex device = -1);
std::optional<DeviceIndex> getDeviceIndexWithPrimaryContext();
DeviceIndex current_device();

/* Of these the names alone are needed. */
namespace CUDACachingAllocator
{
struct StreamSegmentSize {
};
struct DeviceStats {
};
struct ShareableHandle {
};
struct SnapshotInfo {
};
struct AllocatorState {
};
struct CheckpointDelta {
};
using CreateContextFn = std::shared_ptr<GatheredContext> (*)();
enum class RecordContext { NEVER };
using OutOfMemoryObserver = std::function<void()>;
using AllocatorTraceTracker = std::function<void()>;
struct CUDAAllocator : Allocator {
};
} // namespace CUDACachingAllocator

} // namespace cuda
} // namespace c10

#endif
