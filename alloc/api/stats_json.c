/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics as JSON: PyTorch's key names, flattened with dots as its memory_stats() does, then
 * what only Tenure has, under its own names. The key "tenure_stats_version" grows when a key
 * changes its meaning or goes away.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tenure/alloc.h>

#include "api/stats.h"
#include "base/prim/calm.h"

/* A text that is written as far as it fits and measured as a whole. */
typedef struct writer {
    char *buffer;
    size_t bytes;
    size_t length;
} writer;

static void write_text(writer *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void write_text(writer *to, const char *format, ...)
{
    size_t at = to->length < to->bytes ? to->length : to->bytes;
    va_list arguments;
    va_start(arguments, format);
    int added =
        vsnprintf(to->bytes > 0 ? to->buffer + at : NULL, to->bytes - at, format, arguments);
    va_end(arguments);
    if (added > 0)
        to->length += (size_t)added;
}

static void write_stat(writer *to, const char *name, const char *world, const tnr_stat *stat)
{
    const char *dot = world[0] == '\0' ? "" : ".";
    write_text(to, ",\n  \"%s%s%s.current\": %" PRIu64, name, dot, world, stat->current);
    write_text(to, ",\n  \"%s%s%s.peak\": %" PRIu64, name, dot, world, stat->peak);
    write_text(to, ",\n  \"%s%s%s.allocated\": %" PRIu64, name, dot, world, stat->allocated);
    write_text(to, ",\n  \"%s%s%s.freed\": %" PRIu64, name, dot, world, stat->freed);
}

static const char *const worlds[TNR_WORLD_COUNT] = {"all", "small_pool", "large_pool"};

/* Of what only the current value is kept. */
static void write_currents(writer *to, const char *name, const uint64_t *values)
{
    for (int w = 0; w < TNR_WORLD_COUNT; w++)
        write_text(to, ",\n  \"%s.%s.current\": %" PRIu64, name, worlds[w], values[w]);
}

static void write_worlds(writer *to, const char *name, const tnr_stat *stats)
{
    for (int w = 0; w < TNR_WORLD_COUNT; w++)
        write_stat(to, name, worlds[w], &stats[w]);
}

static void write_count(writer *to, const char *name, uint64_t value)
{
    write_text(to, ",\n  \"%s\": %" PRIu64, name, value);
}

static void write_own(writer *to, const tnr_stats *stats)
{
    static const char *const served[] = {
#define SERVED_NAME(name, text) text,
        TNR_SERVED_LIST(SERVED_NAME)
#undef SERVED_NAME
    };
    static const char *const reasons[] = {"same_stream", "event_done", "ordered_by_clock",
                                          "waited_on_device", "ordered_by_graph"};
    _Static_assert(sizeof(reasons) / sizeof(reasons[0]) == TNR_REUSE_COUNT, "one name each");
    static const char *const kinds[] = {
#define KIND_NAME(name, text) text,
        TNR_DRIVER_KIND_LIST(KIND_NAME)
#undef KIND_NAME
    };
    write_count(to, "bytes_live", stats->bytes_live);
    write_count(to, "bytes_slack", stats->bytes_slack);
    write_count(to, "bytes_binned", stats->bytes_binned);
    write_count(to, "bytes_free", stats->bytes_free);
    write_count(to, "bytes_retired", stats->bytes_retired);
    write_count(to, "blocks_retired", stats->blocks_retired);
    write_count(to, "bytes_parked", stats->bytes_parked);
    write_count(to, "bytes_parked_away", stats->bytes_parked_away);
    write_count(to, "parks", stats->parks);
    write_count(to, "unparks", stats->unparks);
    write_count(to, "park_waits", stats->park_waits);
    write_count(to, "bytes_asleep", stats->bytes_asleep);
    write_count(to, "sleeps", stats->sleeps);
    write_count(to, "wakes", stats->wakes);
    write_count(to, "bytes_largest_free", stats->bytes_chunk_largest_free);
    write_count(to, "chunks_created", stats->chunks_created);
    write_count(to, "chunks_released", stats->chunks_released);
    write_count(to, "chunks_moved", stats->chunks_moved);
    write_count(to, "chunks_stale", stats->chunks_stale);
    write_count(to, "arenas", stats->arenas);
    write_count(to, "pools", stats->pools);
    write_count(to, "limit_bytes", stats->limit_bytes);
    write_count(to, "group_given_bytes", stats->group_given_bytes);
    write_count(to, "group_taken_bytes", stats->group_taken_bytes);
    write_count(to, "group_asks", stats->group_asks);
    write_count(to, "group_yields", stats->group_yields);
    write_count(to, "group_yielded_bytes", stats->group_yielded_bytes);
    write_count(to, "metadata_bytes", stats->metadata_bytes);
    write_count(to, "metadata_live_blocks", stats->metadata_live_blocks);
    for (int s = 0; s < TNR_SERVED_COUNT; s++)
        write_text(to, ",\n  \"served.%s\": %" PRIu64, served[s], stats->served[s]);
    for (int r = 0; r < TNR_REUSE_COUNT; r++)
        write_text(to, ",\n  \"freed_because.%s\": %" PRIu64, reasons[r], stats->freed_because[r]);
    for (int k = 0; k < TNR_DRIVER_KIND_COUNT; k++) {
        write_text(to, ",\n  \"driver_calls.%s\": %" PRIu64, kinds[k], stats->driver_calls[k]);
        write_text(to, ",\n  \"driver_ns.%s\": %" PRIu64, kinds[k], stats->driver_ns[k]);
    }
}

size_t tnri_stats_json(char *buffer, size_t bytes, const tnr_stats *stats, int device)
{
    writer to = {buffer, buffer == NULL ? 0 : bytes, 0};
    write_text(&to, "{\n  \"tenure_stats_version\": 1,\n  \"device\": %d", device);
    write_worlds(&to, "allocation", stats->allocation);
    write_worlds(&to, "allocated_bytes", stats->allocated_bytes);
    write_worlds(&to, "requested_bytes", stats->requested_bytes);
    write_worlds(&to, "active", stats->active);
    write_worlds(&to, "active_bytes", stats->active_bytes);
    write_worlds(&to, "segment", stats->segment_by_size);
    write_worlds(&to, "reserved_bytes", stats->reserved_bytes_by_size);
    write_currents(&to, "inactive_split", stats->idle_blocks);
    write_currents(&to, "inactive_split_bytes", stats->idle_bytes);
    write_count(&to, "num_alloc_retries", stats->num_alloc_retries);
    write_count(&to, "num_ooms", stats->num_ooms);
    write_count(&to, "num_sync_all_streams", stats->num_sync_all_streams);
    write_count(&to, "num_device_alloc", stats->num_device_alloc);
    write_count(&to, "num_device_free", stats->num_device_free);
    write_own(&to, stats);
    write_text(&to, "\n}\n");
    return to.length;
}

size_t tnr_stats_json(char *buffer, size_t bytes, tnr_pool handle, int device)
{
    TNRI_CALM_CALL;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (buffer != NULL && bytes > 0)
        buffer[0] = '\0';
    if (tnr_stats_get(&stats, handle, device) != TNR_OK)
        return 0;
    return tnri_stats_json(buffer, bytes, &stats, device);
}
