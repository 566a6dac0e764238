/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of captures: see graphs.c.
 */
#ifndef TENURE_PRELOAD_GRAPHS_H
#define TENURE_PRELOAD_GRAPHS_H

#include "service.h"

/* 1 if the stream is in a capture that Tenure does not follow: then nothing on it is ours. */
int graphs_is_strange(CUstream stream);

/* For Tenure's Python module (tools/python/tenure/_under.py): an engine in this process has Tenure
 * follow the captures that it makes. From now on they are the driver's here. */
void tenure_preload_engine(void);

/* The graphs of a device have ended with its context; of the only one: all graphs. */
void graphs_forget(int device, int is_only);

#endif
