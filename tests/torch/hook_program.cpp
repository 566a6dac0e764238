/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_program LIBTENURE_TORCH HOOK: does with the two libraries what PyTorch does, as
 * PyTorch does it: std::function by value, exceptions through C. test_hook.py compiles both the
 * hook and this, and runs it on the simulated device.
 *
 * Exit codes: 0 all as it must be; 1 not, and the reason is printed.
 */
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <stdexcept>
#include <type_traits>

/* Both sides of what is declared twice. */
#include "begin_hook.cpp"
#include "tenure_torch.h"

static_assert(sizeof(tenure_hook::id) == sizeof(tenure_torch_id), "the same id");
static_assert(sizeof(tenure_hook::torch_id) == sizeof(tenure_torch_id), "PyTorch's too");
static_assert(sizeof(tenure_hook::filter) == sizeof(tenure_torch_filter), "the same filter");
static_assert(offsetof(tenure_hook::filter, accepts) == offsetof(tenure_torch_filter, accepts) &&
                  offsetof(tenure_hook::filter, end) == offsetof(tenure_torch_filter, end) &&
                  offsetof(tenure_hook::filter, context) == offsetof(tenure_torch_filter, context),
              "in the same order");
static_assert(std::is_same<tenure_hook::stream, tnr_stream>::value, "the same stream");

namespace {

void must(bool good, const char *what)
{
    if (!good) {
        std::printf("hook_program: not so: %s\n", what);
        std::exit(1);
    }
}

/* A function of a library, by its declaration. */
template <typename Function> Function *found(void *library, const char *name)
{
    void *address = dlsym(library, name);
    must(address != nullptr, name);
    return reinterpret_cast<Function *>(address);
}

void *opened(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr)
        std::printf("%s\n", dlerror());
    must(library != nullptr, path);
    return library;
}

/* Counts how many copies of it there are, as captured state of PyTorch's filter would. */
struct counted {
    int *count;
    explicit counted(int *place) : count(place) { ++*count; }
    counted(const counted &other) : count(other.count) { ++*count; }
    ~counted() { --*count; }
};

using torch_begin = void(int, tenure_hook::torch_id, std::function<bool(tnr_stream)>);

tnr_pool pool_of(void *block)
{
    tnr_block_info info;
    must(tnr_block_get(&info, block) == TNR_OK, "the block is Tenure's");
    return info.pool;
}

void pools(void *plugin, void *hook)
{
    auto *begin = found<torch_begin>(hook, "tenure_hook_begin");
    auto *end = found<decltype(tenure_torch_pool_end)>(plugin, "tenure_torch_pool_end");
    auto *release = found<decltype(tenure_torch_pool_release)>(plugin,
                                                               "tenure_torch_pool_release");
    auto *take = found<decltype(tenure_torch_malloc)>(plugin, "tenure_torch_malloc");
    auto *give = found<decltype(tenure_torch_free)>(plugin, "tenure_torch_free");
    int copies = 0, asked = 0;
    {
        counted state(&copies);
        begin(0, {0, 5}, [state, &asked](tnr_stream stream) {
            asked++;
            if (stream == reinterpret_cast<tnr_stream>(2))
                throw std::runtime_error("a question that the driver does not like");
            return true;
        });
    }
    must(copies == 1, "the filter is kept, once");
    void *routed = take(1 << 20, 0, nullptr);
    must(asked > 0 && pool_of(routed) != nullptr, "the filter is asked, and routes");
    void *other = take(1 << 20, 0, reinterpret_cast<tnr_stream>(2));
    must(pool_of(other) == nullptr, "a filter that throws does not accept");
    end(0, {0, 5});
    must(copies == 0, "the filter is dropped with the routing");
    give(routed, 1 << 20, 0, nullptr);
    give(other, 1 << 20, 0, reinterpret_cast<tnr_stream>(2));
    release(0, {0, 5});
}

void errors(void *plugin, void *hook)
{
    auto *take = found<decltype(tenure_torch_malloc)>(plugin, "tenure_torch_malloc");
    auto *raise = found<decltype(tenure_torch_raise_set)>(plugin, "tenure_torch_raise_set");
    using thrower = void(const char *, const char *, uint32_t, const char *);
    raise(found<thrower>(hook, "tenure_hook_out_of_memory"),
          found<thrower>(hook, "tenure_hook_error"));
    try {
        take(static_cast<size_t>(1) << 50, 0, nullptr);
        must(false, "memory that is short is thrown");
    } catch (const c10::OutOfMemoryError &error) {
        const char *begins = "CUDA out of memory. Tenure out of memory. ";
        must(std::strstr(error.what(), begins) == error.what(), error.what());
        must(error.function() == "tnr_malloc", error.function().c_str());
    }
    try {
        take(1 << 20, 77, nullptr);
        must(false, "other errors are thrown");
    } catch (const c10::OutOfMemoryError &) {
        must(false, "as what they are");
    } catch (const c10::Error &error) {
        must(std::strstr(error.what(), "77") != nullptr, error.what());
    }
}

} // namespace

int main(int count, char **arguments)
{
    must(count == 3, "two arguments");
    void *plugin = opened(arguments[1]), *hook = opened(arguments[2]);
    found<decltype(tenure_hook_start)>(hook, "tenure_hook_start")(
        reinterpret_cast<tenure_hook::begin_function>(dlsym(plugin, "tenure_torch_pool_begin")));
    pools(plugin, hook);
    errors(plugin, hook);
    std::printf("the hook does what it must\n");
    return 0;
}
