/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: initialisation, look-up of entry points, contexts. */
#include "scenario.h"

#include <string.h>

static void before_init(void)
{
    int count = 0;
    CUcontext context = NULL;
    CUdeviceptr at = 0;
    expect("device_count", cu.DeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    expect("current", cu.CtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    expect("mem_alloc", cu.MemAlloc(&at, CHUNK), CUDA_ERROR_NOT_INITIALIZED);
    expect("init_flags", cu.Init(1), CUDA_ERROR_INVALID_VALUE);
    expect("init", cu.Init(0), CUDA_SUCCESS);
    expect("init_again", cu.Init(0), CUDA_SUCCESS);
}

static void proc_address(void)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    expect("known", cu.GetProcAddress("cuMemMap", &function, 10020, 0, &status), CUDA_SUCCESS);
    expect_yes("found", function != NULL && status == CU_GET_PROC_ADDRESS_SUCCESS, 1);
    observe("unknown", cu.GetProcAddress("cuNoSuchThing", &function, 12000, 0, &status));
    observe_number("unknown_status", status);
    observe_yes("unknown_null", function == NULL);
    observe("too_old", cu.GetProcAddress("cuMemMap", &function, 9000, 0, &status));
    observe_number("too_old_status", status);
    observe("suffixed", cu.GetProcAddress("cuMemAlloc_v2", &function, 12000, 0, &status));
}

/* The status is optional. (A null name is not tried: driver 580 dies of it.) */
static void proc_address_without_status(void)
{
    void *function = NULL;
    observe("known", cu.GetProcAddress("cuMemMap", &function, 10020, 0, NULL));
    observe_yes("found", function != NULL);
    observe("unknown", cu.GetProcAddress("cuNoSuchThing", &function, 12000, 0, NULL));
}

static void devices(void)
{
    CUdevice device = -1;
    size_t bytes = 0;
    int value = 0;
    CUcontext context = NULL;
    expect("first", cu.DeviceGet(&device, 0), CUDA_SUCCESS);
    expect("negative", cu.DeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
    expect("too_high", cu.DeviceGet(&device, 1000), CUDA_ERROR_INVALID_DEVICE);
    expect("null", cu.DeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    expect("memory", cu.DeviceTotalMem(&bytes, 0), CUDA_SUCCESS);
    expect("memory_of_none", cu.DeviceTotalMem(&bytes, 1000), CUDA_ERROR_INVALID_DEVICE);
    expect(
        "vmm",
        cu.DeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
        CUDA_SUCCESS);
    expect_number("vmm_value", (unsigned)value, 1);
    expect("bad_attribute", cu.DeviceGetAttribute(&value, (CUdevice_attribute)100000, 0),
           CUDA_ERROR_INVALID_VALUE);
    expect("retain_of_none", cu.DevicePrimaryCtxRetain(&context, 1000), CUDA_ERROR_INVALID_DEVICE);
}

static void primary_context(void)
{
    CUcontext first = NULL;
    CUcontext second = NULL;
    unsigned flags = 0;
    int active = -1;
    need("init", cu.Init(0));
    expect("state", cu.DevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    expect_number("active_before", (unsigned)active, 0);
    expect("release_unretained", cu.DevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    expect("retain", cu.DevicePrimaryCtxRetain(&first, 0), CUDA_SUCCESS);
    expect("retain_again", cu.DevicePrimaryCtxRetain(&second, 0), CUDA_SUCCESS);
    expect_yes("same", first == second, 1);
    expect("release", cu.DevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    expect("state_held", cu.DevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    expect_number("active_held", (unsigned)active, 1);
    expect("release_last", cu.DevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    expect("state_after", cu.DevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    expect_number("active_after", (unsigned)active, 0);
    expect("release_too_often", cu.DevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

static void no_context(void)
{
    CUcontext context = (CUcontext)&context;
    CUdevice device = 0;
    size_t room = 0;
    size_t total = 0;
    CUstream stream = NULL;
    CUevent event = NULL;
    CUdeviceptr at = 0;
    need("init", cu.Init(0));
    expect("current", cu.CtxGetCurrent(&context), CUDA_SUCCESS);
    expect_yes("none", context == NULL, 1);
    expect("device", cu.CtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    expect("memory_info", cu.MemGetInfo(&room, &total), CUDA_ERROR_INVALID_CONTEXT);
    expect("stream", cu.StreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    expect("event", cu.EventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
    expect("mem_alloc", cu.MemAlloc(&at, CHUNK), CUDA_ERROR_INVALID_CONTEXT);
    expect("synchronize", cu.CtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    expect("pop", cu.CtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
    expect("push_null", cu.CtxPushCurrent(NULL), CUDA_ERROR_INVALID_VALUE);
    expect("set_null", cu.CtxSetCurrent(NULL), CUDA_SUCCESS);
}

/* Which VMM calls work with no context current, and then with no context at all. */
static void vmm_without_context(void)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp property = chunk_property();
    CUdeviceptr at = 0;
    size_t bytes = 0;
    need("init", cu.Init(0));
    expect("granularity", cu.MemGetAllocationGranularity(&bytes, &property, 0), CUDA_SUCCESS);
    expect("reserve", cu.MemAddressReserve(&at, CHUNK, 0, 0, 0), CUDA_SUCCESS);
    expect("create", cu.MemCreate(&handle, CHUNK, &property, 0), CUDA_SUCCESS);
    CUcontext context = NULL;
    need("retain", cu.DevicePrimaryCtxRetain(&context, 0));
    expect("reserve_retained", cu.MemAddressReserve(&at, CHUNK, 0, 0, 0), CUDA_SUCCESS);
    CUresult created = cu.MemCreate(&handle, CHUNK, &property, 0);
    expect("create_retained", created, CUDA_SUCCESS);
    if (at != 0 && created == CUDA_SUCCESS) {
        expect("map", cu.MemMap(at, CHUNK, 0, handle, 0), CUDA_SUCCESS);
        expect("access", set_access(at, CHUNK), CUDA_SUCCESS);
        expect("unmap", cu.MemUnmap(at, CHUNK), CUDA_SUCCESS);
        expect("release", cu.MemRelease(handle), CUDA_SUCCESS);
        expect("free", cu.MemAddressFree(at, CHUNK), CUDA_SUCCESS);
    }
}

/* Handles say which context they belong to; do calls on them need it current? */
static void handles_without_context(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUcontext context = NULL;
    unsigned long long id = 0;
    need("pop", cu.CtxPopCurrent(&context));
    expect("stream_query", cu.StreamQuery(stream), CUDA_SUCCESS);
    expect("stream_id", cu.StreamGetId(stream, &id), CUDA_SUCCESS);
    expect("stream_sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect("record", cu.EventRecord(event, stream), CUDA_SUCCESS);
    expect("wait", cu.StreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    expect("event_query_is_context",
           cu.EventQuery(event) == CUDA_ERROR_INVALID_CONTEXT ? CUDA_ERROR_INVALID_CONTEXT
                                                              : CUDA_SUCCESS,
           CUDA_SUCCESS);
    expect("event_sync", cu.EventSynchronize(event), CUDA_SUCCESS);
    expect("legacy_query", cu.StreamQuery(NULL), CUDA_ERROR_INVALID_CONTEXT);
    expect("event_destroy", cu.EventDestroy(event), CUDA_SUCCESS);
    expect("stream_destroy", cu.StreamDestroy(stream), CUDA_SUCCESS);
}

static void context_stack(void)
{
    CUcontext context = NULL;
    CUcontext seen = NULL;
    need("current", cu.CtxGetCurrent(&context));
    expect("push", cu.CtxPushCurrent(context), CUDA_SUCCESS);
    expect("pop", cu.CtxPopCurrent(&seen), CUDA_SUCCESS);
    expect_yes("same", seen == context, 1);
    expect("set_null", cu.CtxSetCurrent(NULL), CUDA_SUCCESS);
    expect("current", cu.CtxGetCurrent(&seen), CUDA_SUCCESS);
    expect_yes("none", seen == NULL, 1);
    expect("pop_empty", cu.CtxPopCurrent(&seen), CUDA_ERROR_INVALID_CONTEXT);
    expect("set", cu.CtxSetCurrent(context), CUDA_SUCCESS);
    expect("current_again", cu.CtxGetCurrent(&seen), CUDA_SUCCESS);
    expect_yes("same_again", seen == context, 1);
}

const struct scenario basic_scenarios[] = {
    {"before_init", before_init, 1},
    {"proc_address", proc_address, 1},
    {"proc_address_without_status", proc_address_without_status, 1},
    {"devices", devices, 0},
    {"primary_context", primary_context, 1},
    {"no_context", no_context, 1},
    {"vmm_without_context", vmm_without_context, 1},
    {"handles_without_context", handles_without_context, 0},
    {"context_stack", context_stack, 0},
    {NULL, NULL, 0},
};
