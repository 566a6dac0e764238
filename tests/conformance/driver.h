/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver under examination: any library with the CUDA driver's ABI, loaded at run time.
 *
 * cu.MemMap is cuMemMap of that library, and so on. All of it is loaded by driver_load.
 */
#ifndef TENURE_TESTS_CONFORMANCE_DRIVER_H
#define TENURE_TESTS_CONFORMANCE_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>

#define DRIVER_FUNCTIONS(X)                                                                        \
    X(Init, PFN_cuInit_v2000, 2000)                                                                \
    X(DriverGetVersion, PFN_cuDriverGetVersion_v2020, 2020)                                        \
    X(GetErrorName, PFN_cuGetErrorName_v6000, 6000)                                                \
    X(DeviceGetCount, PFN_cuDeviceGetCount_v2000, 2000)                                            \
    X(DeviceGet, PFN_cuDeviceGet_v2000, 2000)                                                      \
    X(DeviceGetName, PFN_cuDeviceGetName_v2000, 2000)                                              \
    X(DeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000, 2000)                                    \
    X(DeviceCanAccessPeer, PFN_cuDeviceCanAccessPeer_v4000, 4000)                                  \
    X(DeviceTotalMem, PFN_cuDeviceTotalMem_v3020, 3020)                                            \
    X(DevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000, 7000)                            \
    X(DevicePrimaryCtxRelease, PFN_cuDevicePrimaryCtxRelease_v11000, 11000)                        \
    X(DevicePrimaryCtxGetState, PFN_cuDevicePrimaryCtxGetState_v7000, 7000)                        \
    X(CtxGetCurrent, PFN_cuCtxGetCurrent_v4000, 4000)                                              \
    X(CtxSetCurrent, PFN_cuCtxSetCurrent_v4000, 4000)                                              \
    X(CtxPushCurrent, PFN_cuCtxPushCurrent_v4000, 4000)                                            \
    X(CtxPopCurrent, PFN_cuCtxPopCurrent_v4000, 4000)                                              \
    X(CtxGetDevice, PFN_cuCtxGetDevice_v2000, 2000)                                                \
    X(CtxSynchronize, PFN_cuCtxSynchronize_v2000, 2000)                                            \
    X(MemGetInfo, PFN_cuMemGetInfo_v3020, 3020)                                                    \
    X(MemGetAllocationGranularity, PFN_cuMemGetAllocationGranularity_v10020, 10020)                \
    X(MemAddressReserve, PFN_cuMemAddressReserve_v10020, 10020)                                    \
    X(MemAddressFree, PFN_cuMemAddressFree_v10020, 10020)                                          \
    X(MemCreate, PFN_cuMemCreate_v10020, 10020)                                                    \
    X(MemRelease, PFN_cuMemRelease_v10020, 10020)                                                  \
    X(MemMap, PFN_cuMemMap_v10020, 10020)                                                          \
    X(MemUnmap, PFN_cuMemUnmap_v10020, 10020)                                                      \
    X(MemSetAccess, PFN_cuMemSetAccess_v10020, 10020)                                              \
    X(MemGetAccess, PFN_cuMemGetAccess_v10020, 10020)                                              \
    X(MemRetainAllocationHandle, PFN_cuMemRetainAllocationHandle_v11000, 11000)                    \
    X(MemExportToShareableHandle, PFN_cuMemExportToShareableHandle_v10020, 10020)                  \
    X(MemImportFromShareableHandle, PFN_cuMemImportFromShareableHandle_v10020, 10020)              \
    X(MemAlloc, PFN_cuMemAlloc_v3020, 3020)                                                        \
    X(MemFree, PFN_cuMemFree_v3020, 3020)                                                          \
    X(MemAllocAsync, PFN_cuMemAllocAsync_v11020, 11020)                                            \
    X(MemFreeAsync, PFN_cuMemFreeAsync_v11020, 11020)                                              \
    X(MemHostAlloc, PFN_cuMemHostAlloc_v2020, 2020)                                                \
    X(MemFreeHost, PFN_cuMemFreeHost_v2000, 2000)                                                  \
    X(MemHostGetDevicePointer, PFN_cuMemHostGetDevicePointer_v3020, 3020)                          \
    X(MemHostRegister, PFN_cuMemHostRegister_v6050, 6050)                                          \
    X(MemHostUnregister, PFN_cuMemHostUnregister_v4000, 4000)                                      \
    X(PointerGetAttribute, PFN_cuPointerGetAttribute_v4000, 4000)                                  \
    X(PointerGetAttributes, PFN_cuPointerGetAttributes_v7000, 7000)                                \
    X(MemGetAddressRange, PFN_cuMemGetAddressRange_v3020, 3020)                                    \
    X(StreamCreate, PFN_cuStreamCreate_v2000, 2000)                                                \
    X(StreamDestroy, PFN_cuStreamDestroy_v4000, 4000)                                              \
    X(StreamSynchronize, PFN_cuStreamSynchronize_v2000, 2000)                                      \
    X(StreamQuery, PFN_cuStreamQuery_v2000, 2000)                                                  \
    X(StreamWaitEvent, PFN_cuStreamWaitEvent_v3020, 3020)                                          \
    X(StreamGetId, PFN_cuStreamGetId_v12000, 12000)                                                \
    X(StreamIsCapturing, PFN_cuStreamIsCapturing_v10000, 10000)                                    \
    X(StreamWaitValue32, PFN_cuStreamWaitValue32_v11070, 11070)                                    \
    X(StreamWriteValue32, PFN_cuStreamWriteValue32_v11070, 11070)                                  \
    X(LaunchHostFunc, PFN_cuLaunchHostFunc_v10000, 10000)                                          \
    X(EventCreate, PFN_cuEventCreate_v2000, 2000)                                                  \
    X(EventDestroy, PFN_cuEventDestroy_v4000, 4000)                                                \
    X(EventRecord, PFN_cuEventRecord_v2000, 2000)                                                  \
    X(EventQuery, PFN_cuEventQuery_v2000, 2000)                                                    \
    X(EventSynchronize, PFN_cuEventSynchronize_v2000, 2000)                                        \
    X(EventElapsedTime, PFN_cuEventElapsedTime_v2000, 2000)                                        \
    X(MemcpyHtoD, PFN_cuMemcpyHtoD_v3020, 3020)                                                    \
    X(MemcpyDtoH, PFN_cuMemcpyDtoH_v3020, 3020)                                                    \
    X(MemcpyDtoD, PFN_cuMemcpyDtoD_v3020, 3020)                                                    \
    X(MemcpyHtoDAsync, PFN_cuMemcpyHtoDAsync_v3020, 3020)                                          \
    X(MemcpyDtoHAsync, PFN_cuMemcpyDtoHAsync_v3020, 3020)                                          \
    X(MemcpyDtoDAsync, PFN_cuMemcpyDtoDAsync_v3020, 3020)                                          \
    X(Memcpy2D, PFN_cuMemcpy2D_v3020, 3020)                                                        \
    X(Memcpy2DAsync, PFN_cuMemcpy2DAsync_v3020, 3020)                                              \
    X(MemcpyPeerAsync, PFN_cuMemcpyPeerAsync_v4000, 4000)                                          \
    X(Memcpy3DPeer, PFN_cuMemcpy3DPeer_v4000, 4000)                                                \
    X(Memcpy3DPeerAsync, PFN_cuMemcpy3DPeerAsync_v4000, 4000)                                      \
    X(MemsetD8, PFN_cuMemsetD8_v3020, 3020)                                                        \
    X(MemsetD8Async, PFN_cuMemsetD8Async_v3020, 3020)                                              \
    X(MemsetD32Async, PFN_cuMemsetD32Async_v3020, 3020)

/* Capture and graphs. A simulated device of an older build may lack some: those stay null, and only
 * scenarios that call them notice. */
#define DRIVER_GRAPH_FUNCTIONS(X)                                                                  \
    X(StreamBeginCapture, PFN_cuStreamBeginCapture_v10010, 10010)                                  \
    X(StreamBeginCaptureToGraph, PFN_cuStreamBeginCaptureToGraph_v12030, 12030)                    \
    X(StreamEndCapture, PFN_cuStreamEndCapture_v10000, 10000)                                      \
    X(ThreadExchangeStreamCaptureMode, PFN_cuThreadExchangeStreamCaptureMode_v10010, 10010)        \
    X(StreamGetCaptureInfo, PFN_cuStreamGetCaptureInfo_v12030, 12030)                              \
    X(StreamUpdateCaptureDependencies, PFN_cuStreamUpdateCaptureDependencies_v12030, 12030)        \
    X(EventRecordWithFlags, PFN_cuEventRecordWithFlags_v11010, 11010)                              \
    X(MemcpyAsync, PFN_cuMemcpyAsync_v4000, 4000)                                                  \
    X(Memcpy, PFN_cuMemcpy_v4000, 4000)                                                            \
    X(MemsetD32, PFN_cuMemsetD32_v3020, 3020)                                                      \
    X(MemAllocHost, PFN_cuMemAllocHost_v3020, 3020)                                                \
    X(StreamGetPriority, PFN_cuStreamGetPriority_v5050, 5050)                                      \
    X(StreamGetFlags, PFN_cuStreamGetFlags_v5050, 5050)                                            \
    X(StreamGetCtx, PFN_cuStreamGetCtx_v9020, 9020)                                                \
    X(StreamGetDevice, PFN_cuStreamGetDevice_v12080, 12080)                                        \
    X(ModuleLoadData, PFN_cuModuleLoadData_v2000, 2000)                                            \
    X(ModuleUnload, PFN_cuModuleUnload_v2000, 2000)                                                \
    X(ModuleGetFunction, PFN_cuModuleGetFunction_v2000, 2000)                                      \
    X(LaunchKernel, PFN_cuLaunchKernel_v4000, 4000)                                                \
    X(FuncGetParamInfo, PFN_cuFuncGetParamInfo_v12040, 12040)                                      \
    X(GraphCreate, PFN_cuGraphCreate_v10000, 10000)                                                \
    X(GraphDestroy, PFN_cuGraphDestroy_v10000, 10000)                                              \
    X(GraphClone, PFN_cuGraphClone_v10000, 10000)                                                  \
    X(GraphNodeFindInClone, PFN_cuGraphNodeFindInClone_v10000, 10000)                              \
    X(GraphAddKernelNode, PFN_cuGraphAddKernelNode_v12000, 12000)                                  \
    X(GraphKernelNodeGetParams, PFN_cuGraphKernelNodeGetParams_v12000, 12000)                      \
    X(GraphKernelNodeSetParams, PFN_cuGraphKernelNodeSetParams_v12000, 12000)                      \
    X(GraphAddMemcpyNode, PFN_cuGraphAddMemcpyNode_v10000, 10000)                                  \
    X(GraphMemcpyNodeGetParams, PFN_cuGraphMemcpyNodeGetParams_v10000, 10000)                      \
    X(GraphMemcpyNodeSetParams, PFN_cuGraphMemcpyNodeSetParams_v10000, 10000)                      \
    X(GraphAddMemsetNode, PFN_cuGraphAddMemsetNode_v10000, 10000)                                  \
    X(GraphMemsetNodeGetParams, PFN_cuGraphMemsetNodeGetParams_v10000, 10000)                      \
    X(GraphMemsetNodeSetParams, PFN_cuGraphMemsetNodeSetParams_v10000, 10000)                      \
    X(GraphAddHostNode, PFN_cuGraphAddHostNode_v10000, 10000)                                      \
    X(GraphHostNodeGetParams, PFN_cuGraphHostNodeGetParams_v10000, 10000)                          \
    X(GraphHostNodeSetParams, PFN_cuGraphHostNodeSetParams_v10000, 10000)                          \
    X(GraphAddChildGraphNode, PFN_cuGraphAddChildGraphNode_v10000, 10000)                          \
    X(GraphChildGraphNodeGetGraph, PFN_cuGraphChildGraphNodeGetGraph_v10000, 10000)                \
    X(GraphAddEmptyNode, PFN_cuGraphAddEmptyNode_v10000, 10000)                                    \
    X(GraphAddEventRecordNode, PFN_cuGraphAddEventRecordNode_v11010, 11010)                        \
    X(GraphEventRecordNodeGetEvent, PFN_cuGraphEventRecordNodeGetEvent_v11010, 11010)              \
    X(GraphAddEventWaitNode, PFN_cuGraphAddEventWaitNode_v11010, 11010)                            \
    X(GraphEventWaitNodeGetEvent, PFN_cuGraphEventWaitNodeGetEvent_v11010, 11010)                  \
    X(GraphNodeGetType, PFN_cuGraphNodeGetType_v10000, 10000)                                      \
    X(GraphGetNodes, PFN_cuGraphGetNodes_v10000, 10000)                                            \
    X(GraphGetRootNodes, PFN_cuGraphGetRootNodes_v10000, 10000)                                    \
    X(GraphGetEdges, PFN_cuGraphGetEdges_v10000, 10000)                                            \
    X(GraphNodeGetDependencies, PFN_cuGraphNodeGetDependencies_v10000, 10000)                      \
    X(GraphNodeGetDependentNodes, PFN_cuGraphNodeGetDependentNodes_v10000, 10000)                  \
    X(GraphAddDependencies, PFN_cuGraphAddDependencies_v10000, 10000)                              \
    X(GraphRemoveDependencies, PFN_cuGraphRemoveDependencies_v10000, 10000)                        \
    X(GraphDestroyNode, PFN_cuGraphDestroyNode_v10000, 10000)                                      \
    X(GraphInstantiateWithFlags, PFN_cuGraphInstantiateWithFlags_v11040, 11040)                    \
    X(GraphInstantiateWithParams, PFN_cuGraphInstantiateWithParams_v12000, 12000)                  \
    X(GraphExecDestroy, PFN_cuGraphExecDestroy_v10000, 10000)                                      \
    X(GraphUpload, PFN_cuGraphUpload_v11010, 11010)                                                \
    X(GraphLaunch, PFN_cuGraphLaunch_v10000, 10000)                                                \
    X(GraphExecKernelNodeSetParams, PFN_cuGraphExecKernelNodeSetParams_v12000, 12000)              \
    X(GraphExecUpdate, PFN_cuGraphExecUpdate_v12000, 12000)                                        \
    X(GraphNodeSetEnabled, PFN_cuGraphNodeSetEnabled_v11060, 11060)                                \
    X(UserObjectCreate, PFN_cuUserObjectCreate_v11030, 11030)                                      \
    X(UserObjectRetain, PFN_cuUserObjectRetain_v11030, 11030)                                      \
    X(UserObjectRelease, PFN_cuUserObjectRelease_v11030, 11030)                                    \
    X(GraphRetainUserObject, PFN_cuGraphRetainUserObject_v11030, 11030)                            \
    X(GraphReleaseUserObject, PFN_cuGraphReleaseUserObject_v11030, 11030)

struct driver {
    PFN_cuGetProcAddress_v12000 GetProcAddress;
#define DRIVER_FIELD(name, type, version) type name;
    DRIVER_FUNCTIONS(DRIVER_FIELD)
    DRIVER_GRAPH_FUNCTIONS(DRIVER_FIELD)
#undef DRIVER_FIELD
};

extern struct driver cu;

/* Loads the library; null, or why not (static text). */
const char *driver_load(const char *path);
int driver_simulated(void); /* whether it is the simulated device */

#endif
