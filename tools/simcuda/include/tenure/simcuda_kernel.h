/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host versions of a program's kernels, for the simulated device: simcuda.h has what they are.
 *
 * For programs that run on a GPU as well, and link nothing of Tenure's. The function looks for the
 * driver as it is loaded: if that is the simulated device, the kernel is registered with it;
 * otherwise nothing happens. A kernel of a program that nvcc has built is offered by its mangled
 * name (`_Z3addPfPKfi`, as `cuobjdump -elf` or `nm` shows it) or, if it is in no class or namespace
 * and no template, by its name in the source (`add`). Offer it before its first launch.
 */
#ifndef TENURE_SIMCUDA_KERNEL_H
#define TENURE_SIMCUDA_KERNEL_H

#include <dlfcn.h>
#include <string.h>

#include <tenure/simcuda.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0: it is registered. 1: the driver is another one. -1: simcuda_kernel_register refuses. */
static inline int simcuda_kernel_offer(const char *name, size_t param_count,
                                       const size_t *param_bytes, simcuda_kernel_run run,
                                       simcuda_kernel_accesses accesses)
{
    int (*offer)(const char *, size_t, const size_t *, simcuda_kernel_run,
                 simcuda_kernel_accesses) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = driver == NULL ? NULL : dlsym(driver, "simcuda_kernel_register");
    if (symbol == NULL)
        return 1;
    memcpy(&offer, &symbol, sizeof(offer));
    return offer(name, param_count, param_bytes, run, accesses);
}

#ifdef __cplusplus
}
#endif
#endif
