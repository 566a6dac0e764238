/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of streams: they are where the stream is, and go with it. The files are left in the folder
 * that the first argument names, and another test checks what is in them.
 *
 * Lines changed in the library to see it fail:
 *   the store of `name` in stream_begin: objects_are_used_again
 *   tnri_origins_name without a walk: history_shows_the_last_name
 *   stream_number not compared in tnri_origins_name: handles_are_given_again
 *   the comparison of names in stream_show: handles_are_given_again
 *   stream_number not compared in tnri_origin_find: records_without_memory
 *   has_origins never set in note.c: history_shows_the_last_name
 *   name_end without its loop: names_are_cut_at_a_character
 *   streams of one number told apart in stream_show: records_without_memory
 *   a control character kept: bad_input_is_named
 *   all names of a handle in a pickle: pickles_name_who_lives
 */
#include "unit/unit.h"
#include "few.h"
#include "picture_take.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tenure/history.h>
#include <tenure/lifetime.h>

#include "base/host_memory.h"
#include "memory/arena/note.h"
#include "memory/pool/pool.h"
#include "log/history.h"
#include "log/texts.h"
#include "see/snapshot/picture.h"

static const char *folder = ".";
static CUcontext context;

static void start(const char *conf)
{
    unit_start(conf, NULL);
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

static int stop(void **state)
{
    if (context != NULL) {
        (void)cuCtxSetCurrent(NULL);
        (void)cuDevicePrimaryCtxRelease(0);
    }
    context = NULL;
    return unit_stop(state);
}

static tnr_stream stream_make(void)
{
    CUstream stream;
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static void stream_end(tnr_stream stream)
{
    assert_ok(tnr_stream_destroying(0, stream));
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
}

/* How many streams of that handle and state a picture has under a name; "" is none. */
static int shown(tnr_stream handle, int is_ended, const char *name)
{
    int found = 0;
    tnri_picture picture = picture_take();
    for (size_t i = 0; i < picture.streams_count; i++) {
        const tnri_shown_stream *one = &picture.streams[i];
        found += one->handle == handle && one->is_ended == is_ended && !one->is_graph &&
                 strcmp(tnri_text_of(one->name), name) == 0;
    }
    tnri_picture_free(&picture);
    return found;
}

/* How many streams of that handle there are, whatever they are called. */
static int shown_in_all(tnr_stream handle)
{
    int found = 0;
    tnri_picture picture = picture_take();
    for (size_t i = 0; i < picture.streams_count; i++)
        found += picture.streams[i].handle == handle && !picture.streams[i].is_graph;
    tnri_picture_free(&picture);
    return found;
}

/* The name of the stream that a record of that kind, the latest, is of. */
static const char *record_name(tnri_kind kind)
{
    const char *name = NULL;
    tnri_picture picture = picture_take();
    for (size_t i = 0; i < picture.order_count; i++) {
        const tnri_recorded *record = tnri_picture_record(&picture, i);
        int32_t stream = picture.origins[record->origin].stream;
        if (record->kind == kind && stream >= 0)
            name = tnri_text_of(picture.streams[stream].name);
    }
    tnri_picture_free(&picture);
    return name;
}

/* The whole file, or null. */
static char *file_read(const char *name, size_t *bytes)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO));
    FILE *file = fopen(path, "rb");
    struct stat info;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    char *text = calloc(1, (size_t)info.st_size + 1);
    assert_non_null(text);
    *bytes = fread(text, 1, (size_t)info.st_size, file);
    fclose(file);
    return text;
}

static int has_text(const char *name, const char *wanted)
{
    size_t bytes;
    char *text = file_read(name, &bytes);
    int found = memmem(text, bytes, wanted, strlen(wanted)) != NULL;
    free(text);
    return found;
}

/* ---- where they are ------------------------------------------------------------------------- */

static void names_are_where_streams_are(void **state)
{
    (void)state;
    start("history:light");
    tnr_stream one = stream_make(), other = stream_make();
    assert_ok(tnr_stream_name_set(0, one, "owner \"of\" <b>\xc3\xa9</b>"));
    assert_ok(tnr_stream_name_set(0, other, "prefetch"));
    assert_ok(tnr_stream_name_set(0, NULL, "default"));
    assert_ok(tnr_stream_name_set(0, (tnr_stream)(uintptr_t)2, "this thread"));
    void *block = unit_malloc(MIB, one), *legacy = unit_malloc(MIB, NULL);
    void *own = unit_malloc(MIB, (tnr_stream)(uintptr_t)2);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, 1, MIB, other), CUDA_SUCCESS);
    assert_ok(tnr_record_use(block, other));
    assert_ok(tnr_free(block));
    assert_int_equal(shown(one, 0, "owner \"of\" <b>\xc3\xa9</b>"), 1);
    assert_int_equal(shown(other, 0, "prefetch"), 1); /* it has no memory: it is waited for */
    assert_int_equal(shown(NULL, 0, "default"), 1);
    assert_int_equal(shown((tnr_stream)(uintptr_t)2, 0, "this thread"), 1);
    assert_true(has_text("where.json", "\"name\":\"owner \\\"of\\\" <b>\xc3\xa9</b>\""));
    assert_true(has_text("where.pickle", "owner \"of\" <b>\xc3\xa9</b>"));
    assert_true(has_text("where.pickle", "this thread"));
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_free(legacy));
    assert_ok(tnr_free(own));
}

static void history_shows_the_last_name(void **state)
{
    (void)state;
    start("history:light");
    tnr_stream stream = stream_make();
    assert_ok(tnr_free(unit_malloc(MIB, stream)));
    assert_string_equal(record_name(TNRI_NOTED_ALLOC), "");
    assert_ok(tnr_stream_name_set(0, stream, "late"));
    assert_string_equal(record_name(TNRI_NOTED_ALLOC), "late");
    assert_ok(tnr_stream_name_set(0, stream, "later"));
    assert_string_equal(record_name(TNRI_NOTED_ALLOC), "later");
    assert_int_equal(shown_in_all(stream), 1); /* its memory and its history are one stream's */
    stream_end(stream);
    assert_string_equal(record_name(TNRI_NOTED_ALLOC), "later");
    assert_int_equal(shown(stream, 1, "later"), 1);
    tnr_stream unnamed = stream_make();
    void *block = unit_malloc(4 * MIB, unnamed);
    assert_ok(tnr_stream_name_set(0, unnamed, "taken away"));
    assert_ok(tnr_stream_name_set(0, unnamed, NULL));
    assert_int_equal(shown(unnamed, 0, ""), 1);
    assert_ok(tnr_stream_name_set(0, unnamed, "taken away"));
    assert_ok(tnr_stream_name_set(0, unnamed, ""));
    assert_int_equal(shown(unnamed, 0, ""), 1);
    assert_false(has_text("away.json", "\"name\":\"taken"));
    assert_ok(tnr_free(block));
}

/* ---- handles -------------------------------------------------------------------------------- */

/* The simulated device gives a handle again at once. */
static void handles_are_given_again(void **state)
{
    (void)state;
    start("history:light");
    tnr_stream old = stream_make();
    assert_ok(tnr_stream_name_set(0, old, "old"));
    void *kept = unit_malloc(MIB, old);
    stream_end(old);
    tnr_stream fresh = stream_make();
    assert_ptr_equal(fresh, old);
    void *block = unit_malloc(5 * MIB, fresh);
    assert_int_equal(shown(fresh, 1, "old"), 1);
    assert_int_equal(shown(fresh, 0, ""), 1);
    assert_int_equal(shown_in_all(fresh), 2);
    assert_ok(tnr_stream_name_set(0, fresh, "fresh"));
    assert_int_equal(shown(fresh, 1, "old"), 1);
    assert_int_equal(shown(fresh, 0, "fresh"), 1);
    stream_end(fresh);
    tnr_stream last = stream_make();
    assert_ptr_equal(last, old);
    assert_ok(tnr_stream_created(0, last));
    assert_int_equal(shown(last, 1, "fresh"), 1); /* two that ended under one handle */
    assert_int_equal(shown(last, 1, "old"), 1);
    assert_true(has_text("again.json", "\"ended\":true,\"name\":\"old\""));
    assert_true(has_text("again.json", "\"ended\":true,\"name\":\"fresh\""));
    assert_ok(tnr_free(kept));
    assert_ok(tnr_free(block));
}

/* Nothing refers to the old stream. Its end is settled when the next one comes, and then its object
 * is one more's. */
static void objects_are_used_again(void **state)
{
    (void)state;
    start("history:light");
    tnr_stream old = stream_make(), fresh[4];
    assert_ok(tnr_stream_name_set(0, old, "old"));
    stream_end(old);
    simcuda_run(UINT64_MAX);
    for (int i = 0; i < 4; i++) {
        fresh[i] = stream_make();
        void *block = unit_malloc(MIB, fresh[i]);
        assert_int_equal(shown(fresh[i], 0, ""), 1);
        assert_ok(tnr_free(block));
    }
}

typedef struct naming {
    tnr_stream stream;
    const char *name;
} naming;

static void *thread_name(void *data)
{
    const naming *wanted = data;
    return tnr_stream_name_set(0, wanted->stream, wanted->name) == TNR_OK ? NULL : data;
}

/* Nobody said that the stream was destroyed: a thread that has not seen it before notices. */
static void untold_ends_are_noticed(void **state)
{
    (void)state;
    start("history:light");
    tnr_stream old = stream_make();
    assert_ok(tnr_stream_name_set(0, old, "old"));
    void *kept = unit_malloc(MIB, old);
    assert_int_equal(cuStreamDestroy(old), CUDA_SUCCESS);
    naming wanted = {stream_make(), "fresh"};
    assert_ptr_equal(wanted.stream, old);
    pthread_t thread;
    void *failed;
    assert_int_equal(pthread_create(&thread, NULL, thread_name, &wanted), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    void *block = unit_malloc(5 * MIB, wanted.stream);
    assert_int_equal(shown(old, 1, "old"), 1);
    assert_int_equal(shown(old, 0, "fresh"), 1);
    assert_ok(tnr_free(kept));
    assert_ok(tnr_free(block));
}

/* Records of what happened to no memory, such as of a graph's launch, know the stream, too. */
static void records_without_memory(void **state)
{
    (void)state;
    start("history:light");
    tnr_stream old = stream_make();
    assert_ok(tnr_stream_name_set(0, old, "old"));
    assert_ok(tnr_free(unit_malloc(MIB, old)));
    const tnri_account *pool = &tnri_device_at(0)->pool_default->account;
    tnri_note_graph(pool, old, TNRI_NOTED_CAPTURE_BEGIN, 1);
    assert_string_equal(record_name(TNRI_NOTED_CAPTURE_BEGIN), "old");
    stream_end(old);
    assert_int_equal(shown(old, 1, "old"), 1);
    assert_int_equal(shown_in_all(old), 1); /* what such a record is of has ended, too */
    tnr_stream fresh = stream_make();
    assert_ptr_equal(fresh, old);
    assert_ok(tnr_stream_name_set(0, fresh, "fresh"));
    tnri_note_graph(pool, fresh, TNRI_NOTED_LAUNCH, 1);
    assert_string_equal(record_name(TNRI_NOTED_CAPTURE_BEGIN), "old");
    assert_string_equal(record_name(TNRI_NOTED_LAUNCH), "fresh");
    assert_ok(tnr_stream_name_set(0, fresh, "renamed"));
    assert_string_equal(record_name(TNRI_NOTED_LAUNCH), "renamed");
}

/* A pickle has one name for all streams of a handle: the living one's, or none if it has none. */
static void pickles_name_who_lives(void **state)
{
    (void)state;
    start("history:light");
    tnr_stream stream = stream_make();
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof(name), "the %d. to have it", i);
        if (i == 2) { /* it has none yet */
            assert_ok(tnr_free(unit_malloc(MIB, stream)));
            assert_false(has_text("lives.pickle", "to have it"));
        }
        assert_ok(tnr_stream_name_set(0, stream, name));
        assert_ok(tnr_free(unit_malloc(MIB, stream)));
        stream_end(stream);
        assert_int_equal(shown(stream, 1, name), 1);
        assert_true(has_text("ended.pickle", name)); /* of those that ended, the last */
        assert_false(i > 0 && has_text("ended.pickle", "the 0."));
        assert_ptr_equal(stream_make(), stream);
    }
}

/* ---- bad input ------------------------------------------------------------------------------ */

static void bad_input_is_named(void **state)
{
    (void)state;
    start(NULL);
    tnr_stream stream = stream_make();
    assert_error(tnr_stream_name_set(7, stream, "x"), TNR_ERR_INVALID_DEVICE, "no device 7");
    assert_error(tnr_stream_name_set(-1, stream, "x"), TNR_ERR_INVALID_DEVICE, "no device -1");
    uint64_t violations = simcuda_violations();
    assert_error(tnr_stream_name_set(0, (tnr_stream)&violations, "x"), TNR_ERR_INVALID_STREAM,
                 "stream");
    simcuda_violations_clear();
    assert_ok(tnr_stream_name_set(0, stream, "kept"));
    void *block = unit_malloc(MIB, stream);
    assert_error(tnr_stream_name_set(7, stream, "other"), TNR_ERR_INVALID_DEVICE, "device 7");
    assert_int_equal(shown(stream, 0, "kept"), 1);
    assert_ok(tnr_stream_name_set(0, stream, "a\nb\tc\x1b[31m\x7f"));
    assert_int_equal(shown(stream, 0, "a b c [31m "), 1);
    assert_ok(tnr_stream_name_set(0, stream, "\xff\xfe no UTF-8 \xc3"));
    assert_true(has_text("bytes.json", "\"name\":\"\\ufffd\\ufffd no UTF-8 \\ufffd\""));
    assert_true(has_text("bytes.pickle", "\xef\xbf\xbd\xef\xbf\xbd no UTF-8 \xef\xbf\xbd"));
    assert_ok(tnr_stream_name_set(0, stream, "</script><script>alert(1)</script>"));
    assert_true(has_text("script.json", "</script>"));
    assert_ok(tnr_free(block));
}

static void names_are_cut_at_a_character(void **state)
{
    (void)state;
    start(NULL);
    tnr_stream stream = stream_make();
    void *block = unit_malloc(MIB, stream);
    for (size_t before = 0; before < 8; before++) {
        char name[4 * TNR_STREAM_NAME_BYTES] = "", kept[TNR_STREAM_NAME_BYTES];
        memset(name, 'x', before);
        for (size_t at = before; at + 3 < sizeof(name); at += 3)
            memcpy(name + at, "\xe2\x82\xac", 4);
        size_t bytes = before + (TNR_STREAM_NAME_BYTES - 1 - before) / 3 * 3;
        memcpy(kept, name, bytes);
        kept[bytes] = '\0';
        assert_ok(tnr_stream_name_set(0, stream, name));
        assert_int_equal(shown(stream, 0, kept), 1);
    }
    char all[TNR_STREAM_NAME_BYTES];
    memset(all, 'y', sizeof(all) - 1);
    all[sizeof(all) - 1] = '\0'; /* it fits exactly */
    assert_ok(tnr_stream_name_set(0, stream, all));
    assert_int_equal(shown(stream, 0, all), 1);
    char continued[TNR_STREAM_NAME_BYTES * 2]; /* no character begins anywhere */
    memset(continued, 0x80, sizeof(continued) - 1);
    continued[sizeof(continued) - 1] = '\0';
    assert_ok(tnr_stream_name_set(0, stream, continued));
    assert_int_equal(shown(stream, 0, ""), 1);
    assert_ok(tnr_free(block));
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Every allocation of host memory that naming makes, and then every one of its driver calls. What
 * fails leaves the name as it was. */
static void what_fails_changes_nothing(void **state)
{
    (void)state;
    start("history:light");
    tnr_stream stream = stream_make();
    void *block = unit_malloc(MIB, stream);
    assert_ok(tnr_stream_name_set(0, stream, "before"));
    for (uint64_t nth = 1;; nth++) {
        tnr_stream fresh = stream_make();
        tnri_host_fail_at(nth, 0);
        tnr_status status = tnr_stream_name_set(0, stream, "a name that was never there");
        tnr_status met = tnr_stream_name_set(0, fresh, "another one");
        uint64_t failed = tnri_host_fail_at(0, 0);
        assert_true(status == TNR_OK || status == TNR_ERR_HOST_MEMORY);
        assert_true(met == TNR_OK || met == TNR_ERR_HOST_MEMORY);
        assert_int_equal(status == TNR_OK && met == TNR_OK, failed == 0);
        assert_int_equal(
            shown(stream, 0, status == TNR_OK ? "a name that was never there" : "before"), 1);
        stream_end(fresh);
        assert_ok(tnr_stream_name_set(0, stream, "before"));
        if (failed == 0)
            break;
    }
    unsigned refused = 0;
    for (uint64_t nth = 1, hits = 1; hits > 0; nth++) {
        tnr_stream fresh = stream_make();
        simcuda_fail("*", nth, 0, CUDA_ERROR_UNKNOWN);
        tnr_status status = tnr_stream_name_set(0, fresh, "met");
        hits = simcuda_fail_hits();
        simcuda_fail_clear();
        refused += status != TNR_OK;
        assert_true(status == TNR_OK || status == TNR_ERR_DRIVER ||
                    status == TNR_ERR_INVALID_STREAM);
        assert_ok(tnr_stream_name_set(0, fresh, "met"));
        void *there = unit_malloc(MIB, fresh);
        assert_int_equal(shown(fresh, 0, "met"), 1);
        assert_ok(tnr_free(there));
        stream_end(fresh);
    }
    assert_true(refused > 0);
    assert_ok(tnr_free(block));
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { THREADS = 3 };

static void *thread_allocate(void *data)
{
    for (int i = 0; i < few_or(400, 60); i++) {
        void *block;
        if (tnr_malloc(&block, 4096, 0, data) != TNR_OK || tnr_free(block) != TNR_OK)
            return (void *)"no memory";
    }
    return NULL;
}

static void *thread_rename(void *data)
{
    static const char *const names[] = {"one", "two", "three"};
    for (int i = 0; i < few_or(400, 60); i++)
        if (tnr_stream_name_set(0, data, names[i % 3]) != TNR_OK)
            return (void *)"no name";
    return tnr_stream_name_set(0, data, "last") == TNR_OK ? NULL : (void *)"no name";
}

/* The first record of a stream comes while it is named: one of the two sees the other. */
static void threads_name_and_allocate(void **state)
{
    (void)state;
    start("history:light");
    for (int round = 0; round < few_or(20, 4); round++) {
        tnr_stream stream = stream_make();
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(
                pthread_create(&threads[t], NULL, t == 0 ? thread_rename : thread_allocate, stream),
                0);
        for (int t = 0; t < THREADS; t++) {
            void *failed;
            assert_int_equal(pthread_join(threads[t], &failed), 0);
            assert_null(failed);
        }
        assert_int_equal(shown(stream, 0, "last"), 1);
        assert_int_equal(shown(stream, 0, ""), 0);
        assert_string_equal(record_name(TNRI_NOTED_ALLOC), "last");
        stream_end(stream);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(names_are_where_streams_are, stop),
        cmocka_unit_test_teardown(history_shows_the_last_name, stop),
        cmocka_unit_test_teardown(handles_are_given_again, stop),
        cmocka_unit_test_teardown(objects_are_used_again, stop),
        cmocka_unit_test_teardown(untold_ends_are_noticed, stop),
        cmocka_unit_test_teardown(records_without_memory, stop),
        cmocka_unit_test_teardown(pickles_name_who_lives, stop),
        cmocka_unit_test_teardown(bad_input_is_named, stop),
        cmocka_unit_test_teardown(names_are_cut_at_a_character, stop),
        cmocka_unit_test_teardown(what_fails_changes_nothing, stop),
        cmocka_unit_test_teardown(threads_name_and_allocate, stop),
    };
    if (argc > 1) {
        folder = argv[1];
        (void)mkdir(folder, 0777);
    }
    return cmocka_run_group_tests_name("snapshot_names", tests, NULL, NULL);
}
