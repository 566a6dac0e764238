/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of captures: see graphs.c.
 */
#ifndef TENURE_PRELOAD_GRAPHS_H
#define TENURE_PRELOAD_GRAPHS_H

#include "service.h"

/* 1 if the stream is in a capture that Tenure does not follow: then nothing on it is ours. */
int graphs_is_strange(CUstream stream);

/* For Tenure's Python module (tools/python/tenure/_under.py): an engine in this process tells
 * Tenure itself to follow the captures that it makes. From now on this library leaves captures to
 * the driver. */
void tenure_preload_engine(void);

/* The graphs of a device have ended with its context. If it is the only device: all graphs. */
void graphs_forget(int device, int is_only);

#endif
