/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two things about PyTorch that plain C cannot do: to be called with a std::function, and to
 * throw PyTorch's own exception. `python3 -m tenure.torch build` compiles this file against the
 * PyTorch that is installed; everything else of Tenure works without.
 *
 * It needs no header and no library of Tenure: what it shares with libtenure_torch.so is declared
 * here again, and a test compares. Of PyTorch it needs c10 alone, so that no CUDA toolkit is
 * needed; types of CUDA are declared by their meaning.
 */
#include <cstdint>
#include <functional>
#include <utility>

#include <c10/util/Exception.h>

#define HOOK extern "C" __attribute__((visibility("default")))

struct CUstream_st;

namespace tenure_hook {

using stream = CUstream_st *;

/* tenure_torch_id, tenure_torch_filter and tenure_torch_pool_begin of tenure_torch.h. */
struct id {
    unsigned long long first, second;
};
struct filter {
    int (*accepts)(void *context, stream asked);
    void (*end)(void *context);
    void *context;
};
using begin_function = void (*)(int device, id pool, const filter *streams);

/* PyTorch's MempoolId_t and the filter that it passes. */
using torch_id = std::pair<unsigned long long, unsigned long long>;
using torch_filter = std::function<bool(stream)>;

/* Set once, before PyTorch allocates. */
static begin_function pool_begin = nullptr;

/* PyTorch's filter asks whether the stream is being captured, and throws if the driver does not
 * like the question: then the stream is not of this capture. */
static int filter_accepts(void *context, stream asked) noexcept
{
    try {
        return (*static_cast<torch_filter *>(context))(asked) ? 1 : 0;
    } catch (...) {
        return 0;
    }
}

static void filter_end(void *context)
{
    delete static_cast<torch_filter *>(context);
}

} // namespace tenure_hook

HOOK void tenure_hook_start(tenure_hook::begin_function begin)
{
    tenure_hook::pool_begin = begin;
}

/* For set_begin_allocate_to_pool. */
HOOK void tenure_hook_begin(int device, tenure_hook::torch_id id,
                            tenure_hook::torch_filter accepts)
{
    using namespace tenure_hook;
    filter streams = {filter_accepts, filter_end, new torch_filter(std::move(accepts))};
    pool_begin(device, {id.first, id.second}, &streams);
}

/* For tenure_torch_raise_set: torch.OutOfMemoryError in Python. */
HOOK void tenure_hook_out_of_memory(const char *function, const char *file, uint32_t line,
                                    const char *text)
{
    throw c10::OutOfMemoryError(c10::SourceLocation{function, file, line}, text);
}

/* And RuntimeError. */
HOOK void tenure_hook_error(const char *function, const char *file, uint32_t line,
                            const char *text)
{
    throw c10::Error(c10::SourceLocation{function, file, line}, text);
}
