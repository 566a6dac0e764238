/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/tenure.hpp>: Tenure for C++. Header only, C++11 and newer; link with libtenure. Needs no
 * header of CUDA's: a tnr_stream is a cudaStream_t and a CUstream.
 *
 *   float *x = tnr::malloc<float>(1000, stream);      // 1,000 floats for work on the stream
 *   tnr::record_use(x, other);                        // the use by another stream ends here
 *   tnr::free(x);                                     // at once; the work may still be queued
 *
 *   tnr::buffer<float> y(1000, stream);               // the same, freed by its destructor
 *   kernel<<<grid, block, 0, stream>>>(y.get(), y.size());
 *
 * Failures. tnr::bad_alloc, a std::bad_alloc, if memory is short or no such size exists; tnr::error
 * for the rest. what() is Tenure's sentence, status() its status. A destructor never throws: if
 * Tenure refuses a free, nothing changes, and standard error says so.
 *
 * Memory is not initialised, and no constructor or destructor of T runs: it is the device's. The
 * functions of <tenure/tenure.h> take the same pointers.
 *
 * Threads, context, fork: as <tenure/alloc.h> says. Since 1.1.0.
 */
#ifndef TENURE_TENURE_HPP
#define TENURE_TENURE_HPP

#include <cstddef>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <type_traits>

#include <tenure/tenure.h>

namespace tenure
{

/* ---- failures ------------------------------------------------------------------------------- */

/* An allocation failed for lack of memory. what() is Tenure's sentence: who holds how much, and
 * what to do. */
class bad_alloc : public std::bad_alloc
{
  public:
    bad_alloc(tnr_status status, const char *text) : status_(status), text_(text)
    {
    }

    const char *what() const noexcept override
    {
        return text_.what();
    }

    tnr_status status() const noexcept
    {
        return status_;
    }

  private:
    tnr_status status_;
    std::runtime_error text_; /* a text whose copy cannot fail */
};

/* Any other failure: a stream or device that does not exist, a foreign pointer, ... */
class error : public std::runtime_error
{
  public:
    error(tnr_status status, const char *text) : std::runtime_error(text), status_(status)
    {
    }

    tnr_status status() const noexcept
    {
        return status_;
    }

  private:
    tnr_status status_;
};

namespace detail
{

inline void check(tnr_status status)
{
    switch (status) {
    case TNR_OK:
        return;
    case TNR_ERR_OUT_OF_MEMORY:
    case TNR_ERR_LIMIT:
    case TNR_ERR_ADDRESS_SPACE:
    case TNR_ERR_HOST_MEMORY:
    case TNR_ERR_INVALID_SIZE:
        throw bad_alloc(status, tnr_last_error());
    default:
        throw error(status, tnr_last_error());
    }
}

/* A free that was refused. No message in a forked child, which destroys its parent's objects. */
inline void check_free(tnr_status status) noexcept
{
    if (status != TNR_OK && status != TNR_ERR_AFTER_FORK)
        std::fprintf(stderr, "tenure: freeing memory: %s\n", tnr_last_error());
}

} /* namespace detail */
} /* namespace tenure */

namespace tnr
{

using tenure::bad_alloc;
using tenure::error;

/* ---- functions ------------------------------------------------------------------------------ */

/* Memory for `count` objects, for work on the stream: see tnr_malloc. Null for a count of 0. */
template <class T> T *malloc(std::size_t count, tnr_stream stream = nullptr, int device = 0)
{
    static_assert(std::is_trivially_destructible<T>::value, "no destructor runs on a device");
    static_assert(alignof(T) <= 512, "blocks begin at multiples of 512: use tnr_malloc_aligned");
    void *ptr = nullptr;
    /* A product that does not fit is refused as a size. */
    std::size_t bytes = count <= TNR_BYTES_MAX / sizeof(T) ? count * sizeof(T) : TNR_BYTES_MAX + 1;
    tenure::detail::check(tnr_malloc(&ptr, bytes, device, stream));
    return static_cast<T *>(ptr);
}

/* Frees on the block's own stream, at once: work it was given may still use the memory. */
inline void free(void *ptr)
{
    tenure::detail::check(tnr_free(ptr));
}

/* The use of the block by another stream ends here: call it after the last launch there. */
inline void record_use(const void *ptr, tnr_stream stream)
{
    tenure::detail::check(tnr_record_use(ptr, stream));
}

/* ---- an owner ------------------------------------------------------------------------------- */

/* Owns memory for `size()` objects on a device. Can be moved, not copied. Its destructor frees the
 * block in the order of the stream that it was made for. If other streams use it, call used_by
 * after their last launch; the destructor may run at any time then. */
template <class T> class buffer
{
  public:
    buffer() noexcept : ptr_(nullptr), size_(0)
    {
    }

    explicit buffer(std::size_t count, tnr_stream stream = nullptr, int device = 0)
        : ptr_(malloc<T>(count, stream, device)), size_(count)
    {
    }

    buffer(buffer &&other) noexcept : ptr_(other.ptr_), size_(other.size_)
    {
        other.ptr_ = nullptr;
        other.size_ = 0;
    }

    buffer &operator=(buffer &&other) noexcept
    {
        if (this != &other) {
            reset();
            ptr_ = other.ptr_;
            size_ = other.size_;
            other.ptr_ = nullptr;
            other.size_ = 0;
        }
        return *this;
    }

    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;

    ~buffer()
    {
        reset();
    }

    T *get() const noexcept
    {
        return ptr_;
    }

    std::size_t size() const noexcept
    {
        return size_;
    }

    std::size_t bytes() const noexcept
    {
        return size_ * sizeof(T);
    }

    explicit operator bool() const noexcept
    {
        return ptr_ != nullptr;
    }

    void used_by(tnr_stream stream) const
    {
        record_use(ptr_, stream);
    }

    /* Frees the block now, and owns nothing. */
    void reset() noexcept
    {
        T *ptr = release();
        if (ptr != nullptr)
            tenure::detail::check_free(tnr_free(ptr));
    }

    /* Hands the block to the caller, who frees it. */
    T *release() noexcept
    {
        T *ptr = ptr_;
        ptr_ = nullptr;
        size_ = 0;
        return ptr;
    }

  private:
    T *ptr_;
    std::size_t size_;
};

} /* namespace tnr */

#endif
