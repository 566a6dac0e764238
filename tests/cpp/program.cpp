/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/tenure.hpp> from C++11 on: typed allocations, the owner, exceptions. check_cpp.py
 * compiles it with each standard and runs it.
 *
 * Taken out and seen to fail: the bound of the count in tnr::malloc (a_product_too_large), reset()
 * in ~buffer and other.ptr_ = nullptr in the move (an_owner_frees), what used_by does
 * (a_use_is_recorded).
 */
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include <tenure/tenure.hpp>

#include <cuda.h>

#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            std::fprintf(stderr, "line %d: not so: %s: %s\n", __LINE__, #what, tnr_last_error());  \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

namespace
{

void not_refused(const char *what)
{
    std::fprintf(stderr, "not refused: %s\n", what);
    std::exit(1);
}

struct pair_of_values {
    double a;
    int b;
};

tnr_stats stats_get()
{
    tnr_stats stats = TNR_STATS_INIT;
    MUST(stats.struct_bytes == sizeof(tnr_stats) && stats.bytes_live == 0);
    MUST(tnr_stats_get(&stats, nullptr, 0) == TNR_OK);
    return stats;
}

unsigned long long live()
{
    return stats_get().bytes_live;
}

void typed(CUstream stream)
{
    pair_of_values *values = tnr::malloc<pair_of_values>(1000, stream);
    MUST(live() == 1000 * sizeof(pair_of_values));
    tnr::free(values);
    MUST(live() == 0);
    MUST(tnr::malloc<int>(0, stream) == nullptr);
    tnr::free(nullptr);
}

void a_product_too_large(CUstream stream)
{
    const std::size_t too_many = static_cast<std::size_t>(-1) / sizeof(double) + 2;
    try {
        (void)tnr::malloc<double>(too_many, stream);
        not_refused("an allocation of more than there is");
    } catch (const std::bad_alloc &short_of) {
        const tnr::bad_alloc *known = dynamic_cast<const tnr::bad_alloc *>(&short_of);
        MUST(known != nullptr && known->status() == TNR_ERR_INVALID_SIZE);
        MUST(known->what()[0] != '\0');
    }
}

void errors(CUstream stream)
{
    int on_the_host = 0;
    try {
        tnr::free(&on_the_host);
        not_refused("a free of the host's memory");
    } catch (const tnr::error &wrong) {
        MUST(wrong.status() == TNR_ERR_FOREIGN_POINTER && wrong.what()[0] != '\0');
    }
    try {
        tnr::buffer<char> buffer(1, stream, 99);
        not_refused("a buffer of a device that there is not");
    } catch (const tnr::error &wrong) {
        MUST(wrong.status() == TNR_ERR_INVALID_DEVICE);
    }
}

void an_owner_frees(CUstream stream)
{
    typedef tnr::buffer<float> floats;
    static_assert(!std::is_copy_constructible<floats>::value, "one owner");
    static_assert(std::is_nothrow_move_constructible<floats>::value, "for std::vector");
    {
        floats empty, one(1000, stream), two(std::move(one));
        MUST(!empty && !one && two && two.size() == 1000 && two.bytes() == 4000);
        MUST(live() == 4000);
        one = floats(500, stream);
        MUST(live() == 6000);
        one = std::move(two);
        MUST(live() == 4000 && one.size() == 1000 && !two);
        floats &same = one;
        one = std::move(same);
        MUST(one.get() != nullptr);
        float *loose = one.release();
        MUST(!one && live() == 4000);
        tnr::free(loose);
        two = floats(10, stream);
    }
    MUST(live() == 0);
}

void a_use_is_recorded(CUstream stream, CUstream other)
{
    {
        tnr::buffer<int> shared(1 << 20, stream);
        CUevent made;
        MUST(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
        MUST(cuEventRecord(made, stream) == CUDA_SUCCESS);
        MUST(cuStreamWaitEvent(other, made, 0) == CUDA_SUCCESS);
        MUST(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(shared.get()), 7, shared.size(),
                              other) == CUDA_SUCCESS);
        shared.used_by(other);
        cuEventDestroy(made);
    }
    MUST(stats_get().bytes_retired != 0); /* waits for the other stream */
    MUST(cuStreamSynchronize(other) == CUDA_SUCCESS);
}

} /* namespace */

int main()
{
    CUcontext context;
    CUstream stream, other;
    MUST(cuInit(0) == CUDA_SUCCESS);
    MUST(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    MUST(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    typed(stream);
    a_product_too_large(stream);
    errors(stream);
    an_owner_frees(stream);
    a_use_is_recorded(stream, other);
    MUST(tnr_shutdown(1) == TNR_OK);
    std::puts("all as it must be");
    return 0;
}
