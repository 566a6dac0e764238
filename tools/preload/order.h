/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of streams: see order.c.
 */
#ifndef TENURE_PRELOAD_ORDER_H
#define TENURE_PRELOAD_ORDER_H

#include "service.h"

/* The device that serves the stream, started if need be; null: it is the driver's business, because
 * the stream belongs to another context, or nothing is known of it. Inside (service_enter). */
service_device *order_device(CUstream stream);

/* The same, only if it is served already; for announcements. */
service_device *order_device_started(CUstream stream);

/* From now on no record or wait is announced: a capture is under way that Tenure does not follow,
 * and what is recorded in it marks no time. */
void order_give_up(void);

/* All streams of a device have ended with its context. */
void order_forget(void);

#endif
