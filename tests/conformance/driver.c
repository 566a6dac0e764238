/* SPDX-License-Identifier: Apache-2.0 */
/* See driver.h. */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct driver cu;

static char reason[512];
static int simulated;

int driver_simulated(void)
{
    return simulated;
}

/* Object pointers from dlsym and cuGetProcAddress into function pointers, as POSIX intends. */
static void assign(void *function, const void *symbol)
{
    memcpy(function, &symbol, sizeof(symbol));
}

static const char *function_load(const char *name, int version, void *function)
{
    void *symbol = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult result =
        cu.GetProcAddress(name, &symbol, version, CU_GET_PROC_ADDRESS_DEFAULT, &status);
    if (result != CUDA_SUCCESS || symbol == NULL) {
        snprintf(reason, sizeof(reason), "it has no %s of version %d (result %d)", name, version,
                 (int)result);
        return reason;
    }
    assign(function, symbol);
    return NULL;
}

const char *driver_load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(reason, sizeof(reason), "%s", dlerror());
        return reason;
    }
    void *look_up = dlsym(library, "cuGetProcAddress_v2");
    if (look_up == NULL)
        return "it does not export cuGetProcAddress_v2 (a driver of CUDA 12.0 or newer is needed)";
    assign(&cu.GetProcAddress, look_up);
    const char *missing = NULL;
#define DRIVER_LOAD(name, type, version)                                                           \
    if (missing == NULL)                                                                           \
        missing = function_load("cu" #name, version, &cu.name);
    DRIVER_FUNCTIONS(DRIVER_LOAD)
#undef DRIVER_LOAD
#define DRIVER_LOAD(name, type, version) (void)function_load("cu" #name, version, &cu.name);
    DRIVER_GRAPH_FUNCTIONS(DRIVER_LOAD)
#undef DRIVER_LOAD
    simulated = dlsym(library, "simcuda_reset") != NULL;
    return missing;
}
