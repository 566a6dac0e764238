/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver says of a stream: who it is, and whether the legacy stream orders it. Who it is
 * tells a recycled handle from the stream that had the handle before. To ask about a stream that
 * captures would end its capture, so it is asked when that is allowed.
 */
#ifndef TNRI_STREAM_FACTS_H
#define TNRI_STREAM_FACTS_H

#include "memory/stream/object.h"

typedef struct tnri_facts {
    uint64_t id;
    int is_blocking;
} tnri_facts;

/* Asks for all facts of a stream that is not one of the default streams. In the device's
 * context. */
tnr_status tnri_facts_ask(tnri_facts *of, const tnri_device *device, tnr_stream handle);

/* The device in use to whose primary context a stream belongs; *device is null if there is none.
 * Returns what the driver says: it answers of streams that capture, too. */
CUresult tnri_facts_device(tnr_stream handle, tnri_device **device);

/* Enters the facts of a stream that was met in a capture. No lock of a stream is held. */
void tnri_facts_enter(tnri_stream *stream, const tnri_facts *of);

/* *is_same is 1 if a known stream is still the one that its handle names, and has been asked
 * everything there is to ask. While it is captured it cannot be asked, and is taken for the
 * same. */
tnr_status tnri_facts_check(const tnri_stream *known, tnr_stream handle, int *is_same);

/* 1 if, as far as anybody can tell, another stream has the handle of a known stream now. Also 1 if
 * the known stream was marked before it was asked who it is: it may have been another. */
int tnri_facts_differ(tnri_stream *known, const tnri_facts *of);

/* What the driver's refusal of a call that names a stream means. */
tnr_status tnri_stream_error(CUresult result, tnri_gpu_verb verb, tnr_stream handle);

/* For a stream that was met in a capture and has not been asked since: asks the driver who it is,
 * if that is allowed now. Does nothing for other streams. Best effort. In the context, no lock
 * held. */
void tnri_stream_introduce(tnri_stream *stream);

#endif
