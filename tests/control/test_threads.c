/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controllers on several threads while the program allocates, switches control on and off, ends a
 * device, and shuts down and starts again: an answer or a hung-up connection, and never a call into
 * a library that is gone. And tnr_validate finds nothing meanwhile: without TNRI_DEVICE_PAUSES in
 * it, one of four runs found totals that a sleep was changing.
 */
#include "sleep/sleep.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/control.h>
#include <tenure/tag.h>

#include "client.h"

enum { CONTROLLERS = 2 };

static _Atomic int is_over;
static _Atomic int answers_count, hung_up_count;
static _Atomic(const char *) broken;
static int rounds = 100;

static void *rule(void *data)
{
    static const char *const requests[] = {"{\"command\":\"status\",\"streams\":true}",
                                           "{\"command\":\"sleep\"}",
                                           "{\"command\":\"wake\"}",
                                           "{\"command\":\"trim\"}",
                                           "{\"command\":\"compact\"}",
                                           "{\"command\":\"settings\"}",
                                           "{\"command\":\"sleep\",\"tags\":[\"weights\"]}"};
    uint64_t random = (uint64_t)(uintptr_t)data;
    while (!atomic_load(&is_over)) {
        client one;
        int is_open = client_open(&one);
        for (int i = 0; is_open && i < 8; i++) {
            const char *answer = client_ask(&one, requests[unit_below(&random, 7)]);
            if (answer == NULL) {
                atomic_fetch_add(&hung_up_count, 1);
                break;
            }
            atomic_fetch_add(&answers_count, 1);
            if (strstr(answer, "\"ok\":") == NULL)
                atomic_store(&broken, "no answer");
        }
        client_close(&one);
    }
    return NULL;
}

/* A block in a region, while it may be put to sleep. */
static void block_make(void)
{
    tnr_pool pool;
    void *block;
    assert_ok(tnr_tag_pool(&pool, "weights", TNR_CONTENT_DEFAULT));
    assert_ok(tnr_pool_push(pool));
    tnr_status status = tnr_malloc(&block, 3 * MIB, 0, NULL);
    assert_ok(tnr_pool_pop(pool));
    if (status == TNR_OK)
        assert_ok(tnr_free(block));
    else
        assert_int_equal(status, TNR_ERR_ASLEEP);
}

static void everything_at_once(void **state)
{
    (void)state;
    pthread_t controllers[CONTROLLERS];
    unit_start(client_conf(NULL), "SCHEDULE=eager", NULL);
    for (uintptr_t i = 0; i < CONTROLLERS; i++)
        assert_int_equal(pthread_create(&controllers[i], NULL, rule, (void *)(i + 1)), 0);
    for (int round = 0; round < rounds || atomic_load(&answers_count) < rounds; round++) {
        block_make();
        assert_ok(tnr_validate(-1));
        switch (round % 4) {
        case 0:
            assert_ok(tnr_shutdown(1));
            assert_ok(tnr_init());
            break;
        case 1:
            assert_ok(tnr_device_end(0, 1));
            break;
        case 2:
            assert_ok(tnr_configure("control:off"));
            assert_ok(tnr_configure("control:on"));
            break;
        default:
            assert_non_null(client_ask_once("{\"command\":\"status\"}"));
        }
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < CONTROLLERS; i++)
        assert_int_equal(pthread_join(controllers[i], NULL), 0);
    if (atomic_load(&broken) != NULL)
        fail_msg("%s", atomic_load(&broken));
    assert_int_equal(client_folder_count(), 1);
    print_message("%d answers, %d hung up\n", answers_count, hung_up_count);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(everything_at_once, unit_stop),
    };
    if (argc > 1)
        rounds = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
