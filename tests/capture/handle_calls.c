/* SPDX-License-Identifier: Apache-2.0 */
/* See handle_calls.h. */
#include "handle_calls.h"

#include <string.h>
#include <unistd.h>

#include <tenure/compact.h>
#include <tenure/export.h>
#include <tenure/history.h>
#include <tenure/host.h>
#include <tenure/park.h>
#include <tenure/range.h>
#include <tenure/tag.h>

recorded spare_graph;
CUevent spare_event;
int device_of_calls;

static tnr_status pool_destroy(given it)
{
    return tnr_pool_destroy(it.pool);
}

static tnr_status pool_malloc(given it)
{
    void *ptr = &ptr;
    tnr_status status = tnr_pool_malloc(&ptr, it.pool, 4096, device_of_calls, NULL);
    assert_null(ptr);
    return status;
}

static tnr_status pool_malloc_at(given it)
{
    return tnr_pool_malloc_at((void *)(uintptr_t)4096, it.pool, 4096, device_of_calls, NULL);
}

static void walk_nothing(const tnr_stretch *stretch, void *user)
{
    (void)stretch;
    (void)user;
}

static tnr_status pool_vouch(given it)
{
    return tnr_graph_pool_vouch(it.pool);
}

static tnr_status memory_walk(given it)
{
    return tnr_memory_walk(it.pool, device_of_calls, walk_nothing, NULL);
}

static tnr_status pool_push(given it)
{
    return tnr_pool_push(it.pool);
}

static tnr_status pool_pop(given it)
{
    return tnr_pool_pop(it.pool);
}

static tnr_status pool_trim(given it)
{
    size_t released = 1;
    tnr_status status = tnr_pool_trim(&released, it.pool, 0, device_of_calls);
    assert_int_equal(released, 0);
    return status;
}

static tnr_status pool_limit_set(given it)
{
    return tnr_pool_limit_set(it.pool, 0, device_of_calls);
}

static tnr_status pool_access_set(given it)
{
    return tnr_pool_access_set(it.pool, device_of_calls, 1 - device_of_calls, TNR_ACCESS_READWRITE);
}

static tnr_status pool_access_get(given it)
{
    tnr_access access = TNR_ACCESS_READWRITE;
    tnr_status status = tnr_pool_access_get(&access, it.pool, device_of_calls, 1 - device_of_calls);
    assert_int_equal(access, TNR_ACCESS_NONE);
    return status;
}

static tnr_status stats_get(given it)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    return tnr_stats_get(&stats, it.pool, device_of_calls);
}

static tnr_status stats_json(given it)
{
    char text[64] = "untouched";
    size_t bytes = tnr_stats_json(text, sizeof(text), it.pool, device_of_calls);
    assert_string_equal(text, "");
    return bytes == 0 ? TNR_ERR_INVALID_POOL : TNR_OK;
}

static tnr_status pool_sleep(given it)
{
    return tnr_pool_sleep(it.pool, device_of_calls, NULL);
}

static tnr_status pool_wake(given it)
{
    return tnr_pool_wake(it.pool, device_of_calls);
}

static tnr_status compact(given it)
{
    return tnr_compact(NULL, it.pool, device_of_calls);
}

static tnr_status pool_generation(given it)
{
    return tnr_pool_generation(it.pool, device_of_calls) == 0 ? TNR_ERR_INVALID_POOL : TNR_OK;
}

static tnr_status capture_begin_into(given it)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = it.pool;
    tnr_status status = tnr_capture_begin(0, ORIGIN, &options);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_NONE);
    return status;
}

static tnr_status capture_attach_into(given it)
{
    tnr_graph graph = 1;
    CUgraph made = NULL;
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = it.pool;
    assert_int_equal(cuStreamBeginCapture(ORIGIN, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    tnr_status status = tnr_capture_attach(&graph, 0, ORIGIN, &options);
    assert_int_equal(graph, 0);
    assert_int_equal(cuStreamEndCapture(ORIGIN, &made), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(made), CUDA_SUCCESS);
    return status;
}

static tnr_status graph_get(given it)
{
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    return tnr_graph_get(&info, it.graph);
}

static tnr_status graph_launch(given it)
{
    return tnr_graph_launch(it.graph, spare_graph.exec, ORIGIN);
}

static tnr_status graph_launching(given it)
{
    return tnr_graph_launching(it.graph, ORIGIN);
}

/* It has no status: it does nothing to what it does not know, and the next call says so. */
static tnr_status graph_launched(given it)
{
    tnr_graph_launched(it.graph, ORIGIN);
    return tnr_graph_launching(it.graph, ORIGIN);
}

static tnr_status capture_ended(given it)
{
    return tnr_capture_ended(it.graph, spare_graph.cuda);
}

/* 0 is none, which an audit may be told. */
static tnr_status graph_audit(given it)
{
    tnr_audit audit = {.struct_bytes = sizeof(audit)};
    return it.graph == 0 ? TNR_ERR_INVALID_GRAPH
                         : tnr_graph_audit(&audit, spare_graph.cuda, it.graph, NULL, NULL);
}

static tnr_status graph_audit_write(given it)
{
    return it.graph == 0
               ? TNR_ERR_INVALID_GRAPH
               : tnr_graph_audit_write(spare_graph.cuda, it.graph, TNR_AUDIT_TEXT, STDOUT_FILENO);
}

static tnr_status block_free(given it)
{
    return tnr_free(it.ptr);
}

static tnr_status host_free(given it)
{
    return tnr_host_free(it.ptr);
}

static tnr_status memory_registered(given it)
{
    return tnr_memory_registered(it.ptr);
}

static tnr_status block_get(given it)
{
    tnr_block_info info;
    return tnr_block_get(&info, it.ptr);
}

static tnr_status block_commit(given it)
{
    return tnr_commit(it.ptr, 4096);
}

static tnr_status range_commit(given it)
{
    return tnr_commit_range(it.ptr, 0, 4096);
}

static tnr_status range_decommit(given it)
{
    return tnr_decommit_range(it.ptr, 0, 4096);
}

static tnr_status sleep_read(given it)
{
    char to;
    return tnr_sleep_read(&to, 1, it.ptr);
}

static tnr_status record_use(given it)
{
    return tnr_record_use(it.ptr, ORIGIN);
}

static tnr_status record_stream(given it)
{
    return tnr_record_stream(it.ptr, ORIGIN);
}

static tnr_status keep_until(given it)
{
    return tnr_keep_until(it.ptr, spare_event);
}

static tnr_status free_on(given it)
{
    return tnr_free_on(it.ptr, ORIGIN);
}

static tnr_status free_sync(given it)
{
    return tnr_free_sync(it.ptr);
}

static tnr_status content_set(given it)
{
    return tnr_block_content_set(it.ptr, TNR_CONTENT_KEEP);
}

static tnr_status block_park(given it)
{
    return tnr_park(NULL, it.ptr, ORIGIN, TNR_CONTENT_DISCARD);
}

static tnr_status block_unpark(given it)
{
    return tnr_unpark(it.ptr, ORIGIN);
}

static tnr_status tag_of(given it)
{
    const char *tag = "no tag";
    tnr_status status = tnr_tag_of(&tag, it.ptr);
    assert_null(tag);
    return status;
}

static tnr_status export_create(given it)
{
    tnr_export exported;
    return tnr_export_create(&exported, it.ptr);
}

static tnr_status export_offer(given it)
{
    tnr_export_name name;
    return tnr_export_offer(&name, it.ptr);
}

static tnr_status import_get(given it)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    return tnr_import_get(&info, it.ptr);
}

static tnr_status import_close(given it)
{
    return tnr_import_close(it.ptr);
}

static const call of_pools[] = {
    {"tnr_pool_destroy", pool_destroy, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_malloc", pool_malloc, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_malloc_at", pool_malloc_at, TNR_ERR_INVALID_POOL, 0},
    {"tnr_graph_pool_vouch", pool_vouch, TNR_ERR_INVALID_POOL, 0},
    {"tnr_memory_walk", memory_walk, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_push", pool_push, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_pop", pool_pop, TNR_ERR_INVALID_ARGUMENT, 0},
    {"tnr_pool_trim", pool_trim, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_access_get", pool_access_get, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_access_set", pool_access_set, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_limit_set", pool_limit_set, TNR_ERR_INVALID_POOL, 0},
    {"tnr_stats_get", stats_get, TNR_ERR_INVALID_POOL, 0},
    {"tnr_stats_json", stats_json, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_sleep", pool_sleep, TNR_ERR_INVALID_POOL, 0},
    {"tnr_compact", compact, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_wake", pool_wake, TNR_ERR_INVALID_POOL, 0},
    {"tnr_pool_generation", pool_generation, TNR_ERR_INVALID_POOL, 0},
    {"tnr_capture_begin", capture_begin_into, TNR_ERR_INVALID_POOL, 1},
    {"tnr_capture_attach", capture_attach_into, TNR_ERR_INVALID_POOL, 1},
};

static const call of_graphs[] = {
    {"tnr_graph_get", graph_get, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_graph_launch", graph_launch, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_graph_launching", graph_launching, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_graph_launched", graph_launched, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_capture_ended", capture_ended, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_graph_audit", graph_audit, TNR_ERR_INVALID_GRAPH, 0},
    {"tnr_graph_audit_write", graph_audit_write, TNR_ERR_INVALID_GRAPH, 0},
};

static const call of_blocks[] = {
    {"tnr_free", block_free, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_host_free", host_free, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_block_get", block_get, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_memory_registered", memory_registered, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_commit", block_commit, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_commit_range", range_commit, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_decommit_range", range_decommit, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_sleep_read", sleep_read, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_record_use", record_use, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_record_stream", record_stream, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_keep_until", keep_until, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_free_on", free_on, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_free_sync", free_sync, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_block_content_set", content_set, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_park", block_park, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_unpark", block_unpark, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_tag_of", tag_of, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_export_create", export_create, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_export_offer", export_offer, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_import_get", import_get, TNR_ERR_FOREIGN_POINTER, 0},
    {"tnr_import_close", import_close, TNR_ERR_FOREIGN_POINTER, 0},
};

#define TABLE(list)                                                                                \
    {                                                                                              \
        list, sizeof(list) / sizeof((list)[0])                                                     \
    }

const call_table pool_calls = TABLE(of_pools);
const call_table graph_calls = TABLE(of_graphs);
const call_table block_calls = TABLE(of_blocks);

const call *call_find(const call_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->calls[i].name, name) == 0)
            return &table->calls[i];
    return NULL;
}
