/* SPDX-License-Identifier: Apache-2.0 */
/* See steps.h. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

/* Of the round: see steps_run_tests. */
static const char *schedule = "SCHEDULE=lazy";
static const char *seed = "SEED=0";

void steps_start(const char *conf, const char *setting)
{
    char second[64];
    /* life_start takes two settings; a seed and another one come as one or the other. */
    snprintf(second, sizeof(second), "%s", setting == NULL ? seed : setting);
    life_start(conf, schedule, second);
}

int steps_stop(void **state)
{
    return life_stop(state);
}

int steps_run_tests(const struct CMUnitTest *tests, size_t count)
{
    static const char *const rounds[][3] = {{"lazy", "SCHEDULE=lazy", "SEED=0"},
                                            {"random 1", "SCHEDULE=random", "SEED=1"},
                                            {"random 2", "SCHEDULE=random", "SEED=2"}};
    int failed = 0;
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        schedule = rounds[i][1];
        seed = rounds[i][2];
        failed += _cmocka_run_group_tests(rounds[i][0], tests, count, NULL, NULL) != 0;
    }
    return failed != 0;
}

/* ---- captures ------------------------------------------------------------------------------- */

void capture_begin(tnr_stream stream, tnr_pool pool)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = pool;
    assert_ok(tnr_capture_begin(0, stream, &options));
    assert_int_equal(capture_status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

recorded capture_end(tnr_stream stream)
{
    recorded graph = {0};
    assert_int_equal(capture_status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(tnr_capture_end(&graph.cuda, &graph.number, 0, stream));
    assert_non_null(graph.cuda);
    assert_int_not_equal(graph.number, 0);
    assert_int_equal(capture_status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(graph_info(graph.number).is_capturing, 0);
    assert_ok(tnr_validate(-1));
    assert_int_equal(cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0), CUDA_SUCCESS);
    return graph;
}

void order_after(tnr_stream to, tnr_stream from)
{
    CUevent event = NULL;
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, from), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(to, event, 0), CUDA_SUCCESS);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
}

CUstreamCaptureStatus capture_status(tnr_stream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    assert_int_equal(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    return status;
}

CUgraph capture_graph(tnr_stream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;
    assert_int_equal(cuStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL, NULL),
                     CUDA_SUCCESS);
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    return graph;
}

unsigned char *captured_block(tnr_stream stream, int value)
{
    void *block = unit_malloc(4 * MIB, stream);
    life_fill(block, 4 * MIB, value, stream);
    return block;
}

/* ---- graphs --------------------------------------------------------------------------------- */

void recorded_launch(const recorded *graph, tnr_stream stream)
{
    assert_ok(tnr_graph_launch(graph->number, graph->exec, stream));
}

void recorded_destroy(recorded *graph)
{
    if (graph->exec != NULL)
        assert_int_equal(cuGraphExecDestroy(graph->exec), CUDA_SUCCESS);
    if (graph->cuda != NULL)
        assert_int_equal(cuGraphDestroy(graph->cuda), CUDA_SUCCESS);
    graph->exec = NULL;
    graph->cuda = NULL;
}

tnr_graph_info graph_info(tnr_graph graph)
{
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_graph_get(&info, graph));
    return info;
}

tnr_pool graph_pool(const char *name)
{
    tnr_pool pool = NULL;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = name;
    assert_ok(tnr_graph_pool_create(&pool, 0, &options));
    assert_non_null(pool);
    return pool;
}

/* ---- checks --------------------------------------------------------------------------------- */

void steps_settle(void)
{
    simcuda_run(UINT64_MAX);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS); /* the host knows that all is over */
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_trim(NULL, SIZE_MAX, 0));
}

int graph_is_known(tnr_graph graph)
{
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    tnr_status status = tnr_graph_get(&info, graph);
    assert_true(status == TNR_OK || status == TNR_ERR_INVALID_GRAPH);
    return status == TNR_OK;
}

int pool_is_there(tnr_pool pool)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    tnr_status status = tnr_stats_get(&stats, pool, 0);
    assert_true(status == TNR_OK || status == TNR_ERR_INVALID_POOL);
    return status == TNR_OK;
}

tnr_pool pool_of(const void *block)
{
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, block));
    return info.pool;
}

int is_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return first < second + b_bytes && second < first + a_bytes;
}

tnr_stats pool_stats(tnr_pool pool)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_stats_get(&stats, pool, 0));
    assert_ok(tnr_validate(-1));
    assert_int_equal(stats.bytes_live + stats.bytes_slack + stats.bytes_binned + stats.bytes_free +
                         stats.bytes_retired,
                     stats.reserved_bytes.current + stats.bytes_asleep);
    return stats;
}

void check_bytes(const void *block, size_t bytes, int value)
{
    const unsigned char *at = block;
    for (size_t i = 0; i < bytes; i += i % 4096 == 63 ? 4096 - 127 : 1) /* both ends of pages */
        if (at[i] != (unsigned char)value) {
            print_error("byte %zu of %p is %u, not %d\n", i, block, at[i], value);
            fail();
        }
}

void check_all_given_back(void)
{
    simcuda_live live;
    steps_settle();
    assert_ok(tnr_trim(NULL, 0, 0));
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.allocation[TNR_WORLD_ALL].current, 0);
    assert_int_equal(stats.bytes_live, 0);
    assert_int_equal(stats.bytes_retired, 0);
    assert_int_equal(stats.blocks_retired, 0);
    assert_int_equal(stats.pools, 1);
    assert_int_equal(stats.reserved_bytes.current, 0);
    assert_int_equal(stats.segment.current, 0);
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 0);
    assert_int_equal(live.mappings, 0);
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.graphs, 0);
    assert_int_equal(live.graph_execs, 0);
    assert_int_equal(live.user_objects, 0);
}
