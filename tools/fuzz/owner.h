/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner of the segments of foreign pools: memory of the program's own, from the driver, at
 * addresses that Tenure does not manage. When asked, it gives a segment, or none if the program
 * says so. It checks each segment that comes back: it must be one that the owner gave, come back
 * once, come back at a time when the library may give it back, and contain nothing that is live or
 * that a graph refers to. The owner unmaps the memory at once, so the driver would report work that
 * still uses it. It keeps one segment in three instead, and gives it again at the same address.
 *
 * A driver call of the owner's own may be made to fail like any other. If the owner fails to give
 * memory back, it continues with that later.
 */
#ifndef TENURE_FUZZ_OWNER_H
#define TENURE_FUZZ_OWNER_H

#include "run.h"

/* The state of a segment: none, given out, kept by its owner, or on its way back to the driver. */
enum { SEGMENT_NONE, SEGMENT_GIVEN, SEGMENT_KEPT, SEGMENT_ENDING };

typedef struct fuzz_segment {
    uintptr_t base;
    size_t bytes;
    CUmemGenericAllocationHandle handle;
    tnr_stream stream;
    int state, device, pool;
    int undone;    /* steps of its end that are done: unmapped, addresses and memory given back */
    int slot;      /* of the stream that it was asked for on; -1: none that there is a slot for */
    uint32_t life; /* how many streams the slot had held then */
} fuzz_segment;

/* Nothing is given out. */
void fuzz_owner_begin(fuzz_run *run);
/* Makes the options those of a pool over segments of the owner. */
void fuzz_owner_options(tnr_pool_options *options, int pool);
/* Plans the next requests: so many are served, and then so many are refused. */
void fuzz_owner_plan(uint64_t gives, uint64_t refuses);
/* Makes the next request get a segment that is given out already: an error of the owner's. */
void fuzz_owner_lie(void);
/* How often it has given nothing. */
uint64_t fuzz_owner_failures(void);
/* A segment that is given out and shares bytes with the range, or null. */
const fuzz_segment *fuzz_owner_find(uintptr_t base, size_t bytes);
/* What the pool has of it. */
size_t fuzz_owner_given(int pool);
/* Tells the model how much of the devices' memory the owner has, and how much of that lies idle in
 * pools. */
void fuzz_owner_tell(model *m);
/* A segment of the pool without a live block, or null. */
const fuzz_segment *fuzz_owner_idle(int pool);
/* The end of the program: everything has come back, and goes to the driver. */
void fuzz_owner_end(fuzz_run *run);

#endif
