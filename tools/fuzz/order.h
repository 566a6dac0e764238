/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is ordered before what, by the program's own means alone: vector clocks in the plainest
 * form.
 *
 * A component is one life of one stream. Each operation queued on it gets the next ticket. A clock
 * says for each component up to which ticket everything comes before. The host has a clock too: for
 * what it has waited for. That comes before everything that is queued from then on. Nothing here
 * asks the library or the simulated device. The library's own waits are not included, so this
 * claims less order than there is and never more.
 *
 * A stream's component outlives the stream, because blocks that were allocated on the stream do.
 * Once the host knows all of its work to be over, the component is used for another stream. Its
 * tickets go on counting.
 */
#ifndef TENURE_FUZZ_ORDER_H
#define TENURE_FUZZ_ORDER_H

#include <stdint.h>
#include <string.h>

enum { ORDER_COMPONENTS = 32 };

/* From the first host memory on no stream's: nothing is queued there, and what comes before it is
 * what the host knows to be over. */
enum { ORDER_HOST = ORDER_COMPONENTS - 1 };

typedef struct order_clock {
    uint32_t at[ORDER_COMPONENTS];
} order_clock;

typedef struct order {
    order_clock host;
    order_clock clocks[ORDER_COMPONENTS]; /* of what each component queued last */
    uint32_t tickets[ORDER_COMPONENTS];   /* latest given */
    int8_t device[ORDER_COMPONENTS];
    uint8_t is_open[ORDER_COMPONENTS]; /* its stream exists */
    uint8_t is_blocking[ORDER_COMPONENTS];
    int8_t legacy[2]; /* component of each device's legacy stream; -1: none */
} order;

static inline void order_join(order_clock *clock, const order_clock *other)
{
    for (int i = 0; i < ORDER_COMPONENTS; i++)
        clock->at[i] = clock->at[i] > other->at[i] ? clock->at[i] : other->at[i];
}

/* 1 if everything that `part` names comes before the operation that has `clock`. */
static inline int order_covers(const order_clock *clock, const order_clock *part)
{
    uint32_t beyond = 0;
    for (int i = 0; i < ORDER_COMPONENTS; i++)
        beyond |= part->at[i] > clock->at[i];
    return !beyond;
}

/* The clock that an operation would have if it were queued on the component now. It includes the
 * rules of the legacy stream and what the host knows. The stream itself learns that only when
 * something is queued. */
static inline order_clock order_now(const order *self, int component)
{
    order_clock clock = self->clocks[component];
    int legacy = self->legacy[self->device[component]];
    order_join(&clock, &self->host);
    if (!self->is_open[component] || legacy < 0)
        return clock;
    if (component == legacy) {
        for (int i = 0; i < ORDER_COMPONENTS; i++)
            if (self->is_blocking[i] && self->is_open[i] &&
                self->device[i] == self->device[component])
                order_join(&clock, &self->clocks[i]);
    } else if (self->is_blocking[component]) {
        order_join(&clock, &self->clocks[legacy]);
    }
    return clock;
}

/* Something is queued. Returns its ticket. */
static inline uint32_t order_queue(order *self, int component)
{
    self->clocks[component] = order_now(self, component);
    self->clocks[component].at[component] = ++self->tickets[component];
    return self->tickets[component];
}

/* A point between operations. Work that is ordered after the next operation is after the point too.
 * It gives no other order, because nothing waits where nothing is queued: in particular, the legacy
 * stream's rules order operations, not calls. */
static inline uint32_t order_point(order *self, int component)
{
    return ++self->tickets[component];
}

/* A component for a new stream; -1 if there is none at the moment. `is_needed` says for each
 * component whether something still refers to it. */
static inline int order_open(order *self, int device, int is_blocking,
                             const uint8_t is_needed[ORDER_COMPONENTS])
{
    for (int i = 0; i < ORDER_COMPONENTS; i++) {
        if (self->is_open[i] || is_needed[i] || self->host.at[i] < self->tickets[i])
            continue;
        self->is_open[i] = 1;
        self->is_blocking[i] = (uint8_t)is_blocking;
        self->device[i] = (int8_t)device;
        self->clocks[i] = self->host;
        return i;
    }
    return -1;
}

#endif
