/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the layer of captures refuses, with which words, and that a refusal changes nothing:
 * meaningless arguments, calls from its own callbacks, calls in a forked child. Also that
 * tnr_validate finds mistakes that are planted in the layer's records.
 *
 * Lines of the library taken out to see it fail:
 *   tnri_captures_forget in library_mark_forked; tnri_library_is_forked in tnr_graph_pool_vouch, or
 *     in tnr_tag_of: in_a_forked_child
 */
#include "steps.h"

#include <string.h>
#include <unistd.h>

#include <tenure/compact.h>
#include <tenure/history.h>
#include <tenure/sleep.h>
#include <tenure/tag.h>

#include "graph/capture.h"
#include "graph/graph.h"
#include "graph/piece.h"
#include "graph/place.h"

/* ---- arguments ------------------------------------------------------------------------------ */

static void pools_and_graphs(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_pool pool = (tnr_pool)&pool;
    tnr_graph graph = 0;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    assert_error(tnr_graph_pool_create(NULL, 0, &options), TNR_ERR_INVALID_ARGUMENT,
                 "pool is null");
    options.handle_type = (tnr_handle_type)-1;
    assert_error(tnr_graph_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "options");
    assert_null(pool);
    options.handle_type = (tnr_handle_type)(TNR_HANDLE_FABRIC + 1);
    assert_error(tnr_graph_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "options");
    options = (tnr_pool_options)TNR_POOL_OPTIONS_INIT;
    options.struct_bytes--;
    assert_error(tnr_graph_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "options");
    assert_error(tnr_graph_pool_create(&pool, 64, NULL), TNR_ERR_INVALID_DEVICE, "64");
    CUgraph cuda = NULL;
    assert_int_equal(cuGraphCreate(&cuda, 0), CUDA_SUCCESS);
    assert_error(tnr_graph_adopt(NULL, cuda, 0, NULL), TNR_ERR_INVALID_ARGUMENT, "number is null");
    assert_error(tnr_graph_adopt(&graph, NULL, 0, NULL), TNR_ERR_INVALID_ARGUMENT,
                 "the CUDA graph is null");
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    capture_begin(ORIGIN, NULL);
    recorded made = capture_end(ORIGIN);
    assert_error(tnr_graph_launch(made.number, NULL, ORIGIN), TNR_ERR_INVALID_ARGUMENT,
                 "the executable is null");
    recorded_destroy(&made);
    check_all_given_back();
}

static void captures(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_graph graph = 0;
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = (__typeof__(options.mode))-1;
    assert_error(tnr_capture_begin(0, ORIGIN, &options), TNR_ERR_INVALID_ARGUMENT, NULL);
    options = (tnr_capture_options)TNR_CAPTURE_OPTIONS_INIT;
    assert_error(tnr_capture_attach(NULL, 0, ORIGIN, &options), TNR_ERR_INVALID_ARGUMENT,
                 "number is null");
    assert_error(tnr_capture_attach(&graph, 0, ORIGIN, &options), TNR_ERR_CAPTURE, NULL);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_NONE);
    check_all_given_back();
}

/* Pools other than the capture's, and handles that are none. */
static void pools_inside(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_pool other, own = graph_pool("own");
    void *ptr = &ptr;
    assert_ok(tnr_pool_create(&other, 0, NULL));
    capture_begin(ORIGIN, own);
    assert_error(tnr_pool_malloc(&ptr, other, MIB, 0, ORIGIN), TNR_ERR_CAPTURE,
                 "captured into pool \"own\"");
    assert_null(ptr);
    assert_error(tnr_pool_malloc(&ptr, (tnr_pool)0x55, MIB, 0, ORIGIN), TNR_ERR_INVALID_POOL, NULL);
    assert_ok(tnr_pool_malloc(&ptr, own, MIB, 0, ORIGIN));
    recorded graph = capture_end(ORIGIN);
    assert_ok(tnr_free(ptr));
    recorded_destroy(&graph);
    steps_settle();
    assert_ok(tnr_pool_destroy(own));
    assert_ok(tnr_pool_destroy(other));
    check_all_given_back();
}

static void contents(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_pool pool;
    void *ptr;
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&ptr, pool, MIB, 0, NULL));
    static const int bad[] = {-1, TNR_CONTENT_DISK + 1};
    for (size_t i = 0; i < 2; i++) {
        options.content = (tnr_content)bad[i];
        assert_error(tnr_pool_sleep(pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, NULL);
        assert_error(tnr_block_content_set(ptr, (tnr_content)bad[i]), TNR_ERR_INVALID_ARGUMENT,
                     NULL);
        assert_error(tnr_history_set(0, (tnr_history_mode)(i == 0 ? -1 : TNR_HISTORY_FULL + 1)),
                     TNR_ERR_INVALID_ARGUMENT, NULL);
    }
    assert_int_equal(tnr_pool_generation(pool, 0), 0);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_pool_destroy(pool));
    assert_ok(tnr_shutdown(0));
    assert_int_equal(tnr_pool_generation(NULL, 0), 0);
    assert_error(tnr_block_content_set(&pool, TNR_CONTENT_KEEP), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_error(tnr_commit(&pool, MIB), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_ok(tnr_init());
}

/* ---- from callbacks ------------------------------------------------------------------------- */

static int asked;
static tnr_graph launched;
static tnr_pool launched_pool;
static CUgraphExec launched_exec;
static tnr_cuda_graph launched_cuda;

static void refused(tnr_status status, int line)
{
    if (status != TNR_ERR_BUSY || strstr(tnr_last_error(), "from a callback") == NULL)
        fail_msg("line %d: %s (%s)", line, tnr_status_name(status), tnr_last_error());
}
#define assert_refused(call) refused((call), __LINE__)

static int call_everything(const tnr_oom_info *info, void *user)
{
    (void)info;
    (void)user;
    tnr_graph graph;
    tnr_cuda_graph cuda;
    tnr_pool pool;
    void *ptr;
    CUgraph empty = NULL;
    asked++;
    assert_int_equal(cuGraphCreate(&empty, 0), CUDA_SUCCESS);
    assert_refused(tnr_capture_begin(0, OUTSIDE, NULL));
    assert_refused(tnr_capture_attach(&graph, 0, ORIGIN, NULL));
    assert_refused(tnr_capture_end(&cuda, &graph, 0, ORIGIN));
    assert_refused(tnr_capture_abort(0, ORIGIN));
    assert_refused(tnr_capture_ended(launched, NULL));
    assert_refused(tnr_graph_adopt(&graph, empty, 0, NULL));
    assert_refused(tnr_graph_pool_create(&pool, 0, NULL));
    assert_refused(tnr_graph_pool_vouch(launched_pool));
    assert_refused(tnr_graph_launch(launched, launched_exec, OUTSIDE));
    assert_refused(tnr_graph_launching(launched, OUTSIDE));
    assert_refused(tnr_malloc(&ptr, 4096, 0, ORIGIN));
    assert_int_equal(cuGraphDestroy(empty), CUDA_SUCCESS);
    return 0;
}

/* The callback of an allocation inside of a capture: the layer is at work. */
static void from_a_callback(void **state)
{
    (void)state;
    void *ptr, *other;
    steps_start(NULL, "MEMORY=64M");
    capture_begin(BRANCH, NULL);
    recorded before = capture_end(BRANCH);
    launched = before.number;
    assert_ok(tnr_graph_pool_create(&launched_pool, 0, NULL));
    launched_exec = before.exec;
    capture_begin(ORIGIN, NULL);
    assert_ok(tnr_malloc(&ptr, 20 * MIB, 0, ORIGIN));
    asked = 0;
    tnr_oom_callback_set(call_everything, NULL);
    assert_error(tnr_malloc(&other, 60 * MIB, 0, ORIGIN), TNR_ERR_OUT_OF_MEMORY, NULL);
    tnr_oom_callback_set(NULL, NULL);
    assert_int_equal(asked, 1);
    assert_ok(tnr_validate(-1));
    recorded graph = capture_end(ORIGIN);
    assert_ok(tnr_free(ptr));
    recorded_destroy(&graph);
    recorded_destroy(&before);
    assert_ok(tnr_pool_destroy(launched_pool));
    check_all_given_back();
}

/* ---- in a forked child ---------------------------------------------------------------------- */

static void child_calls_everything(void *block)
{
    tnr_graph graph;
    tnr_cuda_graph cuda;
    tnr_audit audit = {.struct_bytes = sizeof(audit)};
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    void *ptr;
    const char *tag;
    const tnr_status results[] = {
        tnr_malloc(&ptr, MIB, 0, OTHER),
        tnr_free(block),
        tnr_record_use(block, OTHER),
        tnr_record_stream(block, OTHER),
        tnr_free_on(block, OTHER),
        tnr_free_sync(block),
        tnr_commit(block, MIB),
        tnr_capture_begin(0, OTHER, NULL),
        tnr_capture_attach(&graph, 0, OTHER, NULL),
        tnr_capture_end(&cuda, &graph, 0, ORIGIN),
        tnr_capture_abort(0, ORIGIN),
        tnr_capture_ended(launched, NULL),
        tnr_graph_launch(launched, launched_exec, OTHER),
        tnr_graph_audit(&audit, launched_cuda, launched, NULL, NULL),
        tnr_pool_sleep(NULL, 0, &options),
        tnr_pool_wake(NULL, 0),
        tnr_device_sleep(0, &options),
        tnr_device_wake(0),
        tnr_compact(NULL, NULL, 0),
        tnr_device_compact(NULL, 0),
        tnr_graph_pool_vouch(NULL),
        tnr_tag_of(&tag, block),
        tnr_block_content_set(block, TNR_CONTENT_KEEP),
        tnr_sleep_prepare(MIB, 0),
        tnr_history_set(0, TNR_HISTORY_LIGHT),
        tnr_mark("mark"),
        tnr_snapshot_write("/dev/null", TNR_SNAPSHOT_JSON),
    };
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i] != TNR_ERR_AFTER_FORK)
            _exit((int)i + 1);
}

static void in_a_forked_child(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    void *block = unit_malloc(MIB, ORIGIN);
    capture_begin(BRANCH, NULL);
    recorded graph = capture_end(BRANCH);
    launched = graph.number;
    launched_exec = graph.exec;
    launched_cuda = graph.cuda;
    assert_int_equal(unit_in_child(child_calls_everything, block, 0), 0);
    capture_begin(ORIGIN, NULL); /* while the parent captures, too */
    assert_int_equal(unit_in_child(child_calls_everything, block, 0), 0);
    recorded other = capture_end(ORIGIN);
    assert_ok(tnr_validate(-1));
    assert_ok(tnr_free(block));
    recorded_destroy(&graph);
    recorded_destroy(&other);
    check_all_given_back();
}

/* ---- planted mistakes ----------------------------------------------------------------------- */

#define PLANT(place, wrong, text)                                                                  \
    do {                                                                                           \
        __typeof__(place) kept_ = (place);                                                         \
        (place) = (wrong);                                                                         \
        assert_error(tnr_validate(-1), TNR_ERR_INTERNAL, text);                                    \
        (place) = kept_;                                                                           \
        assert_ok(tnr_validate(-1));                                                               \
    } while (0)

/* A place whose capture has a live block, and the piece of one that was freed. */
static void records_of_a_place(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    capture_begin(ORIGIN, NULL);
    unsigned char *freed = captured_block(ORIGIN, 1);
    unsigned char *live = captured_block(ORIGIN, 2);
    assert_ok(tnr_free(freed));
    tnri_place *place = tnri_place_walk(NULL);
    assert_non_null(place);
    tnri_captured *piece = NULL;
    for (int w = 0; w < TNRI_WORLDS; w++)
        for (int c = 0; c < TNRI_PIECE_CLASSES; c++)
            if (place->pieces[w][c] != NULL)
                piece = place->pieces[w][c];
    assert_non_null(piece);
    tnri_block *block = piece->uses.block;
    PLANT(piece->views, ~piece->views, "is open to other streams than those after its uses");
    PLANT(piece->capture, NULL, "is open to other streams");
    PLANT(block->uses, NULL, "is not a retired record");
    PLANT(place->pieces_count, place->pieces_count + 1, "pieces are in the lists");
    PLANT(place->captures_count, 0, "and none is under way");
    PLANT(place->graphs_count, place->graphs_count + 1, "are counted");
    PLANT(piece->is_piece, 0, "has records of 0 pieces");
    tnri_captured **list = tnri_piece_list(piece);
    tnri_captured **wrong = &place->pieces[TNRI_SMALL][0];
    assert_ptr_not_equal(list, wrong);
    *list = NULL;
    *wrong = piece;
    assert_error(tnr_validate(-1), TNR_ERR_INTERNAL, "is in the list of another size");
    *wrong = NULL;
    *list = piece;
    assert_ok(tnr_validate(-1));
    tnri_capture *capture = tnri_capture_walk(NULL);
    assert_non_null(capture->live);
    tnri_captured *first = capture->live;
    PLANT(capture->live, NULL, "live blocks of captures");
    PLANT(first->uses.block, block, "does not know its capture");
    assert_ok(tnr_free(live));
    recorded graph = capture_end(ORIGIN);
    PLANT(place->pool->keepers, place->pool->keepers + 1, "keep it");
    recorded_destroy(&graph);
    check_all_given_back();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(pools_and_graphs, steps_stop),
        cmocka_unit_test_teardown(captures, steps_stop),
        cmocka_unit_test_teardown(pools_inside, steps_stop),
        cmocka_unit_test_teardown(contents, steps_stop),
        cmocka_unit_test_teardown(from_a_callback, steps_stop),
        cmocka_unit_test_teardown(in_a_forked_child, steps_stop),
        cmocka_unit_test_teardown(records_of_a_place, steps_stop),
    };
    return steps_run(tests);
}
