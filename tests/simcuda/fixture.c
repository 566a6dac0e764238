/* SPDX-License-Identifier: Apache-2.0 */
/* See fixture.h. */
#include "fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CUcontext current;

static const char *const names[] = {
    "DEVICES", "MEMORY",      "GRANULARITY", "RESERVE", "SEED",   "SCHEDULE",     "QUERIES",
    "THREADS", "DEADLOCK_MS", "LAG_US",      "FAIL",    "STRICT", "VMM",          "VERSION",
    "MISSING", "RACES",       "VIEW",        "PEERS",   "RDMA",   "PINNED_ALIGN", "IDLE_MS"};

static void settings_apply(const char *first, va_list more)
{
    char name[64];
    (void)simcuda_reset();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(name, sizeof(name), "TENURE_SIM_%s", names[i]);
        unsetenv(name);
    }
    for (const char *setting = first; setting != NULL; setting = va_arg(more, const char *)) {
        const char *value = strchr(setting, '=');
        assert_non_null(value);
        snprintf(name, sizeof(name), "TENURE_SIM_%.*s", (int)(value - setting), setting);
        setenv(name, value + 1, 1);
    }
}

void fixture_settings(const char *first, ...)
{
    va_list more;
    va_start(more, first);
    settings_apply(first, more);
    va_end(more);
}

void fixture_start(const char *first, ...)
{
    va_list more;
    va_start(more, first);
    settings_apply(first, more);
    va_end(more);
    assert_ok(cuInit(0));
    assert_ok(cuDevicePrimaryCtxRetain(&current, 0));
    assert_ok(cuCtxSetCurrent(current));
}

int fixture_stop(void **state)
{
    (void)state;
    current = NULL;
    return simcuda_reset() >= 0 ? 0 : -1;
}

CUcontext fixture_context(void)
{
    return current;
}

CUmemAllocationProp device_property(int device)
{
    CUmemAllocationProp property;
    memset(&property, 0, sizeof(property));
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    property.location.id = device;
    property.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return property;
}

CUmemGenericAllocationHandle chunk_create(size_t bytes)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp property = device_property(0);
    assert_ok(cuMemCreate(&handle, bytes, &property, 0));
    return handle;
}

void chunk_access(CUdeviceptr at, size_t bytes)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof(access));
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    assert_ok(cuMemSetAccess(at, bytes, &access, 1));
}

CUdeviceptr reserve(size_t bytes)
{
    CUdeviceptr at = 0;
    assert_ok(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    return at;
}

CUdeviceptr chunk_mapped(size_t bytes, CUmemGenericAllocationHandle *handle)
{
    CUmemGenericAllocationHandle made = chunk_create(bytes);
    CUdeviceptr at = reserve(bytes);
    assert_ok(cuMemMap(at, bytes, 0, made, 0));
    chunk_access(at, bytes);
    if (handle != NULL)
        *handle = made;
    else
        assert_ok(cuMemRelease(made));
    return at;
}

void chunk_unmapped(CUdeviceptr at, size_t bytes)
{
    assert_ok(cuMemUnmap(at, bytes));
    assert_ok(cuMemAddressFree(at, bytes));
}

CUstream stream_new(unsigned flags)
{
    CUstream stream = NULL;
    assert_ok(cuStreamCreate(&stream, flags));
    return stream;
}

CUevent event_new(void)
{
    CUevent event = NULL;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

volatile uint32_t *gate_new(void)
{
    void *gate = NULL;
    assert_ok(cuMemHostAlloc(&gate, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
    return gate;
}

void gate_close(CUstream stream, volatile uint32_t *gate)
{
    assert_ok(cuStreamWaitValue32(stream, (uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

void gate_open(volatile uint32_t *gate)
{
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

int survives(void (*body)(void *data), void *data)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* CMocka's handlers would carry on with the next test, here in the child. */
        (void)signal(SIGSEGV, SIG_DFL);
        (void)signal(SIGBUS, SIG_DFL);
        body(data);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
