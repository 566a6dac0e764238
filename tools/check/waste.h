/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure run --waste`: how long blocks lie unused, by the place that allocated them: see waste.c.
 * Between check_enter and check_leave, but for check_now.
 */
#ifndef TENURE_PRELOAD_CHECK_WASTE_H
#define TENURE_PRELOAD_CHECK_WASTE_H

#include <stddef.h>
#include <stdint.h>

#include "check/places.h"

/* A live block: when it was made and used. Kept beside the block, with --waste alone. */
typedef struct check_waste check_waste;

/* When the memory of a place's blocks lay unused. */
typedef enum check_idle_when {
    CHECK_IDLE_NEVER_USED, /* from the allocation to the free: no use was seen */
    CHECK_IDLE_BEFORE,     /* before the first use */
    CHECK_IDLE_BETWEEN,    /* between two uses */
    CHECK_IDLE_AFTER,      /* after the last one */
    CHECK_IDLE_COUNT
} check_idle_when;

/* What a place's blocks have come to. */
typedef struct check_wasted {
    const check_place *place;
    uint64_t blocks;
    size_t bytes_now, bytes_peak; /* at once */
    double held;                  /* in bytes times ns */
    double idle[CHECK_IDLE_COUNT];
} check_wasted;

/* Times shorter than this are none. Once, before anything is allocated. */
void check_waste_begin(uint64_t shortest_ns);
uint64_t check_waste_shortest_ns(void);

/* A block was handed out, and is to be followed by what is returned; null: no memory, it is not. */
check_waste *check_waste_made(const check_place *place, size_t bytes);

/* Work on the stream of that handle uses the block. */
void check_waste_used(check_waste *self, const void *handle, uint64_t now);

/* The host has waited from `began` until now for the work of a stream; null: for more than one. */
void check_waste_waited(const void *handle, uint64_t began);

/* The block is freed, or not followed any more. */
void check_waste_ended(check_waste *self);

/* All blocks end where the last thing was seen of any. Then the sums of all places, and how many
 * there are; the caller frees them. Null: there are none, or no memory. */
check_wasted *check_waste_sums(size_t *count);

double check_waste_idle(const check_wasted *self);

#endif
