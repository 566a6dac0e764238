/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate and free at full speed, each on a stream of its own, while captures and
 * replays go on. Every so often one writes a pattern into a block and checks it before the free, so
 * memory that two were given is found from this side too.
 */
#ifndef TENURE_TESTS_GPU_WORKERS_H
#define TENURE_TESTS_GPU_WORKERS_H

#include "program.h"

enum { WORKERS_MAX = 64 };

typedef struct workers workers;

/* Starts so many; null for none. Streams, kernels and patterns are made and warmed up before. */
workers *workers_start(program *self, int count);
/* Stops them and waits; the pairs of allocation and free that they have made together. Ends the
 * program if one has found a pattern spoilt. */
uint64_t workers_stop(workers *all);

/* While a capture in the global mode is under way no thread may wait for its stream. They allocate
 * and free all the same. */
void workers_waits_forbid(int forbidden);

#endif
