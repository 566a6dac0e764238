/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of traps share: a start with settings, and what has been found since. */
#ifndef TENURE_TESTS_UNIT_TRAPS_H
#define TENURE_TESTS_UNIT_TRAPS_H

#include "unit.h"

#include <tenure/trap.h>

enum { FOUND_MAX = 64 };
extern tnr_trap_finding found[FOUND_MAX];
extern char found_text[FOUND_MAX][4096];
extern size_t found_count;

/* The primary context, current since the start. */
extern CUcontext traps_context;

/* Starts Tenure on the simulated device (unit_start), with the primary context current. */
void traps_start(const char *conf, const char *first);
int traps_stop(void **state);

/* The sums since the start. */
tnr_traps_info traps(int wait);

/* A fill with 07, in the order of a stream. */
CUresult fill(const void *ptr, size_t bytes, tnr_stream stream);

/* A stream that Tenure has met. */
tnr_stream known_stream(void);

void synchronize(void);

#endif
