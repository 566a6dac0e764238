/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that others lack: the driver's calls that need memory of the device for themselves. What
 * is refused while Tenure holds idle memory is tried once more when that has gone back.
 */
#ifndef TENURE_PRELOAD_SHORTAGE_H
#define TENURE_PRELOAD_SHORTAGE_H

#include <cuda.h>

/* Gives idle memory back: of the device, or if that is below 0 of the current context's. Waits for
 * the work that still uses it. 1 if some has gone back, so that another try may succeed. No lock is
 * held. */
int shortage_give_back(int device);

/* 1 if a call that said this is to be made again. Once: what then fails, fails. */
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
