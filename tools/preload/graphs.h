/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of captures: see graphs.c.
 */
#ifndef TENURE_PRELOAD_GRAPHS_H
#define TENURE_PRELOAD_GRAPHS_H

#include "service.h"

/* 1 if the stream is in a capture that Tenure does not follow, and cannot: then nothing on it is
 * ours. Inside. */
int graphs_is_strange(CUstream stream);

/* From now on captures may be under way that began by a name that is not replaced. */
void graphs_expect_strangers(void);

/* For Tenure's Python module (tools/python/tenure/_under.py): an engine in this process tells
 * Tenure itself to follow the captures that it makes. From now on this library leaves captures to
 * the driver. */
void tenure_preload_engine(void);

/* The graphs of a device have ended with its context. If it is the only one, those of all have. */
void graphs_forget(int is_only);

#endif
