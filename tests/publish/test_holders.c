/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that hold what another has published: they take it over when it ends, follow new
 * generations, come late, and have too many.
 *
 * Lines of the library changed to see it fail:
 *   tnri_relay_send without the origin, or with the holder's own socket for it; an importer that
 *     closes it: a_holder_dies_before_its_readers
 *   tnri_relay_free that closes no descriptor: a_holder_follows
 *   publish that does not begin the count of holders again: a_holder_follows
 *   hold_try without tnri_exported_close: a_holder_comes_late (a descriptor stays)
 *   look_ms that is always -1; look without tnri_exported_settle: a_holder_does_nothing
 */
#include "publish.h"

#include <string.h>
#include <unistd.h>

#include "await.h"

static void a_holder_takes_over(void **state)
{
    (void)state;
    start(NULL, NULL);
    tnr_import_info info, again;
    tnr_published_info known = {.struct_bytes = sizeof(known)};
    worker publisher = worker_start(), holder = worker_start(), next = worker_start();
    assert_int_equal(tried(&holder, 'H', 0), TNR_ERR_INVALID_EXPORT);
    uint64_t address = must(&publisher, 'P', 77);
    assert_int_equal(must(&holder, 'H', 0), 1);
    assert_int_equal(must(&holder, 'H', 0), 1); /* once is enough */
    assert_ok(tnr_published_get(&known, "w"));
    assert_int_equal(known.holders, 2);
    assert_int_equal(known.processes[1], holder.process);
    (void)worker_end(&publisher, 1);
    assert_ok(attach(&info, SAME));
    assert_true(!SAME || (uintptr_t)info.ptr == address);
    assert_int_equal(marked(info.ptr), 77);
    assert_int_equal(info.process, holder.process);
    assert_int_equal(must(&next, 'H', 0), 1); /* from a holder that has it from another */
    (void)worker_end(&holder, 1);
    assert_ok(attach(&again, 0));
    assert_int_equal(marked(again.ptr), 77);
    assert_ok(tnr_import_close(again.ptr));
    (void)must(&next, 'U', 0);
    assert_error(attach(&again, 0), TNR_ERR_INVALID_EXPORT, "no process holds");
    assert_int_equal(marked(info.ptr), 77);
    assert_ok(tnr_import_close(info.ptr));
    assert_true(worker_end(&next, 0));
}

/* The publisher lives and has freed the block; the holder is killed. Who has it from there keeps
 * the publisher from handing its memory out. */
static void a_holder_dies_before_its_readers(void **state)
{
    (void)state;
    for (int steps = 1; steps <= 2; steps++) { /* from holder to holder */
        start(NULL, "MEMORY=64M");
        worker holder[2], reader = worker_start();
        tnr_pool pool = shared_pool();
        assert_ok(publish(pool, 40 * MIB, 5, NULL));
        for (int i = 0; i < steps; i++) {
            holder[i] = worker_start();
            assert_int_equal(must(&holder[i], 'H', 0), 1);
            if (i == 0)
                assert_ok(tnr_unpublish("w"));
            else
                (void)must(&holder[0], 'U', 0);
        }
        uint64_t open = must(&reader, 'A', 0);
        for (int i = 0; i < steps; i++)
            (void)worker_end(&holder[i], 1);
        for (int i = 0; i < 20; i++) {
            assert_false(worker_can_have_it_all());
            (void)usleep(1000);
        }
        assert_int_equal(must(&reader, 'q', open), 5);
        (void)must(&reader, 'z', open);
        all_is_free_at_last();
        assert_true(worker_end(&reader, 0));
        (void)stop(NULL);
    }
    start(NULL, NULL);
}

static void a_holder_follows(void **state)
{
    (void)state;
    start(NULL, "MEMORY=64M");
    tnr_published_info known = {.struct_bytes = sizeof(known)};
    worker holder = worker_start(), reader = worker_start();
    tnr_pool pool = shared_pool();
    assert_ok(publish(pool, 20 * MIB, 1, NULL));
    assert_int_equal(must(&holder, 'H', 0), 1);
    uint64_t open = must(&reader, 'A', 0);
    assert_ok(publish(pool, 20 * MIB, 2, NULL));
    assert_ok(tnr_published_get(&known, "w"));
    assert_int_equal(known.holders, 1); /* who holds the first does not hold the second */
    assert_int_equal(must(&holder, 'H', 0), 2);
    (void)must(&reader, 'z', open);
    /* The holder lets go of the first when its thread has seen the reader's end. */
    await_true(tnr_trim(NULL, 0, 0) == TNR_OK && unit_stats().reserved_bytes.current == 20 * MIB);
    (void)must(&holder, 'U', 0);
    assert_ok(tnr_unpublish("w"));
    all_is_free_at_last();
    assert_true(worker_end(&holder, 0));
    assert_true(worker_end(&reader, 0));
}

/* The holder holds the block no more when the last reader closes it, or is killed, and makes no
 * call afterwards. The publisher gets its memory back all the same. */
static void a_holder_does_nothing(void **state)
{
    (void)state;
    for (int is_killed = 0; is_killed <= 1; is_killed++) {
        start(NULL, "MEMORY=64M");
        worker holder = worker_start(), reader = worker_start();
        assert_ok(publish(shared_pool(), 20 * MIB, 5, NULL));
        assert_int_equal(must(&holder, 'H', 0), 1);
        assert_ok(tnr_unpublish("w")); /* so that the reader asks the holder */
        uint64_t open = must(&reader, 'A', 0);
        (void)must(&holder, 'U', 0);
        if (is_killed)
            (void)worker_end(&reader, 1);
        else
            (void)must(&reader, 'z', open);
        all_is_free_at_last();
        assert_true(is_killed || worker_end(&reader, 0));
        assert_true(worker_end(&holder, 0));
        (void)stop(NULL);
    }
    start(NULL, NULL);
}

/* The worker that replaces what is being taken over, once: null for none. */
static const worker *replaces;

tnr_status __real_tnri_exported_adopt(int connection, tnr_export *number);
tnr_status __wrap_tnri_exported_adopt(int connection, tnr_export *number);

tnr_status __wrap_tnri_exported_adopt(int connection, tnr_export *number)
{
    tnr_status status = __real_tnri_exported_adopt(connection, number);
    const worker *now = replaces;
    replaces = NULL;
    if (now != NULL)
        (void)must(now, 'Q', 22);
    return status;
}

/* The block is replaced after it has come, and before its holder is in the list: the holder takes
 * over the next one, and lets go of this one. */
static void a_holder_comes_late(void **state)
{
    (void)state;
    start(NULL, NULL);
    uint64_t generation = 0;
    worker publisher = worker_start();
    unsigned kept = 0;
    for (int round = 0; round < 2; round++) { /* in the first, what stays descriptors come */
        (void)must(&publisher, 'Q', 11);
        replaces = &publisher;
        assert_ok(tnr_hold(&generation, "w", NULL));
        assert_null(replaces);
        assert_int_equal(generation, 2 * round + 2);
        assert_ok(tnr_unpublish("w"));
        (void)must(&publisher, 'U', 0);
        if (round == 0)
            kept = descriptors_count();
        await_true(descriptors_count() <= kept);
    }
    assert_int_equal(descriptors_count(), kept);
    assert_true(worker_end(&publisher, 0));
}

/* A holder whose readers have more generations open than may be takes none over. */
static void a_holder_has_too_many(void **state)
{
    (void)state;
    start(NULL, "MEMORY=256M");
    worker publisher = worker_start(), reader = worker_start();
    tnr_publish_options options = TNR_PUBLISH_OPTIONS_INIT;
    uint64_t open[2];
    options.older_max = 1;
    for (int i = 0; i < 2; i++) {
        (void)must(&publisher, 'Q', (uint64_t)i + 1);
        assert_ok(tnr_hold(NULL, "w", &options));
        (void)must(&publisher, 'U', 0); /* so that the reader asks here */
        open[i] = must(&reader, 'A', 0);
    }
    (void)must(&publisher, 'Q', 3);
    assert_error(tnr_hold(NULL, "w", &options), TNR_ERR_BUSY, "Generation 1 has 1 reader,");
    (void)must(&reader, 'z', open[0]);
    assert_ok(tnr_hold(NULL, "w", &options));
    (void)must(&reader, 'z', open[1]);
    assert_ok(tnr_unpublish("w"));
    assert_true(worker_end(&reader, 0));
    assert_true(worker_end(&publisher, 0));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return worker_work();
    const struct CMUnitTest tests[] = {
        CASE(a_holder_takes_over),   CASE(a_holder_dies_before_its_readers),
        CASE(a_holder_follows),      CASE(a_holder_comes_late),
        CASE(a_holder_has_too_many), CASE(a_holder_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
