/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the simulated device, and its one kernel: see device.h.
 */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gate.h"

fuzz_mismatch fuzz_mismatches;

/* ---- the kernel ----------------------------------------------------------------------------- */

static void *(*memory_at)(CUdeviceptr); /* the simulated device's */

static void word_check(const fuzz_launch *launch, const fuzz_touch *touch, uint64_t at)
{
    uint64_t found;
    if (touch->tag == 0)
        return;
    memcpy(&found, memory_at(at), sizeof(found));
    if (found == touch->tag)
        return;
    if (fuzz_mismatches.count++ == 0)
        fuzz_mismatches = (fuzz_mismatch){1, launch->step, at, touch->tag, found};
}

/* The first and last whole words; smaller blocks hold none. */
/* The addresses are parameters of their own, as those of kernels are: whoever reads launches sees
 * them. */
static fuzz_touch touch_of(void *const *params, int i)
{
    fuzz_touch touch = ((const fuzz_launch *)params[0])->touches[i];
    memcpy(&touch.address, params[1 + i], sizeof(touch.address));
    return touch;
}

static void touch_run(void *const *params)
{
    const fuzz_launch *launch = params[0];
    for (int i = 0; i < 2; i++) {
        const fuzz_touch whole = touch_of(params, i), *touch = &whole;
        if (touch->bytes < sizeof(uint64_t) || !touch->is_visited)
            continue;
        uint64_t last = touch->address + (touch->bytes & ~UINT64_C(7)) - 8;
        if (touch->is_write) {
            memcpy(memory_at(touch->address), &touch->tag, sizeof(touch->tag));
            memcpy(memory_at(last), &touch->tag, sizeof(touch->tag));
        } else {
            word_check(launch, touch, touch->address);
            word_check(launch, touch, last);
        }
    }
}

static size_t touch_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    size_t count = 0;
    for (int i = 0; i < 2; i++) {
        const fuzz_touch touch = touch_of(params, i);
        if (touch.bytes == 0)
            continue;
        if (count < capacity)
            out[count] = (simcuda_access){touch.address, touch.bytes, touch.is_write != 0};
        count++;
    }
    return count;
}

/* ---- opening -------------------------------------------------------------------------------- */

int fuzz_device_open(fuzz_device *device, const char *path, char *error, size_t error_bytes)
{
    memset(device, 0, sizeof(*device));
    device->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (device->library == NULL) {
        snprintf(error, error_bytes, "the simulated device cannot be opened: %s", dlerror());
        return -1;
    }
    static const char *const symbols[] = {
#define FUZZ_DEVICE_SYMBOL(type, symbol, name) #symbol,
        FUZZ_DEVICE_LIST(FUZZ_DEVICE_SYMBOL)
#undef FUZZ_DEVICE_SYMBOL
    };
    void *found[sizeof(symbols) / sizeof(symbols[0])];
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        found[i] = dlsym(device->library, symbols[i]);
        if (found[i] == NULL) {
            snprintf(error, error_bytes, "%s is not a simulated device: it has no %s", path,
                     symbols[i]);
            return -1;
        }
    }
    size_t next = 0;
#define FUZZ_DEVICE_STORE(type, symbol, name)                                                      \
    memcpy(&device->name, &found[next++], sizeof(device->name));
    FUZZ_DEVICE_LIST(FUZZ_DEVICE_STORE)
#undef FUZZ_DEVICE_STORE
    return 0;
}

int fuzz_device_start(fuzz_device *device, int devices, char *error, size_t error_bytes)
{
    static const size_t bytes[] = {sizeof(fuzz_launch), sizeof(uint64_t), sizeof(uint64_t)};
    CUmodule module;
    if (device->is_gated)
        return gate_device_start(device, devices, error, error_bytes);
    memory_at = device->memory_at;
    int bad = device->kernel_register("fuzz_touch", 3, bytes, touch_run, touch_accesses) != 0;
    bad = bad || device->init(0) != CUDA_SUCCESS;
    device->devices = devices;
    for (int i = devices - 1; i >= 0 && !bad; i--) /* device 0 last: its context stays current */
        bad = device->retain(&device->contexts[i], i) != CUDA_SUCCESS ||
              device->set_current(device->contexts[i]) != CUDA_SUCCESS ||
              device->module_load(&module, "fuzz") != CUDA_SUCCESS ||
              device->module_get(&device->touch[i], module, "fuzz_touch") != CUDA_SUCCESS;
    if (bad)
        snprintf(error, error_bytes, "the simulated device cannot be started");
    return bad ? -1 : 0;
}

void fuzz_device_use(fuzz_device *device, int number)
{
    (void)device->set_current(device->contexts[number]);
}

CUresult fuzz_device_touch(fuzz_device *device, int number, CUstream stream, fuzz_launch *launch)
{
    fuzz_launch plain = *launch;
    uint64_t addresses[2] = {0};
    void *params[] = {&plain, &addresses[0], &addresses[1]};
    if (device->is_gated)
        return gate_touch(device, number, stream, launch);
    for (int i = 0; i < 2; i++) {
        addresses[i] = plain.touches[i].bytes > 0 ? plain.touches[i].address : 0;
        plain.touches[i].address = 0;
    }
    return device->launch(device->touch[number], 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}
