/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: marks on streams, counted by reference and used again.
 *
 * Creating an event costs as much as recording two, and concurrent creation contends in the driver,
 * so spare events are kept. An event here was recorded, or is a late one. Once it is known to have
 * completed, the driver is never asked about it again (a "ready" answer is the expensive one).
 *
 * An event belongs to the device in whose context it was made: the driver records it on no other
 * device's stream. So it knows its device, and goes back to that device's spares wherever the last
 * reference is given up.
 */
#ifndef TNRI_DEVICE_EVENT_H
#define TNRI_DEVICE_EVENT_H

#include "memory/device/event_store.h"

struct tnri_device;

void tnri_event_store_create(tnri_event_store *store);
/* Destroys the spare events; all have been returned. In the device's context. An error is the
 * driver's; what it refused is still in the store. */
CUresult tnri_event_store_empty(tnri_event_store *store);

/* Records an event on a stream; the caller holds one reference. In the device's context, with no
 * lock held. If the stream no longer exists, waits for the whole context instead and returns an
 * event that has completed. */
tnr_status tnri_event_record(struct tnri_device *device, tnr_stream stream, tnri_event **event);

/* An event that is not recorded yet, with one reference, for a caller that records it itself. */
tnr_status tnri_event_take(struct tnri_device *device, tnri_event **event);
/* The same without ever calling the driver: null if no spare one is there. */
tnri_event *tnri_event_take_spare(struct tnri_device *device);

/* An event that has completed, after waiting for everything in the context. */
tnr_status tnri_event_context(struct tnri_device *device, tnri_event **event);

/* A late event, recorded nowhere. It stands for everything that the context was given before this
 * call, and is over when somebody has waited for the context after the call. For the work of a
 * stream that is gone, while a capture forbids that wait. A caller that asks for it when no capture
 * is under way waits on the host. In the device's context. */
tnr_status tnri_event_late(struct tnri_device *device, tnri_event **event);

/* Adds a reference. */
void tnri_event_hold(tnri_event *event);
/* Gives up one reference; the last one makes the event a spare. Null is accepted. */
void tnri_event_drop(tnri_event *event);

/* 1 if the event has completed. An error of the driver counts as "no". */
int tnri_event_is_over(tnri_event *event);
/* Waits on the host until it has. */
tnr_status tnri_event_wait(tnri_event *event);
/* The same, but not beyond the moment `until_ns` of tnri_clock_ns (0: however long). 1 if it has; 0
 * also if the context is broken. */
int tnri_event_wait_until(tnri_event *event, uint64_t until_ns);
/* Makes later work of `stream` wait on the device for the event; on the host for a late one. */
tnr_status tnri_event_order(tnri_event *event, tnr_stream stream);

#endif
