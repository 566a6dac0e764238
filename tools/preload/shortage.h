/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that others lack: the driver's calls that need device memory for themselves. If such a
 * call is refused while Tenure holds idle memory, Tenure gives that memory back, and the call is
 * tried once more.
 */
#ifndef TENURE_PRELOAD_SHORTAGE_H
#define TENURE_PRELOAD_SHORTAGE_H

#include <cuda.h>

/* Gives back the idle memory of the device; `device` below 0: that of the current context. Waits
 * for the work that still uses it. 1 if some memory has gone back, so that another try may succeed.
 * Hold no lock. */
int shortage_give_back(int device);

/* 1 if a call that gave this result should be made again. Once: if it fails again, it has
 * failed. */
static inline int shortage_ended(CUresult result, int device)
{
    return __builtin_expect(result == CUDA_ERROR_OUT_OF_MEMORY, 0) && shortage_give_back(device);
}

/* Makes a call of the driver in the current context, and once more if it lacked memory. */
#define REAL_RETRIED(result, symbol, arguments)                                                    \
    do {                                                                                           \
        (result) = REAL(symbol, arguments);                                                        \
        if (shortage_ended((result), -1))                                                          \
            (result) = REAL(symbol, arguments);                                                    \
    } while (0)

#endif
