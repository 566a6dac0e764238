/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the description of memory and the allocation of it share.
 */
#ifndef TENURE_PRELOAD_MEMORY_H
#define TENURE_PRELOAD_MEMORY_H

#include <tenure/tenure.h>

#include "entries.h"

/* A block is about to be freed: what the program was told about it is no longer true. */
void memory_forget(CUdeviceptr address);

/* 1 if the driver may be asked instead: Tenure has failed, not the program, and memory is left. The
 * second says so, once, after the driver has done it. Outside. */
int memory_is_passed_on(tnr_status status);
void memory_say_passed_on(tnr_status status, const char *call);

/* Frees of signal handlers that interrupted Tenure: remembered; the memory stays allocated if there
 * are too many. The second makes up for them. Inside. */
CUresult memory_free_later(CUdeviceptr address);
void memory_free_deferred(void);

#endif
