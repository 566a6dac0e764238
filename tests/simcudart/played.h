/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays what nvcc leaves in a program: machine code with kernels and variables, in a fat binary,
 * registered as the code does that nvcc writes. So the runtime is tested where there is no nvcc.
 */
#ifndef TENURE_TESTS_SIMCUDART_PLAYED_H
#define TENURE_TESTS_SIMCUDART_PLAYED_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* The code that nvcc writes calls these; crt/host_runtime.h declares them for C++ only. */
void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
void __cudaUnregisterFatBinary(void **fatCubinHandle);
char __cudaInitModule(void **fatCubinHandle);
void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid,
                            dim3 *bDim, dim3 *gDim, int *wSize);
void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                       const char *deviceName, int ext, size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global);
unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                     struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                       void *stream);

enum { PLAYED_MAX = 8, PLAYED_BYTES = 16384 };

typedef struct played_kernel {
    const char *name;
    size_t count;
    size_t bytes[PLAYED_MAX];
    uint32_t registers, shared_bytes, threads_max;
} played_kernel;

typedef struct played_variable {
    const char *name;
    size_t bytes;
    const void *contents; /* null: zeros */
    int is_constant;
} played_variable;

/* Machine code in `out`; its size. Names in all: PLAYED_MAX kernels and variables at most. */
size_t played_cubin(unsigned char out[PLAYED_BYTES], const played_kernel *kernels, size_t count,
                    const played_variable *variables, size_t variable_count);

/* An entry of a fat binary. */
typedef struct played_entry {
    int kind; /* 2: machine code; 1: text */
    int architecture;
    uint64_t flags;
    const void *payload;
    size_t bytes;
    size_t unpacked; /* where the flags say that it is compressed: 0x2000 LZ4, 0x8000 zstd */
} played_entry;

/* As LZ4 packs what it finds nothing in, but for one repeated byte at the end. */
size_t played_pack(unsigned char *out, const unsigned char *from, size_t bytes);

size_t played_fatbin(unsigned char *out, size_t room, const played_entry *entries, size_t count);

/* As fatbinary_section.h has it. */
typedef struct played_wrapper {
    int magic, version;
    const void *data;
    void *others;
} played_wrapper;

#endif
