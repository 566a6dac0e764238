/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of graphs from their records to their ends. The record of an end says how much earlier
 * the launch was recorded. So time, pool and stream tell which two records belong together.
 */
#ifndef TENURE_TOOLS_LAUNCHES_H
#define TENURE_TOOLS_LAUNCHES_H

#include "model.h"

enum { LAUNCH_UNKNOWN = -1 };

/* One whose end was seen. */
typedef struct ended_launch {
    int64_t begin_ns, end_ns; /* end: when it was seen */
    int64_t graph;            /* its number; LAUNCH_UNKNOWN: the history does not say */
    size_t over;              /* index of the record of its end */
    int64_t record;           /* that of the launch; LAUNCH_UNKNOWN: not in the history any more */
} ended_launch;

typedef struct launches {
    budget *limits;
    array ended;       /* ended_launch, in the order of the ends */
    map64 by_record;   /* index of a launch's record -> index in `ended` */
    map64 graph_names; /* number of a graph -> index in the model's graphs */
} launches;

/* Finds them all. Returns 0, or -1 without memory; to be released in both cases. */
int launches_find(launches *found, const model *in);
void launches_release(launches *found);

/* 1 if the end of the launch that a record tells of was seen. */
int launch_has_ended(const launches *found, size_t record_at);
/* What a graph is called: by its name, or its number. */
const char *launch_name(const launches *found, const model *in, int64_t graph, char *text,
                        size_t bytes);

#endif
