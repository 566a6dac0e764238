/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are hard on the checker. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "zoo.h"

#if defined(__has_include)
#if __has_include(<nvtx3/nvToolsExtCuda.h>)
#include <nvtx3/nvToolsExtCuda.h>
#define HAS_NVTX 1
#endif
#endif

/* ---- thousands of distinct errors ----------------------------------------------------------- */

/* Each sequence of these calls is a stack of its own. */
#define BRANCHES(name, leaf)                                                                       \
    static void name(CUdeviceptr block, unsigned path, int depth);                                 \
    static __attribute__((noinline)) void name##_left(CUdeviceptr block, unsigned path, int depth) \
    {                                                                                              \
        name(block, path, depth);                                                                  \
        __asm__ volatile("");                                                                      \
    }                                                                                              \
    static                                                                                         \
        __attribute__((noinline)) void name##_right(CUdeviceptr block, unsigned path, int depth)   \
    {                                                                                              \
        name(block, path, depth);                                                                  \
        __asm__ volatile("");                                                                      \
    }                                                                                              \
    static __attribute__((noinline)) void name(CUdeviceptr block, unsigned path, int depth)        \
    {                                                                                              \
        if (depth == 0)                                                                            \
            leaf;                                                                                  \
        else if ((path & 1) != 0)                                                                  \
            name##_left(block, path >> 1, depth - 1);                                              \
        else                                                                                       \
            name##_right(block, path >> 1, depth - 1);                                             \
        __asm__ volatile("");                                                                      \
    }

enum { BRANCHES_DEPTH = 5 };
BRANCHES(use_somewhere, touch(block, the.b))
BRANCHES(free_somewhere, MUST(cuMemFreeAsync(block, the.a)))

void animal_many(void)
{
    for (unsigned i = 0; i < 1u << (2 * BRANCHES_DEPTH); i++) {
        CUdeviceptr block = make(the.a);
        wait_for(the.a, the.b);
        use_somewhere(block, i, BRANCHES_DEPTH);
        if (!the.is_wrong)
            wait_for(the.b, the.a);
        free_somewhere(block, i >> BRANCHES_DEPTH, BRANCHES_DEPTH);
        /* And at other places of this function. */
        block = make(the.a);
        wait_for(the.a, the.b);
        use_somewhere(block, i, BRANCHES_DEPTH);
        if (!the.is_wrong)
            wait_for(the.b, the.a);
        free_somewhere(block, i >> BRANCHES_DEPTH, BRANCHES_DEPTH);
    }
}

/* ---- ends ----------------------------------------------------------------------------------- */

void animal_dies(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    (void)signal(SIGSEGV, SIG_DFL);
    if (the.is_wrong)
        (void)raise(SIGSEGV);
}

static void free_in_use(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_cleared(void)
{
    clearenv();
    free_in_use();
}

/* The process that was waited for ends before the error takes place in another. */
void animal_orphan(void)
{
    free_in_use();
}

/* Before the driver is used, which a process that was forked later could not use. */
void orphan_begin(void)
{
    if (fork() == 0)
        (void)usleep(300000);
    else
        _exit(0);
}

/* ---- parameters ----------------------------------------------------------------------------- */

/* As many bytes as a kernel may have: the address is the last word that is aligned. */
void animal_wide_structure(void)
{
    static char words[WIDE_BYTES];
    CUdeviceptr block = make(the.a);
    void *params[] = {words};
    memcpy(words + WIDE_BYTES - 12, &block, sizeof(block));
    wait_for(the.a, the.b);
    MUST(cuLaunchKernel(the.wide, 1, 1, 1, 1, 1, 1, 0, the.b, params, NULL));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* As many parameters, each an address of its own block, but for the last one. */
void animal_many_parameters(void)
{
    static CUdeviceptr blocks[WIDE_BYTES / 8];
    static void *params[WIDE_BYTES / 8];
    CUdeviceptr whole = make(the.a), between = make(the.a), last = make(the.a);
    for (int i = 0; i < WIDE_BYTES / 8; i++) {
        blocks[i] = i == WIDE_BYTES / 8 - 1 ? last : whole + (CUdeviceptr)i * 8;
        params[i] = &blocks[i];
    }
    wait_for(the.a, the.b);
    MUST(cuLaunchKernel(the.many, 1, 1, 1, 1, 1, 1, 0, the.b, params, NULL));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(last, the.a));
    wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(between, the.a));
    MUST(cuMemFreeAsync(whole, the.a));
}

/* ---- host functions that call the driver ---------------------------------------------------- */

/* The driver refuses them, and nothing has been done. */
static void CUDA_CB host_call(void *data)
{
    CUdeviceptr block = *(CUdeviceptr *)data;
    CUresult results[] = {cuMemsetD8Async(block, 0, 16, the.b), cuStreamSynchronize(the.a),
                          cuEventRecord(the.event, the.b), cuStreamWaitEvent(the.a, the.event, 0)};
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        MUST_BE(results[i], CUDA_ERROR_NOT_PERMITTED);
}

void animal_calls_in_host_function(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuStreamSynchronize(the.a));
    MUST(cuLaunchHostFunc(the.b, host_call, &block));
    MUST(cuStreamSynchronize(the.b));
    touch(block, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* ---- names ---------------------------------------------------------------------------------- */

void animal_named_stream(void)
{
#ifdef HAS_NVTX
    nvtxNameCuStreamA(the.a, "owner \"\xc3\xa9\xff\"");
    nvtxNameCuStreamW(the.b, L"prefetch \u00e9");
    animal_free_in_use();
#else
    exit(77);
#endif
}
