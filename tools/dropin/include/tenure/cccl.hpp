/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/cccl.hpp>: Tenure as a memory resource of CCCL, NVIDIA's C++ libraries: for CUB, Thrust,
 * cuda::buffer, RMM, and whatever else takes one. Header only, C++17; link with libtenure and the
 * CUDA runtime. docs/cpp.md has an example.
 *
 * tenure::memory_resource has the functions of both concepts, so that a program is the same with
 * any toolkit:
 *
 *   CCCL 3.1 and newer (CUDA 13.1)        CCCL 2.3 to 3.0 (CUDA 12.4 to 13.0)
 *   cuda::mr::resource                    cuda::mr::async_resource
 *   allocate, deallocate                  allocate_async, deallocate_async
 *   allocate_sync, deallocate_sync        allocate, deallocate
 *
 * Where only the older concept exists, CCCL hides it unless
 * LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE is defined. This header defines it. So include
 * this header before others that include <cuda/memory_resource>, or give the compiler -D.
 *
 * Order. What is allocated with a stream belongs to that stream. A deallocation with a stream is
 * ordered on both streams: what the block's stream and the named one were given so far may still
 * use the memory. What is allocated without a stream may be used on any stream at once; the call
 * may wait for that. A deallocation without a stream has the meaning of cudaFree, without stopping
 * the host (tnr_free_sync). Resources have no word for a third stream: record_use says that its use
 * of a block ends here, and the block may then be deallocated at any time.
 *
 * Failures. allocate throws tenure::bad_alloc, a std::bad_alloc, if memory is short or no such size
 * exists, and tenure::error for the rest. deallocate never throws: if Tenure refuses a free,
 * nothing changes, and standard error says so. A null pointer is nothing to free, and zero bytes
 * are a null pointer.
 *
 * Default streams are those of the file: compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM, 0 is the
 * thread's own. All files of a program that include this header must agree.
 *
 * Threads and fork: as <tenure/alloc.h> says. Since 0.2.0.
 */
#ifndef TENURE_CCCL_HPP
#define TENURE_CCCL_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>

#ifndef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif
#include <cuda_runtime_api.h>

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <tenure/tenure.hpp>

namespace tenure
{

/* ---- inside --------------------------------------------------------------------------------- */

namespace detail
{

inline void check(cudaError_t code, const char *call)
{
    if (code == cudaSuccess)
        return;
    std::string text = std::string(call) + ": " + cudaGetErrorString(code);
    throw error(TNR_ERR_DRIVER, text.c_str());
}

/* The stream as Tenure knows it: 0 may be the thread's own. */
inline tnr_stream handle_of(::cuda::stream_ref stream) noexcept
{
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
    if (stream.get() == nullptr)
        return reinterpret_cast<tnr_stream>(static_cast<std::uintptr_t>(2));
#endif
    return stream.get();
}

/* While this lives, captures of this thread allow questions about other streams. */
class relaxed_capture
{
  public:
    relaxed_capture()
    {
        check(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode");
    }

    ~relaxed_capture()
    {
        (void)cudaThreadExchangeStreamCaptureMode(&mode_);
    }

    relaxed_capture(const relaxed_capture &) = delete;
    relaxed_capture &operator=(const relaxed_capture &) = delete;

  private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/* A stream of the device that nothing is launched on, for memory that belongs to no stream. One for
 * each device of the process. It never ends, because memory may outlive everything here. */
inline cudaStream_t quiet_stream(int device)
{
    static auto &mutex = *new std::mutex;
    static auto &streams = *new std::map<int, cudaStream_t>; /* of the mutex */
    std::lock_guard<std::mutex> lock(mutex);
    cudaStream_t &stream = streams[device];
    if (stream != nullptr)
        return stream;
    int before = 0;
    check(cudaGetDevice(&before), "cudaGetDevice");
    check(cudaSetDevice(device), "cudaSetDevice");
    cudaError_t made = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (made != cudaSuccess)
        stream = nullptr;
    check(cudaSetDevice(before), "cudaSetDevice");
    check(made, "cudaStreamCreateWithFlags");
    return stream;
}

/* While this lives, what the thread allocates comes from the pool. */
class routed
{
  public:
    explicit routed(tnr_pool pool) : pool_(pool)
    {
        check(tnr_pool_push(pool_));
    }

    ~routed()
    {
        /* It is the latest: nothing comes between. */
        [[maybe_unused]] tnr_status status = tnr_pool_pop(pool_);
    }

    routed(const routed &) = delete;
    routed &operator=(const routed &) = delete;

  private:
    tnr_pool pool_;
};

} /* namespace detail */

/* ---- the resource --------------------------------------------------------------------------- */

/* Memory of a device: from a pool, or without one from where the calling thread is routed to
 * (tnr_pool_push), else from the device's default pool. A value of two words: copy it freely. It
 * owns nothing, and the pool must outlive what is allocated. */
class memory_resource
{
  public:
    static constexpr std::size_t default_alignment = 256; /* that of cudaMalloc */

    explicit memory_resource(int device, tnr_pool pool = nullptr) noexcept
        : pool_(pool), device_(device)
    {
    }

    int device() const noexcept
    {
        return device_;
    }

    tnr_pool pool() const noexcept
    {
        return pool_;
    }

    /* In the order of a stream. */
    [[nodiscard]] void *allocate(::cuda::stream_ref stream, std::size_t bytes,
                                 std::size_t alignment = default_alignment)
    {
        return take(bytes, alignment, detail::handle_of(stream));
    }

    void deallocate(::cuda::stream_ref stream, void *ptr, std::size_t = 0,
                    std::size_t = default_alignment) noexcept
    {
        tnr_status status = tnr_free_on(ptr, detail::handle_of(stream));
        if (status == TNR_ERR_INVALID_STREAM) /* of another device */
            status = tnr_free_sync(ptr);
        detail::check_free(status);
    }

    /* For any stream. */
    [[nodiscard]] void *allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment)
    {
        detail::relaxed_capture relaxed;
        cudaStream_t quiet = detail::quiet_stream(device_);
        void *ptr = take(bytes, alignment, quiet);
        cudaError_t state = cudaStreamQuery(quiet);
        if (state == cudaErrorNotReady) /* for uses that came before, or a stranger's block */
            state = cudaStreamSynchronize(quiet);
        if (state != cudaSuccess)
            detail::check_free(tnr_free(ptr));
        detail::check(state, "cudaStreamSynchronize");
        return ptr;
    }

    void deallocate_sync(void *ptr, std::size_t = 0, std::size_t = default_alignment) noexcept
    {
        detail::check_free(tnr_free_sync(ptr));
    }

    /* The same by their older names. */
    [[nodiscard]] void *allocate_async(std::size_t bytes, std::size_t alignment,
                                       ::cuda::stream_ref stream)
    {
        return allocate(stream, bytes, alignment);
    }

    [[nodiscard]] void *allocate_async(std::size_t bytes, ::cuda::stream_ref stream)
    {
        return allocate(stream, bytes);
    }

    void deallocate_async(void *ptr, std::size_t bytes, std::size_t alignment,
                          ::cuda::stream_ref stream) noexcept
    {
        deallocate(stream, ptr, bytes, alignment);
    }

    void deallocate_async(void *ptr, std::size_t bytes, ::cuda::stream_ref stream) noexcept
    {
        deallocate(stream, ptr, bytes);
    }

    [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = default_alignment)
    {
        return allocate_sync(bytes, alignment);
    }

    void deallocate(void *ptr, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept
    {
        deallocate_sync(ptr, bytes, alignment);
    }

    /* The use of the block that contains `ptr` by `stream` ends here: work enqueued there so far
     * may use the block. For a stream that is neither the block's own nor the one that it will be
     * deallocated on. Throws. */
    void record_use(const void *ptr, ::cuda::stream_ref stream) const
    {
        detail::check(tnr_record_use(ptr, detail::handle_of(stream)));
    }

    /* Equal resources have the same pool. Memory of any may be deallocated by any. */
    friend bool operator==(const memory_resource &a, const memory_resource &b) noexcept
    {
        return a.device_ == b.device_ && a.pool_ == b.pool_;
    }

    friend bool operator!=(const memory_resource &a, const memory_resource &b) noexcept
    {
        return !(a == b);
    }

    friend constexpr void get_property(const memory_resource &,
                                       ::cuda::mr::device_accessible) noexcept
    {
    }

#if defined(CCCL_VERSION) && CCCL_VERSION >= 3002000
    /* What cuda::make_buffer and its like need to know of the memory. */
    using default_queries = ::cuda::mr::properties_list<::cuda::mr::device_accessible>;
#endif

  private:
    void *take(std::size_t bytes, std::size_t alignment, tnr_stream stream)
    {
        void *ptr = nullptr;
        bool is_usual =
            alignment <= TNR_ALIGNMENT_DEFAULT && alignment != 0 && !(alignment & (alignment - 1));
        if (is_usual && pool_ == nullptr) {
            detail::check(tnr_malloc(&ptr, bytes, device_, stream));
        } else if (is_usual) {
            detail::check(tnr_pool_malloc(&ptr, pool_, bytes, device_, stream));
        } else if (pool_ == nullptr) {
            detail::check(tnr_malloc_aligned(&ptr, bytes, alignment, device_, stream));
        } else {
            detail::routed to_the_pool(pool_);
            detail::check(tnr_malloc_aligned(&ptr, bytes, alignment, device_, stream));
        }
        return ptr;
    }

    tnr_pool pool_;
    int device_;
};

/* ---- the allocator -------------------------------------------------------------------------- */

/* The resource as an allocator of the standard's kind, which is what Thrust takes. With a stream,
 * for temporaries of algorithms on that stream:
 *
 *   tenure::allocator<char> temporaries(resource, stream);
 *   thrust::sort(thrust::cuda::par_nosync(temporaries).on(stream), keys, keys + n);
 *
 * Without one, for memory that any stream may use, such as that of vectors, which want Thrust's
 * pointers:
 *
 *   using allocator = tenure::allocator<float, thrust::device_ptr<float>>;
 *   thrust::device_vector<float, allocator> values(n, allocator(resource));
 */
template <class T, class Pointer = T *> class allocator
{
    /* thrust::device_ptr<T> to thrust::device_ptr<U>, and likewise. */
    template <class P, class U> struct rebound;
    template <class V, class U> struct rebound<V *, U> {
        using type = U *;
    };
    template <template <class...> class P, class V, class... Rest, class U>
    struct rebound<P<V, Rest...>, U> {
        using type = P<U, Rest...>;
    };

  public:
    using value_type = T;
    using pointer = Pointer;

    template <class U> struct rebind {
        using other = allocator<U, typename rebound<Pointer, U>::type>;
    };

    explicit allocator(const memory_resource &resource) noexcept : resource_(resource)
    {
    }

    allocator(const memory_resource &resource, ::cuda::stream_ref stream) noexcept
        : resource_(resource), stream_(stream.get()), is_ordered_(true)
    {
    }

    template <class U, class P>
    allocator(const allocator<U, P> &other) noexcept
        : resource_(other.resource_), stream_(other.stream_), is_ordered_(other.is_ordered_)
    {
    }

    [[nodiscard]] pointer allocate(std::size_t count)
    {
        if (count > TNR_BYTES_MAX / sizeof(T))
            throw bad_alloc(TNR_ERR_INVALID_SIZE, "TNR_ERR_INVALID_SIZE: more bytes than there "
                                                  "are addresses");
        std::size_t bytes = count * sizeof(T);
        void *ptr = is_ordered_ ? resource_.allocate(::cuda::stream_ref(stream_), bytes, alignment)
                                : resource_.allocate_sync(bytes, alignment);
        return pointer(static_cast<T *>(ptr));
    }

    void deallocate(pointer at, std::size_t count) noexcept
    {
        void *ptr = nullptr;
        if constexpr (std::is_pointer_v<pointer>)
            ptr = at;
        else
            ptr = at.get();
        if (is_ordered_)
            resource_.deallocate(::cuda::stream_ref(stream_), ptr, count * sizeof(T), alignment);
        else
            resource_.deallocate_sync(ptr, count * sizeof(T), alignment);
    }

    const memory_resource &resource() const noexcept
    {
        return resource_;
    }

    template <class U, class P>
    friend bool operator==(const allocator &a, const allocator<U, P> &b) noexcept
    {
        return a.is_like(b);
    }

    template <class U, class P>
    friend bool operator!=(const allocator &a, const allocator<U, P> &b) noexcept
    {
        return !a.is_like(b);
    }

  private:
    template <class U, class P> friend class allocator;

    static constexpr std::size_t alignment = alignof(T) > memory_resource::default_alignment
                                                 ? alignof(T)
                                                 : memory_resource::default_alignment;

    template <class U, class P> bool is_like(const allocator<U, P> &other) const noexcept
    {
        return resource_ == other.resource_ && is_ordered_ == other.is_ordered_ &&
               stream_ == other.stream_;
    }

    memory_resource resource_;
    cudaStream_t stream_ = nullptr;
    bool is_ordered_ = false;
};

} /* namespace tenure */

#endif
