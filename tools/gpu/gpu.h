/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small loader of driver entry points for programs: the command, the benchmarks, the GPU tests.
 *
 * It opens the very library that Tenure has loaded (tnr_driver_info.path), so that a program's
 * streams and kernels and the library's memory belong to one driver, and fills a table of typed
 * function pointers from gpu_entry_points.def. Nothing is linked against libcuda.
 *
 * A gpu_driver is filled by one thread and only read afterwards.
 */
#ifndef TENURE_TOOLS_GPU_H
#define TENURE_TOOLS_GPU_H

#include <stddef.h>

#include <cuda.h>
#include <cudaTypedefs.h>

typedef struct gpu_driver {
    void *library; /* from dlopen; kept open until gpu_driver_unload */
#define GPU_ENTRY(name, type, since, need) type name;
#include "gpu_entry_points.def"
#undef GPU_ENTRY
} gpu_driver;

/* Opens the driver library at `path` and fills the table. Calls nothing but cuGetProcAddress.
 * Returns 0, or -1 with a sentence in `error` (always terminated) and everything closed again. */
int gpu_driver_load(gpu_driver *gpu, const char *path, char *error, size_t error_bytes);

/* Closes the library. The table is cleared. */
void gpu_driver_unload(gpu_driver *gpu);

/* "CUDA_ERROR_X: what it means", from the driver's own texts, in a buffer of the caller. Works
 * with a null `gpu` too, then with the number alone. Returns `buffer`. */
const char *gpu_error_text(const gpu_driver *gpu, CUresult result, char *buffer, size_t bytes);

/* What gpu_probe found. */
typedef struct gpu_presence {
    int devices_count;
    int version;      /* as cuDriverGetVersion gives it; 0 if that was not reached */
    char reason[512]; /* why devices_count is 0: a sentence; empty otherwise */
} gpu_presence;

/* Tries whether the driver library at `path` can be loaded and sees a device. Initialises that
 * driver (cuInit) but makes no context. Returns 1 if there is a device, else 0. */
int gpu_probe(const char *path, gpu_presence *presence);

#endif
