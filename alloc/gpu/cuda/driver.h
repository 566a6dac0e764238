/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's driver behind the verbs of gpu/backend.h: the table of its entry points.
 *
 * entry_points.def lists every entry point that is used. The table is filled at run time with
 * dlopen and cuGetProcAddress, so the library links neither libcuda nor cudart, and builds and
 * loads anywhere. Which library is loaded is up to TENURE_DRIVER: `cuda` (the default), `sim` for
 * the simulated device, or a path. There is no silent fallback from one to another.
 *
 * Only the sources of this folder include this header.
 */
#ifndef TNRI_GPU_CUDA_DRIVER_H
#define TNRI_GPU_CUDA_DRIVER_H

#include <stdint.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#include "gpu/backend.h"

/* Newer than the headers that the library is built with. */
typedef CUresult(CUDAAPI *tnri_cuGraphNodeGetParams)(CUgraphNode node, CUgraphNodeParams *params);

/* The table. Constant between a successful tnri_driver_load and tnri_driver_unload. */
typedef struct tnri_driver_table {
#define DRIVER_ENTRY(name, type, since, need, kind) type name;
#include "gpu/cuda/entry_points.def"
#undef DRIVER_ENTRY
} tnri_driver_table;

extern tnri_driver_table tnri_driver;

/* The kind of each entry point, from the table. */
enum {
#define DRIVER_ENTRY(name, type, since, need, kind) TNRI_KIND_##name = TNR_DRIVER_##kind,
#include "gpu/cuda/entry_points.def"
#undef DRIVER_ENTRY
};

/* tnri_driver_error for a call that has no verb in backend.h. */
tnr_status tnri_cuda_error(CUresult result, const char *call, const char *doing);

/* Counts a call that began then, with its time, and returns its result. */
CUresult tnri_drive_end(tnr_driver_kind kind, CUresult result, uint64_t began_ns);

#endif
