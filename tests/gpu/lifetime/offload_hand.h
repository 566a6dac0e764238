/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory managed by hand, for comparison: what a careful engineer writes for the offload program
 * instead of an allocator. See offload_hand.c.
 */
#ifndef TENURE_TESTS_GPU_LIFETIME_OFFLOAD_HAND_H
#define TENURE_TESTS_GPU_LIFETIME_OFFLOAD_HAND_H

#include "offload_run.h"

enum { HAND_SLOTS_MAX = 128 };

/* A buffer that stays where it is, and the end of its last use by a stream not its own. */
typedef struct hand_slot {
    CUdeviceptr at;
    CUevent ended;
    int is_marked; /* `ended` was recorded since the slot was taken last */
} hand_slot;

/* Slots of one size, given out in the order in which they came back. */
typedef struct hand_ring {
    size_t slot_bytes;
    int count;
    hand_slot slots[HAND_SLOTS_MAX];
    int idle[HAND_SLOTS_MAX]; /* numbers of idle slots, the one idle for longest at `first` */
    int first, idle_count;
} hand_ring;

typedef struct hand_source {
    memory_source functions; /* first: the run knows no more of us */
    offload_rig *rig;
    CUdeviceptr memory;
    uint64_t bytes; /* of all of it */
    hand_ring weights, activations;
    CUdeviceptr private_at[STREAMS_COUNT];
    uint64_t waits, events; /* driver calls since they were last set to 0 */
} hand_source;

/* Takes at most `ratio_max` times what the plan needs at once, with so many slots for weights, or
 * as many as there is room for if that is 0. Returns PROGRAM_OK, or PROGRAM_BAD_INPUT with a
 * sentence on stderr. */
int hand_open(hand_source *self, offload_rig *rig, double ratio_max, int weight_slots);
void hand_close(hand_source *self);

#endif
