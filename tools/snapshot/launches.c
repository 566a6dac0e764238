/* SPDX-License-Identifier: Apache-2.0 */
/* Launches and their ends: see launches.h. */
#include "launches.h"

#include <inttypes.h>
#include <stdio.h>

/* Of a moment in a stream. Two moments may share a key, so what is found is looked at. */
static uint64_t moment_key(int64_t time_ns, int32_t stream_index)
{
    return (uint64_t)time_ns * 1000003 + (uint64_t)(uint32_t)stream_index;
}

/* The record of the launch that an end belongs to; null: there is none. */
static const record *launch_of(const map64 *moments, const model *in, const record *over)
{
    uint32_t at = map64_get(moments, moment_key(over->time_ns - over->value, over->stream));
    if (at == MAP64_ABSENT)
        return NULL;
    const record *event = MODEL_AT(in->records, record, at);
    int is_it = event->time_ns == over->time_ns - over->value && event->pool == over->pool &&
                event->stream == over->stream;
    return is_it ? event : NULL;
}

static int launch_add(launches *found, const map64 *moments, const model *in, size_t over_at)
{
    const record *over = MODEL_AT(in->records, record, over_at);
    size_t at = found->ended.count;
    if (over->value < 0 || over->value > over->time_ns)
        return 0; /* nothing was launched before there was time */
    if (at >= MAP64_ABSENT ||
        array_reserve(&found->ended, found->limits, sizeof(ended_launch), at + 1) != 0)
        return -1;
    found->ended.count++;
    const record *event = launch_of(moments, in, over);
    *MODEL_AT(found->ended, ended_launch, at) = (ended_launch){
        .begin_ns = over->time_ns - over->value,
        .end_ns = over->time_ns,
        .graph = event == NULL || event->value < 0 ? LAUNCH_UNKNOWN : event->value,
        .over = over_at,
        .record = event == NULL ? LAUNCH_UNKNOWN : event - MODEL_AT(in->records, record, 0),
    };
    return event == NULL
               ? 0
               : map64_put(&found->by_record, (uint64_t)(event - MODEL_AT(in->records, record, 0)),
                           (uint32_t)at);
}

int launches_find(launches *found, const model *in)
{
    map64 moments;
    int code = 0;
    *found = (launches){.limits = in->limits};
    map64_start(&found->by_record, in->limits);
    map64_start(&found->graph_names, in->limits);
    map64_start(&moments, in->limits);
    for (size_t i = 0; i < in->graphs.count && code == 0; i++)
        code = map64_put(&found->graph_names, MODEL_AT(in->graphs, graph, i)->number, (uint32_t)i);
    for (size_t i = 0; i < in->records.count && code == 0; i++) {
        const record *event = MODEL_AT(in->records, record, i);
        if (event->kind == RECORD_LAUNCH)
            code = map64_put(&moments, moment_key(event->time_ns, event->stream), (uint32_t)i);
        else if (event->kind == RECORD_LAUNCH_OVER)
            code = launch_add(found, &moments, in, i);
    }
    map64_release(&moments);
    return code;
}

void launches_release(launches *found)
{
    array_release(&found->ended, found->limits, sizeof(ended_launch));
    map64_release(&found->by_record);
    map64_release(&found->graph_names);
}

int launch_has_ended(const launches *found, size_t record_at)
{
    return map64_get(&found->by_record, record_at) != MAP64_ABSENT;
}

const char *launch_name(const launches *found, const model *in, int64_t number, char *text,
                        size_t bytes)
{
    uint32_t at = number < 0 ? MAP64_ABSENT : map64_get(&found->graph_names, (uint64_t)number);
    if (at != MAP64_ABSENT && *MODEL_AT(in->graphs, graph, at)->name != '\0')
        return MODEL_AT(in->graphs, graph, at)->name;
    if (number < 0)
        snprintf(text, bytes, "a graph");
    else
        snprintf(text, bytes, "graph %" PRId64, number);
    return text;
}
