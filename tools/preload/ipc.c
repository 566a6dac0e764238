/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc.h"

#include "service.h"

void ipc_forget(void)
{
}
CUresult CUDAAPI replace_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    return REAL(cuIpcGetMemHandle, (handle, address));
}
CUresult CUDAAPI replace_cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle,
                                               unsigned flags)
{
    return REAL(cuIpcOpenMemHandle_v2, (address, handle, flags));
}
CUresult CUDAAPI replace_cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle,
                                            unsigned flags)
{
    return REAL(cuIpcOpenMemHandle, (address, handle, flags));
}
CUresult CUDAAPI replace_cuIpcCloseMemHandle(CUdeviceptr address)
{
    return REAL(cuIpcCloseMemHandle, (address));
}
