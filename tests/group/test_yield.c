/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights as a cache: published blocks without a user end when a member of the group is short of
 * memory, the oldest first, and no more than are needed.
 *
 * Lines of the library changed to see it fail:
 *   member_give without tnri_member_yield: the_oldest_goes, and three more
 *   the same without is_short: growth_takes_none
 *   tnri_ask_wait without own_yield: the_store_itself_is_short
 *   the same that goes on to yield in one pass: the_oldest_goes
 *   own_yield without tnri_reclaim_for_others: the_store_itself_is_short
 *   tnri_publication_yield with the first of the list: the_oldest_goes
 *   tnri_exported_is_unused without importers: what_is_used_stays
 *   the same without is_freed: what_is_used_stays
 *   tnri_publication_yield without `yields`: who_did_not_say_so_keeps_all
 *   options_check with sizeof alone: options_are_checked
 *   tnri_reclaim_for_others that ends graphs itself: a_wake_is_short (it waits for itself)
 */
#include "peer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include <tenure/capture.h>
#include <tenure/sleep.h>

#include "tenure/simcuda.h"

enum { DEVICE_MIB = 64, MODEL_MIB = 16, NAMES = 4 };

/* ---- what a peer does ----------------------------------------------------------------------- */

typedef enum what {
    PUBLISH,      /* name b: a block of 16 MiB, freed at once */
    PUBLISH_KEPT, /* likewise, which yields, and stays live here */
    ATTACH,       /* name b */
    CLOSE,        /* what is attached */
    HOLD,         /* name b, with `yields` */
    AWAIT,        /* until none of its publications has a reader */
    GRAPH_GOES,   /* a graph whose pool has slept, and that has just ended */
    BAD,          /* options of kind b: TNR_OK is what must not come */
    CAN_YIELD = 16,
} what;

static const char *const names[NAMES] = {"a", "b", "c", "d"};
static tnr_import_info attached = {.struct_bytes = sizeof(attached)};

static tnr_status publish(const char *name, const tnr_publish_options *options, int is_kept)
{
    static tnr_pool pool;
    tnr_pool_options shared = TNR_POOL_OPTIONS_INIT;
    void *ptr = NULL;
    shared.is_shared = 1;
    tnr_status status = pool != NULL ? TNR_OK : tnr_pool_create(&pool, 0, &shared);
    if (status == TNR_OK)
        status = tnr_pool_malloc(&ptr, pool, MODEL_MIB * MIB, 0, NULL);
    if (status != TNR_OK)
        return status;
    *(char *)ptr = name[0]; /* what `attach` looks at */
    status = tnr_publish(NULL, name, ptr, options);
    if ((status != TNR_OK || !is_kept) && tnr_free(ptr) != TNR_OK)
        _exit(3);
    return status;
}

/* What headers before 1.1.0 had. */
typedef struct old_options {
    size_t struct_bytes;
    int replace;
    uint32_t older_max;
} old_options;

static tnr_status bad(uint64_t which)
{
    tnr_publish_options options = TNR_PUBLISH_OPTIONS_INIT;
    static const old_options old = {.struct_bytes = sizeof(old)};
    if (which == 0)
        options.yields = 2;
    if (which == 1)
        options.yields = -1;
    if (which == 2)
        options.struct_bytes--;
    return publish("a", which == 3 ? (const tnr_publish_options *)(const void *)&old : &options, 0);
}

static tnr_status attach(const char *name)
{
    tnr_status status = tnr_attach(&attached, name, 0, NULL);
    if (status == TNR_OK && *(char *)attached.ptr != name[0])
        _exit(4);
    return status;
}

/* A reader may have closed what the thread that has sent it to the reader still counts. */
static tnr_status await(void)
{
    tnr_publication_info info = {.struct_bytes = sizeof(info)};
    for (size_t i = 0; tnr_publication_at(&info, i) == TNR_OK; i++)
        if (info.readers > 0) {
            (void)usleep(1000);
            i = (size_t)-1; /* from the beginning */
        }
    return TNR_OK;
}

static tnr_status graph_goes(void)
{
    void *ptr;
    CUcontext context;
    CUstream stream;
    tnr_cuda_graph cuda;
    tnr_graph number;
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    int is_done = cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
                  cuCtxSetCurrent(context) == CUDA_SUCCESS &&
                  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                  tnr_capture_begin(0, stream, NULL) == TNR_OK &&
                  tnr_malloc(&ptr, MIB, 0, stream) == TNR_OK && tnr_free(ptr) == TNR_OK &&
                  tnr_capture_end(&cuda, &number, 0, stream) == TNR_OK &&
                  tnr_graph_get(&info, number) == TNR_OK &&
                  tnr_pool_sleep(info.pool, 0, NULL) == TNR_OK &&
                  tnr_pool_wake(info.pool, 0) == TNR_OK && cuGraphDestroy(cuda) == CUDA_SUCCESS;
    (void)simcuda_run(UINT64_MAX); /* the driver tells of its end */
    return is_done && tnr_stream_destroying(0, stream) == TNR_OK &&
                   cuStreamDestroy(stream) == CUDA_SUCCESS &&
                   cuCtxSetCurrent(NULL) == CUDA_SUCCESS &&
                   cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS
               ? TNR_OK
               : TNR_ERR_DRIVER;
}

static tnr_status other(uint64_t a, uint64_t b)
{
    tnr_publish_options options = TNR_PUBLISH_OPTIONS_INIT;
    options.yields = (a & CAN_YIELD) != 0;
    switch ((what)(a & ~(uint64_t)CAN_YIELD)) {
    case PUBLISH:
        return publish(names[b], &options, 0);
    case PUBLISH_KEPT:
        return publish(names[b], &options, 1);
    case ATTACH:
        return attach(names[b]);
    case CLOSE:
        return tnr_import_close(attached.ptr);
    case HOLD:
        return tnr_hold(NULL, names[b], &options);
    case AWAIT:
        return await();
    case GRAPH_GOES:
        return graph_goes();
    default:
        return bad(b);
    }
}

/* ---- what is asked of them ------------------------------------------------------------------ */

static int begin(void **state)
{
    (void)state;
    peers_begin(DEVICE_MIB);
    return 0;
}

/* A store that has published so many models, the first first. */
static peer store_start(const char *conf, int how, int count)
{
    peer store = peer_start(conf);
    for (int i = 0; i < count; i++)
        peer_must(&store, PEER_OTHER, (uint64_t)how, (uint64_t)i);
    assert_int_equal(peer_reserved(&store), (size_t)count * MODEL_MIB * MIB);
    return store;
}

static void reader_closes(const peer *store, const peer *reader)
{
    peer_must(reader, PEER_OTHER, CLOSE, 0);
    peer_must(store, PEER_OTHER, AWAIT, 0);
}

static void is_there(const peer *store, const peer *reader, uint64_t name)
{
    peer_must(reader, PEER_OTHER, ATTACH, name);
    reader_closes(store, reader);
}

static void has_gone(const peer *reader, uint64_t name)
{
    peer_must_fail(reader, PEER_OTHER, ATTACH, name, TNR_ERR_INVALID_EXPORT, names[name]);
}

static void has_yielded(const peer *store, uint64_t count)
{
    tnr_stats stats = peer_must(store, PEER_STATS, 0, 0).stats;
    assert_int_equal(stats.group_yields, count);
    assert_int_equal(stats.group_yielded_bytes, count * MODEL_MIB * MIB);
}

static void end(peer *store, peer *reader)
{
    assert_true(peer_end(reader));
    assert_true(peer_end(store));
    assert_true(peers_left_nothing(DEVICE_MIB));
}

/* Three of 16 MiB, and 16 MiB left. What is asked for decides how many go; a name that has gone can
 * be published again, with the next generation. */
static void the_oldest_goes(void **state)
{
    (void)state;
    peer store = store_start("group:g", PUBLISH | CAN_YIELD, 3), reader = peer_start("group:g");
    is_there(&store, &reader, 0);
    peer_must(&reader, PEER_MALLOC, 0, 24 * MIB);
    has_yielded(&store, 1);
    has_gone(&reader, 0);
    is_there(&store, &reader, 1);
    is_there(&store, &reader, 2);
    peer_must(&reader, PEER_MALLOC, 1, 24 * MIB);
    has_yielded(&store, 2);
    has_gone(&reader, 1);
    is_there(&store, &reader, 2);
    peer_must(&reader, PEER_FREE, 0, 0);
    peer_must(&reader, PEER_FREE, 1, 0);
    peer_must(&store, PEER_OTHER, PUBLISH | CAN_YIELD, 0);
    is_there(&store, &reader, 0);
    peer_must(&reader, PEER_MALLOC, 0, 48 * MIB); /* the older of the two is c now */
    has_gone(&reader, 2);
    is_there(&store, &reader, 0);
    has_yielded(&store, 3);
    peer_must(&reader, PEER_FREE, 0, 0);
    end(&store, &reader);
}

/* What one reads, and what its publisher has not freed, is nobody's to take. */
static void what_is_used_stays(void **state)
{
    (void)state;
    peer store = store_start("group:g", PUBLISH | CAN_YIELD, 2), reader = peer_start("group:g");
    peer_must(&store, PEER_OTHER, PUBLISH_KEPT | CAN_YIELD, 2);
    peer_must(&reader, PEER_OTHER, ATTACH, 0);
    peer_must(&reader, PEER_MALLOC, 0, 24 * MIB);
    has_yielded(&store, 1);
    has_gone(&reader, 1);
    peer_must_fail(&reader, PEER_MALLOC, 1, 24 * MIB, TNR_ERR_OUT_OF_MEMORY, "out of memory");
    has_yielded(&store, 1);
    reader_closes(&store, &reader);
    peer_must(&reader, PEER_MALLOC, 1, 20 * MIB); /* once nobody reads it */
    has_yielded(&store, 2);
    has_gone(&reader, 0);
    is_there(&store, &reader, 2);
    peer_must(&reader, PEER_FREE, 0, 0);
    peer_must(&reader, PEER_FREE, 1, 0);
    assert_true(peer_end(&reader));
    peer_kill(&store); /* it has a live block */
}

static void who_did_not_say_so_keeps_all(void **state)
{
    (void)state;
    peer store = store_start("group:g", PUBLISH, 3), reader = peer_start("group:g");
    peer_must_fail(&reader, PEER_MALLOC, 0, 24 * MIB, TNR_ERR_OUT_OF_MEMORY, "out of memory");
    has_yielded(&store, 0);
    for (uint64_t i = 0; i < 3; i++)
        is_there(&store, &reader, i);
    end(&store, &reader);
}

/* A member that grows while the device has room asks for idle memory, and for no more. */
static void growth_takes_none(void **state)
{
    (void)state;
    peer store = store_start("group:g", PUBLISH | CAN_YIELD, 2), reader = peer_start("group:g");
    for (uint64_t i = 0; i < 3; i++)
        peer_must(&reader, PEER_MALLOC, i, 8 * MIB);
    peer_must(&store, PEER_STATS, 0, 0);
    has_yielded(&store, 0);
    is_there(&store, &reader, 0);
    is_there(&store, &reader, 1);
    for (uint64_t i = 0; i < 3; i++)
        peer_must(&reader, PEER_FREE, i, 0);
    end(&store, &reader);
}

static void floors_bind(void **state)
{
    (void)state;
    peer store = store_start("group:g,group_floor_mb:48", PUBLISH | CAN_YIELD, 3);
    peer reader = peer_start("group:g");
    peer_must_fail(&reader, PEER_MALLOC, 0, 24 * MIB, TNR_ERR_OUT_OF_MEMORY, "out of memory");
    has_yielded(&store, 0);
    end(&store, &reader);
}

/* Alone in its group, it publishes more than fits. */
static void the_store_itself_is_short(void **state)
{
    (void)state;
    peer store = store_start("group:g,group_floor_mb:64", PUBLISH | CAN_YIELD, 3);
    peer reader = peer_start("group:h");
    peer_must(&store, PEER_OTHER, PUBLISH | CAN_YIELD, 3);
    has_yielded(&store, 0); /* four fit */
    peer_must(&store, PEER_MALLOC, 0, 20 * MIB);
    has_yielded(&store, 2);
    has_gone(&reader, 0);
    has_gone(&reader, 1);
    is_there(&store, &reader, 2);
    is_there(&store, &reader, 3);
    peer_must(&store, PEER_FREE, 0, 0);
    end(&store, &reader);
}

/* A wake makes room, too, while it works on what sleeps; a graph that ends then has a pool that has
 * slept. */
static void a_wake_is_short(void **state)
{
    (void)state;
    peer store = peer_start("group:g"), reader = peer_start("group:h");
    peer_must(&store, PEER_MALLOC, 0, 20 * MIB);
    peer_must(&store, PEER_SLEEP, 0, 0);
    for (uint64_t i = 0; i < 3; i++)
        peer_must(&store, PEER_OTHER, PUBLISH | CAN_YIELD, i);
    peer_must(&store, PEER_OTHER, GRAPH_GOES, 0);
    peer_must(&store, PEER_WAKE, 0, 0);
    has_yielded(&store, 1);
    has_gone(&reader, 0);
    is_there(&store, &reader, 1);
    is_there(&store, &reader, 2);
    peer_must(&store, PEER_FREE, 0, 0);
    end(&store, &reader);
}

/* All of it, while the other reads and reads again: each reader has a model whole, or is told that
 * it has gone. */
static void readers_come_meanwhile(void **state)
{
    (void)state;
    enum { ROUNDS = 20 };
    static peer_answer said;
    peer store = peer_start("group:g"), asker = peer_start("group:g"), reader = peer_start("");
    uint64_t read = 0;
    for (int i = 0; i < ROUNDS; i++) {
        peer_must(&store, PEER_OTHER, PUBLISH | CAN_YIELD, 0);
        peer_must(&store, PEER_OTHER, PUBLISH | CAN_YIELD, 1);
        assert_true(peer_tell(&asker, PEER_MALLOC, 0, 56 * MIB));
        assert_true(peer_ask(&reader, PEER_OTHER, ATTACH, (uint64_t)i % 2, &said));
        int is_read = said.status == TNR_OK;
        assert_true(is_read || said.status == TNR_ERR_INVALID_EXPORT ||
                    said.status == TNR_ERR_TRANSPORT);
        read += (uint64_t)is_read;
        assert_true(peer_hear(&asker, &said));
        int is_had = said.status == TNR_OK;
        assert_true(is_had || (is_read && said.status == TNR_ERR_OUT_OF_MEMORY));
        if (is_read)
            reader_closes(&store, &reader);
        if (!is_had)
            peer_must(&asker, PEER_MALLOC, 0, 56 * MIB);
        peer_must(&asker, PEER_FREE, 0, 0);
        peer_must(&store, PEER_STATS, 0, 0);
    }
    print_message("%llu of %d were read\n", (unsigned long long)read, ROUNDS);
    assert_true(peer_end(&reader));
    end(&store, &asker);
}

static void options_are_checked(void **state)
{
    (void)state;
    peer store = peer_start("group:g"), reader = peer_start("group:g");
    for (uint64_t i = 0; i < 3; i++)
        peer_must_fail(&store, PEER_OTHER, BAD, i, TNR_ERR_INVALID_ARGUMENT, "options");
    has_gone(&reader, 0);
    peer_must(&store, PEER_OTHER, BAD, 3); /* a header before 1.1.0 */
    peer_must_fail(&reader, PEER_OTHER, HOLD | CAN_YIELD, 0, TNR_ERR_INVALID_ARGUMENT, "yields");
    peer_must_fail(&reader, PEER_MALLOC, 0, 56 * MIB, TNR_ERR_OUT_OF_MEMORY, "out of memory");
    has_yielded(&store, 0);
    end(&store, &reader);
}

int main(int argc, char **argv)
{
    peer_other = other;
    if (argc == 2 && strcmp(argv[1], "peer") == 0)
        return peer_work();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_oldest_goes, begin, peers_end),
        cmocka_unit_test_setup_teardown(what_is_used_stays, begin, peers_end),
        cmocka_unit_test_setup_teardown(who_did_not_say_so_keeps_all, begin, peers_end),
        cmocka_unit_test_setup_teardown(growth_takes_none, begin, peers_end),
        cmocka_unit_test_setup_teardown(floors_bind, begin, peers_end),
        cmocka_unit_test_setup_teardown(the_store_itself_is_short, begin, peers_end),
        cmocka_unit_test_setup_teardown(a_wake_is_short, begin, peers_end),
        cmocka_unit_test_setup_teardown(readers_come_meanwhile, begin, peers_end),
        cmocka_unit_test_setup_teardown(options_are_checked, begin, peers_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
