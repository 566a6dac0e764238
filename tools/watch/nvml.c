/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking NVML: see nvml.h. Devices are found by their UUID: NVML numbers them without regard to
 * what CUDA_VISIBLE_DEVICES says. The simulated driver has these functions itself.
 *
 * The loader is called without a lock: the table of the thread that comes first counts.
 */
#include "watch/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "service.h"

/* Of nvml.h, which need not be there. */
typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;
typedef int (*nvml_init)(void);
typedef int (*nvml_handle_by_uuid)(const char *uuid, void **device);
typedef int (*nvml_memory_get)(void *device, nvml_memory *memory);

typedef struct nvml_functions {
    nvml_handle_by_uuid handle_by_uuid;
    nvml_memory_get memory_get; /* null: there is none */
} nvml_functions;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static nvml_functions nvml; /* constant once is_loaded */
static _Atomic int is_loaded;
static _Atomic(void *) handles[SERVICE_DEVICES_MAX]; /* null: not asked for yet */

static int symbol_get(void *function, void *library, const char *name)
{
    void *symbol = library == NULL ? driver_symbol(name) : dlsym_of_libc()(library, name);
    memcpy(function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

static nvml_functions functions_find(void)
{
    nvml_functions found = {NULL, NULL};
    nvml_init init;
    void *library = NULL;
    if (!symbol_get(&init, NULL, "nvmlInit_v2")) {
        library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library == NULL || !symbol_get(&init, library, "nvmlInit_v2"))
            return found;
    }
    if (init() != 0 || !symbol_get(&found.handle_by_uuid, library, "nvmlDeviceGetHandleByUUID") ||
        !symbol_get(&found.memory_get, library, "nvmlDeviceGetMemoryInfo"))
        found.memory_get = NULL;
    return found;
}

int nvml_is_there(void)
{
    if (atomic_load_explicit(&is_loaded, memory_order_acquire))
        return nvml.memory_get != NULL;
    if (!driver_find())
        return 0;
    nvml_functions found = functions_find();
    pthread_mutex_lock(&loading);
    if (!atomic_load(&is_loaded)) {
        nvml = found;
        atomic_store_explicit(&is_loaded, 1, memory_order_release);
    }
    pthread_mutex_unlock(&loading);
    return nvml.memory_get != NULL;
}

/* GPU-00112233-4455-6677-8899-aabbccddeeff */
static void uuid_write(char text[41], const CUuuid *uuid)
{
    size_t at = 4;
    memcpy(text, "GPU-", at);
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text[at++] = '-';
        (void)snprintf(text + at, 3, "%02x", (unsigned)(unsigned char)uuid->bytes[i]);
        at += 2;
    }
}

static void *handle_get(int device)
{
    CUuuid uuid;
    char text[41];
    void *handle = atomic_load(&handles[device]);
    if (handle != NULL || REAL(cuDeviceGetUuid, (&uuid, (CUdevice)device)) != CUDA_SUCCESS)
        return handle;
    uuid_write(text, &uuid);
    if (nvml.handle_by_uuid(text, &handle) != 0)
        return NULL;
    atomic_store(&handles[device], handle);
    return handle;
}

int nvml_memory_read(uint64_t *free_bytes, uint64_t *total_bytes, int device)
{
    nvml_memory memory = {0, 0, 0};
    void *handle = nvml_is_there() ? handle_get(device) : NULL;
    if (handle == NULL || nvml.memory_get(handle, &memory) != 0)
        return 0;
    *free_bytes = memory.free;
    *total_bytes = memory.total;
    return 1;
}
