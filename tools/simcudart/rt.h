/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the simulated runtime share.
 *
 * The runtime is the CUDA runtime's ABI over the simulated driver, written from the public headers.
 * It finds the driver as NVIDIA's runtime does, by dlopen and dlsym, so what stands between a
 * program and the driver (`tenure run`) serves its calls, too.
 *
 * Every call begins with RT_BEGIN, which has a current context made, and ends with rt_end, which
 * remembers an error for cudaGetLastError. Errors of the driver and of the runtime have the same
 * numbers.
 */
#ifndef TENURE_SIMCUDART_RT_H
#define TENURE_SIMCUDART_RT_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <stddef.h>
#include <stdint.h>

#include "tenure/simcuda.h"

#ifndef RT_VERSION
#define RT_VERSION CUDART_VERSION
#endif

enum { RT_DEVICES_MAX = 32 };

/* ---- the driver (driver.c) ------------------------------------------------------------------ */

typedef struct rt_driver {
#define CALL(name) __typeof__(name) *name;
#include "driver.def"
#include "graph_driver.def"
#undef CALL
    __typeof__(simcuda_kernel_known) *kernel_known;
} rt_driver;

extern rt_driver rt; /* whole once rt_open has succeeded */

cudaError_t rt_open(void);  /* the driver, without a context */
cudaError_t rt_begin(void); /* and a current context */

/* The primary context of a device: retained once, and again after a reset. */
CUresult rt_primary(int device, CUcontext *context);

/* The device that the thread's calls are for. */
int rt_device(void);
void rt_device_choose(int device);

/* A sentence on stderr. */
void rt_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- errors (error.c) ----------------------------------------------------------------------- */

cudaError_t rt_fail(cudaError_t error);    /* remembered for the thread; success is not */
cudaError_t rt_end(CUresult result);       /* the same, of the driver's */
void rt_errors_clear(void);                /* sticky ones, too: the context is gone */
cudaError_t rt_unserved(const char *what); /* cudaErrorNotSupported, and a sentence, once each */

#define RT_BEGIN()                                                                                 \
    do {                                                                                           \
        cudaError_t begun = rt_begin();                                                            \
        if (begun != cudaSuccess)                                                                  \
            return begun;                                                                          \
    } while (0)

/* ---- code: what nvcc embeds (fatbin.c, cubin.c) --------------------------------------------- */

typedef struct rt_code_kernel {
    const char *name;
    size_t param_count;
    size_t *param_bytes, *param_offset;
    size_t shared_bytes, local_bytes;
    int registers;
    int threads_max;
    int architecture; /* what it was compiled for: 90 of sm_90 */
    int launches;     /* it launches kernels itself, from the device */
} rt_code_kernel;

typedef struct rt_code_variable {
    const char *name;
    size_t bytes;
    const void *contents; /* null: zeros */
    int is_constant;
} rt_code_variable;

typedef struct rt_code {
    rt_code_kernel *kernels;
    size_t kernel_count;
    rt_code_variable *variables;
    size_t variable_count;
    int architecture; /* 90 of sm_90; 0: nothing could be read */
    void *unpacked;   /* what the names point into, where it was compressed */
} rt_code;

/* As fatbinary_section.h has it: what nvcc's output leads to its fat binary with. */
enum { RT_WRAPPER_MAGIC = 0x466243b1 };
typedef struct rt_fatbin_wrapper {
    int magic;
    int version;
    const void *data;
    void *others;
} rt_fatbin_wrapper;

/* The code for the simulated device, of the fat binary, or of machine code by itself; empty where
 * there is none that can be read. Names point into the image. 0 when memory is short. */
int rt_fatbin_read(const void *fatbin, rt_code *code);
/* Of either; 0: it is neither. `most` bytes of it are there: more, if some are missing. */
size_t rt_fatbin_bytes(const void *fatbin, size_t most);
size_t rt_cubin_bytes(const void *image, size_t most); /* 0: it is not machine code */
int rt_cubin_read(const void *image, size_t bytes, rt_code *code);
void rt_code_free(rt_code *code);

/* ---- modules (module.c) --------------------------------------------------------------------- */

typedef struct rt_binary rt_binary;

typedef struct rt_kernel {
    const void *entry; /* what stands for it on the host */
    const char *name;
    rt_binary *binary;
    int dynamic_bytes_max; /* cudaFuncSetAttribute */
    int carveout;
    const rt_code_kernel *code; /* once it was looked up; null: none, too */
    int is_looked_up;
    CUfunction function; /* of the context with that number */
    unsigned long long context_id;
    struct rt_kernel *next, *next_named;
} rt_kernel;

rt_kernel *rt_kernel_find(const void *entry); /* an entry, a cudaKernel_t or a cudaFunction_t */
rt_kernel *rt_kernel_of(CUfunction function); /* null: the program's own */
const rt_code_kernel *rt_kernel_code(rt_kernel *kernel); /* null: unknown */
const rt_code *rt_binary_code(rt_binary *binary);
cudaError_t rt_kernel_function(rt_kernel *kernel, CUfunction *function);
cudaError_t rt_function(const void *entry, CUfunction *function);
cudaError_t rt_variable(const void *symbol, CUdeviceptr *address, size_t *bytes);

/* ---- memory --------------------------------------------------------------------------------- */

int rt_managed_is(const void *address); /* of cudaMallocManaged, or a pool (managed.c) */
int rt_managed_holds(const void *address, size_t bytes);
CUresult rt_managed_alloc(void **out, size_t bytes);
int rt_managed_add(CUdeviceptr address, size_t bytes); /* 0 when memory is short */
void rt_managed_forget(const void *address);
void rt_managed_forget_all(void);
void rt_advice_forget(uintptr_t begin, size_t bytes); /* advice.c */
void rt_arrays_forget_all(void);                      /* array.c */
int rt_pool_is_managed(cudaMemPool_t pool);           /* pool.c */

/* Copies (copy.c). `is_async`: as the call's name says. */
CUresult rt_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                 cudaStream_t stream, int is_async);
/* As the driver has it; an error for arrays, and for directions that there are not. */
cudaError_t rt_box_make(const struct cudaMemcpy3DParms *asked, CUDA_MEMCPY3D *box);

/* ---- launches (launch.c) -------------------------------------------------------------------- */

int rt_shape_is_valid(dim3 grid, dim3 block);
cudaError_t rt_launch(rt_kernel *kernel, CUfunction function, const CUlaunchConfig *config,
                      void **parameters);

/* 0 as the stream of a call for per-thread default streams. */
static inline cudaStream_t rt_own(cudaStream_t stream)
{
    return stream == NULL ? cudaStreamPerThread : stream;
}

#endif
