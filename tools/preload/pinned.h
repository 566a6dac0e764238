/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host memory that Tenure serves: see pinned.c.
 */
#ifndef TENURE_PRELOAD_PINNED_H
#define TENURE_PRELOAD_PINNED_H

#include <stdatomic.h>
#include <stdint.h>

#include "service.h"

/* From the first to behind the last address of pinned memory that was ever handed out. Others may
 * have memory in between. */
extern _Atomic uintptr_t pinned_low, pinned_high;

/* 0: it is surely no pinned memory of ours. A program that has none pays for two loads. */
static inline int pinned_may_have(CUdeviceptr address)
{
    uintptr_t low = atomic_load_explicit(&pinned_low, memory_order_relaxed);
    return (uintptr_t)address - low <
           atomic_load_explicit(&pinned_high, memory_order_relaxed) - low;
}

/* 1 if it lies in a live block of ours. Outside of Tenure or inside. */
int pinned_has(CUdeviceptr address);

/* Reads the setting `host`, before the first device is in use. Under the service's mutex. */
void pinned_configure(void);

/* A free that a signal handler has put off. Inside. */
void pinned_free_deferred(CUdeviceptr address);

#endif
