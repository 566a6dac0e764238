/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program tells about its events and streams: the table of announced events, and the
 * proxy stream on which the program's own events are turned into marks.
 */
#ifndef TNRI_LIFETIME_ANNOUNCE_H
#define TNRI_LIFETIME_ANNOUNCE_H

#include <tenure/lifetime.h>

#include "stream/stream.h"

/* A mark that is over when the announced event, as it is recorded now, is: on the device's proxy
 * stream, which is made to wait for the event. The caller holds one reference to *mark. Errors:
 * TNR_ERR_INVALID_EVENT, those of tnri_stream_mark. */
tnr_status tnri_announced_mark(tnri_device *device, tnr_event event, tnri_stream **proxy,
                               tnri_event **mark, uint64_t *number);

/* The device's proxy stream: of Tenure's own, not blocking. */
tnr_status tnri_proxy_stream(tnri_device *device, tnri_stream **proxy);

/* Forgets all announcements and destroys the proxy of a device that is put out of use; in its
 * context. */
void tnri_announcements_forget(tnri_device *device);

#endif
