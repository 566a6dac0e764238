/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of streams: see order.c.
 */
#ifndef TENURE_PRELOAD_ORDER_H
#define TENURE_PRELOAD_ORDER_H

#include "service.h"

/* The device that serves the stream, started if need be. Null: the driver serves it, because the
 * stream belongs to another context, or nothing is known of it. Inside (service_enter). */
service_device *order_device(CUstream stream);

/* The same, only if it is served already; for announcements. */
service_device *order_device_started(CUstream stream);

/* Waits for the streams that Tenure can know nothing about: those of contexts that it does not
 * serve. A freed block may be in use there, and no event of ours can say so. Inside. */
void order_wait_for_strangers(void);

/* The program says what a stream is for. Tenure is told if it knows the stream. */
void order_stream_named(CUstream stream, const char *name);

/* From now on no record or wait is announced: a capture is under way that Tenure does not follow,
 * and a record in it marks no time. */
void order_give_up(void);

/* A launch is about to record the events that its attributes name. */
void order_launch_begins(const CUlaunchConfig *config);

/* A context is about to end, and its streams with it. */
void order_context_ends(const void *context);

/* All streams of a device have ended with its primary context. */
void order_forget(int device);

#endif
