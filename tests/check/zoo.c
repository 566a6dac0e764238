/* SPDX-License-Identifier: Apache-2.0 */
/* The zoo: see zoo.h. */
#include "zoo.h"

#include <string.h>

#include <tenure/simcuda.h>

zoo the;

/* ---- contents ------------------------------------------------------------------------------- */

/* With ZOO_CONTENTS in the environment each block is filled, in the order of its stream, with a
 * number of its own, and kernels note what they find where they look. So the notes of a program
 * that hands memory on too early are others than those of its twin, whose last use was seen to. */
static int has_contents;
static unsigned char fills;
static _Atomic unsigned notes[256]; /* how often each number was found */

/* A kernel looks at one byte, whose address lies in a parameter, at an offset: what it notes, and
 * what the device's race detector is told. */
static void note(const void *parameter, size_t offset)
{
    const unsigned char *found;
    memcpy(&found, (const char *)parameter + offset, sizeof(found));
    if (has_contents)
        notes[*found]++;
}

static size_t access_of(const void *parameter, size_t offset, simcuda_access *out, size_t capacity)
{
    simcuda_access one = {.bytes = 1};
    memcpy(&one.address, (const char *)parameter + offset, sizeof(one.address));
    if (has_contents && capacity > 0)
        *out = one;
    return has_contents;
}

#define LOOKS_AT(kernel, parameter, offset)                                                        \
    static void kernel##_run(void *const *params)                                                  \
    {                                                                                              \
        note(params[parameter], offset);                                                           \
    }                                                                                              \
    static size_t kernel##_accesses(void *const *params, simcuda_access *out, size_t capacity)     \
    {                                                                                              \
        return access_of(params[parameter], offset, out, capacity);                                \
    }
LOOKS_AT(touch, 0, 0)
LOOKS_AT(both, 0, 0)
LOOKS_AT(whole, 0, 8)
LOOKS_AT(beside, 1, 8)
LOOKS_AT(wide, 0, WIDE_BYTES - 12)
LOOKS_AT(many, WIDE_BYTES / 8 - 1, 0)

/* The second parameter says which word of the first one is the address. */
static size_t large_offset(void *const *params)
{
    unsigned word;
    memcpy(&word, params[1], sizeof(word));
    return word * sizeof(CUdeviceptr);
}

static void large_run(void *const *params)
{
    note(params[0], large_offset(params));
}

static size_t large_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    return access_of(params[0], large_offset(params), out, capacity);
}

/* The address that a tensor map leads to. */
#define LOOKS_THROUGH(kernel, offset)                                                              \
    static void kernel##_run(void *const *params)                                                  \
    {                                                                                              \
        CUdeviceptr address = simcuda_tensor_address((const char *)params[0] + (offset));          \
        note(&address, 0);                                                                         \
    }                                                                                              \
    static size_t kernel##_accesses(void *const *params, simcuda_access *out, size_t capacity)     \
    {                                                                                              \
        CUdeviceptr address = simcuda_tensor_address((const char *)params[0] + (offset));          \
        return access_of(&address, 0, out, capacity);                                              \
    }
LOOKS_THROUGH(tensor, 0)
LOOKS_THROUGH(pair, 64)

/* Whoever is handed memory now writes over what was there. */
static void contents_end(void)
{
    CUstream streams[] = {the.a, the.b, the.c};
    for (int i = 0; i < 6 && has_contents; i++)
        (void)make(streams[i % 3]);
    MUST(cuCtxSynchronize());
    if (the.far != NULL) {
        MUST(cuCtxSetCurrent(the.far_context));
        MUST(cuStreamSynchronize(the.far));
        MUST(cuCtxSetCurrent(the.context));
    }
    for (int i = 0; i < 256 && has_contents; i++)
        if (notes[i] > 0)
            printf("%d: %u\n", i, notes[i]);
}

static void kernels_register(void)
{
    static const size_t touch_bytes[] = {8, 4}, both_bytes[] = {8, 8}, whole_bytes[] = {24};
    static const size_t wide_bytes[] = {WIDE_BYTES}, large_bytes[] = {LARGE_WORDS * 8, 4};
    static const size_t tensor_bytes[] = {sizeof(CUtensorMap)}, pair_bytes[] = {PAIR_BYTES};
    static const size_t beside_bytes[] = {32, 24};
    static size_t many_bytes[WIDE_BYTES / 8];
    for (int i = 0; i < WIDE_BYTES / 8; i++)
        many_bytes[i] = 8;
    if (simcuda_kernel_register("touch", 2, touch_bytes, touch_run, touch_accesses) != 0 ||
        simcuda_kernel_register("both", 2, both_bytes, both_run, both_accesses) != 0 ||
        simcuda_kernel_register("tensor", 1, tensor_bytes, tensor_run, tensor_accesses) != 0 ||
        simcuda_kernel_register("pair", 1, pair_bytes, pair_run, pair_accesses) != 0 ||
        simcuda_kernel_register("wide", 1, wide_bytes, wide_run, wide_accesses) != 0 ||
        simcuda_kernel_register("large", 2, large_bytes, large_run, large_accesses) != 0 ||
        simcuda_kernel_register("many", WIDE_BYTES / 8, many_bytes, many_run, many_accesses) != 0 ||
        simcuda_kernel_register("twin", 1, whole_bytes, whole_run, whole_accesses) != 0 ||
        simcuda_kernel_register("beside", 2, beside_bytes, beside_run, beside_accesses) != 0 ||
        simcuda_kernel_register("whole", 1, whole_bytes, whole_run, whole_accesses) != 0)
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
    MUST(cuModuleGetFunction(&the.tensor, module, "tensor"));
    MUST(cuModuleGetFunction(&the.pair, module, "pair"));
    MUST(cuModuleGetFunction(&the.wide, module, "wide"));
    MUST(cuModuleGetFunction(&the.large, module, "large"));
    MUST(cuModuleGetFunction(&the.many, module, "many"));
    MUST(cuModuleGetFunction(&the.whole, module, "whole"));
    MUST(cuModuleGetFunction(&the.twin, module, "twin"));
    MUST(cuModuleGetFunction(&the.beside, module, "beside"));
    MUST(cuStreamCreate(&the.a, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&the.b, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&the.c, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&the.event, CU_EVENT_DISABLE_TIMING));
}

CUdeviceptr make(CUstream stream)
{
    CUdeviceptr block;
    MUST(cuMemAllocAsync(&block, BYTES, stream));
    if (has_contents)
        MUST(cuMemsetD8Async(block, ++fills, BYTES, stream));
    return block;
}

void touch(CUdeviceptr address, CUstream stream)
{
    unsigned count = 1;
    void *params[] = {&address, &count};
    MUST(cuLaunchKernel(the.touch, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

CUgraphExec exec_by_hand(CUdeviceptr address, int is_changed)
{
    unsigned count = 1;
    void *params[] = {&address, &count};
    return exec_of_one_kernel(the.touch, params, is_changed);
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
    has_contents = getenv("ZOO_CONTENTS") != NULL;
    for (size_t i = 0; i < sizeof(animals) / sizeof(animals[0]); i++) {
        if (strcmp(animals[i].name, argv[1]) != 0)
            continue;
        if (animals[i].run == animal_orphan)
            orphan_begin();
        zoo_open();
        animals[i].run();
        if (getenv("ZOO_END") != NULL) /* dies, as engines do when a launch has failed */
            abort();
        contents_end();
        return 0;
    }
    fprintf(stderr, "no animal of that name: %s\n", argv[1]);
    return 2;
}
