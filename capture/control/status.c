/* SPDX-License-Identifier: Apache-2.0 */
/* What a process has, told: see commands.h and docs/control.md. */
#include "control/commands.h"

#include <inttypes.h>
#include <stdio.h>

#include <tenure/cgroup.h>
#include <tenure/publish.h>
#include <tenure/tag.h>

#include "api/library.h"
#include "api/stats.h"
#include "base/conf/conf.h"
#include "base/gate.h"
#include "log/texts.h"
#include "memory/device/cgroup.h"
#include "share/group/member.h"

enum { POOLS_TOLD_MAX = 1024, STREAMS_TOLD_MAX = 1024, SHARED_TOLD_MAX = 1024 };

/* What device, pool, tag and stream have in common. */
static void use_tell(tnri_answer *answer, const tnr_stats *stats)
{
    tnri_json_number(&answer->json, "live_bytes", stats->bytes_live);
    tnri_json_number(&answer->json, "live_blocks", stats->allocation[TNR_WORLD_ALL].current);
    tnri_json_number(&answer->json, "waiting_bytes", stats->bytes_retired);
    tnri_json_number(&answer->json, "moving_chunks", stats->chunks_stale);
}

/* What device, pool and tag have in common. */
static void sums_tell(tnri_answer *answer, const tnr_stats *stats)
{
    tnri_json_number(&answer->json, "reserved_bytes", stats->reserved_bytes.current);
    tnri_json_number(&answer->json, "reserved_peak_bytes", stats->reserved_bytes.peak);
    use_tell(answer, stats);
    tnri_json_number(&answer->json, "asleep_bytes", stats->bytes_asleep);
    tnri_json_limit(&answer->json, "limit_bytes", stats->limit_bytes);
}

static const char *pool_kind(const struct tnr_pool_st *pool)
{
    if (pool->account.is_graph)
        return "graph";
    if (tnri_account_is_owners(&pool->account))
        return "foreign";
    return tnri_pool_handle(pool) == NULL ? "default" : "user";
}

static void pool_tell(tnri_answer *answer, tnr_pool pool)
{
    static const char *const states[] = {"awake", "falling_asleep", "asleep", "waking"};
    tnr_stats stats;
    tnri_stats_of_pool(&stats, pool);
    tnri_json_object(&answer->json, NULL);
    tnri_json_number(&answer->json, "number", pool->account.id);
    tnri_json_text(&answer->json, "name", pool->account.name);
    tnri_json_text(&answer->json, "kind", pool_kind(pool));
    tnri_json_text(&answer->json, "tag",
                   pool->account.tag == NULL ? NULL : pool->account.tag->name);
    tnri_json_text(&answer->json, "state", states[atomic_load(&pool->asleep.state)]);
    sums_tell(answer, &stats);
    tnri_json_object_end(&answer->json);
}

/* What a stream has of a pool. */
static void stream_tell(tnri_answer *answer, tnri_arena *arena)
{
    char handle[32];
    tnr_stats stats;
    tnri_stats_of_arena(&stats, arena);
    snprintf(handle, sizeof(handle), "%#" PRIxPTR, (uintptr_t)tnri_arena_handle(arena));
    tnri_json_object(&answer->json, NULL);
    tnri_json_number(&answer->json, "pool", arena->account->id);
    tnri_json_text(&answer->json, "stream", tnri_arena_is_graph(arena) ? NULL : handle);
    tnri_json_number(&answer->json, "held_bytes",
                     stats.bytes_live + stats.bytes_slack + stats.bytes_binned + stats.bytes_free +
                         stats.bytes_retired);
    use_tell(answer, &stats);
    const tnri_stream *stream = atomic_load(&arena->stream);
    uint32_t name = stream == NULL ? 0 : atomic_load(&stream->name);
    tnri_json_text(&answer->json, "name", name == 0 ? NULL : tnri_text_of(name));
    tnri_json_object_end(&answer->json);
}

/* Streams of each pool, one after the other. A stream may come more than once. */
static void streams_tell(tnri_answer *answer, tnri_device *device)
{
    size_t told = 0, left_out = 0;
    tnri_json_list(&answer->json, "streams");
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;)
        for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
            if (told++ < STREAMS_TOLD_MAX)
                stream_tell(answer, arena);
            else
                left_out++;
        }
    tnri_json_list_end(&answer->json);
    tnri_json_number(&answer->json, "streams_left_out", left_out);
}

/* What a device alone counts, since it is in use. */
static void counts_tell(tnri_answer *answer, const tnr_stats *stats)
{
    tnri_json_number(&answer->json, "chunks_created", stats->chunks_created);
    tnri_json_number(&answer->json, "chunks_moved", stats->chunks_moved);
    tnri_json_number(&answer->json, "retries", stats->num_alloc_retries);
    tnri_json_number(&answer->json, "ooms", stats->num_ooms);
}

/* Members of the group on a device, this process among them; null where it is in none. */
static void group_tell(tnri_answer *answer, const tnr_stats *stats, int device)
{
    int seat = 0;
    uint64_t count = 0, floor = 0, ceiling = UINT64_MAX, limit = UINT64_MAX;
    tnri_member_seen seen;
    int is_member = tnri_member_next(&seen, &seat, device);
    tnri_json_text(&answer->json, "group", is_member ? tnri_conf_get()->group : NULL);
    if (!is_member)
        return;
    tnri_json_number(&answer->json, "group_given_bytes", stats->group_given_bytes);
    tnri_json_number(&answer->json, "group_taken_bytes", stats->group_taken_bytes);
    tnri_json_number(&answer->json, "group_asks", stats->group_asks);
    tnri_json_number(&answer->json, "group_yields", stats->group_yields);
    tnri_json_number(&answer->json, "group_yielded_bytes", stats->group_yielded_bytes);
    tnri_json_list(&answer->json, "members");
    do {
        count++;
        if (seen.limit_bytes < limit)
            limit = seen.limit_bytes;
        if (seen.is_self) {
            floor = seen.floor_bytes;
            ceiling = seen.ceiling_bytes;
        }
        tnri_json_object(&answer->json, NULL);
        tnri_json_number(&answer->json, "process", (uint64_t)seen.process);
        tnri_json_text(&answer->json, "program", seen.program);
        tnri_json_flag(&answer->json, "self", seen.is_self);
        tnri_json_flag(&answer->json, "silent", seen.is_silent);
        tnri_json_number(&answer->json, "reserved_bytes", seen.reserved_bytes);
        tnri_json_number(&answer->json, "floor_bytes", seen.floor_bytes);
        tnri_json_limit(&answer->json, "ceiling_bytes", seen.ceiling_bytes);
        tnri_json_number(&answer->json, "given_bytes", seen.gave_bytes);
        tnri_json_object_end(&answer->json);
    } while (tnri_member_next(&seen, &seat, device));
    tnri_json_list_end(&answer->json);
    tnri_json_number(&answer->json, "group_members", count);
    tnri_json_number(&answer->json, "group_floor_bytes", floor);
    tnri_json_limit(&answer->json, "group_ceiling_bytes", ceiling);
    tnri_json_limit(&answer->json, "group_limit_bytes", limit);
}

static void cgroup_limit_tell(tnri_answer *answer, const char *name, size_t limit, size_t used,
                              const char *file)
{
    tnri_json_object(&answer->json, name);
    tnri_json_number(&answer->json, "limit_bytes", limit);
    tnri_json_number(&answer->json, "used_bytes", used);
    tnri_json_text(&answer->json, "file", file);
    tnri_json_object_end(&answer->json);
}

/* What control groups let the process have; nothing where they do not limit the device. */
static void cgroup_tell(tnri_answer *answer, const tnri_device *device)
{
    tnr_cgroup_info info = {.struct_bytes = sizeof(info)};
    if (tnri_device_is_host(device) || tnr_cgroup_get(&info, device->index) != TNR_OK)
        return;
    if (info.hard_bytes != SIZE_MAX)
        cgroup_limit_tell(answer, "cgroup_hard", info.hard_bytes, info.hard_used_bytes,
                          info.hard_file);
    if (info.soft_bytes != SIZE_MAX)
        cgroup_limit_tell(answer, "cgroup_soft", info.soft_bytes, info.soft_used_bytes,
                          info.soft_file);
    if (tnri_device_is_watched(device))
        tnri_json_number(&answer->json, "cgroup_given_bytes", info.given_bytes);
}

static void device_tell(tnri_answer *answer, tnri_device *device, int has_streams, int has_account)
{
    size_t told = 0, left_out = 0;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (tnr_stats_get(&stats, NULL, device->index) != TNR_OK)
        return;
    tnri_json_object(&answer->json, NULL);
    tnri_json_number(&answer->json, "device", (uint64_t)device->index);
    tnri_json_text(&answer->json, "name", device->capabilities.name);
    tnri_json_number(&answer->json, "memory_bytes", device->capabilities.memory_bytes);
    sums_tell(answer, &stats);
    counts_tell(answer, &stats);
    group_tell(answer, &stats, device->index);
    cgroup_tell(answer, device);
    tnri_json_list(&answer->json, "pools");
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
        if (told++ < POOLS_TOLD_MAX)
            pool_tell(answer, pool);
        else
            left_out++;
    }
    tnri_json_list_end(&answer->json);
    tnri_json_number(&answer->json, "pools_left_out", left_out);
    if (has_streams)
        streams_tell(answer, device);
    if (has_account && !tnri_device_is_host(device))
        tnri_account_tell(answer, device->index);
    tnri_json_object_end(&answer->json);
}

void tnri_tag_tell(tnri_answer *answer, const char *tag, int device)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (tnr_tag_stats_get(&stats, tag, device) != TNR_OK)
        return;
    tnri_json_object(&answer->json, NULL);
    tnri_json_text(&answer->json, "tag", tag);
    tnri_json_number(&answer->json, "device", (uint64_t)device);
    tnri_json_number(&answer->json, "pools", stats.pools);
    sums_tell(answer, &stats);
    tnri_json_object_end(&answer->json);
}

/* Tags that have pools, on each device. */
static void tags_tell(tnri_answer *answer)
{
    tnri_tag *tag;
    tnri_device *device;
    tnri_json_list(&answer->json, "tags");
    for (size_t i = 0; (tag = tnri_tag_at(i)) != NULL; i++)
        for (int d = 0; (device = tnri_device_nth(d)) != NULL; d++) {
            tnr_stats stats;
            if (!atomic_load_explicit(&device->in_use, memory_order_acquire))
                continue;
            tnri_stats_of_tag(&stats, tag, device);
            if (stats.pools > 0)
                tnri_tag_tell(answer, tag->name, device->index);
        }
    tnri_json_list_end(&answer->json);
}

/* What this process holds for others, and who has it open. */
static void held_tell(tnri_answer *answer)
{
    tnr_publication_info info = {.struct_bytes = sizeof(info)};
    tnri_json_list(&answer->json, "held");
    for (size_t i = 0; i < SHARED_TOLD_MAX && tnr_publication_at(&info, i) == TNR_OK; i++) {
        tnri_json_object(&answer->json, NULL);
        tnri_json_text(&answer->json, "name", info.name);
        tnri_json_number(&answer->json, "generation", info.generation);
        tnri_json_number(&answer->json, "bytes", info.bytes);
        tnri_json_flag(&answer->json, "latest", info.is_latest);
        tnri_json_flag(&answer->json, "taken_over", info.is_taken_over);
        tnri_json_number(&answer->json, "importers", info.readers);
        tnri_json_list(&answer->json, "processes");
        for (int k = 0; k < 8 && info.processes[k] != 0; k++)
            tnri_json_number(&answer->json, NULL, (uint64_t)info.processes[k]);
        tnri_json_list_end(&answer->json);
        tnri_json_object_end(&answer->json);
    }
    tnri_json_list_end(&answer->json);
}

/* What it has of other processes. */
static void imports_tell(tnri_answer *answer)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    tnri_json_list(&answer->json, "imports");
    for (size_t i = 0; i < SHARED_TOLD_MAX && tnr_import_at(&info, i) == TNR_OK; i++) {
        tnri_json_object(&answer->json, NULL);
        tnri_json_text(&answer->json, "name", info.published[0] == '\0' ? NULL : info.published);
        tnri_json_number(&answer->json, "generation", info.generation);
        tnri_json_number(&answer->json, "bytes", info.bytes);
        tnri_json_number(&answer->json, "device", (uint64_t)info.device);
        tnri_json_number(&answer->json, "process", (uint64_t)info.process);
        tnri_json_flag(&answer->json, "read_only", info.is_read_only);
        tnri_json_object_end(&answer->json);
    }
    tnri_json_list_end(&answer->json);
}

static void driver_tell(tnri_answer *answer)
{
    tnr_driver_info driver = {.struct_bytes = sizeof(driver)};
    if (tnr_driver_get(&driver) != TNR_OK)
        return;
    tnri_json_object(&answer->json, "driver");
    tnri_json_text(&answer->json, "path", driver.path);
    tnri_json_number(&answer->json, "version", (uint64_t)driver.version);
    tnri_json_flag(&answer->json, "simulated", driver.simulated);
    tnri_json_object_end(&answer->json);
}

void tnri_status_tell(tnri_answer *answer, int has_streams, int has_account)
{
    int is_started = atomic_load(&tnri_generation) != 0;
    tnri_json_flag(&answer->json, "started", is_started);
    if (is_started)
        driver_tell(answer);
    tnri_json_list(&answer->json, "devices");
    tnri_device *device;
    for (int d = 0; is_started && (device = tnri_device_nth(d)) != NULL; d++)
        if (atomic_load_explicit(&device->in_use, memory_order_acquire))
            device_tell(answer, device, has_streams, has_account);
    tnri_json_list_end(&answer->json);
    if (is_started) {
        tags_tell(answer);
        held_tell(answer);
        imports_tell(answer);
    }
}
