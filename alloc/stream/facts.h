/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver says of a stream: who it is, which tells a recycled handle from the stream that
 * had it before, and whether the legacy stream orders it. A stream that captures cannot be asked
 * without ending its capture; it is asked when it may be.
 */
#ifndef TNRI_STREAM_FACTS_H
#define TNRI_STREAM_FACTS_H

#include "stream/object.h"

typedef struct tnri_facts {
    uint64_t id;
    int is_blocking;
} tnri_facts;

/* Asks for all of it, of a stream that is not one of the default streams. In the device's
 * context. */
tnr_status tnri_facts_ask(tnri_facts *of, const tnri_device *device, tnr_stream handle);

/* The device in use whose primary context the driver says a stream is of; null: none, or the driver
 * refuses. Not a default stream. */
tnri_device *tnri_facts_device(tnr_stream handle);

/* Enters what a stream that was met in a capture says of itself. No lock of a stream is held. */
void tnri_facts_enter(tnri_stream *stream, const tnri_facts *of);

/* *is_same: a known stream is still the one that its handle names, and has been asked all there is
 * to ask. Where it is captured it cannot be asked, and is taken for the same. */
tnr_status tnri_facts_check(const tnri_stream *known, tnr_stream handle, int *is_same);

/* 1 if the handle of a known stream is another stream's now, for all that can be told: one that was
 * marked before it said who it is may have been another. */
int tnri_facts_differ(tnri_stream *known, const tnri_facts *of);

/* What the driver's refusal of a call that names a stream means. */
tnr_status tnri_stream_error(CUresult result, const char *call, tnr_stream handle);

/* Asks the driver who a stream is that was met in a capture and has not been asked since, if it may
 * be asked now. Does nothing for all others. Best effort. In the context, no lock held. */
void tnri_stream_introduce(tnri_stream *stream);

#endif
