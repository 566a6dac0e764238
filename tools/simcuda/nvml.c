/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small part of NVML that says, without a context, how much memory of a device is free: for
 * `tenure run --account`. Real drivers have it in a separate library, libnvidia-ml.so.1.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;

/* NVML's codes. */
enum { NVML_SUCCESS = 0, NVML_UNINITIALIZED = 1, NVML_INVALID_ARGUMENT = 2, NVML_NOT_FOUND = 6 };

#define NVML_EXPORT __attribute__((visibility("default")))
NVML_EXPORT int nvmlInit_v2(void);
NVML_EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
NVML_EXPORT int nvmlDeviceGetMemoryInfo(void *device, nvml_memory *memory);

int nvmlInit_v2(void)
{
    return NVML_SUCCESS;
}

/* As sim_device_uuid has them. */
static void uuid_write(char *text, size_t room, int ordinal)
{
    static const unsigned char name[] = "simcuda";
    (void)snprintf(text, room, "GPU-%02x%02x%02x%02x-%02x%02x-%02x00-0000-0000000000%02x", name[0],
                   name[1], name[2], name[3], name[4], name[5], name[6], (unsigned)ordinal);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    int result = NVML_NOT_FOUND;
    if (uuid == NULL || device == NULL)
        return NVML_INVALID_ARGUMENT;
    sim_lock();
    if (!sim.is_initialised)
        result = NVML_UNINITIALIZED;
    for (int i = 0; result == NVML_NOT_FOUND && i < sim.device_count; i++) {
        char own[64];
        uuid_write(own, sizeof(own), i);
        if (strcmp(uuid, own) != 0)
            continue;
        *device = &sim.devices[i];
        result = NVML_SUCCESS;
    }
    sim_unlock();
    return result;
}

int nvmlDeviceGetMemoryInfo(void *device, nvml_memory *memory)
{
    if (device == NULL || memory == NULL)
        return NVML_INVALID_ARGUMENT;
    sim_lock();
    int result = sim.is_initialised ? NVML_SUCCESS : NVML_UNINITIALIZED;
    if (result == NVML_SUCCESS) {
        const struct sim_device *asked = device;
        memory->total = asked->capacity_bytes;
        memory->free = sim_memory_left(asked);
        memory->used = memory->total - memory->free;
    }
    sim_unlock();
    return result;
}
