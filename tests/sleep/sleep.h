/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of sleeping pools share: a context, patterns in blocks, what the device holds. */
#ifndef TENURE_TESTS_SLEEP_H
#define TENURE_TESTS_SLEEP_H

#include "unit/unit.h"

#include <tenure/lifetime.h>
#include <tenure/sleep.h>

/* Makes device 0's primary context current, or gives it up. */
void sleep_context_enter(void);
void sleep_context_leave(void);

/* Writes a pattern that depends on `seed` to all of a block, on its stream; and compares it. */
void sleep_fill(void *ptr, size_t bytes, uint32_t seed, tnr_stream stream);
void sleep_check(const void *ptr, size_t bytes, uint32_t seed);
/* 1 if the block has the pattern. */
int sleep_matches(const void *ptr, size_t bytes, uint32_t seed);

/* Bytes of physical memory that device 0 has handed out, as the device counts them. */
uint64_t sleep_device_bytes(void);
/* Bytes of pinned host memory. */
uint64_t sleep_pinned_bytes(void);

/* The statistics of a pool of device 0, which must hold its equation. */
tnr_stats sleep_stats(tnr_pool pool);

#endif
