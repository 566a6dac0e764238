/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pattern kernels in C, for the simulated device: the same names, parameters and results as
 * the PTX in pattern_ptx.h.
 */
#ifndef TENURE_TOOLS_PATTERN_SIM_H
#define TENURE_TOOLS_PATTERN_SIM_H

#include <stddef.h>
#include <stdint.h>

/* How many 16-byte words a launch touches if it does only the ends and borders of a block. 0: the
 * block is too small for that, and all of it is done. */
uint64_t pattern_points_count(uint64_t block, uint64_t bytes);

/* Registers the kernels with the simulated driver `library` (from dlopen). Returns 0; 1 if it is
 * not the simulated driver; -1 if it refused. */
int pattern_sim_register(void *library);

#endif
