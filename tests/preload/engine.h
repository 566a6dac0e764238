/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small engine that uses the CUDA driver and knows nothing of Tenure: what the tests preload
 * into. How it reaches the driver is chosen on its command line, or when it is linked.
 */
#ifndef TENURE_TESTS_PRELOAD_ENGINE_H
#define TENURE_TESTS_PRELOAD_ENGINE_H

#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuDevicePrimaryCtxReset
#undef cuEventDestroy
#undef cuGraphExecUpdate
#undef cuMemAlloc
#undef cuMemAllocHost
#undef cuMemFree
#undef cuMemGetAddressRange
#undef cuMemGetInfo
#undef cuMemHostGetDevicePointer
#undef cuMemcpyDtoD
#undef cuMemcpyDtoDAsync
#undef cuMemcpyDtoHAsync
#undef cuStreamBeginCapture
#undef cuStreamDestroy

/* The driver, however it was reached. */
typedef struct driver_api {
#define API(name, symbol, type, version) type name;
#define API_STREAM(name, symbol, type, version) type name;
#include "api.def"
#undef API
#undef API_STREAM
} driver_api;

extern driver_api cu;

/* The name of the way that was chosen. */
extern const char *engine_way;

/* Fills `cu`, in the way of this name; -1 for none, after a message. */
int reach_driver(const char *way);

/* Ends the program unless the driver said what it must. */
#define MUST_BE(call, expected)                                                                    \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != (expected)) {                                                               \
            fprintf(stderr, "%s:%d: %s gave %d, not %d\n", __FILE__, __LINE__, #call,              \
                    (int)result_, (int)(expected));                                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define MUST(call) MUST_BE(call, CUDA_SUCCESS)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* cuInit, and the primary context of a device made current. */
CUcontext engine_start(int device);

/* Fills memory on a stream, and ends the program if a byte of it, read on that stream, differs. */
void fill(CUdeviceptr address, int value, size_t bytes, CUstream stream);
void verify(CUdeviceptr address, int value, size_t bytes, CUstream stream);

/* Prints how many bytes are written of each attribute of memory, and the numbers that are the same
 * with any allocator. */
void attributes_print(CUdeviceptr address);

#endif
