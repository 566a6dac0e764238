/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a driver from the future for two versions of one function, tells whose they are, and frees
 * what both hand out. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <cuda.h>
#include <cudaTypedefs.h>

static const char *const names[] = {
#define PRELOAD_ENTRY(name, symbol, type, since, form, group) #name,
#define PRELOAD_CALL(name, type, since)
#include "../../tools/preload/entries.def"
#undef PRELOAD_ENTRY
#undef PRELOAD_CALL
};

static const char *file_of(void *function)
{
    Dl_info info;
    if (function == NULL || dladdr(function, &info) == 0)
        return "nowhere";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash == NULL ? info.dli_fname : slash + 1;
}

static void *find(PFN_cuGetProcAddress_v12000 look_up, const char *name, int version)
{
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    (void)look_up(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status);
    return found;
}

/* A function of the driver's, as the type of `to` says. */
#define FIND(to, name, version)                                                                    \
    do {                                                                                           \
        void *found_ = find(look_up, name, version);                                               \
        memcpy(&(to), &found_, sizeof(to));                                                        \
    } while (0)

/* Memory of the version that everybody knows, and of the one that nobody knows, freed alike. */
static int allocate(PFN_cuGetProcAddress_v12000 look_up)
{
    PFN_cuInit_v2000 init;
    PFN_cuDevicePrimaryCtxRetain_v7000 retain;
    PFN_cuCtxSetCurrent_v4000 enter;
    PFN_cuMemAlloc_v3020 second;
    CUresult (*third)(CUdeviceptr *, size_t, unsigned);
    PFN_cuMemFree_v3020 end;
    FIND(init, "cuInit", 2000);
    FIND(retain, "cuDevicePrimaryCtxRetain", 7000);
    FIND(enter, "cuCtxSetCurrent", 4000);
    FIND(second, "cuMemAlloc", 13000);
    FIND(third, "cuMemAlloc", 99000);
    FIND(end, "cuMemFree", 99000);
    CUcontext context;
    CUdeviceptr known = 0, newer = 0;
    return init(0) == CUDA_SUCCESS && retain(&context, 0) == CUDA_SUCCESS &&
           enter(context) == CUDA_SUCCESS && second(&known, 1 << 20) == CUDA_SUCCESS &&
           third(&newer, 1 << 20, 7) == CUDA_SUCCESS && end(newer) == CUDA_SUCCESS &&
           end(known) == CUDA_SUCCESS;
}

int main(void)
{
    static const int versions[] = {3020, 13000, 99000};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol = library == NULL ? NULL : dlsym(library, "cuGetProcAddress_v2");
    PFN_cuGetProcAddress_v12000 look_up;
    memcpy(&look_up, &symbol, sizeof(look_up));
    if (look_up == NULL)
        return 1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], "cuMemAlloc") != 0) /* has no version that is not known */
            (void)find(look_up, names[i], 99000);
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        printf("%d: %s\n", versions[i], file_of(find(look_up, "cuMemAlloc", versions[i])));
    int is_good = allocate(look_up);
    puts(is_good ? "freed" : "WRONG");
    return !is_good;
}
