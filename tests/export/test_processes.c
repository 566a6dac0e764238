/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports and imports between two processes: this one and a worker, which is the same program
 * started anew and does what it is told. Each of them is killed at every call of the system that an
 * export takes, at rest, and with a forked child that lives on; and each time the memory is free
 * afterwards.
 *
 * Lines of the library changed to see it fail:
 *   importer_is_over: tnri_descriptor_has_ended replaced by 0: importer_dies_at_each_call and
 *     _at_rest; the hang-up taken for nothing: importer_dies_at_each_call, importer_has_not_begun
 *   greet without tnri_descriptor_of_process: hung_up_is_not_dead
 *   child_close that closes nothing: a_child_of_the_exporter_lives
 */
#include "calls.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cuda.h>
#include <tenure/tenure.h>

#include "await.h"
#include "worker.h"

static tnr_export block_export(void **block)
{
    tnr_export exported;
    *block = unit_malloc(40 * MIB, NULL);
    mark(*block, 5);
    assert_ok(tnr_export_create(&exported, *block));
    return exported;
}

static void there_and_back(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    worker other = worker_start();
    void *block;
    for (uint64_t same = 0; same < 2; same++) {
        tnr_export exported = block_export(&block);
        assert_ok(tnr_export_send(exported, other.shared));
        uint64_t there = worker_must(&other, 'i', same);
        if (same)
            assert_int_equal(there, (uintptr_t)block);
        assert_int_equal(worker_must(&other, 'r', 0), 5);
        (void)worker_must(&other, 'w', 6);
        assert_int_equal(marked(block), 6);
        assert_ok(tnr_export_close(exported));
        assert_ok(tnr_free(block));
        assert_false(worker_can_have_it_all());
        (void)worker_must(&other, 'c', 0);
        worker_all_is_free();
    }
    assert_true(worker_end(&other, 0));
}

/* What the worker has allocated is not taken from it. */
static void the_same_address_twice(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=256M", NULL);
    worker other = worker_start();
    void *block;
    answer said;
    (void)worker_must(&other, 'm', 4 * MIB);
    tnr_export exported = block_export(&block);
    assert_ok(tnr_export_send(exported, other.shared));
    assert_true(worker_ask(&other, 'i', 1, &said));
    assert_int_equal(said.status, TNR_ERR_ADDRESS_SPACE);
    tnr_export_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_export_get(&info, exported));
    assert_int_equal(info.importers, 0);
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(block));
    worker_all_is_free();
    (void)worker_must(&other, 'f', 0);
    assert_true(worker_end(&other, 0));
}

static void importer_dies_at_each_call(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    int dies = 1;
    for (unsigned nth = 1; dies; nth++) {
        void *block;
        answer said;
        worker other = worker_start();
        (void)worker_must(&other, 'k', nth);
        tnr_export exported = block_export(&block);
        assert_ok(tnr_export_send(exported, other.shared));
        dies = !(worker_ask(&other, 'i', 0, &said) && worker_ask(&other, 'c', 0, &said));
        assert_int_equal(worker_end(&other, 0), !dies);
        assert_ok(tnr_free(block));
        assert_ok(tnr_export_close(exported));
        worker_all_is_free();
    }
}

static void importer_dies_at_rest(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    for (int with_child = 0; with_child < 2; with_child++) {
        void *block;
        worker other = worker_start();
        tnr_export exported = block_export(&block);
        assert_ok(tnr_export_send(exported, other.shared));
        (void)worker_must(&other, 'i', 0);
        pid_t child = with_child ? (pid_t)worker_must(&other, 'F', 0) : 0;
        assert_ok(tnr_free(block));
        assert_ok(tnr_export_close(exported));
        assert_false(worker_can_have_it_all());
        (void)worker_end(&other, 1);
        worker_all_is_free();
        if (child != 0)
            assert_int_equal(kill(child, SIGKILL), 0);
    }
}

/* Its work on the device may go on for longer than its descriptors are open. */
static void hung_up_is_not_dead(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    void *block;
    worker other = worker_start();
    tnr_export exported = block_export(&block);
    assert_ok(tnr_export_send(exported, other.shared));
    (void)worker_must(&other, 'i', 0);
    (void)worker_must(&other, 'x', 0);
    assert_ok(tnr_free(block));
    assert_ok(tnr_export_close(exported));
    assert_false(worker_can_have_it_all());
    (void)worker_end(&other, 1);
    worker_all_is_free();
}

static void importer_has_not_begun(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    void *block;
    worker other = worker_start();
    tnr_export exported = block_export(&block);
    assert_ok(tnr_export_send(exported, other.shared));
    assert_ok(tnr_free(block));
    assert_ok(tnr_export_close(exported));
    assert_false(worker_can_have_it_all()); /* it may still begin */
    (void)worker_end(&other, 1);
    worker_all_is_free();
}

static void exporter_dies_at_each_call(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    int dies = 1;
    for (unsigned nth = 1; dies; nth++) {
        answer said;
        tnr_import_info info = {.struct_bytes = sizeof(info)};
        worker other = worker_start();
        (void)worker_must(&other, 'm', 9 * MIB);
        (void)worker_must(&other, 'k', nth);
        dies = !worker_ask(&other, 's', 0, &said);
        if (dies) /* and what it was sending with it */
            (void)worker_end(&other, 1);
        else
            (void)shutdown(other.shared, SHUT_WR);
        tnr_status status = TNR_ERR_TRANSPORT;
        if (!dies)
            status = tnr_import_receive(&info, other.shared, 0, NULL);
        if (status == TNR_OK) {
            assert_int_equal(marked(info.ptr), 77);
            (void)worker_end(&other, 1);
            assert_int_equal(marked(info.ptr), 77); /* it stays */
            assert_ok(tnr_import_close(info.ptr));
        }
        assert_ok(tnr_validate(-1));
    }
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.handles, 0);
}

static void a_child_of_the_exporter_lives(void **state)
{
    (void)state;
    unit_start(NULL, NULL, NULL);
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    worker other = worker_start();
    (void)worker_must(&other, 'm', 9 * MIB);
    (void)worker_must(&other, 's', 0);
    assert_ok(tnr_import_receive(&info, other.shared, 0, NULL));
    pid_t child = (pid_t)worker_must(&other, 'F', 0);
    /* It has the two that this program gave its parent, and none of the library's: as soon as it
     * runs. */
    await_true(worker_descriptors(child) == 2);
    assert_int_equal(worker_descriptors(other.process), 3);
    (void)worker_end(&other, 1);
    assert_int_equal(marked(info.ptr), 77);
    assert_ok(tnr_import_close(info.ptr));
    assert_int_equal(kill(child, SIGKILL), 0);
}

#define CASE(test) cmocka_unit_test_teardown(test, unit_stop)

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return worker_work();
    const struct CMUnitTest tests[] = {
        CASE(there_and_back),
        CASE(the_same_address_twice),
        CASE(importer_dies_at_each_call),
        CASE(importer_dies_at_rest),
        CASE(hung_up_is_not_dead),
        CASE(importer_has_not_begun),
        CASE(exporter_dies_at_each_call),
        CASE(a_child_of_the_exporter_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
