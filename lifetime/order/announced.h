/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program tells about its events and streams: the table of announced events, and the
 * proxy stream on which the program's own events are turned into marks.
 */
#ifndef TNRI_LIFETIME_ANNOUNCED_H
#define TNRI_LIFETIME_ANNOUNCED_H

#include <tenure/lifetime.h>

#include "base/table.h"
#include "memory/stream/stream.h"

/* An event that was recorded on a stream: at this mark, when the stream's clock was this. */
typedef struct tnri_announcement {
    tnri_link link;      /* by the event's handle */
    tnri_stream *stream; /* holds a reference */
    uint64_t number;
    uint64_t announced; /* a moment between the record and this announcement */
    tnri_clock *clock;  /* holds a reference; may be null */
} tnri_announcement;

/* Copies the event's announcement; the copy has references of its own. 0 if there is none from
 * before the moment. If the announcement is older than the moment, a call that began after the
 * moment met the record that it speaks of. */
int tnri_announced_get(tnr_event event, tnr_moment before, tnri_announcement *copy);
/* How many events are announced for each value of a hash. Most values have none, and a question
 * about an event of such a value needs no lock. Written under the table's lock. */
enum { TNRI_ANNOUNCED_BITS = 12 };
extern _Atomic uint32_t tnri_announced_filter[1 << TNRI_ANNOUNCED_BITS];
static inline _Atomic uint32_t *tnri_announced_filter_at(uint64_t event)
{
    return &tnri_announced_filter[event * UINT64_C(0x9e3779b97f4a7c15) >>
                                  (64 - TNRI_ANNOUNCED_BITS)];
}
/* 1 if something may be announced of the event; 0: nothing is. */
static inline int tnri_announced_maybe(tnr_event event)
{
    return atomic_load_explicit(tnri_announced_filter_at((uint64_t)(uintptr_t)event),
                                memory_order_relaxed) != 0;
}

void tnri_announcement_drop(const tnri_announcement *copy);
/* Keeps an announcement in place of the event's former one; takes the references over. 0: no host
 * memory, and nothing has changed. */
int tnri_announced_put(tnr_event event, tnri_stream *stream, uint64_t number, uint64_t moment,
                       tnri_clock *clock);
/* Forgets the event's announcement, if there is one. */
void tnri_announced_remove(tnr_event event);

/* Makes the device's proxy stream wait for an event as it is recorded now, on whichever device, and
 * marks the proxy. The mark is over when the event is. It also waits for everything that the proxy
 * was made to wait for before. The caller holds one reference to *mark. Errors:
 * TNR_ERR_INVALID_EVENT, those of tnri_stream_mark. */
tnr_status tnri_proxy_mark(tnri_device *device, tnr_event event, tnri_stream **proxy,
                           tnri_event **mark, uint64_t *number);

/* The same for an event that must have been announced. */
tnr_status tnri_announced_mark(tnri_device *device, tnr_event event, tnri_stream **proxy,
                               tnri_event **mark, uint64_t *number);

/* The device's proxy stream: Tenure's own, a non-blocking one. */
tnr_status tnri_proxy_stream(tnri_device *device, tnri_stream **proxy);

/* For a device that is put out of use: forgets all announcements and destroys the proxy. In the
 * device's context. */
void tnri_announcements_forget(tnri_device *device);

#endif
