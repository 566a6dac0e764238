/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What traps look at when a device, or the process, ends: live blocks, and free memory that was
 * never handed out. And that the end finds nothing else, and does not hang.
 *
 * Lines taken out, or changed, to see a test fail:
 *   tnri_trap_device_ending, tnri_trap_last_look: the_end_* but for the lost device
 *   arena_look, the settling in the loop: the_end_looks_at_all
 *   arena_looker, the look at the seal: the_end_after_other_ends
 *   exit_watch, atexit: the_process_ends
 *   device_wait, the moment until which it waits: a_process_ends_in_time
 *   poison_list, `is_still`: threads_go_on_at_the_end
 */
#include "traps.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tenure/capture.h>
#include <tenure/sleep.h>

#include "see/trap/ending.h"

/* ---- the end of a device -------------------------------------------------------------------- */

/* Live blocks, and free memory that no request took. */
static void the_end_looks_at_what_is_left(void **state)
{
    (void)state;
    traps_start("poison:on,canary:on", "SCHEDULE=lazy");
    tnr_stream side = known_stream();
    char *clean = unit_malloc(1000, NULL);
    char *live = unit_malloc(1000, side);
    char *freed = unit_malloc(50000, NULL);
    char *freed_clean = unit_malloc(50000, side);
    assert_int_equal(fill(clean, 1000, NULL), CUDA_SUCCESS);
    assert_int_equal(fill(live, 1003, side), CUDA_SUCCESS);
    assert_ok(tnr_free(freed));
    assert_ok(tnr_free(freed_clean));
    assert_int_equal(fill(freed + 49990, 4, NULL), CUDA_SUCCESS);
    assert_ok(tnr_shutdown(1));
    assert_int_equal(found_count, 2);
    int overrun = found[0].is_overrun ? 0 : 1;
    assert_ptr_equal(found[overrun].address, live + 1000);
    assert_int_equal(found[overrun].bytes_wrong, 3);
    assert_non_null(strstr(found_text[overrun], "never freed"));
    assert_ptr_equal(found[1 - overrun].address, freed + 49990);
    assert_int_equal(found[1 - overrun].is_overrun, 0);
}

/* More than there are slots for looks, in one arena and in several. */
static void the_end_looks_at_all(void **state)
{
    (void)state;
    enum { BLOCKS = 700 };
    traps_start("canary:on,history:off", "MEMORY=2G");
    tnr_stream streams[2] = {known_stream(), known_stream()};
    int wrong = 0;
    for (int i = 0; i < BLOCKS; i++) {
        char *ptr = unit_malloc(1000, streams[i % 2]);
        int is_wrong = i % 15 == 0;
        assert_int_equal(fill(ptr, is_wrong ? 1001 : 1000, streams[i % 2]), CUDA_SUCCESS);
        wrong += is_wrong;
    }
    assert_ok(tnr_shutdown(1));
    assert_int_equal(found_count, wrong);
}

/* The stream of a block may have ended, and a pool may sleep. */
static void the_end_after_other_ends(void **state)
{
    (void)state;
    traps_start("canary:on,poison:on", NULL);
    CUstream gone;
    assert_int_equal(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    char *ptr = unit_malloc(1000, (tnr_stream)gone);
    char *freed = unit_malloc(9000, (tnr_stream)gone);
    assert_int_equal(fill(ptr, 1002, (tnr_stream)gone), CUDA_SUCCESS);
    assert_ok(tnr_free(freed));
    assert_int_equal(fill(freed, 1, (tnr_stream)gone), CUDA_SUCCESS);
    assert_ok(tnr_stream_destroying(0, (tnr_stream)gone));
    assert_int_equal(cuStreamDestroy(gone), CUDA_SUCCESS);
    assert_ok(tnr_shutdown(1));
    assert_int_equal(found_count, 2);
    assert_int_equal(traps_stop(NULL), 0);

    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    traps_start("canary:on,poison:on", NULL);
    ptr = unit_malloc(1000, NULL);
    assert_ok(tnr_pool_sleep(NULL, 0, &options));
    assert_ok(tnr_shutdown(1));
    assert_int_equal(found_count, 0);
}

static void the_end_of_several_devices(void **state)
{
    (void)state;
    traps_start("canary:on,poison:on", "DEVICES=2");
    tnr_stream stream = unit_stream(1);
    char *ptr;
    assert_ok(tnr_malloc((void **)&ptr, 1000, 1, stream));
    (void)unit_malloc(1000, NULL);
    assert_int_equal(fill(ptr, 1002, stream), CUDA_SUCCESS);
    assert_ok(tnr_shutdown(1));
    assert_int_equal(found_count, 1);
    assert_int_equal(found[0].device, 1);
    assert_ptr_equal(found[0].address, ptr + 1000);
}

/* Growable blocks and a graph's have no traps, at the end either; guarded ones have a canary. */
static void the_end_of_other_blocks(void **state)
{
    (void)state;
    traps_start("canary:on,poison:on,guard:on,trap_to_kb:4", NULL);
    tnr_stream side = known_stream();
    tnr_cuda_graph graph = NULL;
    char *guarded = unit_malloc(1000, NULL);
    void *grown = NULL;
    assert_int_equal(fill(guarded, 1001, NULL), CUDA_SUCCESS);
    assert_ok(tnr_reserve(&grown, 8 * MIB, 0, NULL));
    assert_ok(tnr_commit(grown, 3 * MIB));
    assert_int_equal(fill(grown, 3 * MIB, NULL), CUDA_SUCCESS);
    synchronize();
    assert_ok(tnr_capture_begin(0, side, NULL));
    void *inside = unit_malloc(3000, side);
    assert_int_equal(fill(inside, 3072, side), CUDA_SUCCESS);
    assert_ok(tnr_capture_end(&graph, NULL, 0, side));
    assert_int_equal(cuGraphDestroy((CUgraph)graph), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX); /* the driver lets go of it, and Tenure sees that */
    (void)unit_stats();
    assert_ok(tnr_shutdown(1));
    assert_int_equal(found_count, 1);
    assert_ptr_equal(found[0].address, guarded + 1000);
}

/* Of a lost context nothing can be said, and nothing hangs. */
static void the_end_of_a_lost_device(void **state)
{
    (void)state;
    traps_start("canary:on,poison:on", NULL);
    char *ptr = unit_malloc(1000, NULL);
    assert_ok(tnr_free(unit_malloc(9000, NULL)));
    assert_int_equal(fill(ptr, 1001, NULL), CUDA_SUCCESS);
    synchronize();
    simcuda_fail("cuEventRecord", 1, 0, CUDA_ERROR_ILLEGAL_ADDRESS);
    tnr_status ignored = tnr_shutdown(1);
    (void)ignored;
    simcuda_fail_clear();
    assert_int_equal(found_count, 0);
}

/* ---- the end of the process ----------------------------------------------------------------- */

/* Runs one of the bodies below in a process of its own, which then ends by exit(). Stores what it
 * has told in `text`, and returns its status. */
static int process_run(const char *body, const char *settings, char *text, size_t bytes)
{
    char path[] = "/tmp/tenure_traps_XXXXXX";
    char conf[256];
    int file = mkstemp(path), status = 0;
    assert_true(file >= 0);
    snprintf(conf, sizeof(conf), "%s,trap_file:%s", settings, path);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(600); /* one that hangs dies of it */
        (void)setenv("ASAN_OPTIONS", "detect_leaks=0",
                     1); /* it leaves blocks, and Tenure with them */
        execl("/proc/self/exe", "test_unit_last_look", body, conf, NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    ssize_t length = read(file, text, bytes - 1);
    text[length < 0 ? 0 : length] = '\0';
    (void)close(file);
    (void)unlink(path);
    return status;
}

static void body_leaves(void)
{
    char *live = unit_malloc(1000, NULL);
    char *freed = unit_malloc(9000, NULL);
    (void)fill(live, 1004, NULL);
    if (tnr_free(freed) != TNR_OK)
        _exit(7);
    (void)fill(freed + 4, 1, NULL);
}

static void the_process_ends(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(process_run("leaves", "poison:on,canary:on", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "tenure: canary: 4 bytes at"));
    assert_non_null(strstr(text, "tenure: poison: 1 byte at"));
    assert_int_equal(process_run("leaves", "canary:on,trap_from_kb:100", text, sizeof(text)), 0);
    assert_null(strstr(text, "tenure: canary:"));
}

/* A child that was forked from a process in which Tenure had started: it has no device. */
static void body_forks(void)
{
    char *live = unit_malloc(1000, NULL);
    (void)fill(live, 1000, NULL);
    synchronize();
    int status = 1;
    pid_t child = fork();
    if (child == 0)
        exit(0);
    if (waitpid(child, &status, 0) != child || status != 0)
        _exit(8);
}

static void a_forked_child_ends(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(process_run("forks", "poison:on,canary:on", text, sizeof(text)), 0);
    assert_null(strstr(text, "tenure: canary:"));
    assert_null(strstr(text, "not looked at"));
}

/* Work that never ends: the process ends all the same, and says that it has not looked. However
 * long it waits, it must not see an end. */
static void host_waits_on(void *unused)
{
    (void)unused;
    for (;;)
        nanosleep(&(struct timespec){1, 0}, NULL);
}

static void body_is_stuck(void)
{
    CUstream stuck;
    if (cuStreamCreate(&stuck, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        _exit(7);
    (void)fill(unit_malloc(1000, (tnr_stream)stuck), 1001, (tnr_stream)stuck);
    (void)cuLaunchHostFunc(stuck, host_waits_on, NULL);
}

static void a_process_ends_in_time(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(process_run("is_stuck", "canary:on", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "not looked at"));
}

/* Threads that allocate, write and free while the process ends: all of it is theirs to write. */
static void *worker(void *argument)
{
    CUcontext context;
    tnr_stream stream = argument;
    if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return NULL;
    for (uint64_t random = (uintptr_t)argument;;) {
        void *ptr = NULL;
        size_t bytes = 1000 + unit_below(&random, 20000);
        if (tnr_malloc(&ptr, bytes, 0, stream) != TNR_OK)
            return NULL;
        (void)fill(ptr, bytes, stream);
        if (unit_below(&random, 3) == 0 ? tnr_free_sync(ptr) != TNR_OK : tnr_free(ptr) != TNR_OK)
            return NULL;
    }
}

static void body_works_on(void)
{
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        CUstream stream;
        if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
            pthread_create(&thread, NULL, worker, stream) != 0)
            _exit(7);
    }
    for (int i = 0; i < 50; i++)
        (void)fill(unit_malloc(1000, NULL), 1000, NULL);
    nanosleep(&(struct timespec){0, 30000000}, NULL);
}

static void threads_go_on_at_the_end(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        char text[8192];
        (void)process_run("works_on", "poison:on,canary:on", text, sizeof(text));
        assert_null(strstr(text, "were written"));
    }
}

/* A busy machine may give a process no turn for as long as the library would wait at its end. So
 * work that ends is waited for until alarm() above; with 0 s for it, which is what such a process
 * has, the_process_ends fails every other time. */
static int body_run(const char *name, const char *conf)
{
    static const struct {
        const char *name;
        void (*run)(void);
        uint64_t wait_s;
    } bodies[] = {{"leaves", body_leaves, 3600},
                  {"forks", body_forks, 3600},
                  {"is_stuck", body_is_stuck, 0},
                  {"works_on", body_works_on, 5}};
    CUcontext context;
    unit_start(conf, "SCHEDULE=threads", NULL);
    if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return 9;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        if (strcmp(bodies[i].name, name) == 0) {
            tnri_trap_exit_wait_ns = bodies[i].wait_s * UINT64_C(1000000000);
            bodies[i].run();
        }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return body_run(argv[1], argv[2]);
#define END(name) cmocka_unit_test_teardown(name, traps_stop)
    const struct CMUnitTest tests[] = {
        END(the_end_looks_at_what_is_left),
        END(the_end_looks_at_all),
        END(the_end_after_other_ends),
        END(the_end_of_several_devices),
        END(the_end_of_other_blocks),
        END(the_end_of_a_lost_device),
        cmocka_unit_test(the_process_ends),
        cmocka_unit_test(a_forked_child_ends),
        cmocka_unit_test(a_process_ends_in_time),
        cmocka_unit_test(threads_go_on_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
