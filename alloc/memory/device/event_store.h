/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an event is, and what a device has of them: see memory/device/event.h, which has the
 * functions.
 */
#ifndef TNRI_DEVICE_EVENT_STORE_H
#define TNRI_DEVICE_EVENT_STORE_H

#include "base/depot.h"
#include "gpu/backend.h"

struct tnri_device;

typedef struct tnri_event {
    tnri_spare link;            /* while it is spare */
    CUevent handle;             /* constant */
    struct tnri_device *device; /* made in its context, and its spare; constant */
    _Atomic uint32_t holders;   /* references */
    _Atomic int completed;      /* 1: known to be over */
    uint64_t late;              /* see tnri_event_late; 0 for all others; constant while held */
} tnri_event;

typedef struct tnri_event_store {
    tnri_depot spares;
    _Atomic size_t events_count; /* made and not destroyed */
    /* Waits for the whole context, by number: how many have begun, and the last that has ended. */
    _Atomic uint64_t waits_begun, waits_ended;
} tnri_event_store;

#endif
