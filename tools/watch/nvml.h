/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML says of a device's memory. NVML needs no context, so it can be asked before the first
 * one is made. It is loaded when it is first needed. Any thread. */
#ifndef TENURE_PRELOAD_NVML_H
#define TENURE_PRELOAD_NVML_H

#include <stdint.h>

/* 1 if there is NVML. The first call asks the loader: hold no lock then. */
int nvml_is_there(void);

/* The memory of a device, whose number is below SERVICE_DEVICES_MAX. 0 if there is no NVML, or if
 * it does not know the device. */
int nvml_memory_read(uint64_t *free_bytes, uint64_t *total_bytes, int device);

#endif
