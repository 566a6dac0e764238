/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching pattern kernels, on either kind of device: see pattern.h.
 */
#include "pattern.h"

#include <stdio.h>
#include <string.h>

#include "pattern_ptx.h"
#include "pattern_sim.h"

enum {
    THREADS_PER_BLOCK = 256,
    BLOCKS_PER_MULTIPROCESSOR = 16,
    SELF_TEST_STREAM = 0,
};

/* A stream's counters on the device: 64 bytes, so that streams do not share a cache line. */
typedef struct pattern_counter {
    uint64_t errors, first_seed, first_offset, unused[5];
} pattern_counter;

static int open_fail(pattern *checks, const char *what, CUresult result, char *error,
                     size_t error_bytes)
{
    char text[256];
    snprintf(error, error_bytes, "the pattern kernels cannot be used: %s: %s", what,
             gpu_error_text(checks->gpu, result, text, sizeof(text)));
    pattern_close(checks);
    return -1;
}

/* Loads the module. The simulated driver accepts any image and finds what was registered. */
static int module_load(pattern *checks, char *error, size_t error_bytes)
{
    const gpu_driver *gpu = checks->gpu;
    if (pattern_sim_register(gpu->library) < 0)
        return open_fail(checks, "simcuda_kernel_register", CUDA_ERROR_UNKNOWN, error, error_bytes);
    char image[sizeof(pattern_ptx_head) + sizeof(pattern_ptx_fill) + sizeof(pattern_ptx_check)];
    snprintf(image, sizeof(image), "%s%s%s", pattern_ptx_head, pattern_ptx_fill, pattern_ptx_check);
    CUresult result = gpu->cuModuleLoadData(&checks->module, image);
    if (result != CUDA_SUCCESS)
        return open_fail(checks, "cuModuleLoadData", result, error, error_bytes);
    result = gpu->cuModuleGetFunction(&checks->fill, checks->module, "tenure_fill");
    if (result == CUDA_SUCCESS)
        result = gpu->cuModuleGetFunction(&checks->check, checks->module, "tenure_check");
    if (result != CUDA_SUCCESS)
        return open_fail(checks, "cuModuleGetFunction", result, error, error_bytes);
    return 0;
}

int pattern_open(pattern *checks, const gpu_driver *gpu, CUdevice device, pattern_extent extent,
                 size_t streams_count, char *error, size_t error_bytes)
{
    memset(checks, 0, sizeof(*checks));
    checks->gpu = gpu;
    checks->extent = extent;
    checks->streams_count = streams_count;
    if (extent == PATTERN_NONE)
        return 0;
    if (!gpu->cuModuleLoadData || !gpu->cuModuleGetFunction || !gpu->cuLaunchKernel ||
        !gpu->cuMemAlloc || !gpu->cuMemFree || !gpu->cuMemcpyDtoHAsync || !gpu->cuMemsetD8Async)
        return open_fail(checks, "the driver lacks an entry point for kernels",
                         CUDA_ERROR_NOT_SUPPORTED, error, error_bytes);
    if (module_load(checks, error, error_bytes) != 0)
        return -1;
    int processors = 1;
    if (gpu->cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) !=
            CUDA_SUCCESS ||
        processors < 1)
        processors = 1;
    checks->blocks_max = (unsigned)processors * BLOCKS_PER_MULTIPROCESSOR;
    CUresult result = gpu->cuMemAlloc(&checks->counters, streams_count * sizeof(pattern_counter));
    if (result != CUDA_SUCCESS)
        return open_fail(checks, "memory for the counters", result, error, error_bytes);
    result = pattern_reset(checks);
    if (result != CUDA_SUCCESS)
        return open_fail(checks, "clearing the counters", result, error, error_bytes);
    return 0;
}

void pattern_close(pattern *checks)
{
    const gpu_driver *gpu = checks->gpu;
    if (checks->counters)
        gpu->cuMemFree(checks->counters);
    if (checks->module)
        gpu->cuModuleUnload(checks->module);
    memset(checks, 0, sizeof(*checks));
}

/* Thread blocks for so many words: one thread a word until the device is full. */
static unsigned blocks_for(const pattern *checks, uint64_t words)
{
    uint64_t blocks = (words + THREADS_PER_BLOCK - 1) / THREADS_PER_BLOCK;
    if (blocks < 1)
        return 1;
    return blocks > checks->blocks_max ? checks->blocks_max : (unsigned)blocks;
}

static CUresult launch(pattern *checks, CUfunction kernel, CUdeviceptr block, size_t bytes,
                       uint64_t seed, CUdeviceptr counter, CUstream stream)
{
    uint64_t address = block;
    uint64_t length = bytes;
    uint64_t points = checks->extent == PATTERN_ENDS ? pattern_points_count(block, bytes) : 0;
    uint64_t counter_address = counter;
    void *params[] = {&address, &length, &seed, &points, &counter_address};
    return checks->gpu->cuLaunchKernel(kernel, blocks_for(checks, points ? points : bytes / 16), 1,
                                       1, THREADS_PER_BLOCK, 1, 1, 0, stream, params, NULL);
}

CUresult pattern_fill(pattern *checks, CUdeviceptr block, size_t bytes, uint64_t seed,
                      CUstream stream)
{
    if (checks->extent == PATTERN_NONE)
        return CUDA_SUCCESS;
    return launch(checks, checks->fill, block, bytes, seed, 0, stream);
}

CUresult pattern_check(pattern *checks, CUdeviceptr block, size_t bytes, uint64_t seed,
                       CUstream stream, size_t stream_number)
{
    if (checks->extent == PATTERN_NONE)
        return CUDA_SUCCESS;
    CUdeviceptr counter = checks->counters + stream_number * sizeof(pattern_counter);
    return launch(checks, checks->check, block, bytes, seed, counter, stream);
}

CUresult pattern_read(pattern *checks, pattern_result *result)
{
    memset(result, 0, sizeof(*result));
    for (size_t i = 0; i < checks->streams_count && checks->extent != PATTERN_NONE; i++) {
        pattern_counter counter;
        CUresult status = checks->gpu->cuMemcpyDtoHAsync(
            &counter, checks->counters + i * sizeof(counter), sizeof(counter), NULL);
        if (status == CUDA_SUCCESS)
            status = checks->gpu->cuStreamSynchronize(NULL);
        if (status != CUDA_SUCCESS)
            return status;
        result->errors += counter.errors;
        if (counter.errors && result->first_seed == 0) {
            result->first_seed = counter.first_seed;
            result->first_offset = counter.first_offset;
        }
    }
    return CUDA_SUCCESS;
}

CUresult pattern_reset(pattern *checks)
{
    if (checks->extent == PATTERN_NONE)
        return CUDA_SUCCESS;
    CUresult result = checks->gpu->cuMemsetD8Async(
        checks->counters, 0, checks->streams_count * sizeof(pattern_counter), NULL);
    if (result == CUDA_SUCCESS)
        result = checks->gpu->cuStreamSynchronize(NULL);
    return result;
}

int pattern_self_test(pattern *checks, CUdeviceptr block, size_t bytes, CUstream stream,
                      char *error, size_t error_bytes)
{
    if (checks->extent == PATTERN_NONE)
        return 0;
    const uint64_t right = 12345;
    const uint64_t wrong = 54321;
    char text[256];
    pattern_result results[2];
    CUresult status = pattern_fill(checks, block, bytes, right, stream);
    for (size_t i = 0; i < 2 && status == CUDA_SUCCESS; i++) {
        uint64_t seed = i == 0 ? right : wrong;
        status = pattern_check(checks, block, bytes, seed, stream, SELF_TEST_STREAM);
        if (status == CUDA_SUCCESS)
            status = checks->gpu->cuStreamSynchronize(stream);
        if (status == CUDA_SUCCESS)
            status = pattern_read(checks, &results[i]);
        if (status == CUDA_SUCCESS)
            status = pattern_reset(checks);
    }
    if (status != CUDA_SUCCESS) {
        snprintf(error, error_bytes, "the pattern kernels failed: %s",
                 gpu_error_text(checks->gpu, status, text, sizeof(text)));
        return -1;
    }
    uint64_t points = checks->extent == PATTERN_ENDS ? pattern_points_count(block, bytes) : 0;
    uint64_t words = points ? points : bytes / 16;
    if (results[0].errors != 0 || results[1].errors < words || results[1].first_seed != wrong) {
        snprintf(error, error_bytes,
                 "the pattern check cannot be trusted on this device: %llu errors where there "
                 "are none, %llu where there are at least %llu",
                 (unsigned long long)results[0].errors, (unsigned long long)results[1].errors,
                 (unsigned long long)words);
        return -1;
    }
    return 0;
}
