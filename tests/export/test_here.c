/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports and imports in one process, which imports its own: what keeps memory and what lets it go,
 * and what is refused.
 *
 * Lines of the library changed to see it fail:
 *   export_leave after a good tnr_export_send too (the importer has no reference): a crash
 *   account->importers not counted: no_sleep_under_an_importer and two more
 *   importer_begin: a send that failed counts: bad_arguments
 *   set_check_importers that refuses nothing: no_sleep_under_an_importer
 *   exports_poll without tnri_exported_settle: uses_of_the_exporter_count_too
 *   arena_check without is_graph: memory_of_graphs
 *   no farewell: a dozen
 *   share_device without tnri_imported_end: pools_and_devices_do_not_end and more
 *   import_finish without cuCtxSynchronize: closing_waits_for_work
 *   tnri_sharing_register that sets no table: nearly all
 */
#include "here.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cuda.h>
#include <tenure/tenure.h>

/* ---- what is there -------------------------------------------------------------------------- */

static void one_memory_at_two_addresses(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 1000, 300 * KIB, 3 * MIB, 37 * MIB};
    start(NULL, NULL);
    for (int i = 0; i < 5; i++) {
        char *block = unit_malloc(sizes[i], NULL);
        size_t last = sizes[i] < 4 ? 0 : (sizes[i] - 4) & ~(size_t)3;
        tnr_export exported = export_of(block + sizes[i] / 2); /* anywhere in it */
        mark(block, 7);
        tnr_import_info info = pass_on(exported);
        assert_int_equal(info.bytes, sizes[i]);
        assert_int_equal(info.device, 0);
        assert_int_equal(info.device_owner, 0);
        assert_ptr_not_equal(info.ptr, block);
        assert_int_equal(marked(info.ptr), 7);
        mark((char *)info.ptr + last, 8);
        assert_int_equal(marked(block + last), 8);
        tnr_import_info again = {.struct_bytes = sizeof(again)};
        assert_ok(tnr_import_get(&again, (char *)info.ptr + sizes[i] - 1));
        assert_ptr_equal(again.ptr, info.ptr);
        assert_error(tnr_import_get(&again, (char *)info.ptr + sizes[i]), TNR_ERR_FOREIGN_POINTER,
                     NULL);
        assert_int_equal(info_of(exported).importers, 1);
        assert_ptr_equal(info_of(exported).ptr, block);
        assert_ok(tnr_import_close(info.ptr));
        assert_error(tnr_import_close(info.ptr), TNR_ERR_FOREIGN_POINTER, "no import");
        assert_int_equal(info_of(exported).importers, 0);
        assert_ok(tnr_export_close(exported));
        assert_ok(tnr_free(block));
    }
}

static void every_kind_of_socket(void **state)
{
    (void)state;
    static const int kinds[] = {SOCK_SEQPACKET, SOCK_STREAM, SOCK_DGRAM};
    start(NULL, NULL);
    void *block = unit_malloc(9 * MIB, NULL);
    tnr_export exported = export_of(block);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(close(sockets[0]) + close(sockets[1]), 0);
        assert_int_equal(syscall(SYS_socketpair, AF_UNIX, kinds[i], 0, sockets), 0);
        for (int times = 0; times < 3; times++) {
            mark(block, 40 + (unsigned)times);
            tnr_import_info info = pass_on(exported);
            assert_int_equal(marked(info.ptr), 40 + times);
            assert_ok(tnr_import_close(info.ptr));
        }
    }
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(block));
}

static void a_growing_block(void **state)
{
    (void)state;
    start(NULL, NULL);
    void *ptr;
    tnr_export exported;
    assert_ok(tnr_reserve(&ptr, 64 * MIB, 0, NULL));
    assert_error(tnr_export_create(&exported, ptr), TNR_ERR_NOT_LIVE, "commit");
    assert_int_equal(exported, 0);
    assert_ok(tnr_commit(ptr, 4 * MIB));
    exported = export_of(ptr);
    tnr_import_info first = pass_on(exported);
    assert_int_equal(first.bytes, 4 * MIB);
    assert_ok(tnr_commit(ptr, 10 * MIB));
    tnr_import_info second = pass_on(exported);
    assert_int_equal(second.bytes, 10 * MIB);
    mark((char *)ptr + 9 * MIB, 3);
    assert_int_equal(marked((char *)second.ptr + 9 * MIB), 3);
    assert_ok(tnr_free(ptr));
    assert_true(info_of(exported).is_freed);
    assert_ok(tnr_export_close(exported));
    assert_int_equal(unit_stats().bytes_retired, 10 * MIB);
    assert_ok(tnr_import_close(first.ptr));
    assert_ok(tnr_import_close(second.ptr));
    size_t released;
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
}

/* ---- what keeps it -------------------------------------------------------------------------- */

/* 1 if `bytes` can be had on the stream; they go back at once. */
static int can_have(size_t bytes, tnr_stream stream)
{
    void *ptr;
    if (tnr_malloc(&ptr, bytes, 0, stream) != TNR_OK)
        return 0;
    assert_ok(tnr_free(ptr));
    return 1;
}

static void freed_memory_waits_for_all(void **state)
{
    (void)state;
    start(NULL, "MEMORY=64M");
    for (int round = 0; round < 4; round++) {
        void *block = unit_malloc(40 * MIB, NULL);
        tnr_export exported = export_of(block), twice = export_of(block);
        assert_int_not_equal(exported, twice);
        tnr_import_info info = pass_on(exported), other = pass_on(twice);
        assert_ok(tnr_free(block));
        assert_error(tnr_free(block), TNR_ERR_NOT_LIVE, NULL);
        mark(info.ptr, 11);
        assert_int_equal(marked(other.ptr), 11);
        assert_false(can_have(40 * MIB, NULL));
        assert_ok(tnr_export_close(exported));
        assert_error(tnr_export_close(exported), TNR_ERR_INVALID_EXPORT, "not an open export");
        assert_error(tnr_export_send(exported, sockets[EXPORTER]), TNR_ERR_INVALID_EXPORT, NULL);
        assert_ok(tnr_import_close(other.ptr));
        assert_false(can_have(40 * MIB, NULL)); /* an export and an importer are left */
        assert_ok(tnr_export_close(twice));
        assert_false(can_have(40 * MIB, NULL));
        assert_int_equal(marked(info.ptr), 11);
        assert_ok(tnr_import_close(info.ptr));
        assert_true(can_have(40 * MIB, round % 2 ? NULL : unit_stream(0)));
        (void)unit_stats();
    }
}

static void uses_of_the_exporter_count_too(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream own = unit_stream(0), other = unit_stream(0);
    void *block = unit_malloc(40 * MIB, own), *next = NULL;
    tnr_export exported = export_of(block);
    tnr_import_info info = pass_on(exported);
    work_on(block, 40 * MIB, other);
    assert_ok(tnr_record_use(block, other));
    assert_ok(tnr_free(block));
    assert_ok(tnr_export_close(exported));
    assert_int_equal(unit_stats().blocks_retired, 1);
    assert_ok(tnr_import_close(info.ptr)); /* which waits for the work, too */
    assert_ok(tnr_malloc(&next, 40 * MIB, 0, own));
    assert_ptr_equal(next, block);
    assert_ok(tnr_free(next));
    /* In the other order: closed, and then the use is what it waits for. */
    exported = export_of(block = unit_malloc(40 * MIB, own));
    info = pass_on(exported);
    assert_ok(tnr_import_close(info.ptr));
    work_on(block, 40 * MIB, other);
    assert_ok(tnr_record_use(block, other));
    assert_ok(tnr_free(block));
    assert_ok(tnr_export_close(exported));
    assert_int_equal(unit_stats().blocks_retired, 1);
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_malloc(&next, 40 * MIB, 0, own));
    assert_ptr_equal(next, block);
    assert_ok(tnr_free(next));
}

static void closing_waits_for_work(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    void *block = unit_malloc(6 * MIB, NULL);
    tnr_export exported = export_of(block);
    tnr_import_info info = pass_on(exported);
    work_on(info.ptr, info.bytes, unit_stream(0));
    assert_true(simcuda_pending() > 0);
    assert_ok(tnr_import_close(info.ptr)); /* unmapped under its work is a violation: unit_stop */
    assert_int_equal(simcuda_pending(), 0);
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(block));
}

/* Many blocks of ever other sizes come and go, are moved and lent; what is exported stays. */
static void nothing_moves_or_goes(void **state)
{
    (void)state;
    start("move_burst_ms:1000000", "MEMORY=256M");
    tnr_stream streams[3] = {NULL, unit_stream(0), unit_stream(0)};
    enum { BLOCKS = 6 };
    tnr_import_info imports[BLOCKS];
    uint64_t random = 5;
    for (unsigned i = 0; i < BLOCKS; i++) {
        void *block = unit_malloc(6 * MIB, streams[i % 3]);
        tnr_export exported = export_of(block);
        imports[i] = pass_on(exported);
        mark(block, 100 + i);
        if (i % 2 == 0)
            assert_ok(tnr_free(block));
        assert_ok(tnr_export_close(exported));
    }
    for (int round = 0; round < 60; round++) {
        void *held[4];
        size_t released;
        for (int i = 0; i < 4; i++)
            assert_ok(tnr_malloc(&held[i], 1 + unit_below(&random, 40 * MIB), 0,
                                 streams[unit_below(&random, 3)]));
        for (int i = 0; i < 4; i++) {
            mark(held[i], 9);
            assert_ok(tnr_free(held[i]));
        }
        if (round % 8 == 0)
            assert_ok(tnr_trim(&released, 0, 0));
    }
    assert_true(unit_stats().chunks_moved + unit_stats().served[TNR_SERVED_LENT] > 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        assert_int_equal(marked(imports[i].ptr), 100 + i);
        assert_ok(tnr_import_close(imports[i].ptr));
    }
}

static void no_sleep_under_an_importer(void **state)
{
    (void)state;
    start(NULL, NULL);
    tnr_pool pool;
    void *block;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&block, pool, 6 * MIB, 0, NULL));
    tnr_export exported = export_of(block);
    tnr_import_info info = pass_on(exported);
    mark(info.ptr, 21);
    assert_error(tnr_pool_sleep(pool, 0, NULL), TNR_ERR_BUSY, "1 importer has blocks");
    assert_error(tnr_device_sleep(0, NULL), TNR_ERR_BUSY, "close their imports");
    assert_int_equal(marked(block), 21);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL)); /* another pool */
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_ok(tnr_import_close(info.ptr));
    assert_ok(tnr_pool_sleep(pool, 0, NULL)); /* it is only exported */
    assert_error(tnr_export_send(exported, sockets[EXPORTER]), TNR_ERR_ASLEEP, NULL);
    assert_ok(tnr_pool_wake(pool, 0));
    info = pass_on(exported);
    assert_int_equal(marked(info.ptr), 21);
    assert_ok(tnr_import_close(info.ptr));
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(block));
    assert_ok(tnr_pool_destroy(pool));
}

static void pools_and_devices_do_not_end(void **state)
{
    (void)state;
    start("graph_end_ms:1", NULL);
    for (int round = 0; round < 2; round++) {
        tnr_pool pool;
        void *block;
        assert_ok(tnr_pool_create(&pool, 0, NULL));
        assert_ok(tnr_pool_malloc(&block, pool, 6 * MIB, 0, NULL));
        tnr_export exported = export_of(block);
        tnr_import_info info = pass_on(exported);
        assert_ok(tnr_free(block));
        assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "exports");
        assert_error(tnr_device_end(0, 0), TNR_ERR_BUSY, "2 open exports");
        assert_ok(tnr_export_close(exported));
        assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "1 importer has some");
        assert_error(tnr_shutdown(0), TNR_ERR_BUSY, "1 open export,");
        if (round == 0) {
            assert_ok(tnr_import_close(info.ptr));
            assert_ok(tnr_pool_destroy(pool));
            assert_ok(tnr_device_end(0, 0));
        } else {
            assert_ok(tnr_device_end(0, 1));
            assert_error(tnr_import_close(info.ptr), TNR_ERR_FOREIGN_POINTER, NULL);
        }
        assert_error(tnr_export_close(exported), TNR_ERR_INVALID_EXPORT, NULL);
    }
    tnr_export exported = export_of(unit_malloc(MIB, NULL)); /* live when it ends */
    (void)pass_on(exported);
    assert_ok(tnr_shutdown(1));
    assert_error(tnr_export_send(exported, sockets[EXPORTER]), TNR_ERR_INVALID_EXPORT, NULL);
    assert_int_not_equal(export_of(unit_malloc(MIB, NULL)), exported);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void bad_arguments(void **state)
{
    (void)state;
    start(NULL, "DEVICES=2");
    tnr_export exported = 5;
    tnr_pool pool;
    void *block = unit_malloc(100, NULL), *hidden;
    int here;
    tnr_pool_options none = TNR_POOL_OPTIONS_INIT;
    none.handle_type = TNR_HANDLE_NONE;
    assert_ok(tnr_pool_create(&pool, 0, &none));
    assert_ok(tnr_pool_malloc(&hidden, pool, 100, 0, NULL));
    assert_error(tnr_export_create(NULL, block), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_error(tnr_export_create(&exported, NULL), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_int_equal(exported, 0);
    assert_error(tnr_export_create(&exported, &here), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_error(tnr_export_create(&exported, (char *)block + 4096), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_export_create(&exported, hidden), TNR_ERR_INVALID_ARGUMENT, "POSIX_FD");
    assert_ok(tnr_free(hidden));
    assert_ok(tnr_pool_destroy(pool));
    exported = export_of(block);
    assert_error(tnr_export_send(0, sockets[EXPORTER]), TNR_ERR_INVALID_EXPORT, NULL);
    assert_error(tnr_export_send(exported + 1, sockets[EXPORTER]), TNR_ERR_INVALID_EXPORT, NULL);
    assert_error(tnr_export_send(exported, -1), TNR_ERR_TRANSPORT, "Bad file descriptor");
    assert_ok(tnr_pool_sleep(NULL, 0, NULL)); /* nobody has it open: what failed does not count */
    assert_ok(tnr_pool_wake(NULL, 0));
    tnr_export_info wrong = {0};
    assert_error(tnr_export_get(&wrong, exported), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_error(tnr_export_get(NULL, exported), TNR_ERR_INVALID_ARGUMENT, NULL);
    wrong.struct_bytes = sizeof(wrong);
    assert_error(tnr_export_get(&wrong, 0), TNR_ERR_INVALID_EXPORT, NULL);
    tnr_import_info info = {0};
    tnr_import_options options = TNR_IMPORT_OPTIONS_INIT;
    assert_error(tnr_import_receive(NULL, sockets[IMPORTER], 0, NULL), TNR_ERR_INVALID_ARGUMENT,
                 NULL);
    assert_error(tnr_import_receive(&info, sockets[IMPORTER], 0, NULL), TNR_ERR_INVALID_ARGUMENT,
                 "struct_bytes");
    info.struct_bytes = sizeof(info);
    assert_error(tnr_import_receive(&info, sockets[IMPORTER], 2, NULL), TNR_ERR_INVALID_DEVICE,
                 NULL);
    assert_error(tnr_import_receive(&info, -1, 0, NULL), TNR_ERR_TRANSPORT, NULL);
    options.peers = 4;
    assert_error(tnr_import_receive(&info, sockets[IMPORTER], 0, &options),
                 TNR_ERR_INVALID_ARGUMENT, "2 devices");
    options.peers = 0;
    options.same_address = 2;
    assert_error(tnr_import_receive(&info, sockets[IMPORTER], 0, &options),
                 TNR_ERR_INVALID_ARGUMENT, "INIT");
    assert_error(tnr_import_get(&info, block), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_error(tnr_import_close(block), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_error(tnr_import_close(NULL), TNR_ERR_FOREIGN_POINTER, NULL);
    /* The exporter's own address is taken here. */
    assert_ok(tnr_export_send(exported, sockets[EXPORTER]));
    options.same_address = 1;
    assert_error(tnr_import_receive(&info, sockets[IMPORTER], 0, &options), TNR_ERR_ADDRESS_SPACE,
                 "taken in this process");
    assert_null(info.ptr);
    /* What the exporter had sent on stays in the socket, which is of no more use. */
    assert_error(tnr_import_receive(&info, sockets[IMPORTER], 0, NULL), TNR_ERR_TRANSPORT,
                 "not an export");
    assert_int_equal(info_of(exported).importers, 0);
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(block));
}

static void peers_reach_an_import(void **state)
{
    (void)state;
    start(NULL, "DEVICES=2");
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    tnr_import_options options = TNR_IMPORT_OPTIONS_INIT;
    void *block = unit_malloc(5 * MIB, NULL);
    tnr_export exported = export_of(block);
    options.peers = 3;
    assert_ok(tnr_export_send(exported, sockets[EXPORTER]));
    assert_ok(tnr_import_receive(&info, sockets[IMPORTER], 1, &options));
    assert_int_equal(info.device, 1);
    assert_int_equal(info.device_owner, 0);
    mark(block, 70);
    assert_int_equal(marked(info.ptr), 70);
    assert_error(tnr_device_end(1, 0), TNR_ERR_BUSY, "1 import open");
    assert_ok(tnr_device_end(1, 1));
    assert_error(tnr_import_close(info.ptr), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_int_equal(info_of(exported).importers, 0);
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(block));
}

static void devices_without_a_way(void **state)
{
    (void)state;
    start(NULL, "DEVICES=2");
    unit_start(NULL, "DEVICES=2", "PEERS=0", NULL);
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    void *block = unit_malloc(5 * MIB, NULL);
    tnr_export exported = export_of(block);
    assert_ok(tnr_export_send(exported, sockets[EXPORTER]));
    assert_error(tnr_import_receive(&info, sockets[IMPORTER], 1, NULL), TNR_ERR_NO_PEER_ACCESS,
                 NULL);
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(block));
}

static void memory_of_graphs(void **state)
{
    (void)state;
    start(NULL, NULL);
    tnr_pool pool;
    tnr_export exported;
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    void *block, *plain = unit_malloc(MIB, NULL);
    tnr_stream stream = unit_stream(0);
    CUcontext context, popped;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_ok(tnr_graph_pool_create(&pool, 0, NULL));
    options.pool = pool;
    assert_ok(tnr_capture_begin(0, stream, &options));
    assert_ok(tnr_malloc(&block, MIB, 0, stream));
    assert_error(tnr_export_create(&exported, block), TNR_ERR_INVALID_ARGUMENT, "graph");
    exported = export_of(plain);
    tnr_import_info info = pass_on(exported);
    assert_error(tnr_import_close(info.ptr), TNR_ERR_CAPTURE, NULL);
    CUgraph graph;
    assert_ok(tnr_capture_end(&graph, NULL, 0, stream));
    assert_error(tnr_export_create(&exported, block), TNR_ERR_INVALID_ARGUMENT, "graph");
    assert_ok(tnr_import_close(info.ptr));
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

#define CASE(test) cmocka_unit_test_teardown(test, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_memory_at_two_addresses),
        CASE(every_kind_of_socket),
        CASE(a_growing_block),
        CASE(freed_memory_waits_for_all),
        CASE(uses_of_the_exporter_count_too),
        CASE(closing_waits_for_work),
        CASE(nothing_moves_or_goes),
        CASE(no_sleep_under_an_importer),
        CASE(pools_and_devices_do_not_end),
        CASE(bad_arguments),
        CASE(peers_reach_an_import),
        CASE(devices_without_a_way),
        CASE(memory_of_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
