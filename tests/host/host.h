/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of host memory share: both kinds of it, copies, what the device is doing. */
#ifndef TENURE_TESTS_HOST_H
#define TENURE_TESTS_HOST_H

#include "unit/unit.h"

#include <tenure/host.h>
#include <tenure/lifetime.h>

/* A test runs once over mapped memory and once over slabs: `unit_start` with each setting of `host`
 * and the race detector. */
typedef enum host_kind { HOST_MAPPED, HOST_ALLOCATED, HOST_KINDS } host_kind;
void host_start(host_kind kind, const char *more, const char *first, const char *second);

/* Makes a device's primary context current, or gives it up. */
void host_context_enter(int device);
void host_context_leave(int device);

unsigned char *host_malloc(size_t bytes);
/* Writes bytes that depend on `seed`, as the host; and looks whether they are there. */
void host_fill(unsigned char *ptr, size_t bytes, unsigned seed);
int host_matches(const unsigned char *ptr, size_t bytes, unsigned seed);

/* The statistics of host memory, with all equations checked, and that the device's are apart. */
tnr_stats host_stats(int device);
/* Operations that the simulated devices have not finished. */
uint64_t host_pending(void);

#endif
