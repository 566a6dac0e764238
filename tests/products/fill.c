/* SPDX-License-Identifier: Apache-2.0 */
/* How a block gets its value: by a kernel that touches all of it, for all that watches orders, and
 * writes little of it. Memory moves, is mapped and is shared by granules of 2 MiB, so who has a
 * block's memory by mistake has these words, too. */
#include "world.h"

#include <string.h>

#include <tenure/simcuda.h>

enum { STRIDE = 64 * 1024 };

static CUfunction fill[DEVICES];

static void fill_run(void *const *params)
{
    unsigned char *at;
    uint64_t bytes;
    uint32_t value;
    memcpy(&at, params[0], sizeof(at));
    memcpy(&bytes, params[1], sizeof(bytes));
    memcpy(&value, params[2], sizeof(value));
    for (uint64_t place = 0; place < bytes; place += STRIDE)
        memcpy(at + place, &value, 4);
    for (int i = 0; i < BLOCK_PLACES; i++)
        memcpy(at + block_place(bytes, i), &value, 4);
}

static size_t fill_touches(void *const *params, simcuda_access *out, size_t capacity)
{
    CUdeviceptr at;
    uint64_t bytes;
    memcpy(&at, params[0], sizeof(at));
    memcpy(&bytes, params[1], sizeof(bytes));
    if (capacity > 0)
        out[0] = (simcuda_access){at, bytes, 1};
    return 1;
}

void world_fill_begin(world *w)
{
    static const size_t sizes[] = {8, 8, 4};
    if (simcuda_kernel_register("fill", 3, sizes, fill_run, fill_touches) != 0)
        compose_finding("the kernel is not registered");
    for (int d = 0; d < DEVICES; d++) {
        CUmodule module;
        world_on(w, d);
        drive(cuModuleLoadData(&module, "fill"));
        drive(cuModuleGetFunction(&fill[d], module, "fill"));
    }
}

void world_fill(world *w, void *at, size_t bytes, uint32_t value, int device, CUstream stream)
{
    uint64_t size = bytes;
    void *params[] = {&at, &size, &value};
    world_on(w, device);
    drive(cuLaunchKernel(fill[device], 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}
