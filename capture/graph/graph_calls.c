/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls about graphs and their pools, besides capturing, launching and auditing. */
#include <tenure/capture.h>

#include <stdio.h>
#include <string.h>

#include "base/prim/calm.h"
#include "base/error.h"
#include "graph/capture.h"
#include "graph/ending.h"
#include "graph/graph.h"
#include "graph/hooks.h"
#include "api/library.h"
#include "memory/pool/family.h"
#include "memory/pool/graph_lock.h"

/* What both kinds of pool for captures begin with. Replaces null options by the defaults. */
static tnr_status pool_check(tnr_pool *handle, int device_index, const tnr_pool_options **options,
                             const char *call, tnri_device **device)
{
    static const tnr_pool_options defaults = TNR_POOL_OPTIONS_INIT;
    if (handle == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "%s: pool is null.", call);
    *handle = NULL;
    if (*options == NULL)
        *options = &defaults;
    if ((*options)->struct_bytes != sizeof(**options) || (int)(*options)->handle_type < 0 ||
        (*options)->handle_type > TNR_HANDLE_FABRIC)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "%s: options are not of this version. Start from TNR_POOL_OPTIONS_INIT.",
                          call);
    tnr_status status = tnri_library_device(device_index, device);
    return status == TNR_OK ? tnri_captures_supported() : status;
}

tnr_status tnr_graph_pool_create(tnr_pool *handle, int device_index,
                                 const tnr_pool_options *options)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    tnr_status status =
        pool_check(handle, device_index, &options, "tnr_graph_pool_create", &device);
    if (status != TNR_OK)
        return status;
    tnri_captures_register();
    tnri_place *place;
    if (tnri_graph_lock() > 0)
        status = tnri_graph_lock_error("tnr_graph_pool_create");
    else
        status = tnri_place_make(device, options, 0, &place);
    if (status == TNR_OK)
        *handle = place->pool->handle;
    tnri_graph_unlock();
    return status;
}

tnr_status tnr_vouched_pool_create(tnr_pool *handle, int device_index,
                                   const tnr_pool_options *options)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    tnr_pool pool;
    tnr_status status =
        pool_check(handle, device_index, &options, "tnr_vouched_pool_create", &device);
    if (status != TNR_OK)
        return status;
    tnri_captures_register();
    tnri_tagging tagging = {tnri_tag_here(), NULL, 0};
    status = tnri_pool_make(device, options, TNRI_POOL_VOUCHED, &tagging, &pool);
    if (status == TNR_OK)
        *handle = pool->handle;
    return status;
}

tnr_status tnr_graph_pool_vouch(tnr_pool handle)
{
    TNRI_CALM_CALL;
    tnr_pool pool;
    tnri_visit visit;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnr_status status = tnri_pool_resolve(handle, &pool);
    if (status != TNR_OK)
        return status;
    int is_graph = pool->account.is_graph;
    if (!is_graph)
        status = tnri_error(TNR_ERR_INVALID_POOL,
                            "pool \"%s\" is not a graph pool. Make one with tnr_graph_pool_create.",
                            pool->account.name);
    else if (tnri_graph_lock() > 0)
        status = tnri_graph_lock_error("tnr_graph_pool_vouch");
    else {
        tnri_captures_check(TNRI_CHECKED_ALL); /* what has ended leaves blocks that live on */
        status = tnri_device_enter(pool->device, &visit);
    }
    if (status == TNR_OK) {
        tnri_place_vouch(pool->captures);
        tnri_device_leave(&visit);
    }
    if (is_graph)
        tnri_graph_unlock();
    tnri_pool_drop(pool);
    return status;
}

/* Adopts under the graph lock and the context. */
static tnr_status graph_adopt(tnri_device *device, CUgraph cuda_graph, const char *name,
                              tnr_graph *number)
{
    tnri_graph *graph = tnri_graph_make(device, NULL, name);
    if (graph == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a graph.");
    int is_read;
    tnr_status status = tnri_graph_tie(graph, cuda_graph);
    if (status == TNR_OK)
        status = tnri_graph_hold_all(graph, cuda_graph, &is_read);
    if (status == TNR_OK)
        *number = graph->number;
    else
        tnri_graph_end(graph);
    return status;
}

tnr_status tnr_graph_adopt(tnr_graph *graph, tnr_cuda_graph cuda_graph, int device_index,
                           const char *name)
{
    TNRI_CALM_CALL;
    if (graph == NULL || cuda_graph == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_graph_adopt: %s is null.",
                          graph == NULL ? "the place for the graph's number" : "the CUDA graph");
    *graph = 0;
    tnri_device *device;
    tnri_visit visit;
    tnr_status status = tnri_library_device(device_index, &device);
    if (status == TNR_OK)
        status = tnri_captures_supported();
    if (status != TNR_OK)
        return status;
    tnri_captures_register();
    tnri_graphs_settle();
    if (tnri_graph_lock() > 0)
        status = tnri_graph_lock_error("tnr_graph_adopt");
    else
        status = tnri_device_enter(device, &visit);
    if (status == TNR_OK) {
        status = graph_adopt(device, cuda_graph, name, graph);
        tnri_device_leave(&visit);
    }
    tnri_graph_unlock();
    return status;
}

static void graph_describe(const tnri_graph *graph, tnr_graph_info *info)
{
    snprintf(info->name, sizeof(info->name), "%s", graph->name);
    info->device = graph->device->index;
    info->is_capturing = graph->is_capturing;
    info->is_private = graph->place != NULL && graph->place->is_private;
    info->pool = graph->place == NULL ? NULL : graph->place->pool->handle;
    info->blocks = graph->blocks;
    info->reused = graph->reused;
    info->bytes = 0;
    for (size_t i = 0; i < graph->ranges_count; i++)
        info->bytes += graph->ranges[i].end - graph->ranges[i].base;
    info->kept_blocks = graph->holds.count + graph->late.count;
    info->kept_bytes = graph->holds_bytes;
    info->launches = graph->launches;
}

tnr_status tnr_graph_get(tnr_graph_info *info, tnr_graph number)
{
    TNRI_CALM_CALL;
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          info == NULL ? "tnr_graph_get: info is null."
                                       : "tnr_graph_get: info is not of this version. Set its "
                                         "struct_bytes to sizeof(tnr_graph_info).");
    tnri_graph *graph;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_graphs_settle();
    (void)tnri_graph_lock();
    tnr_status status = tnri_graph_named(number, &graph);
    if (status == TNR_OK) {
        tnri_graph_ranges_settle(graph);
        graph_describe(graph, info);
    }
    tnri_graph_unlock();
    return status;
}
