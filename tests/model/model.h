/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the model: see model.c. */
#ifndef TENURE_TESTS_MODEL_H
#define TENURE_TESTS_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* Runs `steps` operations chosen by `seed` on a fresh library and device, and ends by giving
 * everything back. Returns the hash of every address and status on the way. */
uint64_t model_run(uint64_t seed, size_t steps);

#endif
