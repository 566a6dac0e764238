/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of other processes: see ipc.h. */
#include "ipc.h"

#include <string.h>

#include <tenure/export.h>

#include "service.h"

static const uint64_t HANDLE_MAGIC = UINT64_C(0x3263706965727574);

/* What lies in a CUipcMemHandle of ours. */
typedef struct ipc_handle {
    uint64_t magic;
    tnr_export_name name;
} ipc_handle;
_Static_assert(sizeof(ipc_handle) <= sizeof(CUipcMemHandle), "a name fits into a handle");

/* Handles that were opened and not closed. While there are none, nothing is looked for. */
static _Atomic uint64_t opened_count;

CUresult CUDAAPI replace_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    ipc_handle made = {.magic = HANDLE_MAGIC};
    if (handle == NULL || service_of_address(address) == NULL || !service_enter())
        return REAL(cuIpcGetMemHandle, (handle, address));
    tnr_status status = tnr_export_offer(&made.name, (const void *)(uintptr_t)address);
    CUresult result =
        status == TNR_ERR_TRANSPORT ? CUDA_ERROR_OPERATING_SYSTEM : service_result(status);
    if (result == CUDA_SUCCESS) {
        memset(handle, 0, sizeof(*handle));
        memcpy(handle, &made, sizeof(made));
        service_count_one(COUNT_EXPORTS);
    }
    service_leave();
    return result;
}

/* Opens it for the device of the calling thread's context. */
static CUresult handle_open(CUdeviceptr *address, const tnr_export_name *name)
{
    CUdevice here;
    CUcontext context = NULL;
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    CUresult result = REAL(cuCtxGetCurrent, (&context));
    if (result == CUDA_SUCCESS && context == NULL)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS && address == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = REAL(cuCtxGetDevice, (&here));
    if (result != CUDA_SUCCESS)
        return result;
    (void)service_here(); /* the device is served from now on, if it can be */
    tnr_status status = tnr_import_open(&info, name, (int)here, NULL);
    if (status == TNR_ERR_INVALID_ARGUMENT)
        return CUDA_ERROR_INVALID_CONTEXT; /* one's own memory is not opened: as the driver */
    if (status == TNR_ERR_TRANSPORT)
        return CUDA_ERROR_INVALID_HANDLE; /* most often the block is gone, or its process */
    if (status == TNR_OK) {
        *address = (CUdeviceptr)(uintptr_t)info.ptr;
        atomic_fetch_add(&opened_count, 1);
        service_count_one(COUNT_IMPORTS);
    }
    return service_result(status);
}

/* 1 if the handle is one of ours, with what came of opening it. */
static int import_open(CUdeviceptr *address, const CUipcMemHandle *handle, CUresult *result)
{
    ipc_handle given;
    memcpy(&given, handle, sizeof(given));
    if (given.magic != HANDLE_MAGIC || !service_enter())
        return 0;
    *result = handle_open(address, &given.name);
    service_leave();
    return 1;
}

CUresult CUDAAPI replace_cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle,
                                               unsigned flags)
{
    CUresult result;
    if (import_open(address, &handle, &result))
        return result;
    return REAL(cuIpcOpenMemHandle_v2, (address, handle, flags));
}

CUresult CUDAAPI replace_cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle,
                                            unsigned flags)
{
    CUresult result;
    if (import_open(address, &handle, &result))
        return result;
    return REAL(cuIpcOpenMemHandle, (address, handle, flags));
}

/* Waits for work that may use it, as the driver's own call does. */
CUresult CUDAAPI replace_cuIpcCloseMemHandle(CUdeviceptr address)
{
    if (atomic_load_explicit(&opened_count, memory_order_relaxed) == 0 || !service_enter())
        return REAL(cuIpcCloseMemHandle, (address));
    tnr_status status = tnr_import_close((void *)(uintptr_t)address);
    if (status == TNR_OK)
        atomic_fetch_sub(&opened_count, 1);
    CUresult result = service_result(status);
    service_leave();
    return status == TNR_ERR_FOREIGN_POINTER ? REAL(cuIpcCloseMemHandle, (address)) : result;
}

int ipc_imported(CUdeviceptr address, CUdeviceptr *base, size_t *bytes)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    if (atomic_load_explicit(&opened_count, memory_order_relaxed) == 0 || !service_enter())
        return 0;
    int is_found = tnr_import_get(&info, (const void *)(uintptr_t)address) == TNR_OK;
    service_leave();
    if (is_found) {
        *base = (CUdeviceptr)(uintptr_t)info.ptr;
        *bytes = info.bytes;
    }
    return is_found;
}
