/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: written whole or not at all, in every state that memory can be in. The files are left
 * in the folder that the first argument names, and another test checks what is in them.
 *
 * Lines changed in the library to see it fail:
 *   unlink in tnri_sink_close: a failed snapshot leaves a file behind
 *   the rename in tnri_sink_close: none is there
 *   tnri_arena_copy_now in tnri_arena_enter: two blocks live at once (pictures_are_consistent)
 *   `describe` in lifetime that says nothing: retired blocks wait for nothing (of_retired_blocks)
 *   origin.gone compared with 0, and not with picture->gone: check_snapshot.py, in churn-*, in most
 *     runs
 */
#include "unit/unit.h"
#include "await.h"
#include "few.h"
#include "picture_take.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/history.h>
#include <tenure/lifetime.h>
#include <tenure/sleep.h>

#include "base/host_memory.h"
#include "log/history.h"
#include "see/snapshot/picture.h"

static const char *folder = ".";
static const char *program; /* its file: under memcheck, /proc/self/exe is another */

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static size_t file_bytes(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (size_t)info.st_size : 0;
}

/* Files in the folder whose names match. */
static size_t files_count(const char *pattern)
{
    glob_t found;
    size_t count = glob(path_of(pattern), 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* Writes a snapshot in both formats, for the other test to check. */
static void write_both(const char *name)
{
    char file[128];
    static const char *const ends[] = {"json", "json.gz", "pickle", "pkl.gz"};
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof(file), "%s.%s", name, ends[i]);
        assert_ok(tnr_snapshot_write(path_of(file), TNR_SNAPSHOT_AUTO));
        assert_true(file_bytes(path_of(file)) > 100);
    }
    assert_int_equal(files_count("*.part"), 0);
}

/* ---- states --------------------------------------------------------------------------------- */

static void of_nothing(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    write_both("nothing");
}

static void of_blocks(void **state)
{
    (void)state;
    unit_start("history:full", NULL);
    tnr_stream streams[] = {NULL, unit_stream(0), unit_stream(0)};
    void *blocks[60];
    uint64_t random = 1;
    for (size_t i = 0; i < 60; i++)
        blocks[i] =
            unit_malloc(1 + unit_below(&random, i % 3 == 0 ? 8 * MIB : 100 * KIB), streams[i % 3]);
    for (size_t i = 0; i < 60; i += 2)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_mark("a \"mark\" with \\ and \n and \xff and \xe2\x82\xac"));
    void *aligned;
    assert_ok(tnr_malloc_aligned(&aligned, 5000, 64 * KIB, 0, streams[1]));
    assert_ok(tnr_trim(NULL, 0, 0));
    write_both("blocks-complete");
}

static void of_retired_blocks(void **state)
{
    (void)state;
    unit_start("history:light", NULL);
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    tnr_stream own = unit_stream(0);
    tnr_stream other = unit_stream(0);
    void *blocks[6];
    for (size_t i = 0; i < 6; i++) {
        blocks[i] = unit_malloc((i + 1) * MIB, own);
        assert_int_equal(cuMemsetD8Async((CUdeviceptr)(uintptr_t)blocks[i], 1, MIB, other),
                         CUDA_SUCCESS);
        assert_ok(tnr_record_use(blocks[i], other));
    }
    for (size_t i = 0; i < 4; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_free_sync(blocks[4]));
    tnri_picture picture = picture_take();
    size_t retired = 0;
    for (size_t i = 0; i < picture.blocks_count; i++)
        retired += picture.blocks[i].shown == TNRI_SHOWN_RETIRED;
    assert_int_equal(retired, unit_stats().blocks_retired);
    assert_in_range(retired, 1, 5);
    assert_true(picture.waits_count >= retired);
    for (size_t i = 0; i < picture.waits_count; i++)
        assert_true(picture.waits[i].since_ns > 0);
    tnri_picture_free(&picture);
    write_both("retired-complete");
    assert_ok(tnr_free(blocks[5]));
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static void of_pools_that_grow_sleep_and_end(void **state)
{
    (void)state;
    unit_start("history:light", NULL);
    tnr_stream stream = unit_stream(0);
    tnr_pool pools[2];
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = "a pool, <b>bold</b>";
    assert_ok(tnr_pool_create(&pools[0], 0, &options));
    assert_ok(tnr_pool_create(&pools[1], 0, NULL));
    void *ptr;
    void *growing;
    assert_ok(tnr_pool_malloc(&ptr, pools[1], 3 * MIB, 0, stream));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_pool_destroy(pools[1]));
    assert_ok(tnr_reserve(&growing, 64 * MIB, 0, stream));
    write_both("bare");
    assert_ok(tnr_commit(growing, 3 * MIB));
    assert_ok(tnr_commit(growing, 9 * MIB + 5));
    assert_ok(tnr_pool_malloc(&ptr, pools[0], 5 * MIB, 0, stream));
    write_both("growable-complete");
    tnr_sleep_options sleep = TNR_SLEEP_OPTIONS_INIT;
    sleep.content = TNR_CONTENT_DISCARD;
    assert_ok(tnr_pool_sleep(pools[0], 0, &sleep));
    write_both("asleep-complete");
    assert_ok(tnr_pool_wake(pools[0], 0));
    assert_ok(tnr_free(growing));
    write_both("awake-complete");
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_pool_destroy(pools[0]));
}

static void after_records_were_overwritten(void **state)
{
    (void)state;
    unit_start("history:light,history_records:1", NULL);
    void *kept = unit_malloc(4096, NULL);
    for (int i = 0; i < 20000; i++)
        assert_ok(tnr_free(unit_malloc((size_t)(1 + i % 40) * 512, NULL)));
    void *last = unit_malloc(3 * MIB, NULL);
    write_both("overwritten");
    assert_ok(tnr_history_set(0, TNR_HISTORY_OFF));
    assert_ok(tnr_free(last));
    last = unit_malloc(6 * MIB, NULL);
    assert_ok(tnr_history_set(0, TNR_HISTORY_LIGHT));
    assert_ok(tnr_free(kept));
    write_both("with-a-gap");
}

/* ---- files ---------------------------------------------------------------------------------- */

static void bad_paths_are_named(void **state)
{
    (void)state;
    unit_start("history:light", NULL);
    void *ptr = unit_malloc(4096, NULL);
    assert_error(tnr_snapshot_write(NULL, TNR_SNAPSHOT_JSON), TNR_ERR_INVALID_ARGUMENT,
                 "path is null");
    assert_error(tnr_snapshot_write("", TNR_SNAPSHOT_JSON), TNR_ERR_INVALID_ARGUMENT,
                 "path is null");
    assert_error(tnr_snapshot_write("x", (tnr_snapshot_format)3), TNR_ERR_INVALID_ARGUMENT,
                 "no format 3");
    assert_error(tnr_snapshot_write("/nowhere/at/all.json", TNR_SNAPSHOT_AUTO), TNR_ERR_FILE,
                 "/nowhere/at/all.json: No such file or directory");
    assert_error(tnr_snapshot_write(folder, TNR_SNAPSHOT_AUTO), TNR_ERR_FILE, "Is a directory");
    static char longest[6000];
    memset(longest, 'x', sizeof(longest) - 1);
    assert_error(tnr_snapshot_write(longest, TNR_SNAPSHOT_AUTO), TNR_ERR_FILE, "too long");
    assert_error(tnr_snapshot_write("/dev/full", TNR_SNAPSHOT_JSON), TNR_ERR_FILE, "No space left");
    assert_error(tnr_snapshot_write("/dev/full", TNR_SNAPSHOT_PICKLE | TNR_SNAPSHOT_GZIP),
                 TNR_ERR_FILE, "No space left");
    assert_int_equal(files_count("*.part"), 0);
    assert_ok(tnr_snapshot_write("/dev/null", TNR_SNAPSHOT_JSON));
    assert_ok(tnr_free(ptr));
}

static void a_failure_leaves_the_old_file(void **state)
{
    (void)state;
    unit_start("history:light", NULL);
    char path[512];
    snprintf(path, sizeof(path), "%s", path_of("old.txt"));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("as it was", file);
    fclose(file);
    for (uint64_t nth = 1; nth < 12; nth++) {
        tnri_host_fail_at(nth, 1);
        tnr_status status = tnr_snapshot_write(path, TNR_SNAPSHOT_JSON | TNR_SNAPSHOT_GZIP);
        tnri_host_fail_at(0, 0);
        assert_int_equal(status, TNR_ERR_HOST_MEMORY);
        assert_int_equal(file_bytes(path), 9);
        assert_int_equal(files_count("old.txt*"), 1);
    }
    char link[512];
    snprintf(link, sizeof(link), "%s", path_of("link.json"));
    unlink(link);
    assert_int_equal(symlink("old.txt", link), 0);
    assert_ok(tnr_snapshot_write(link, TNR_SNAPSHOT_JSON));
    assert_true(file_bytes(path) > 100); /* what the link leads to, not the link */
    unlink(link);
    unlink(path);
}

/* Any allocation of host memory fails, once or from then on: an error, or a whole file. */
static void any_host_allocation_may_fail(void **state)
{
    (void)state;
    unit_start("history:full", NULL);
    tnr_stream stream = unit_stream(0);
    void *one = unit_malloc(4096, stream);
    void *two = unit_malloc(3 * MIB, NULL);
    static const char *const names[] = {"starved.json.gz", "starved.pickle"};
    for (int i = 0; i < 4; i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s", path_of(names[i % 2]));
        for (uint64_t nth = 1;; nth++) {
            tnri_host_fail_at(nth, i / 2);
            tnr_status status = tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO);
            uint64_t failed = tnri_host_fail_at(0, 0);
            assert_true(status == TNR_OK || status == TNR_ERR_HOST_MEMORY);
            if (failed == 0) {
                assert_int_equal(status, TNR_OK);
                break;
            }
        }
        assert_int_equal(files_count("*.part"), 0);
    }
    assert_ok(tnr_free(one));
    assert_ok(tnr_free(two));
}

/* ---- without a call ------------------------------------------------------------------------- */

static void when_memory_runs_out(void **state)
{
    (void)state;
    char conf[600];
    snprintf(conf, sizeof(conf), "history:light,snapshot_on_oom:%s", folder);
    unit_start(conf, "MEMORY=64M", NULL);
    void *held = unit_malloc(20 * MIB, NULL);
    void *ptr;
    assert_error(tnr_malloc(&ptr, 500 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, "A snapshot is in");
    assert_non_null(strstr(tnr_last_error(), "Tenure out of memory: "));
    assert_int_equal(files_count("tenure-oom-*-1.json.gz"), 1);
    assert_int_equal(files_count("tenure-oom-*-1.txt"), 1);
    assert_ok(tnr_configure("snapshot_on_oom:/nowhere"));
    assert_error(tnr_malloc(&ptr, 500 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
                 "The snapshot failed");
    assert_ok(tnr_free(held));
}

static volatile sig_atomic_t other_handled;

static void other_handler(int number)
{
    (void)number;
    other_handled++;
}

static void on_a_signal(void **state)
{
    (void)state;
    char conf[600];
    signal(SIGUSR2, other_handler);
    snprintf(conf, sizeof(conf), "history:light,snapshot_signal:USR2,snapshot_dir:%s", folder);
    unit_start(conf, NULL);
    void *ptr = unit_malloc(4096, NULL);
    raise(SIGUSR2);
    await_true(files_count("tenure-[0-9]*-1.json.gz") > 0);
    assert_int_equal(files_count("tenure-[0-9]*-1.json.gz"), 1);
    assert_int_equal(other_handled, 0);
    assert_ok(tnr_configure("snapshot_signal:off"));
    raise(SIGUSR2);
    assert_int_equal(other_handled, 1); /* the handler that was there before */
    assert_ok(tnr_free(ptr));
    signal(SIGUSR2, SIG_DFL);
}

static void at_exit_body(void *data)
{
    (void)data;
    /* Of a library that runs to the end, memory is found only through sheets (mmap), where
     * LeakSanitizer does not look. */
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    execl(program, "test_snapshot", "--exit", (char *)NULL);
    _exit(4);
}

/* The program that does not survive: it was not started by forking. */
static void at_exit_program(void)
{
    void *ptr;
    exit(tnr_malloc(&ptr, 4096, 0, NULL) == TNR_OK ? 5 : 3);
}

static void at_the_end(void **state)
{
    (void)state;
    char conf[600];
    snprintf(conf, sizeof(conf), "history:light,snapshot_at_exit:%s/exit.json", folder);
    unlink(path_of("exit.json"));
    unit_settings(conf, NULL);
    assert_int_equal(unit_in_child(at_exit_body, NULL, 0), 5);
    assert_true(file_bytes(path_of("exit.json")) > 100);
    unlink(path_of("exit.json"));
    unit_start(conf, NULL);
    assert_ok(tnr_free(unit_malloc(4096, NULL)));
    assert_ok(tnr_shutdown(0));
    assert_true(file_bytes(path_of("exit.json")) > 100);
}

/* ---- threads -------------------------------------------------------------------------------- */

static _Atomic int is_over;

enum { TOKENS = 3, BETWEEN = 24, BLOCKS_BETWEEN = 400 };

/* Carries a block from stream to stream: at no time does this thread hold two. */
typedef struct carrier {
    pthread_t thread;
    tnr_stream streams[2];
    size_t bytes; /* of its blocks; nobody else's have as many */
    const char *broken;
} carrier;

static void *carry(void *data)
{
    carrier *self = data;
    unsigned pairs = 0;
    int is_slow = few_or(0, 1); /* memcheck runs one thread at a time: leaves some to the others */
    while (!atomic_load(&is_over) && self->broken == NULL) {
        for (int s = 0; s < 2; s++) {
            void *ptr;
            if (tnr_malloc(&ptr, self->bytes, 0, self->streams[s]) != TNR_OK ||
                tnr_free(ptr) != TNR_OK)
                self->broken = "a call failed";
        }
        if (is_slow && ++pairs % 16 == 0)
            usleep(100);
    }
    return NULL;
}

/* Pictures of threads that each hold one block at most, on one of two streams. A picture that were
 * put together from arenas at different moments would show two now and then. */
static void pictures_are_consistent(void **state)
{
    (void)state;
    unit_start("history:light,history_records:1", NULL);
    carrier carriers[TOKENS];
    memset(carriers, 0, sizeof(carriers));
    atomic_store(&is_over, 0);
    for (int s = 0; s < 2; s++) {
        for (size_t t = 0; t < TOKENS; t++) {
            carriers[t].bytes = (t + 1) * 8 * KIB;
            carriers[t].streams[s] = unit_stream(0);
            (void)unit_malloc(512, carriers[t].streams[s]); /* so that its memory stays there */
            assert_ok(tnr_free(unit_malloc(carriers[t].bytes, carriers[t].streams[s])));
        }
        /* Arenas are copied in the order of their age. Many between the two that a carrier uses
         * give it time to change both meanwhile. */
        for (int b = 0; s == 0 && b < BETWEEN; b++) {
            tnr_stream stream = unit_stream(0);
            for (int i = 0; i < few_or(BLOCKS_BETWEEN, 100); i++)
                (void)unit_malloc(512, stream);
        }
    }
    for (size_t t = 0; t < TOKENS; t++)
        assert_int_equal(pthread_create(&carriers[t].thread, NULL, carry, &carriers[t]), 0);
    size_t settled = 0;
    for (int round = 0; round < few_or(50, 3); round++) {
        tnri_picture picture;
        size_t live[TOKENS] = {0};
        tnri_picture_still();
        tnri_history_lock_take();
        tnr_status status = tnri_picture_take(&picture, TNRI_SNAPSHOT_CALL);
        tnri_history_lock_release();
        if (status != TNR_OK)
            carriers[0].broken = tnr_status_name(status);
        for (size_t i = 0; i < picture.blocks_count; i++)
            for (size_t t = 0; t < TOKENS; t++)
                live[t] += picture.blocks[i].shown == TNRI_SHOWN_LIVE &&
                           picture.blocks[i].requested == carriers[t].bytes;
        for (size_t p = 0; p < picture.pools_count; p++)
            settled += picture.pools[p].is_settled;
        tnri_picture_free(&picture);
        for (size_t t = 0; t < TOKENS; t++)
            if (live[t] > 1)
                carriers[t].broken = "it seemed to hold two blocks at once";
    }
    if (settled == 0) /* each stream has the memory that it needs, so nobody moves any */
        carriers[0].broken = "its pool was never settled";
    for (int round = 0; round < 4; round++) {
        char name[64];
        snprintf(name, sizeof(name), "busy-%d", round);
        write_both(name);
    }
    atomic_store(&is_over, 1);
    for (size_t t = 0; t < TOKENS; t++) {
        pthread_join(carriers[t].thread, NULL);
        if (carriers[t].broken != NULL)
            fail_msg("%s", carriers[t].broken);
    }
}

/* Pools and streams come and go, memory moves, and pictures are taken all the while. */
static void *churn(void *data)
{
    carrier *self = data;
    uint64_t random = self->bytes;
    for (int made = 0; made < 60 && !atomic_load(&is_over) && self->broken == NULL; made++) {
        tnr_pool pool;
        void *ptrs[6];
        tnr_status status = tnr_pool_create(&pool, 0, NULL);
        for (int i = 0; i < 6 && status == TNR_OK; i++)
            status = tnr_pool_malloc(&ptrs[i], pool, 1 + unit_below(&random, 5 * MIB), 0,
                                     self->streams[i % 2]);
        for (int i = 0; i < 6 && status == TNR_OK; i++)
            status = tnr_free(ptrs[i]);
        if (status == TNR_OK)
            status = tnr_pool_destroy(pool);
        if (status != TNR_OK)
            self->broken = tnr_status_name(status);
    }
    return NULL;
}

static void while_pools_come_and_go(void **state)
{
    (void)state;
    unit_start("history:light,history_records:1", NULL);
    carrier carriers[TOKENS];
    memset(carriers, 0, sizeof(carriers));
    atomic_store(&is_over, 0);
    for (size_t t = 0; t < TOKENS; t++) {
        carriers[t].bytes = t + 1;
        for (int s = 0; s < 2; s++)
            carriers[t].streams[s] = unit_stream(0);
        assert_int_equal(pthread_create(&carriers[t].thread, NULL, churn, &carriers[t]), 0);
    }
    for (int round = 0; round < 3; round++) {
        char name[64];
        snprintf(name, sizeof(name), "churn-%d", round);
        write_both(name);
    }
    atomic_store(&is_over, 1);
    for (size_t t = 0; t < TOKENS; t++) {
        pthread_join(carriers[t].thread, NULL);
        if (carriers[t].broken != NULL)
            fail_msg("%s", carriers[t].broken);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(of_nothing, unit_stop),
        cmocka_unit_test_teardown(of_blocks, unit_stop),
        cmocka_unit_test_teardown(of_retired_blocks, unit_stop),
        cmocka_unit_test_teardown(of_pools_that_grow_sleep_and_end, unit_stop),
        cmocka_unit_test_teardown(after_records_were_overwritten, unit_stop),
        cmocka_unit_test_teardown(bad_paths_are_named, unit_stop),
        cmocka_unit_test_teardown(a_failure_leaves_the_old_file, unit_stop),
        cmocka_unit_test_teardown(any_host_allocation_may_fail, unit_stop),
        cmocka_unit_test_teardown(when_memory_runs_out, unit_stop),
        cmocka_unit_test_teardown(on_a_signal, unit_stop),
        cmocka_unit_test_teardown(at_the_end, unit_stop),
        cmocka_unit_test_teardown(pictures_are_consistent, unit_stop),
        cmocka_unit_test_teardown(while_pools_come_and_go, unit_stop),
    };
    program = argv[0];
    if (argc > 1 && strcmp(argv[1], "--exit") == 0)
        at_exit_program();
    if (argc > 1) {
        folder = argv[1];
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return 2;
        glob_t found; /* what an earlier run left */
        if (glob(path_of("*"), 0, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc; i++)
                unlink(found.gl_pathv[i]);
        globfree(&found);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
