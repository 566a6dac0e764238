/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the race detector share: three streams, a chunk, and work on it.
 */
#ifndef TENURE_TEST_RACE_PROGRAM_H
#define TENURE_TEST_RACE_PROGRAM_H

#include "fixture.h"

#define BYTES ((size_t)4096)

struct program {
    CUstream a;
    CUstream b;
    CUstream c;
    CUevent event;
    CUdeviceptr at; /* a chunk, mapped */
};

/* Makes all of it. */
void program_start(struct program *program);

/* Work on BYTES at the address; the label is in reports. */
void write_on(CUstream stream, CUdeviceptr at, const char *label);
/* Reads what is there, into pinned memory that nothing else touches. */
void read_on(CUstream stream, CUdeviceptr at, const char *label);

/* Two writes that nothing orders. */
void no_wait(struct program *p);

/* For simcuda_races_callback: prints nothing. */
void quiet(const simcuda_report *report, void *data);

#endif
