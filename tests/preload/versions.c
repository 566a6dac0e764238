/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a driver from the future for two versions of one function, and tells whose they are. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <cuda.h>
#include <cudaTypedefs.h>

static const char *file_of(void *function)
{
    Dl_info info;
    if (function == NULL || dladdr(function, &info) == 0)
        return "nowhere";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash == NULL ? info.dli_fname : slash + 1;
}

int main(void)
{
    static const int versions[] = {3020, 13000, 99000};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol = library == NULL ? NULL : dlsym(library, "cuGetProcAddress_v2");
    PFN_cuGetProcAddress_v12000 look_up;
    memcpy(&look_up, &symbol, sizeof(look_up));
    for (size_t i = 0; symbol != NULL && i < sizeof(versions) / sizeof(versions[0]); i++) {
        void *found = NULL;
        CUdriverProcAddressQueryResult status;
        (void)look_up("cuMemAlloc", &found, versions[i], CU_GET_PROC_ADDRESS_DEFAULT, &status);
        printf("%d: %s\n", versions[i], file_of(found));
    }
    return symbol == NULL;
}
