/* SPDX-License-Identifier: Apache-2.0 */
/* The zoo: see zoo.h. */
#include "zoo.h"

#include <string.h>

#include <tenure/simcuda.h>

zoo the;

static void nothing_run(void *const *params)
{
    (void)params;
}

static void kernels_register(void)
{
    static const size_t touch_bytes[] = {8, 4}, both_bytes[] = {8, 8}, whole_bytes[] = {24};
    if (simcuda_kernel_register("touch", 2, touch_bytes, nothing_run, NULL) != 0 ||
        simcuda_kernel_register("both", 2, both_bytes, nothing_run, NULL) != 0 ||
        simcuda_kernel_register("whole", 1, whole_bytes, nothing_run, NULL) != 0)
        exit(1);
}

static void zoo_open(void)
{
    CUdevice device;
    CUmodule module;
    kernels_register();
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&the.context, device));
    MUST(cuCtxSetCurrent(the.context));
    MUST(cuModuleLoadData(&module, "any image"));
    MUST(cuModuleGetFunction(&the.touch, module, "touch"));
    MUST(cuModuleGetFunction(&the.both, module, "both"));
    MUST(cuModuleGetFunction(&the.whole, module, "whole"));
    MUST(cuStreamCreate(&the.a, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&the.b, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&the.c, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&the.event, CU_EVENT_DISABLE_TIMING));
}

CUdeviceptr make(CUstream stream)
{
    CUdeviceptr block;
    MUST(cuMemAllocAsync(&block, BYTES, stream));
    return block;
}

void touch(CUdeviceptr address, CUstream stream)
{
    unsigned count = 1;
    void *params[] = {&address, &count};
    MUST(cuLaunchKernel(the.touch, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void wait_for(CUstream first, CUstream second)
{
    MUST(cuEventRecord(the.event, first));
    MUST(cuStreamWaitEvent(second, the.event, 0));
}

static const struct {
    const char *name;
    void (*run)(void);
} animals[] = {
#define ANIMAL(name) {#name, animal_##name},
#include "animals.def"
#undef ANIMAL
};

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    the.is_wrong = strcmp(argv[2], "wrong") == 0;
    for (size_t i = 0; i < sizeof(animals) / sizeof(animals[0]); i++) {
        if (strcmp(animals[i].name, argv[1]) != 0)
            continue;
        zoo_open();
        animals[i].run();
        MUST(cuCtxSynchronize());
        return 0;
    }
    fprintf(stderr, "no animal of that name: %s\n", argv[1]);
    return 2;
}
