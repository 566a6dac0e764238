/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What captures of streams forbid, and how the library keeps out of their way.
 *
 * While a stream is captured, some calls are illegal on it (asking, marking without meaning to
 * join). Other calls are illegal anywhere, depending on the modes of the capture and of the thread:
 * asking any event, for example. A thread whose own mode is RELAXED may make these. So every visit
 * to a device while a capture is under way switches the thread to RELAXED and back. A visit that
 * began before the capture is not switched. So a thread that begins a capture waits until such
 * visits are over.
 *
 * Some calls no mode allows: recording an event on a stream that captures (the event would drag
 * every stream that waits for it into the capture), making such a stream wait for an event from
 * outside, and waiting for the whole context. The functions that would make these calls refuse.
 *
 * While no capture is under way all this costs one load, and no driver call.
 */
#ifndef TNRI_GPU_CAPTURING_H
#define TNRI_GPU_CAPTURING_H

#include <stdatomic.h>

#include "gpu/backend.h"

/* Captures under way that Tenure knows of. */
extern _Atomic uint32_t tnri_captures_count;

static inline int tnri_capturing(void)
{
    return atomic_load_explicit(&tnri_captures_count, memory_order_acquire) != 0;
}

/* One more capture is about to begin. Returns when no other thread is in a visit that began without
 * knowing of it. No lock is held. */
void tnri_captures_enter(void);
void tnri_captures_leave(void);

/* From the first to the second no other thread begins a capture through Tenure. While a blocking
 * stream is captured, a call that records an event on the legacy stream, or makes it wait, breaks
 * the capture. So a thread that makes such a call has asked whether it may in between, and what it
 * was told still holds. Only short calls of the driver are made meanwhile. */
void tnri_captures_hold_off(void);
void tnri_captures_let_go(void);

/* In the child of a fork: what its parent captures is not under way here, so that no call asks the
 * driver about it before it is refused. */
void tnri_captures_forget(void);

/* 1 if the stream is being captured, or may not be asked because a capture forbids it. Asks the
 * driver only while a capture is under way. The stream must be one that the caller was given: if
 * another thread may be about to draw a stream into a capture, the answer would be of no use. */
int tnri_stream_is_capturing(tnr_stream stream);

/* The same by an answer of the driver's, for a caller that asks for more at once. */
int tnri_answer_is_capturing(CUresult result, CUstreamCaptureStatus status);

/* The part of a visit that this file has: see tnri_device_enter. */
typedef struct tnri_relaxed {
    CUstreamCaptureMode before; /* the thread's */
    int is_counted;             /* 1: a visit that begins without a capture under way */
    int is_relaxed;
} tnri_relaxed;
/* On an error nothing has changed. */
CUresult tnri_relaxed_enter(tnri_relaxed *relaxed);
void tnri_relaxed_leave(tnri_relaxed *relaxed);

#endif
