/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms for per-thread default streams that the headers declare only for programs built so.
 */
#ifndef TENURE_SIMCUDART_ENTRY_H
#define TENURE_SIMCUDART_ENTRY_H

#include <cuda_runtime_api.h>

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(
    const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *driverStatus);
cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr,
                                         unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus);
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

#endif
