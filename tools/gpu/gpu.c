/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the driver for programs: see gpu.h.
 *
 * All entry points but one come from cuGetProcAddress, asked for by the version whose type we
 * compiled against, so that a newer driver with another default still gives the right one. The
 * one is cuGetProcAddress itself, which dlsym finds under two names with two signatures.
 */
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The two generations of cuGetProcAddress; exactly one of them is not null. */
typedef struct gpu_lookup {
    PFN_cuGetProcAddress_v12000 v2;
    PFN_cuGetProcAddress_v11030 v1;
} gpu_lookup;

enum { ENTRY_OPTIONAL = 0, ENTRY_REQUIRED = 1 };

#define NEED_REQUIRED ENTRY_REQUIRED
#define NEED_OPTIONAL ENTRY_OPTIONAL

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the bytes
 * are the same, so they are copied. */
static void pointer_copy(void *function, void *object)
{
    memcpy(function, &object, sizeof(object));
}

static int lookup_open(gpu_lookup *lookup, void *library)
{
    memset(lookup, 0, sizeof(*lookup));
    pointer_copy(&lookup->v2, dlsym(library, "cuGetProcAddress_v2"));
    if (!lookup->v2)
        pointer_copy(&lookup->v1, dlsym(library, "cuGetProcAddress"));
    return lookup->v2 || lookup->v1 ? 0 : -1;
}

/* The address of one entry point, or null. */
static void *lookup_find(const gpu_lookup *lookup, const char *name, int since)
{
    void *address = NULL;
    CUresult result;
    if (lookup->v2) {
        CUdriverProcAddressQueryResult found;
        result = lookup->v2(name, &address, since, CU_GET_PROC_ADDRESS_DEFAULT, &found);
    } else {
        result = lookup->v1(name, &address, since, CU_GET_PROC_ADDRESS_DEFAULT);
    }
    return result == CUDA_SUCCESS ? address : NULL;
}

int gpu_driver_load(gpu_driver *gpu, const char *path, char *error, size_t error_bytes)
{
    memset(gpu, 0, sizeof(*gpu));
    gpu->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!gpu->library) {
        snprintf(error, error_bytes, "%s", dlerror());
        return -1;
    }
    gpu_lookup lookup;
    if (lookup_open(&lookup, gpu->library) != 0) {
        snprintf(error, error_bytes, "%s has no cuGetProcAddress: the driver is older than 11.3",
                 path);
        gpu_driver_unload(gpu);
        return -1;
    }
#define GPU_ENTRY(name, type, since, need)                                                         \
    do {                                                                                           \
        void *address = lookup_find(&lookup, #name, since);                                        \
        if (!address && NEED_##need == ENTRY_REQUIRED) {                                           \
            snprintf(error, error_bytes, "%s has no %s of CUDA %d.%d", path, #name,                \
                     (since) / 1000, (since) % 1000 / 10);                                         \
            gpu_driver_unload(gpu);                                                                \
            return -1;                                                                             \
        }                                                                                          \
        pointer_copy(&gpu->name, address);                                                         \
    } while (0);
#include "gpu_entry_points.def"
#undef GPU_ENTRY
    return 0;
}

void gpu_driver_unload(gpu_driver *gpu)
{
    if (gpu->library)
        dlclose(gpu->library);
    memset(gpu, 0, sizeof(*gpu));
}

const char *gpu_error_text(const gpu_driver *gpu, CUresult result, char *buffer, size_t bytes)
{
    const char *name = NULL;
    const char *text = NULL;
    if (gpu && gpu->cuGetErrorName)
        gpu->cuGetErrorName(result, &name);
    if (gpu && gpu->cuGetErrorString)
        gpu->cuGetErrorString(result, &text);
    if (name)
        snprintf(buffer, bytes, "%s (%d): %s", name, (int)result, text ? text : "no description");
    else
        snprintf(buffer, bytes, "driver error %d", (int)result);
    return buffer;
}

int gpu_probe(const char *path, gpu_presence *presence)
{
    memset(presence, 0, sizeof(*presence));
    gpu_driver gpu;
    char text[384];
    if (gpu_driver_load(&gpu, path, text, sizeof(text)) != 0) {
        snprintf(presence->reason, sizeof(presence->reason), "no usable CUDA driver: %s", text);
        return 0;
    }
    if (gpu.cuDriverGetVersion(&presence->version) != CUDA_SUCCESS)
        presence->version = 0;
    CUresult result = gpu.cuInit(0);
    if (result == CUDA_SUCCESS)
        result = gpu.cuDeviceGetCount(&presence->devices_count);
    if (result != CUDA_SUCCESS) {
        presence->devices_count = 0;
        gpu_error_text(&gpu, result, text, sizeof(text));
        snprintf(presence->reason, sizeof(presence->reason), "%s was loaded but does not start: %s",
                 path, text);
    } else if (presence->devices_count == 0) {
        snprintf(presence->reason, sizeof(presence->reason), "%s reports no device", path);
    }
    /* The library stays open when it has a device: it will be used, and unloading a driver that
     * has been initialised is not something that drivers are tested for. */
    if (presence->devices_count == 0)
        gpu_driver_unload(&gpu);
    return presence->devices_count > 0;
}
