/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes of a program that fails a short one that fails in the same way.
 */
#ifndef TENURE_FUZZ_SHRINK_H
#define TENURE_FUZZ_SHRINK_H

#include "child.h"

/* Told now and then how far it is. */
typedef void (*fuzz_shrink_progress)(size_t operations, uint64_t tries, void *data);

/* Shrinks the program in place, for at most so many seconds. `result` says how it failed, and is
 * replaced by how the shrunk program fails. A program fails in the same way if the verdict and the
 * check are the same. Returns how many programs were tried. 0 if the program did not fail again at
 * all; then it is unchanged. */
uint64_t fuzz_shrink(fuzz_program *program, fuzz_result *result, fuzz_child *child,
                     fuzz_device *device, unsigned seconds_max, fuzz_shrink_progress progress,
                     void *data);

#endif
