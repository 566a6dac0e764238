/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any driver as the fuzzer's device: the entry points that programs call. For what only the
 * simulated device has (owners, failures, its detector) there are functions that do nothing. See
 * gate.h.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate_state.h"

/* ---- what only the simulated device has ----------------------------------------------------- */

static void no_fail(const char *entry, uint64_t nth, int sticky, CUresult error)
{
    (void)entry, (void)nth, (void)sticky, (void)error;
}

static void no_fail_clear(void)
{
}

/* How often the library asked the driver for something is not known. */
static uint64_t no_calls(const char *entry_point)
{
    (void)entry_point;
    return 0;
}

static uint64_t none(void)
{
    return 0;
}

static int no_live(int device, simcuda_live *live)
{
    (void)device, (void)live;
    return -1;
}

static const char *no_text(void)
{
    return "";
}

static void no_callback(simcuda_report_function function, void *data)
{
    (void)function, (void)data;
}

static void no_origin(const char *label)
{
    (void)label;
}

static int no_owner_begin(CUdeviceptr address, size_t bytes, const char *label)
{
    (void)address, (void)bytes, (void)label;
    return 0;
}

static int no_owner_end(CUdeviceptr address)
{
    (void)address;
    return 0;
}

static void no_owner_pause(int paused)
{
    (void)paused;
}

static void no_host_takes(CUdeviceptr address, size_t bytes)
{
    (void)address, (void)bytes;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* What only a simulated device can do is not there. */
static void simulation_none(fuzz_device *device)
{
    device->fail = no_fail;
    device->fail_clear = no_fail_clear;
    device->fail_hits = none;
    device->live_get = no_live;
    device->violations = none;
    device->violation_last = no_text;
    device->races = none;
    device->race_last = no_text;
    device->races_callback = no_callback;
    device->calls = no_calls;
    device->origin = no_origin;
    device->owner_begin = no_owner_begin;
    device->owner_end = no_owner_end;
    device->owner_pause = no_owner_pause;
    device->host_takes = no_host_takes;
    device->pending = none;
}

static int symbol_find(const fuzz_device *device, const char *path, const char *symbol,
                       void **found, char *error, size_t error_bytes)
{
    *found = dlsym(device->library, symbol);
    if (*found != NULL || strncmp(symbol, "simcuda_", 8) == 0 || strstr(symbol, "Value32") != NULL)
        return 0;
    snprintf(error, error_bytes, "%s has no %s", path, symbol);
    return -1;
}

int gate_device_open(fuzz_device *device, const char *path, char *error, size_t error_bytes)
{
    gates *self = &gate_state;
    void *found = NULL;
    memset(device, 0, sizeof(*device));
    device->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (device->library == NULL) {
        snprintf(error, error_bytes, "the driver cannot be opened: %s", dlerror());
        return -1;
    }
#define GATE_DEVICE_FIND(type, symbol, name)                                                       \
    if (symbol_find(device, path, #symbol, &found, error, error_bytes) != 0)                       \
        return -1;                                                                                 \
    memcpy(&device->name, &found, sizeof(found));
    FUZZ_DEVICE_LIST(GATE_DEVICE_FIND)
#undef GATE_DEVICE_FIND
#define GATE_DRIVER_FIND(type, symbol, name)                                                       \
    if (symbol_find(device, path, #symbol, &found, error, error_bytes) != 0)                       \
        return -1;                                                                                 \
    memcpy(&self->name, &found, sizeof(found));
    GATE_DRIVER_LIST(GATE_DRIVER_FIND)
#undef GATE_DRIVER_FIND
    self->is_simulated = device->kernel_register != NULL;
    simulation_none(device);
    device->is_gated = 1;
    device->stall_seconds = 20;
    self->device = device;
    return 0;
}

/* ---- asking --------------------------------------------------------------------------------- */

/* "NVRM version: ... 580.95.05 ...": the version of the driver's kernel part. */
static void driver_describe(gate_device_facts *facts, int version)
{
    char line[192] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    if (file != NULL) {
        if (fgets(line, sizeof(line), file) == NULL)
            line[0] = '\0';
        fclose(file);
        line[strcspn(line, "\n")] = '\0';
    }
    snprintf(facts->driver, sizeof(facts->driver), "CUDA %d.%d%s%s", version / 1000,
             version % 1000 / 10, line[0] != '\0' ? ", " : "", line);
}

static void facts_collect(fuzz_device *device, gate_device_facts *facts)
{
    gates *self = &gate_state;
    int version = 0;
    size_t bytes = 0;
    gate_environment();
    CUresult result = device->init(0);
    if (result == CUDA_SUCCESS)
        result = self->device_count(&facts->devices);
    if (result == CUDA_SUCCESS && facts->devices > 0)
        result = self->device_name(facts->name, sizeof(facts->name), 0);
    if (result == CUDA_SUCCESS && facts->devices > 0)
        result = self->device_memory(&bytes, 0);
    if (result == CUDA_SUCCESS)
        result = self->driver_version(&version);
    facts->memory_bytes = bytes;
    facts->has_memory_operations = gate_has_memory_operations();
    if (self->is_simulated)
        snprintf(facts->driver, sizeof(facts->driver), "simulated, CUDA %d.%d", version / 1000,
                 version % 1000 / 10);
    else
        driver_describe(facts, version);
    if (result != CUDA_SUCCESS)
        snprintf(facts->error, sizeof(facts->error), "the driver cannot be used: error %d",
                 (int)result);
    else if (facts->devices == 0)
        snprintf(facts->error, sizeof(facts->error), "the driver has no device");
}

int gate_device_ask(fuzz_device *device, gate_device_facts *facts)
{
    memset(facts, 0, sizeof(*facts));
    gate_device_facts *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = shared == MAP_FAILED ? -1 : fork();
    if (child < 0) {
        snprintf(facts->error, sizeof(facts->error), "no process can be started");
        return -1;
    }
    if (child == 0) {
        snprintf(shared->error, sizeof(shared->error), "the driver ended the process");
        gate_device_facts own = {.devices = 0};
        facts_collect(device, &own);
        *shared = own;
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) != child)
        ;
    *facts = *shared;
    munmap(shared, sizeof(*shared));
    return facts->error[0] == '\0' ? 0 : -1;
}

/* ---- starting ------------------------------------------------------------------------------- */

/* Memory that host and devices share, and the counters of each device. */
static CUresult memory_get(fuzz_device *device)
{
    gates *self = &gate_state;
    void *words = NULL, *record = NULL;
    unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    CUresult result = self->host_alloc(&words, GATE_LINES * sizeof(gate_words), flags);
    if (result == CUDA_SUCCESS)
        result = self->host_alloc(&record, sizeof(gate_record), flags);
    if (result == CUDA_SUCCESS)
        result = self->host_pointer(&self->words_device, words, 0);
    if (result == CUDA_SUCCESS)
        result = self->host_pointer(&self->record_device, record, 0);
    if (result != CUDA_SUCCESS)
        return result;
    memset(words, 0, GATE_LINES * sizeof(gate_words));
    memset(record, 0, sizeof(gate_record));
    self->words = words;
    self->record = record;
    for (int i = device->devices - 1; i >= 0 && result == CUDA_SUCCESS; i--) {
        fuzz_device_use(device, i);
        result = self->device_alloc(&self->found[i], 2 * sizeof(uint64_t));
        if (result == CUDA_SUCCESS)
            result = self->device_set(self->found[i], 0, 2 * sizeof(uint64_t));
    }
    return result;
}

/* The kernels, in the current context. Each is launched once: what a first launch does, it must not
 * do while gates are closed. */
static CUresult kernels_get(fuzz_device *device, int number)
{
    gates *self = &gate_state;
    static char image[8192];
    CUmodule module;
    fuzz_launch nothing = {.step = 0};
    CUdeviceptr word = self->words_device;
    uint32_t value = 0;
    void *params[] = {&word, &value};
    size_t length = 0;
    for (int i = 0; gate_kernels[i] != NULL && length < sizeof(image); i++)
        length += (size_t)snprintf(image + length, sizeof(image) - length, "%s", gate_kernels[i]);
    CUresult result = device->module_load(&module, image);
    if (result == CUDA_SUCCESS)
        result = device->module_get(&self->touch[number], module, "tenure_gate_touch");
    if (result == CUDA_SUCCESS)
        result = device->module_get(&self->hold[number], module, "tenure_gate_hold");
    if (result == CUDA_SUCCESS)
        result = device->module_get(&self->mark[number], module, "tenure_gate_mark");
    if (result == CUDA_SUCCESS)
        result = gate_touch(device, number, NULL, &nothing);
    if (result == CUDA_SUCCESS)
        result = device->launch(self->hold[number], 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    if (result == CUDA_SUCCESS)
        result = device->launch(self->mark[number], 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    return result == CUDA_SUCCESS ? device->context_synchronize() : result;
}

int gate_device_start(fuzz_device *device, int devices, char *error, size_t error_bytes)
{
    gates *self = &gate_state;
    int there = 0;
    device->devices = devices;
    /* On the simulated device a visit of a page costs a page fault. */
    self->grid_bytes = self->is_simulated ? 65536 : 512;
    if (gate_kernels_register() != 0 || device->init(0) != CUDA_SUCCESS ||
        self->device_count(&there) != CUDA_SUCCESS) {
        snprintf(error, error_bytes, "the driver cannot be started");
        return -1;
    }
    if (there < devices) {
        snprintf(error, error_bytes, "the program is for %d devices, and there %s %d", devices,
                 there == 1 ? "is" : "are", there);
        return -1;
    }
    CUresult result = CUDA_SUCCESS;
    for (int i = devices - 1; i >= 0 && result == CUDA_SUCCESS; i--) {
        result = device->retain(&device->contexts[i], i);
        if (result == CUDA_SUCCESS)
            result = device->set_current(device->contexts[i]);
    }
    if (result == CUDA_SUCCESS)
        result = memory_get(device);
    for (int i = devices - 1; i >= 0 && result == CUDA_SUCCESS; i--) {
        fuzz_device_use(device, i); /* device 0 last: its context stays current */
        result = kernels_get(device, i);
    }
    if (result == CUDA_SUCCESS)
        return 0;
    snprintf(error, error_bytes, "the device cannot be prepared: error %d", (int)result);
    return -1;
}
