/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML says of a device's memory: it can be asked without a context, so also before the first
 * one is made. It is loaded when it is first asked for. Any thread. */
#ifndef TENURE_PRELOAD_NVML_H
#define TENURE_PRELOAD_NVML_H

#include <stdint.h>

/* 1 if there is one. The first time it calls the loader: no lock is held. */
int nvml_is_there(void);

/* A device's memory, below SERVICE_DEVICES_MAX. 0 if there is no NVML, or it does not know the
 * device. */
int nvml_memory_read(uint64_t *free_bytes, uint64_t *total_bytes, int device);

#endif
