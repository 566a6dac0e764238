/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the driver whose memory is accounted for: it maps memory by hand, gives some of it
 * back, has a second context beside the primary one, and compiles code when it runs. It says
 * "ready" and waits for a line. */
#include <cstdio>
#include <cstdlib>

#include <cuda.h>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != CUDA_SUCCESS) {                                                             \
            fprintf(stderr, "%s gave %d\n", #call, (int)result_);                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { PIECES = 24 };

static const char code[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .global .align 4 .b8 table[33554432];\n"
                           ".visible .entry nothing()\n{\n ret;\n}\n";

static void map_by_hand(void)
{
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const size_t bytes = 32 << 20;
    CUdeviceptr base;
    MUST(cuMemAddressReserve(&base, PIECES * bytes, 0, 0, 0));
    for (int i = 0; i < PIECES; i++) {
        CUmemGenericAllocationHandle handle;
        MUST(cuMemCreate(&handle, bytes, &properties, 0));
        MUST(cuMemMap(base + i * bytes, bytes, 0, handle, 0));
        MUST(cuMemSetAccess(base + i * bytes, bytes, &access, 1));
        MUST(cuMemRelease(handle)); /* the mapping keeps it */
    }
    for (int i = 0; i < PIECES; i += 3)
        MUST(cuMemUnmap(base + i * bytes, bytes));
    MUST(cuMemsetD8(base + bytes, 1, bytes));
}

static void code_run(void)
{
    CUmodule module;
    CUfunction function;
    MUST(cuModuleLoadData(&module, code));
    MUST(cuModuleGetFunction(&function, module, "nothing"));
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    MUST(cuCtxSynchronize());
}

int main()
{
    CUcontext primary, second;
    CUdevice device;
    CUdeviceptr block;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&primary, device));
    MUST(cuCtxSetCurrent(primary));
    MUST(cuMemAlloc(&block, 200 << 20));
    map_by_hand();
    code_run();
#if CUDA_VERSION >= 13000
    MUST(cuCtxCreate(&second, nullptr, 0, device));
#else
    MUST(cuCtxCreate(&second, 0, device));
#endif
    code_run();
    MUST(cuMemAlloc(&block, 100 << 20)); /* the driver's own: not the primary context */
    MUST(cuCtxSynchronize());
    puts("ready");
    fflush(stdout);
    return getchar() == EOF;
}
