/* SPDX-License-Identifier: Apache-2.0 */
/* The driver that the library has loaded is asked for each pair; device numbers are its own. */
#include "reach.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <string.h>

void reach_find(uint64_t *reach, int count, const tnr_driver_info *driver)
{
    void *handle = dlopen(driver->path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    void *symbol = handle == NULL ? NULL : dlsym(handle, "cuDeviceCanAccessPeer");
    PFN_cuDeviceCanAccessPeer_v4000 can_access;
    memcpy(&can_access, &symbol, sizeof(can_access));
    memset(reach, 0, (size_t)count * sizeof(*reach));
    for (int i = 0; i < count && can_access != NULL; i++)
        for (int j = 0; j < count; j++) {
            int can = 0;
            if (i != j && can_access(&can, i, j) == CUDA_SUCCESS && can != 0)
                reach[i] |= UINT64_C(1) << j;
        }
    if (handle != NULL)
        dlclose(handle);
}
