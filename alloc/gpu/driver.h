/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver seam: the only place through which the library reaches CUDA.
 *
 * One table (entry_points.def) lists every entry point that is used. It is filled at run time with
 * dlopen and cuGetProcAddress, so the library links neither libcuda nor cudart, and builds and
 * loads anywhere. Which library is loaded is up to TENURE_DRIVER: `cuda` (the default), `sim` for
 * the simulated device, or a path. There is no silent fallback from one to another.
 *
 * Rules for every call through the table:
 *   - the caller holds no lock, except for the event records that say so at their place;
 *   - the device's context is current (memory/device/device.h), except for start-up calls;
 *   - the call is made with DRIVER(name)(arguments), wrapped in tnri_drive, which counts it and its
 *     time to the device whose context is current:
 *         CUresult result = tnri_drive(cuMemUnmap, (address, bytes));
 *
 * Time for decisions comes from here too, because the simulated device has a time of its own.
 */
#ifndef TNRI_GPU_DRIVER_H
#define TNRI_GPU_DRIVER_H

#include <stdatomic.h>
#include <stdint.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#include <tenure/alloc.h>

#include "base/prim/clock.h"

/* Newer than the headers that the library is built with. */
typedef CUresult(CUDAAPI *tnri_cuGraphNodeGetParams)(CUgraphNode node, CUgraphNodeParams *params);

/* The table. Constant between a successful tnri_driver_load and tnri_driver_unload. */
typedef struct tnri_driver_table {
#define DRIVER_ENTRY(name, type, since, need, kind) type name;
#include "gpu/entry_points.def"
#undef DRIVER_ENTRY
} tnri_driver_table;

extern tnri_driver_table tnri_driver;

/* What is known of the loaded driver. Constant while loaded. */
typedef struct tnri_driver_state {
    void *library; /* of dlopen; null while none is loaded */
    char path[512];
    int version; /* 13000 for CUDA 13.0 */
    int simulated;
    uint64_t (*played_ns)(void); /* time as the simulated device plays it; null: it stands still */
} tnri_driver_state;

extern tnri_driver_state tnri_driver_loaded;

/* Loads the driver that TENURE_DRIVER names and calls cuInit. Harmless if loaded already. Under
 * the library lock. Errors: TNR_ERR_NO_DRIVER, TNR_ERR_DRIVER_TOO_OLD, TNR_ERR_NO_DEVICE,
 * TNR_ERR_CONFIG (TENURE_DRIVER is not understood), TNR_ERR_DRIVER. */
tnr_status tnri_driver_load(void);

/* Forgets the table. The library itself stays loaded: CUDA cannot be unloaded safely. */
void tnri_driver_unload(void);

/* Calls made and time spent, by kind. Synchronisation: internal, relaxed atomics. */
typedef struct tnri_driver_counters {
    _Atomic uint64_t calls[TNR_DRIVER_KIND_COUNT];
    _Atomic uint64_t ns[TNR_DRIVER_KIND_COUNT];
} tnri_driver_counters;

/* Sets where the calling thread's calls are counted; returns what was set before. Null: nowhere. */
tnri_driver_counters *tnri_driver_count_into(tnri_driver_counters *counters);

/* The time for decisions. On the simulated device it is the time that the device plays, which
 * stands still unless a program says otherwise. So equal inputs give equal decisions. */
uint64_t tnri_decision_ns(void);

/* The two halves of a counted call: see tnri_drive. */
void tnri_drive_begin(void);
CUresult tnri_drive_end(tnr_driver_kind kind, CUresult result);

/* Makes the driver call `name` with the argument list `arguments` (in its own parentheses). */
#define tnri_drive(name, arguments)                                                                \
    (tnri_drive_begin(),                                                                           \
     tnri_drive_end((tnr_driver_kind)TNRI_KIND_##name, tnri_driver.name arguments))

/* The same for an optional entry point: CUDA_ERROR_NOT_SUPPORTED if the driver lacks it. */
#define tnri_drive_if(name, arguments)                                                             \
    (tnri_driver.name == NULL                                                                      \
         ? CUDA_ERROR_NOT_SUPPORTED                                                                \
         : (tnri_drive_begin(),                                                                    \
            tnri_drive_end((tnr_driver_kind)TNRI_KIND_##name, tnri_driver.name arguments)))

/* The same for a call that is too quick to be counted one by one: the caller counts its calls
 * itself, times one in TNRI_SAMPLE of them, and hands in both with tnri_driver_count. */
enum { TNRI_SAMPLE = 64 };
#define tnri_drive_uncounted(name, arguments) (tnri_driver.name arguments)
void tnri_driver_count(tnri_driver_counters *counters, tnr_driver_kind kind, uint64_t calls,
                       uint64_t ns);

/* The kind of each entry point, from the table. */
enum {
#define DRIVER_ENTRY(name, type, since, need, kind) TNRI_KIND_##name = TNR_DRIVER_##kind,
#include "gpu/entry_points.def"
#undef DRIVER_ENTRY
};

/* Turns a failed driver call into a status with a sentence: `doing` says what it was for. Out of
 * memory, a shut-down driver and everything else are told apart. */
tnr_status tnri_driver_error(CUresult result, const char *call, const char *doing);

/* "CUDA_ERROR_OUT_OF_MEMORY" and the like; never null. */
const char *tnri_driver_result_name(CUresult result);

#endif
