/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that others lack: see shortage.h. The replacements here do nothing else, except that a
 * launch tells the checker. */
#include "shortage.h"

#include "check/check.h"
#include "entries.h"
#include "order.h"
#include "service.h"
#include "watch/account.h"

/* A context that is not served has the same device. */
static int device_current(void)
{
    CUdevice device;
    return REAL(cuCtxGetDevice, (&device)) == CUDA_SUCCESS ? (int)device : -1;
}

int shortage_give_back(int device)
{
    size_t released = 0;
    if (device < 0)
        device = device_current();
    if (device < 0 || device >= SERVICE_DEVICES_MAX ||
        !atomic_load_explicit(&service_device_at(device)->is_on, memory_order_acquire) ||
        !service_enter())
        return 0;
    /* What could not go back is no fault of this call's. */
    tnr_status status = tnr_trim(&released, 0, device);
    (void)status;
    if (released > 0)
        service_count_one(COUNT_RETRIES);
    service_leave();
    return released > 0;
}

/* ---- code ----------------------------------------------------------------------------------- */

CUresult CUDAAPI replace_cuModuleLoad(CUmodule *module, const char *file)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_MODULES, REAL_RETRIED(result, cuModuleLoad, (module, file)));
    return result;
}

CUresult CUDAAPI replace_cuModuleLoadData(CUmodule *module, const void *image)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_MODULES, REAL_RETRIED(result, cuModuleLoadData, (module, image)));
    return result;
}

CUresult CUDAAPI replace_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                                            CUjit_option *options, void **values)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_MODULES,
              REAL_RETRIED(result, cuModuleLoadDataEx, (module, image, count, options, values)));
    return result;
}

CUresult CUDAAPI replace_cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_MODULES, REAL_RETRIED(result, cuModuleLoadFatBinary, (module, image)));
    return result;
}

CUresult CUDAAPI replace_cuLibraryLoadData(CUlibrary *library, const void *code,
                                           CUjit_option *jit_options, void **jit_values,
                                           unsigned jit_count, CUlibraryOption *options,
                                           void **values, unsigned count)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_MODULES, REAL_RETRIED(result, cuLibraryLoadData,
                                            (library, code, jit_options, jit_values, jit_count,
                                             options, values, count)));
    return result;
}

CUresult CUDAAPI replace_cuLibraryLoadFromFile(CUlibrary *library, const char *file,
                                               CUjit_option *jit_options, void **jit_values,
                                               unsigned jit_count, CUlibraryOption *options,
                                               void **values, unsigned count)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_MODULES, REAL_RETRIED(result, cuLibraryLoadFromFile,
                                            (library, file, jit_options, jit_values, jit_count,
                                             options, values, count)));
    return result;
}

/* ---- launches: code is loaded when it first runs, and local memory grows -------------------- */

CUresult CUDAAPI replace_cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned shared_bytes, CUstream stream,
                                        void **parameters, void **extra)
{
    CUresult result;
    ACCOUNTED_FIRST(ACCOUNT_MODULES, function, ACCOUNT_LAUNCHED,
                    REAL_RETRIED(result, cuLaunchKernel,
                                 (function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                  shared_bytes, stream, parameters, extra)));
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_launched("cuLaunchKernel", function, stream, parameters, extra));
    return result;
}

CUresult CUDAAPI replace_cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y,
                                             unsigned grid_z, unsigned block_x, unsigned block_y,
                                             unsigned block_z, unsigned shared_bytes,
                                             CUstream stream, void **parameters, void **extra)
{
    return replace_cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                  shared_bytes, stream_of_thread(stream), parameters, extra);
}

CUresult CUDAAPI replace_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                          void **parameters, void **extra)
{
    CUresult result;
    if (config != NULL)
        order_launch_begins(config);
    ACCOUNTED_FIRST(ACCOUNT_MODULES, function, ACCOUNT_LAUNCHED,
                    REAL_RETRIED(result, cuLaunchKernelEx, (config, function, parameters, extra)));
    if (result == CUDA_SUCCESS && check_is_on()) {
        check_launched("cuLaunchKernelEx", function, config->hStream, parameters, extra);
        check_launch_attributes(config);
    }
    return result;
}

CUresult CUDAAPI replace_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function,
                                               void **parameters, void **extra)
{
    if (config == NULL || config->hStream != NULL)
        return replace_cuLaunchKernelEx(config, function, parameters, extra);
    CUlaunchConfig own = *config;
    own.hStream = CU_STREAM_PER_THREAD;
    return replace_cuLaunchKernelEx(&own, function, parameters, extra);
}

/* ---- arrays --------------------------------------------------------------------------------- */

CUresult CUDAAPI replace_cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *what)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_DRIVER, REAL_RETRIED(result, cuArrayCreate_v2, (array, what)));
    return result;
}

CUresult CUDAAPI replace_cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *what)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_DRIVER, REAL_RETRIED(result, cuArray3DCreate_v2, (array, what)));
    return result;
}

CUresult CUDAAPI replace_cuMipmappedArrayCreate(CUmipmappedArray *array,
                                                const CUDA_ARRAY3D_DESCRIPTOR *what,
                                                unsigned levels)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_DRIVER, REAL_RETRIED(result, cuMipmappedArrayCreate, (array, what, levels)));
    return result;
}
