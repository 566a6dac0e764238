/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: see engine.h.
 *
 *   engine WAY SCENARIO
 *
 * Prints what must be the same with and without Tenure; ends with 1 if something is wrong.
 */
#include "engine.h"

#include <pthread.h>
#include <string.h>

#include "scenarios.h"

CUcontext engine_start(int device)
{
    CUdevice handle;
    CUcontext context;
    MUST(cu.cuInit(0));
    MUST(cu.cuDeviceGet(&handle, device));
    MUST(cu.cuDevicePrimaryCtxRetain(&context, handle));
    MUST(cu.cuCtxSetCurrent(context));
    return context;
}

void fill(CUdeviceptr address, int value, size_t bytes, CUstream stream)
{
    MUST(cu.cuMemsetD8Async(address, (unsigned char)value, bytes, stream));
}

void verify(CUdeviceptr address, int value, size_t bytes, CUstream stream)
{
    unsigned char *copy = malloc(bytes);
    CHECK(copy != NULL);
    memset(copy, value + 1, bytes);
    MUST(cu.cuMemcpyDtoHAsync(copy, address, bytes, stream));
    MUST(cu.cuStreamSynchronize(stream));
    /* All are the first one's equal; which is not is asked only then. A loop in an unoptimised
     * program took most of these tests' time. */
    size_t i = 0;
    if (bytes > 0 && (copy[0] != (unsigned char)value || memcmp(copy, copy + 1, bytes - 1) != 0)) {
        while (copy[i] == (unsigned char)value)
            i++;
        fprintf(stderr, "byte %zu of %zu is %d, not %d\n", i, bytes, copy[i], value & 255);
        exit(1);
    }
    free(copy);
}

const char *engine_way;

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
#define SCENARIO(name) {#name, scenario_##name},
#include "scenarios.def"
#undef SCENARIO
};

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: engine WAY SCENARIO\n");
        return 2;
    }
    engine_way = argv[1];
    if (reach_driver(argv[1]) != 0)
        return 2;
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
        if (strcmp(scenarios[i].name, argv[2]) == 0) {
            scenarios[i].run();
            printf("%s: done\n", argv[2]);
            return 0;
        }
    fprintf(stderr, "there is no scenario %s\n", argv[2]);
    return 2;
}
