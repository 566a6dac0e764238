/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and loading the driver: see driver.h.
 *
 * 1. TENURE_DRIVER names it: `cuda`, `sim` or a path.
 * 2. dlopen; then cuGetProcAddress (its second version if there is one) resolves every entry of
 *    the table for the CUDA version in the table, legacy default stream.
 * 3. What is missing is named together with the version that has it.
 * 4. cuInit.
 */
#include "gpu/cuda/driver.h"

#include <stdio.h>
#include <string.h>

#include "base/conf/environment.h"
#include "base/error.h"
#include "base/prim/loader.h"

tnri_driver_table tnri_driver;
tnri_driver_state tnri_driver_loaded;
CUresult (*tnri_gpu_event_mark)(CUevent event, CUstream stream);

static const char SIM_FILE[] = "libtenure_simcuda.so";

/* Tries the places where the simulated device can be, relative to the file that this code is in:
 * beside it, in tenure/ under it (installed), in the build tree's tools/simcuda. */
static void *load_sim(char *path, size_t bytes)
{
    static const char *const places[] = {"",
                                         "tenure/",
                                         "../tools/simcuda/",
                                         "../simcuda/",
                                         "../lib/tenure/",
                                         "../../tools/simcuda/"};
    tnri_loaded_at self;
    static const char anchor;
    if (tnri_loader_find((uintptr_t)&anchor, &self) && self.path != NULL) {
        const char *slash = strrchr(self.path, '/');
        int directory = slash == NULL ? 0 : (int)(slash - self.path + 1);
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
            int length =
                snprintf(path, bytes, "%.*s%s%s", directory, self.path, places[i], SIM_FILE);
            if (length < 0 || (size_t)length >= bytes)
                continue;
            void *library = tnri_loader_open(path, 0);
            if (library != NULL)
                return library;
        }
    }
    snprintf(path, bytes, "%s", SIM_FILE);
    return tnri_loader_open(SIM_FILE, 0);
}

/* Opens the library that TENURE_DRIVER names and fills in `path`. */
static tnr_status load_library(void **library, char *path, size_t bytes)
{
    const char *wanted = tnri_environment_driver();
    if (wanted == NULL || wanted[0] == '\0' || strcmp(wanted, "cuda") == 0) {
        snprintf(path, bytes, "libcuda.so.1");
        *library = tnri_loader_open(path, 0);
        if (*library == NULL)
            return tnri_error(TNR_ERR_NO_DRIVER,
                              "no CUDA driver: %s. Install the NVIDIA driver, or set "
                              "TENURE_DRIVER=sim to run on the simulated device.",
                              tnri_loader_error());
    } else if (strcmp(wanted, "sim") == 0) {
        *library = load_sim(path, bytes);
        if (*library == NULL)
            return tnri_error(TNR_ERR_NO_DRIVER,
                              "TENURE_DRIVER=sim, but the simulated device was not found: %s. "
                              "Give its path: TENURE_DRIVER=/path/to/%s",
                              tnri_loader_error(), SIM_FILE);
    } else if (strchr(wanted, '/') != NULL) {
        snprintf(path, bytes, "%s", wanted);
        *library = tnri_loader_open(wanted, 0);
        if (*library == NULL)
            return tnri_error(TNR_ERR_NO_DRIVER, "TENURE_DRIVER=%s could not be loaded: %s.",
                              wanted, tnri_loader_error());
    } else {
        return tnri_error(TNR_ERR_CONFIG,
                          "TENURE_DRIVER=%s is not understood. It is cuda, sim, or the path of a "
                          "driver library (with a slash in it).",
                          wanted);
    }
    return TNR_OK;
}

/* The resolver of the loaded library, in whichever of its two forms the driver has. */
typedef struct resolver {
    PFN_cuGetProcAddress_v12000 v2;
    PFN_cuGetProcAddress_v11030 v1;
} resolver;

/* Null: there is none. *refused becomes why the driver would not say; else it stays. */
static void *resolve(const resolver *by, const char *name, int version, CUresult *refused)
{
    void *function = NULL;
    CUresult result;
    if (by->v2 != NULL) {
        CUdriverProcAddressQueryResult found;
        result = by->v2(name, &function, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
    } else {
        result = by->v1(name, &function, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    }
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND &&
        result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_NOT_SUPPORTED)
        *refused = result;
    return result == CUDA_SUCCESS ? function : NULL;
}

/* One row of the table, for the loop that fills it. */
typedef struct entry {
    const char *name;
    int since;
    int required;
    size_t offset;
} entry;

enum { REQUIRED = 1, OPTIONAL = 0 };

static const entry entries[] = {
#define DRIVER_ENTRY(name, type, since, need, kind)                                                \
    {#name, since, need, offsetof(tnri_driver_table, name)},
#include "gpu/cuda/entry_points.def"
#undef DRIVER_ENTRY
};

/* Fills the table; names all that is missing in one sentence. */
static tnr_status load_entries(const resolver *by, int version, const char *path)
{
    char missing[1024] = "";
    size_t length = 0;
    CUresult refused = CUDA_SUCCESS;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *function = resolve(by, entries[i].name, entries[i].since, &refused);
        memcpy((char *)&tnri_driver + entries[i].offset, &function, sizeof(function));
        if (function != NULL || !entries[i].required || length >= sizeof(missing))
            continue;
        int added = snprintf(missing + length, sizeof(missing) - length, "%s%s (CUDA %d.%d)",
                             length == 0 ? "" : ", ", entries[i].name, entries[i].since / 1000,
                             entries[i].since % 1000 / 10);
        length += added > 0 ? (size_t)added : 0;
    }
    if (length == 0)
        return TNR_OK;
    if (refused != CUDA_SUCCESS)
        return tnri_cuda_error(refused, "cuGetProcAddress", "looking for the driver's functions");
    return tnri_error(TNR_ERR_DRIVER_TOO_OLD,
                      "the driver %s (CUDA %d.%d) lacks %s. Install a newer NVIDIA driver.", path,
                      version / 1000, version % 1000 / 10, missing);
}

static tnr_status load_init(void)
{
    CUresult result = tnri_driver.cuInit(0);
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    if (result == CUDA_ERROR_NO_DEVICE)
        return tnri_error_driver(TNR_ERR_NO_DEVICE, (int)result,
                                 "the driver is installed but reports no device. Check "
                                 "nvidia-smi and CUDA_VISIBLE_DEVICES.");
    return tnri_cuda_error(result, "cuInit", "starting the driver");
}

tnr_status tnri_driver_load(void)
{
    if (tnri_driver_loaded.library != NULL)
        return TNR_OK;
    void *library = NULL;
    char path[sizeof(tnri_driver_loaded.path)];
    tnr_status status = load_library(&library, path, sizeof(path));
    if (status != TNR_OK)
        return status;

    resolver by = {NULL, NULL};
    (void)tnri_loader_function(library, "cuGetProcAddress_v2", &by.v2);
    (void)tnri_loader_function(library, "cuGetProcAddress", &by.v1);
    if (by.v2 == NULL && by.v1 == NULL)
        return tnri_error(TNR_ERR_DRIVER_TOO_OLD,
                          "%s has no cuGetProcAddress, which came with CUDA 11.3. Install a newer "
                          "NVIDIA driver.",
                          path);
    int version = 0;
    uint64_t (*simulated_calls)(void); /* it is not called here */
    PFN_cuDriverGetVersion_v2020 get_version = NULL;
    (void)tnri_loader_function(library, "cuDriverGetVersion", &get_version);
    if (get_version != NULL && get_version(&version) != CUDA_SUCCESS)
        version = 0;

    status = load_entries(&by, version, path);
    if (status == TNR_OK)
        status = load_init();
    if (status != TNR_OK) {
        memset(&tnri_driver, 0, sizeof(tnri_driver));
        return status; /* the library stays open: closing a driver that has run is not safe */
    }
    tnri_gpu_event_mark = tnri_driver.cuEventRecord;
    tnri_driver_loaded.library = library;
    tnri_driver_loaded.version = version;
    tnri_driver_loaded.simulated =
        tnri_loader_function(library, "simcuda_calls_total", &simulated_calls);
    (void)tnri_loader_function(library, "simcuda_time_ns", &tnri_driver_loaded.played_ns);
    snprintf(tnri_driver_loaded.path, sizeof(tnri_driver_loaded.path), "%s", path);
    return TNR_OK;
}

void tnri_driver_unload(void)
{
    tnri_gpu_event_mark = NULL;
    memset(&tnri_driver, 0, sizeof(tnri_driver));
    memset(&tnri_driver_loaded, 0, sizeof(tnri_driver_loaded));
}
