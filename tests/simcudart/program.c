/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that the tests of the runtime play: see program.h.
 */
#include "program.h"

#include <stdlib.h>
#include <string.h>

/* In every build: a program that is wrong must not pass. */
static void must(int is_so)
{
    if (!is_so)
        abort();
}

void entry_add(void)
{
}
void entry_fill(void)
{
}
void entry_unknown(void)
{
}
void entry_bounded(void)
{
}
void entry_lost(void)
{
}

char shadow_counter, shadow_scale, shadow_zeros;
void *managed_pointer;

static const float scale[4] = {1, 2, 3, 4};
static const int counter = 7;

static const played_kernel kernels[] = {
    {"_Z3addPfPKfi", 3, {8, 8, 4}, 10, 0, 0},
    {"_Z4fillIfEvPT_S0_i", 3, {8, 4, 4}, 32, 256, 0},
    {"_Z7unknownPfS_", 2, {8, 8}, 16, 0, 0},
    {"_Z7boundedv", 0, {0}, 255, 1024, 64},
};

static const played_variable variables[] = {
    {"counter", sizeof(counter), &counter, 0},
    {"scale", sizeof(scale), scale, 1},
    {"zeros", 64, NULL, 0},
    {"shared_number", 16, NULL, 0},
};

static _Alignas(16) unsigned char code[PLAYED_BYTES], older[PLAYED_BYTES];
static _Alignas(16) unsigned char fatbin[4 * PLAYED_BYTES], text_only[4096];
static void **binary, **lost;

static void function_register(void **of, void (*entry)(void), const char *name)
{
    const char *host = NULL;
    memcpy(&host, &entry, sizeof(host));
    __cudaRegisterFunction(of, host, (char *)(uintptr_t)name, name, -1, NULL, NULL, NULL, NULL,
                           NULL);
}

static void variable_register(char *shadow, const char *name, size_t bytes, int is_constant)
{
    __cudaRegisterVar(binary, shadow, (char *)(uintptr_t)name, name, 0, bytes, is_constant, 0);
}

void program_register(void)
{
    static const char text[] = "this is text, for a compiler that is not here";
    size_t bytes = played_cubin(code, kernels, 4, variables, 4);
    size_t older_bytes = played_cubin(older, kernels, 1, NULL, 0);
    /* The machine code for the device is neither the first nor the last of its kind. */
    const played_entry entries[] = {{2, 75, 0x11, older, older_bytes, 0},
                                    {2, 90, 0x11, code, bytes, 0},
                                    {2, 120, 0x11, older, older_bytes, 0},
                                    {1, 90, 0x11, text, sizeof(text), 0}};
    static played_wrapper wrapper = {0x466243b1, 1, fatbin, NULL};
    static played_wrapper lost_wrapper = {0x466243b1, 1, text_only, NULL};
    (void)played_fatbin(fatbin, sizeof(fatbin), entries, 4);
    (void)played_fatbin(text_only, sizeof(text_only), &entries[3], 1);
    binary = __cudaRegisterFatBinary(&wrapper);
    function_register(binary, entry_add, kernels[0].name);
    function_register(binary, entry_fill, kernels[1].name);
    function_register(binary, entry_unknown, kernels[2].name);
    function_register(binary, entry_bounded, kernels[3].name);
    variable_register(&shadow_counter, "counter", sizeof(counter), 0);
    variable_register(&shadow_scale, "scale", sizeof(scale), 1);
    variable_register(&shadow_zeros, "zeros", 64, 0);
    __cudaRegisterManagedVar(binary, &managed_pointer, (char *)(uintptr_t) "shared_number",
                             "shared_number", 0, 16, 0, 0);
    __cudaRegisterFatBinaryEnd(binary);
    lost = __cudaRegisterFatBinary(&lost_wrapper);
    function_register(lost, entry_lost, "_Z4lostPi");
    __cudaRegisterFatBinaryEnd(lost);
    (void)__cudaInitModule(binary);
}

void program_unregister(void)
{
    __cudaUnregisterFatBinary(binary);
    __cudaUnregisterFatBinary(lost);
}

cudaError_t program_launch(void (*entry)(void), unsigned threads, size_t shared_bytes,
                           cudaStream_t stream, void **parameters)
{
    dim3 grid = {1, 1, 1}, block = {threads, 1, 1};
    size_t shared = 0;
    cudaStream_t where = NULL;
    const void *host = NULL;
    memcpy(&host, &entry, sizeof(host));
    if (__cudaPushCallConfiguration(grid, block, shared_bytes, stream) != 0)
        return cudaErrorUnknown;
    cudaError_t error = __cudaPopCallConfiguration(&grid, &block, &shared, &where);
    if (error != cudaSuccess)
        return error;
    must(where == stream && shared == shared_bytes);
    return cudaLaunchKernel(host, grid, block, parameters, shared, where);
}
