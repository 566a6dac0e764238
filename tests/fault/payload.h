/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Self-describing contents of blocks: one kernel writes a block's identity into it, another checks
 * that it is still there. Both run in stream order on the simulated device, so a block that was
 * handed to two owners at once, or to the next one too early, shows whatever the schedule was. The
 * kernels declare the whole block as touched and visit both ends and both sides of each
 * chunk border.
 */
#ifndef TENURE_TESTS_PAYLOAD_H
#define TENURE_TESTS_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/simcuda.h>

/* Loads the kernels into the current context. The errors counted so far are forgotten. */
void payload_load(void);

/* Queue the kernels. The block has at least 128 bytes. `identity` is not 0. Return the launch's
 * result. */
CUresult payload_fill(CUstream stream, void *block, size_t bytes, uint64_t identity);
CUresult payload_check(CUstream stream, void *block, size_t bytes, uint64_t identity);

/* Checks that found foreign contents, and checks that ran. */
uint64_t payload_errors(void);
uint64_t payload_checks(void);

#endif
