/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offload program's memory by hand: two rings of buffers made beforehand, one for weights and
 * one for activations, and one buffer for what each stream keeps to itself.
 *
 * A slot has the size of the largest buffer of its kind. Whoever takes one gets the slot that has
 * been idle for longest, and its stream waits for the end of the slot's last use by another stream:
 * one cuEventRecord where that use ends, one cuStreamWaitEvent where the slot is taken. Without an
 * allocator there is nothing to search, to ask or to retire, so the time of a run beside that of
 * unbounded memory is what bounded memory itself costs on the device, waits included.
 *
 * Rings of fixed slots cannot use the memory that small activations leave for more weights; an
 * allocator can. The weights' ring gets what is left after the activations have one slot more than
 * they need.
 *
 * Seen to fail without the wait in ring_take: lifetime_offload_{lazy,random,threads}, by the
 * simulated device's race detector.
 */
#include "offload_hand.h"

#include <stdio.h>
#include <string.h>

/* ---- rings ---------------------------------------------------------------------------------- */

static void ring_open(hand_ring *self, program *top, CUdeviceptr *next, size_t slot_bytes,
                      int count)
{
    self->slot_bytes = slot_bytes;
    self->count = count;
    self->idle_count = count;
    for (int i = 0; i < count; i++) {
        self->slots[i].at = *next;
        self->idle[i] = i;
        *next += slot_bytes;
        must_cu(top, top->gpu->cuEventCreate(&self->slots[i].ended, CU_EVENT_DISABLE_TIMING),
                "cuEventCreate");
    }
}

static void ring_close(hand_ring *self, program *top)
{
    for (int i = 0; i < self->count; i++)
        must_cu(top, top->gpu->cuEventDestroy(self->slots[i].ended), "cuEventDestroy");
}

/* The number of the slot at an address, or -1. */
static int ring_slot(const hand_ring *self, CUdeviceptr at)
{
    CUdeviceptr from = self->slots[0].at;
    uint64_t number = at < from ? UINT64_MAX : (at - from) / self->slot_bytes;
    return number < (uint64_t)self->count ? (int)number : -1;
}

static CUdeviceptr ring_take(hand_ring *self, hand_source *source, CUstream stream)
{
    program *top = source->rig->top;
    if (self->idle_count == 0)
        program_fail(top, "by hand: no slot is idle, though the plan says that one must be");
    hand_slot *slot = &self->slots[self->idle[self->first]];
    self->first = (self->first + 1) % self->count;
    self->idle_count--;
    if (slot->is_marked) {
        must_cu(top, top->gpu->cuStreamWaitEvent(stream, slot->ended, 0), "cuStreamWaitEvent");
        source->waits++;
    }
    slot->is_marked = 0;
    return slot->at;
}

static void ring_give(hand_ring *self, int number)
{
    self->idle[(self->first + self->idle_count) % self->count] = number;
    self->idle_count++;
}

/* ---- the source ----------------------------------------------------------------------------- */

static hand_ring *hand_ring_of(hand_source *self, CUdeviceptr block)
{
    return ring_slot(&self->weights, block) >= 0 ? &self->weights : &self->activations;
}

static CUdeviceptr hand_take(memory_source *source, size_t bytes, int stream, int is_private)
{
    hand_source *self = (hand_source *)source;
    if (is_private)
        return self->private_at[stream];
    hand_ring *ring = stream == STREAM_FETCH ? &self->weights : &self->activations;
    if (bytes > ring->slot_bytes)
        program_fail(self->rig->top, "by hand: a buffer is larger than its slot");
    return ring_take(ring, self, self->rig->streams[stream]);
}

static void hand_use_ended(memory_source *source, CUdeviceptr block, int stream)
{
    hand_source *self = (hand_source *)source;
    program *top = self->rig->top;
    hand_ring *ring = hand_ring_of(self, block);
    hand_slot *slot = &ring->slots[ring_slot(ring, block)];
    must_cu(top, top->gpu->cuEventRecord(slot->ended, self->rig->streams[stream]), "cuEventRecord");
    slot->is_marked = 1;
    self->events++;
}

static void hand_give(memory_source *source, CUdeviceptr block, int is_private)
{
    hand_source *self = (hand_source *)source;
    hand_ring *ring = hand_ring_of(self, block);
    if (!is_private)
        ring_give(ring, ring_slot(ring, block));
}

/* How many slots of `bytes` fit below the limit beside `taken`, within what a ring can hold. */
static int slots_that_fit(uint64_t limit, uint64_t taken, size_t bytes)
{
    uint64_t count = taken < limit ? (limit - taken) / bytes : 0;
    return count < HAND_SLOTS_MAX ? (int)count : HAND_SLOTS_MAX;
}

int hand_open(hand_source *self, offload_rig *rig, double ratio_max, int weight_slots)
{
    program *top = rig->top;
    offload_need need = offload_need_of(&rig->plan);
    uint64_t limit = (uint64_t)(ratio_max * (double)need.in_use_bytes);
    uint64_t private_bytes = need.activation_bytes + need.activation_bytes / 2;
    int activations = need.activations + 1, weights = weight_slots;
    memset(self, 0, sizeof(*self));
    self->functions = (memory_source){hand_take, hand_use_ended, hand_give};
    self->rig = rig;
    if (weight_slots == 0)
        weights =
            slots_that_fit(limit, private_bytes + (uint64_t)activations * need.activation_bytes,
                           need.weight_bytes);
    else
        activations = slots_that_fit(limit, private_bytes + (uint64_t)weights * need.weight_bytes,
                                     need.activation_bytes);
    if (weights < need.weights || activations < need.activations) {
        fprintf(stderr,
                "lifetime_offload: by hand, %.2f times what is in use holds %d slots for weights "
                "and %d for activations; this plan needs %d and %d\n",
                ratio_max, weights, activations, need.weights, need.activations);
        return PROGRAM_BAD_INPUT;
    }
    self->bytes = private_bytes + (uint64_t)weights * need.weight_bytes +
                  (uint64_t)activations * need.activation_bytes;
    must_cu(top, top->gpu->cuMemAlloc(&self->memory, self->bytes), "allocating the rings");
    CUdeviceptr next = self->memory;
    ring_open(&self->weights, top, &next, need.weight_bytes, weights);
    ring_open(&self->activations, top, &next, need.activation_bytes, activations);
    self->private_at[STREAM_COMPUTE] = next;
    self->private_at[STREAM_OFFLOAD] = next + need.activation_bytes;
    return PROGRAM_OK;
}

void hand_close(hand_source *self)
{
    program *top = self->rig->top;
    ring_close(&self->weights, top);
    ring_close(&self->activations, top);
    must_cu(top, top->gpu->cuMemFree(self->memory), "cuMemFree");
}
