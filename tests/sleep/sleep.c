/* SPDX-License-Identifier: Apache-2.0 */
/* See sleep.h. */
#include "sleep.h"

#include "few.h"

#include <string.h>

void sleep_context_enter(void)
{
    CUcontext context;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

void sleep_context_leave(void)
{
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

enum { STEP = 64 << 10 }; /* every so many bytes one value of the pattern */

static uint32_t pattern(uint32_t seed, size_t at)
{
    return (seed + 1) * 0x9e3779b9u ^ (uint32_t)(at / STEP) * 0x85ebca6bu;
}

void sleep_fill(void *ptr, size_t bytes, uint32_t seed, tnr_stream stream)
{
    for (size_t at = 0; at < bytes; at += STEP) {
        size_t words = (bytes - at < STEP ? bytes - at : STEP) / 4;
        assert_int_equal(
            cuMemsetD32Async((CUdeviceptr)(uintptr_t)ptr + at, pattern(seed, at), words, stream),
            CUDA_SUCCESS);
    }
}

int sleep_matches(const void *ptr, size_t bytes, uint32_t seed)
{
    size_t part = (size_t)few_or(4096, 65536);
    for (size_t at = 0; at + 4 <= bytes; at += 4) {
        uint32_t word;
        memcpy(&word, (const char *)ptr + at, sizeof(word));
        if (word != pattern(seed, at))
            return 0;
        if (at % part == 512)
            at += part - 1024; /* both ends of each part */
    }
    return 1;
}

void sleep_check(const void *ptr, size_t bytes, uint32_t seed)
{
    assert_true(sleep_matches(ptr, bytes, seed));
}

uint64_t sleep_device_bytes(void)
{
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.used_bytes, live.handle_bytes + live.allocated_bytes);
    return live.used_bytes;
}

uint64_t sleep_pinned_bytes(void)
{
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    return live.pinned_bytes;
}

tnr_stats sleep_stats(tnr_pool pool)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_stats_get(&stats, pool, 0));
    assert_ok(tnr_validate(0));
    assert_int_equal(stats.bytes_live + stats.bytes_slack + stats.bytes_binned + stats.bytes_free +
                         stats.bytes_retired,
                     stats.reserved_bytes.current + stats.bytes_asleep + stats.bytes_parked_away);
    return stats;
}
