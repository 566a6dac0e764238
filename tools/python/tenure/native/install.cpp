/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Python calls, by ctypes: making the class PyTorch's allocator.
 *
 * PyTorch starts CUDA in many ways. Some lead through Python (torch.cuda._lazy_init). Others are
 * C++ alone: pinned memory, TorchScript, operators that are called by name, memory history,
 * extensions. All of them call init() of the allocator that is set then, once. From then on it
 * stays. So a program that Tenure is put under gets the class right after the import of PyTorch,
 * which starts nothing, and the class is asked first, however CUDA starts. If Tenure cannot serve
 * then, the class gives its place back to the allocator that it has found there.
 *
 * init() runs under a lock of PyTorch's, with or without the interpreter's lock. A thread that has
 * the latter may wait for the former. So nothing here calls Python.
 */
#include "allocator.hpp"

#include <cstdio>
#include <stdexcept>

#include <dlfcn.h>

#include <c10/core/Allocator.h>

#define NATIVE extern "C" __attribute__((visibility("default")))

namespace torch::cuda::CUDAPluggableAllocator
{

/* PyTorch's own way to change its allocator; null where only c10 is there. It also
 * makes torch.cuda.memory._get_current_allocator() answer. */
__attribute__((weak)) void changeCurrentAllocator(
    const std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> &);

} // namespace torch::cuda::CUDAPluggableAllocator

namespace tenure_torch
{

namespace
{

/* What the class waits with. Written before PyTorch starts CUDA, by the thread that has the
 * interpreter's lock; read by init() alone. Never destroyed. */
struct waiting {
    cca::CUDAAllocator *own = nullptr; /* PyTorch's; null: the class does not wait */
    c10::Allocator *own_of_device = nullptr;
    std::string refusal; /* begins the line that says why Tenure cannot serve */
    std::string notice;  /* printed if it serves; may be empty */
};

waiting &wait()
{
    static waiting *one = new waiting();
    return *one;
}

/* The checker is in the process, perhaps: it is told. */
void tell_checker(const char *name)
{
    auto *tell = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, name));
    if (tell != nullptr)
        tell();
}

void make_allocator(cca::CUDAAllocator *one, c10::Allocator *of_device)
{
    cca::allocator.store(one);
    /* The native allocator has registered itself with 0, and would not come before. */
    c10::SetAllocator(c10::DeviceType::CUDA, of_device, 1);
}

void make_known()
{
    std::shared_ptr<cca::CUDAAllocator> shared(&instance(), [](cca::CUDAAllocator *) {});
    if (torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator != nullptr)
        torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(shared);
}

/* Runs `function`; returns null, or what it has thrown. */
template <typename Function> const char *problem_of(Function function)
{
    static char text[1024];
    try {
        function();
        return nullptr;
    } catch (const c10::Error &error) {
        std::snprintf(text, sizeof(text), "%s", error.what_without_backtrace());
    } catch (const std::exception &error) {
        std::snprintf(text, sizeof(text), "%s", error.what());
    }
    return text;
}

void must_be_first()
{
    if (cca::allocator.load() != &instance() && cca::get()->initialized())
        throw std::runtime_error("PyTorch has started CUDA already, and cannot change its "
                                 "allocator any more");
}

} // namespace

allocator &instance()
{
    static allocator *one = new allocator(); /* blocks may be freed after all destructors */
    return *one;
}

void started()
{
    tell_checker("tenure_preload_engine");
    if (instance().isEnabled())
        pinned_install();
    if (wait().own == nullptr)
        return;
    wait().own = nullptr;
    make_known();
    tell_checker("tenure_preload_under");
    if (!wait().notice.empty())
        std::fprintf(stderr, "tenure: %s\n", wait().notice.c_str());
}

bool hand_back(int devices_count)
{
    cca::CUDAAllocator *own = wait().own;
    if (own == nullptr)
        return false;
    std::fprintf(stderr, "tenure: %s: %s\n", wait().refusal.c_str(), tnr_last_error());
    wait().own = nullptr;
    make_allocator(own, wait().own_of_device);
    own->init(devices_count);
    return true;
}

} // namespace tenure_torch

/* Makes Tenure the allocator of torch.cuda and of torch.accelerator. Returns null, or why not, in a
 * buffer that the next call overwrites. Before PyTorch uses CUDA. */
NATIVE const char *tenure_native_install()
{
    using namespace tenure_torch;
    return problem_of([] {
        must_be_first();
        wait().own = nullptr;
        make_known();
        make_allocator(&instance(), &instance());
    });
}

/* The same until it is known whether Tenure can serve. `refusal` begins the line that says why it
 * cannot; `notice` is a line for when it does, or empty. */
NATIVE const char *tenure_native_wait(const char *refusal, const char *notice)
{
    using namespace tenure_torch;
    return problem_of([&] {
        must_be_first();
        wait() = {cca::get(), c10::GetAllocator(c10::DeviceType::CUDA), refusal, notice};
        make_allocator(&instance(), &instance());
    });
}

/* 1 once PyTorch has started CUDA with Tenure as its allocator. */
NATIVE int tenure_native_serves()
{
    using namespace tenure_torch;
    return cca::get() == &instance() && instance().initialized();
}

/* 1 if the class can raise PyTorch's exceptions. Tried in a process of its own: it may crash. */
NATIVE int tenure_native_try()
{
    return tenure_torch::can_raise() ? 1 : 0;
}

/* How many calls have failed; pools that exist: for tests. */
NATIVE unsigned long tenure_native_failures()
{
    return tenure_torch::failures();
}

NATIVE unsigned tenure_native_pools()
{
    return tenure_torch::pools_count();
}
