/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When host memory is free again: when the copies that use it are over, as the host has seen. What
 * a stream comes after says nothing of the host, which writes into the memory at once. The
 * simulated device runs nothing before somebody waits (the schedule `lazy`), and its race detector
 * reports a buffer that is given to another stream before its copy is over.
 *
 * Lines taken out of the library to see a test fail:
 *   arena_own, the test of host memory: no_buffer_is_handed_out_before_its_copy_is_over and four
 *   more
 *   tnri_proxy_stream, `device->gpu`: every_way_to_record_counts, uses_of_other_devices_count
 *   poll_try_hold, `device->gpu`: no_buffer_is_handed_out_before_its_copy_is_over
 *   devices_show, the device's number: snapshots_show_it
 *   judge_begin, tnri_device_nth (devices alone): a_graph_keeps_what_it_copies_from
 *   ladder_retired, the test of host memory: what_is_over_is_whole_before_it_is_cut
 *   tnri_account_is_owners, `is_own`: snapshots_show_it (the segment, and the kind)
 */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure/capture.h>
#include <tenure/history.h>

enum { BYTES = 3 << 20 };

static void copy_in(void *to, const void *from, size_t bytes, tnr_stream stream)
{
    assert_int_equal(cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)to, from, bytes, stream),
                     CUDA_SUCCESS);
}

static void copy_out(void *to, const void *from, size_t bytes, tnr_stream stream)
{
    assert_int_equal(cuMemcpyDtoHAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, stream),
                     CUDA_SUCCESS);
}

/* The bytes of device memory, once its stream is through. */
static int device_matches(const void *ptr, unsigned seed, tnr_stream stream)
{
    unsigned char *seen = malloc(BYTES);
    assert_non_null(seen);
    copy_out(seen, ptr, BYTES, stream);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    int matches = host_matches(seen, BYTES, seed);
    free(seen);
    return matches;
}

/* ---- copies --------------------------------------------------------------------------------- */

/* One buffer after the other is filled by the host, copied in, and freed, faster than the copies
 * run: none is handed out before its copy is over, and no call waits for one. */
static void no_buffer_is_handed_out_before_its_copy_is_over(void **state)
{
    (void)state;
    for (host_kind kind = 0; kind < HOST_KINDS; kind++) {
        /* As eager as it can be to have streams wait for each other. */
        host_start(kind, "reuse:wait,reuse_mark_percent:0", NULL, NULL);
        host_context_enter(0);
        tnr_stream streams[2] = {unit_stream(0), unit_stream(0)};
        void *on_device[8];
        for (unsigned i = 0; i < 8; i++) {
            unsigned char *buffer = host_malloc(BYTES);
            on_device[i] = unit_malloc(BYTES, streams[i % 2]);
            host_fill(buffer, BYTES, i);
            copy_in(on_device[i], buffer, BYTES, streams[i % 2]);
            uint64_t pending = host_pending();
            assert_ok(tnr_free_on(buffer, streams[i % 2]));
            assert_true(host_pending() >= pending);
        }
        tnr_stats stats = host_stats(0);
        assert_int_equal(stats.blocks_retired, 8);
        assert_int_equal(stats.bytes_live, 0);
        for (unsigned i = 0; i < 8; i++) {
            assert_true(device_matches(on_device[i], i, streams[i % 2]));
            assert_ok(tnr_free(on_device[i]));
        }
        /* All are over: the same memory serves, without more. */
        uint64_t reserved = stats.reserved_bytes.current;
        unsigned char *buffer = host_malloc(7 * (size_t)BYTES);
        stats = host_stats(0);
        if (kind == HOST_MAPPED)
            assert_int_equal(stats.reserved_bytes.current, reserved);
        assert_int_equal(stats.blocks_retired, 0);
        assert_int_equal(stats.freed_because[TNR_REUSE_WAITED_ON_DEVICE], 0);
        assert_int_equal(stats.freed_because[TNR_REUSE_ORDERED_BY_CLOCK], 0);
        assert_int_equal(stats.freed_because[TNR_REUSE_EVENT_DONE], 8);
        assert_ok(tnr_host_free(buffer));
        host_context_leave(0);
        unit_stop(NULL);
    }
}

/* Layers are copied in and freed, and pinned again in another order. Once their copies are over
 * they are one run again, from which the next are cut: the pool does not grow. */
static void what_is_over_is_whole_before_it_is_cut(void **state)
{
    (void)state;
    enum { COUNT = 160, PASSES = 4 };
    static const size_t sizes[] = {3981312, 2654208, 14284800, 7142400};
    void *blocks[COUNT];
    uint64_t reserved = 0, random = 1;
    host_start(HOST_MAPPED, NULL, NULL, NULL);
    host_context_enter(0);
    tnr_stream stream = unit_stream(0);
    void *to = unit_malloc(BYTES, stream);
    for (int pass = 0; pass < PASSES; pass++) {
        int left[4] = {COUNT / 4, COUNT / 4, COUNT / 4, COUNT / 4};
        for (int i = 0; i < COUNT; i++) {
            size_t which = unit_below(&random, 4);
            while (left[which] == 0)
                which = (which + 1) % 4;
            left[which]--;
            blocks[i] = host_malloc(sizes[which]);
        }
        if (pass > 0)
            assert_int_equal(host_stats(0).reserved_bytes.current, reserved);
        reserved = host_stats(0).reserved_bytes.current;
        for (int i = 0; i < COUNT; i++) { /* as eight threads would */
            int next = i % 8 * (COUNT / 8) + i / 8;
            copy_in(to, blocks[next], 512, stream);
            assert_ok(tnr_free_on(blocks[next], stream));
        }
        assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    }
    assert_ok(tnr_free(to));
    host_context_leave(0);
    unit_stop(NULL);
}

/* What comes out into a buffer is not written over what went before it: as the race detector sees
 * it, the buffer's next copy is ordered after its last one. */
static void the_next_copy_comes_after_the_last(void **state)
{
    (void)state;
    for (host_kind kind = 0; kind < HOST_KINDS; kind++) {
        host_start(kind, "reuse:wait,reuse_mark_percent:0", NULL, NULL);
        host_context_enter(0);
        tnr_stream first = unit_stream(0), second = unit_stream(0);
        void *from = unit_malloc(BYTES, second);
        for (int round = 0; round < 20; round++) {
            unsigned char *out = host_malloc(BYTES);
            copy_out(out, from, BYTES, round % 2 == 0 ? first : second);
            assert_ok(tnr_record_use(out, round % 2 == 0 ? first : second));
            assert_ok(tnr_free(out));
            if (round % 5 == 4)
                assert_int_equal(cuStreamSynchronize(round % 2 == 0 ? first : second),
                                 CUDA_SUCCESS);
        }
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        assert_true(host_stats(0).reserved_bytes.current <= 40 * MIB);
        assert_ok(tnr_free(from));
        host_context_leave(0);
        unit_stop(NULL);
    }
}

/* All ways to say that a stream uses a block, and a free that assumes every stream. */
static void every_way_to_record_counts(void **state)
{
    (void)state;
    for (int way = 0; way < 5; way++) {
        host_start(way % 2 == 0 ? HOST_MAPPED : HOST_ALLOCATED, NULL, NULL, NULL);
        host_context_enter(0);
        tnr_stream stream = unit_stream(0);
        void *on_device = unit_malloc(BYTES, stream);
        unsigned char *buffer = host_malloc(BYTES);
        CUevent event;
        host_fill(buffer, BYTES, 1);
        assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
        if (way == 1)
            assert_ok(tnr_record_stream(buffer, stream));
        copy_in(on_device, buffer, BYTES, stream);
        if (way == 0)
            assert_ok(tnr_record_use(buffer + 5, stream));
        if (way == 2) {
            tnr_moment moment = tnr_moment_now();
            assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
            assert_ok(tnr_event_recorded(event, 0, stream, moment));
            assert_ok(tnr_keep_until(buffer, event));
        }
        assert_ok(way == 3 ? tnr_free_on(buffer, stream)
                           : (way == 4 ? tnr_free_sync(buffer) : tnr_host_free(buffer)));
        unsigned char *other = host_malloc(BYTES);
        assert_ptr_not_equal(other, buffer);
        host_fill(other, BYTES, 2);
        assert_true(device_matches(on_device, 1, stream));
        assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
        assert_ok(tnr_free(other));
        assert_ok(tnr_free(on_device));
        host_context_leave(0);
        unit_stop(NULL);
    }
}

/* A stream of another device, by its mark and without one. */
static void uses_of_other_devices_count(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        host_start(way % 2 == 0 ? HOST_MAPPED : HOST_ALLOCATED, NULL, "DEVICES=2", NULL);
        tnr_stream far = unit_stream(1);
        void *on_device = NULL;
        assert_ok(tnr_malloc(&on_device, BYTES, 1, far));
        unsigned char *buffer = host_malloc(BYTES); /* near device 0 */
        host_fill(buffer, BYTES, 3);
        host_context_enter(1);
        copy_in(on_device, buffer, BYTES, far);
        assert_ok(way < 2 ? tnr_free_on(buffer, far) : tnr_free_sync(buffer));
        unsigned char *other = host_malloc(BYTES);
        assert_ptr_not_equal(other, buffer);
        host_fill(other, BYTES, 4);
        assert_true(device_matches(on_device, 3, far));
        assert_ok(tnr_host_free(other));
        assert_ok(tnr_free(on_device));
        host_context_leave(1);
        unit_stop(NULL);
    }
}

/* Only where nothing else is left does an allocation wait, on the host, for the oldest copies. */
static void waits_before_it_fails(void **state)
{
    (void)state;
    for (host_kind kind = 0; kind < HOST_KINDS; kind++) {
        host_start(kind, NULL, NULL, NULL);
        host_context_enter(0);
        tnr_stream stream = unit_stream(0);
        void *on_device = unit_malloc(BYTES, stream);
        assert_ok(tnr_limit_set(24 * MIB, TNR_HOST(0)));
        for (unsigned i = 0; i < 40; i++) {
            unsigned char *buffer = host_malloc(BYTES);
            host_fill(buffer, BYTES, i);
            copy_in(on_device, buffer, BYTES, stream);
            assert_ok(tnr_free_on(buffer, stream));
        }
        assert_true(device_matches(on_device, 39, stream));
        assert_true(host_stats(0).num_alloc_retries > 0);
        assert_ok(tnr_free(on_device));
        host_context_leave(0);
        unit_stop(NULL);
    }
}

/* ---- captures ------------------------------------------------------------------------------- */

/* A graph that copies from a buffer has it until the graph ends, whether it is freed inside the
 * capture, or after; and buffers are handed out during captures as always. */
static void a_graph_keeps_what_it_copies_from(void **state)
{
    (void)state;
    for (int is_inside = 0; is_inside < 2; is_inside++) {
        host_start(is_inside ? HOST_ALLOCATED : HOST_MAPPED, NULL, NULL, NULL);
        host_context_enter(0);
        tnr_stream stream = unit_stream(0);
        void *on_device = unit_malloc(BYTES, stream);
        CUgraph graph;
        CUgraphExec exec;
        tnr_graph number;
        assert_ok(tnr_capture_begin(0, stream, NULL));
        unsigned char *buffer = host_malloc(BYTES);
        host_fill(buffer, BYTES, 6);
        copy_in(on_device, buffer, BYTES, stream);
        assert_ok(tnr_record_use(buffer, stream));
        if (is_inside)
            assert_ok(tnr_host_free(buffer));
        assert_ok(tnr_capture_end(&graph, &number, 0, stream));
        if (!is_inside)
            assert_ok(tnr_free(buffer));
        tnr_audit audit = {.struct_bytes = sizeof(audit)};
        assert_ok(tnr_graph_audit(&audit, graph, number, NULL, NULL));
        assert_int_equal(audit.found, 2);
        assert_int_equal(audit.proved, 2);
        unsigned char *other = host_malloc(BYTES);
        assert_ptr_not_equal(other, buffer);
        host_fill(other, BYTES, 7);
        assert_int_equal(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
        for (int launch = 0; launch < 2; launch++) {
            assert_ok(tnr_graph_launch(number, exec, stream));
            assert_true(device_matches(on_device, 6, stream));
        }
        assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
        assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
        assert_ok(tnr_free(other));
        simcuda_run(UINT64_MAX); /* what tells that the graph is over */
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        simcuda_run(UINT64_MAX);
        size_t released = 0;
        assert_ok(tnr_trim(&released, 0, TNR_HOST(0)));
        assert_int_equal(host_stats(0).reserved_bytes.current, 0);
        assert_ok(tnr_free(on_device));
        host_context_leave(0);
        unit_stop(NULL);
    }
}

/* ---- seeing --------------------------------------------------------------------------------- */

/* Slabs are no foreign segments of the program's. */
static void shown(host_kind kind)
{
    char path[] = "/tmp/host_snapshot.XXXXXX", text[1 << 16];
    tnr_block_info info;
    host_start(kind, "history:full", NULL, NULL);
    unsigned char *buffer = host_malloc(12345);
    assert_ok(tnr_block_get(&info, buffer));
    assert_int_equal(info.device, TNR_HOST(0));
    assert_null(info.segment);
    assert_int_equal(info.segment_bytes, 0);
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_JSON));
    (void)close(file);
    FILE *from = fopen(path, "r");
    assert_non_null(from);
    size_t length = fread(text, 1, sizeof(text) - 1, from);
    text[length] = '\0';
    (void)fclose(from);
    (void)unlink(path);
    assert_non_null(strstr(text, "{\"index\":64,\"name\":\"host memory near device 0\""));
    assert_non_null(strstr(text, "\"bytes\":{\"live\":12345"));
    assert_non_null(strstr(text, ",12800,12345,0,")); /* the allocation, in the history */
    assert_null(strstr(text, "\"kind\":\"foreign\""));
    assert_ok(tnr_host_free(buffer));
}

static void snapshots_show_it(void **state)
{
    shown(HOST_MAPPED);
    unit_stop(state);
    shown(HOST_ALLOCATED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(no_buffer_is_handed_out_before_its_copy_is_over, unit_stop),
        cmocka_unit_test_teardown(what_is_over_is_whole_before_it_is_cut, unit_stop),
        cmocka_unit_test_teardown(the_next_copy_comes_after_the_last, unit_stop),
        cmocka_unit_test_teardown(every_way_to_record_counts, unit_stop),
        cmocka_unit_test_teardown(uses_of_other_devices_count, unit_stop),
        cmocka_unit_test_teardown(waits_before_it_fails, unit_stop),
        cmocka_unit_test_teardown(a_graph_keeps_what_it_copies_from, unit_stop),
        cmocka_unit_test_teardown(snapshots_show_it, unit_stop),
    };
    return cmocka_run_group_tests_name("uses of host memory", tests, NULL, NULL);
}
