/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report for people that is written beside a snapshot when memory runs out. It names who holds
 * memory, what waits for what, and the setting that would have helped, and no other setting.
 *
 * The tests look for lines, and for lines that must not be there. The memory of the simulated
 * device is small, so that sums are known to the byte.
 *
 * With the check of the device left out of stacks_report or of waits_report, as it once was:
 * of_one_device_alone failed. With all frames of a stack written: the_programs_own_frames failed.
 */
#include "capture/steps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/history.h>
#include <tenure/sleep.h>

static const char *folder = ".";
static unsigned reports; /* since the library started */

static const char *conf_with(const char *more)
{
    static char conf[600];
    snprintf(conf, sizeof(conf), "snapshot_on_oom:%s,%s", folder, more);
    reports = 0;
    return conf;
}

/* The report on an allocation that has just failed. */
static const char *report_read(void)
{
    static char text[65536];
    char path[512];
    snprintf(path, sizeof(path), "%s/tenure-oom-%ld-%u.txt", folder, (long)getpid(), ++reports);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[bytes] = '\0';
    unlink(path);
    return text;
}

static void check_has(const char *report, const char *line)
{
    if (strstr(report, line) == NULL) {
        fputs(report, stderr);
        fail_msg("the report lacks \"%s\"", line);
    }
}

static void check_lacks(const char *report, const char *line)
{
    if (strstr(report, line) != NULL) {
        fputs(report, stderr);
        fail_msg("the report has \"%s\"", line);
    }
}

static const char *report_of(size_t bytes, tnr_status expected, int device, tnr_stream stream)
{
    void *ptr;
    assert_error(tnr_malloc(&ptr, bytes, device, stream), expected, "A snapshot is in");
    return report_read();
}

static void nothing_would_have_helped(void **state)
{
    (void)state;
    unit_start(conf_with("history:off"), "MEMORY=64M", NULL);
    void *held = unit_malloc(20 * MIB + 1000, NULL);
    const char *report = report_of(60 * MIB, TNR_ERR_OUT_OF_MEMORY, 0, NULL);
    check_has(report, "Tenure out of memory: 60.00 MiB for the default stream; ");
    check_has(report, "20.00 MiB live from unknown places; history:full records it.");
    check_has(report, "were asked for");
    check_has(report, "Nothing that Tenure could be told");
    check_lacks(report, "sleep");
    check_lacks(report, "freed and wait");
    check_lacks(report, "(destroyed)");
    assert_ok(tnr_free(held));
}

/* Limits: that of the device, and only where the device itself has the room. */
static void a_higher_limit(void **state)
{
    (void)state;
    unit_start(conf_with("history:off"), "MEMORY=64M", NULL);
    void *held = unit_malloc(20 * MIB, NULL);
    assert_ok(tnr_limit_set(32 * MIB, 0));
    const char *report = report_of(30 * MIB, TNR_ERR_LIMIT, 0, NULL);
    check_has(report,
              "A higher limit: 32.00 MiB may be reserved, and the device has 44.00 MiB free");
    check_lacks(report, "Nothing that Tenure");
    report = report_of(50 * MIB, TNR_ERR_LIMIT, 0, NULL);
    check_lacks(report, "A higher limit");
    assert_ok(tnr_free(held));
}

/* Every second of forty blocks is free: no whole chunk is, but together they are enough. */
static void memory_of_other_streams(void **state)
{
    (void)state;
    enum { BLOCKS = 40 };
    static const char *const confs[] = {"cross_stream:off,history:off", "history:off"};
    for (int is_wait = 0; is_wait < 2; is_wait++) {
        void *blocks[BLOCKS];
        unit_start(conf_with(confs[is_wait]), "MEMORY=64M", NULL);
        tnr_stream other = unit_stream(0);
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[i] = unit_malloc(3 * MIB / 2, other);
        for (size_t i = 0; i < BLOCKS; i += 2)
            assert_ok(tnr_free(blocks[i]));
        const char *report = report_of(8 * MIB, TNR_ERR_OUT_OF_MEMORY, 0, NULL);
        check_has(report, "Fragmentation: 30.00 MiB are idle, the longest run is 1.50 MiB; 8");
        (is_wait ? check_lacks : check_has)(report, "  cross_stream:wait: 30.00 MiB are idle");
        report = report_of(32 * MIB, TNR_ERR_OUT_OF_MEMORY, 0, NULL);
        check_lacks(report, "cross_stream:wait"); /* it would not have helped */
    }
}

/* Blocks that wait for the work of other streams: how much, and what would have had them waited
 * for. The stream that held them has ended. */
static void blocks_that_wait(void **state)
{
    (void)state;
    life_start(conf_with("reuse:poll,history:light"), "MEMORY=64M", NULL);
    tnr_stream own = life_stream(CU_STREAM_NON_BLOCKING);
    void *used = unit_malloc(10 * MIB, own);
    void *held = unit_malloc(6 * MIB, own);
    void *synced = unit_malloc(4 * MIB, own);
    life_gate_close(0, OUTSIDE);
    life_fill(used, 10 * MIB, 1, OUTSIDE);
    assert_ok(tnr_record_use(used, OUTSIDE));
    assert_ok(tnr_free(used));
    assert_ok(tnr_stream_destroying(0, own));
    assert_int_equal(cuStreamDestroy(own), CUDA_SUCCESS);
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool pool;
    options.limit_bytes = 8 * MIB;
    assert_ok(tnr_pool_create(&pool, 0, &options));
    void *ptr;
    assert_error(tnr_pool_malloc(&ptr, pool, 9 * MIB, 0, ORIGIN), TNR_ERR_LIMIT, NULL);
    const char *report = report_read();
    check_has(report, "10.00 MiB were freed and wait; that is what waiting would have freed:\n"
                      "  10.00 MiB for work of other streams\n");
    check_has(report, "reuse:wait: 10.00 MiB wait for other streams.");
    check_has(report, "(destroyed)");
    assert_ok(tnr_configure("reuse:wait"));
    assert_error(tnr_pool_malloc(&ptr, pool, 9 * MIB, 0, ORIGIN), TNR_ERR_LIMIT, NULL);
    report = report_read();
    check_lacks(report, "reuse:wait");
    life_gate_open(0);
    assert_ok(tnr_free(held));
    assert_ok(tnr_free(synced));
    assert_ok(tnr_pool_destroy(pool));
}

/* What graphs keep, and what their pools have that nobody else may use. */
static void memory_of_graphs(void **state)
{
    (void)state;
    life_start(conf_with("history:off"), "MEMORY=64M", NULL);
    void *outside = unit_malloc(6 * MIB, ORIGIN);
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.name = "step";
    assert_ok(tnr_capture_begin(0, ORIGIN, &options));
    life_fill(outside, 6 * MIB, 1, ORIGIN);
    void *inside;
    assert_ok(tnr_malloc(&inside, 20 * MIB, 0, ORIGIN));
    life_fill(inside, 20 * MIB, 2, ORIGIN);
    assert_ok(tnr_free(inside));
    assert_ok(tnr_free(outside));
    const char *report = report_of(50 * MIB, TNR_ERR_OUT_OF_MEMORY, 0, OUTSIDE);
    /* The request has had what was captured so far read: the graph will refer to it. */
    check_has(report, "  6.00 MiB because graphs refer to them\n");
    check_lacks(report, "for a capture to end");
    recorded graph = capture_end(ORIGIN);
    report = report_of(40 * MIB, TNR_ERR_OUT_OF_MEMORY, 0, ORIGIN);
    check_has(report, "6.00 MiB were freed and wait");
    check_has(report, "  6.00 MiB because graphs refer to them\n");
    check_lacks(report, "for a capture to end");
    check_has(report, "  Fewer graph pools: \"step\" keeps 20.00 MiB that only its graphs use.");
    report = report_of(50 * MIB, TNR_ERR_OUT_OF_MEMORY, 0, ORIGIN);
    check_lacks(report, "Fewer graph pools"); /* less than half of what was asked for */
    recorded_destroy(&graph);
    steps_settle();
}

static void pools_that_sleep(void **state)
{
    (void)state;
    unit_start(conf_with("history:off"), "MEMORY=64M", NULL);
    tnr_pool pool;
    void *ptr;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&ptr, pool, 12 * MIB, 0, NULL));
    tnr_sleep_options sleep = TNR_SLEEP_OPTIONS_INIT;
    sleep.content = TNR_CONTENT_DISCARD;
    assert_ok(tnr_pool_sleep(pool, 0, &sleep));
    const char *report = report_of(80 * MIB, TNR_ERR_OUT_OF_MEMORY, 0, NULL);
    check_has(report, "Pools that sleep will want 12.00 MiB when they wake.");
    assert_ok(tnr_pool_wake(pool, 0));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_pool_destroy(pool));
}

/* ---- by stack ------------------------------------------------------------------------------- */

/* A function for each place. */
#define PLACES(_) _(0) _(1) _(2) _(3) _(4) _(5) _(6) _(7) _(8) _(9) _(10) _(11)
#define PLACE(number)                                                                              \
    __attribute__((noinline)) static void *place_##number(size_t bytes)                            \
    {                                                                                              \
        void *ptr = unit_malloc(bytes, NULL);                                                      \
        __asm__ volatile("" : : "r"(ptr) : "memory"); /* no tail call */                           \
        return ptr;                                                                                \
    }
PLACES(PLACE)

/* The ten that hold most, the largest first. */
static void the_stacks_that_hold_most(void **state)
{
    (void)state;
#define NAME(number) place_##number,
    static void *(*const places[])(size_t) = {PLACES(NAME)};
    enum { COUNT = sizeof(places) / sizeof(places[0]) };
    void *blocks[COUNT];
    unit_start(conf_with("history:full"), "MEMORY=256M", NULL);
    for (size_t i = 0; i < COUNT; i++) /* in no order */
        blocks[i] = places[i](((i * 5) % COUNT + 1) * MIB);
    assert_ok(tnr_history_set(0, TNR_HISTORY_LIGHT));
    void *unknown = unit_malloc(3 * MIB, NULL);
    const char *report = report_of(300 * MIB, TNR_ERR_OUT_OF_MEMORY, 0, NULL);
    const char *at = strstr(report, "by where it was allocated");
    assert_non_null(at);
    for (unsigned mib = COUNT; mib > COUNT - 10; mib--) {
        char line[64];
        snprintf(line, sizeof(line), "\n  %u.00 MiB live:\n      ", mib);
        at = strstr(at, line);
        if (at == NULL)
            fail_msg("the report lacks \"%u.00 MiB live:\", or has it too early:\n%s", mib, report);
    }
    check_lacks(report, "\n  2.00 MiB live:");
    check_has(at, "3.00 MiB live from unknown places");
    for (size_t i = 0; i < COUNT; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_free(unknown));
}

/* An interpreter that is where PyTorch calls a layer of the program's. */
enum { INTERPRETED = 7 };
static const uintptr_t interpreted = (uintptr_t)1 << (sizeof(uintptr_t) * 8 - 1);

static size_t frames_take(uintptr_t *frames, size_t room)
{
    for (size_t i = 0; i < INTERPRETED && i < room; i++)
        frames[i] = interpreted + i;
    return INTERPRETED < room ? INTERPRETED : room;
}

static void frame_describe(tnr_frame_info *info, uintptr_t frame)
{
    static const tnr_frame_info known[INTERPRETED] = {
        {.function = "forward", .file = "/l/site-packages/torch/nn/modules/linear.py", .line = 125},
        {.function = "_call_impl", .file = "/l/site-packages/torch/nn/modules/module.py"},
        {.function = "attention", .file = "/home/me/model.py", .line = 31},
        {.function = "_call_impl", .file = "/l/site-packages/torch/nn/modules/module.py"},
        {.function = "forward", .file = "/home/me/model.py", .line = 70},
        {.function = "step", .file = "/home/me/train.py", .line = 88},
        {.function = "run", .file = "/usr/lib/python3.11/threading.py", .line = 982},
    };
    *info = known[frame - interpreted];
}

static void the_programs_own_frames(void **state)
{
    (void)state;
    unit_start(conf_with("history:full"), "MEMORY=64M", NULL);
    assert_ok(tnr_frames_source_set(frames_take, frame_describe));
    void *held = unit_malloc(8 * MIB, NULL);
    const char *report = report_of(90 * MIB, TNR_ERR_OUT_OF_MEMORY, 0, NULL);
    check_has(report, "  8.00 MiB live:\n"
                      "      attention in /home/me/model.py, line 31\n"
                      "      forward in /home/me/model.py, line 70\n"
                      "      step in /home/me/train.py, line 88\n\n");
    check_lacks(report, "site-packages");
    assert_ok(tnr_free(held));
    assert_ok(tnr_frames_source_set(NULL, NULL));
}

/* ---- two devices ---------------------------------------------------------------------------- */

/* What another device's memory is held by, and waits for, is no answer. */
static void of_one_device_alone(void **state)
{
    (void)state;
    unit_start(conf_with("reuse:poll,history:full"), "MEMORY=64M", "DEVICES=2", "SCHEDULE=lazy",
               NULL);
    tnr_stream streams[] = {unit_stream(0), unit_stream(0), unit_stream(1), unit_stream(1)};
    for (int device = 0; device < 2; device++) {
        void *used;
        CUcontext context, popped;
        assert_ok(tnr_malloc(&used, (size_t)(5 + device) * MIB, device, streams[2 * device]));
        assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
        assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
        assert_int_equal(
            cuMemsetD8Async((CUdeviceptr)(uintptr_t)used, 1, MIB, streams[2 * device + 1]),
            CUDA_SUCCESS);
        assert_ok(tnr_record_use(used, streams[2 * device + 1]));
        assert_ok(tnr_free(used));
        assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
        assert_int_equal(cuDevicePrimaryCtxRelease(device), CUDA_SUCCESS);
    }
    void *here, *there;
    assert_ok(tnr_malloc(&here, 8 * MIB, 0, NULL));
    assert_ok(tnr_malloc(&there, 30 * MIB, 1, NULL));
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool pool;
    void *ptr;
    options.limit_bytes = 4 * MIB; /* refused before anything is waited for */
    assert_ok(tnr_pool_create(&pool, 0, &options));
    assert_error(tnr_pool_malloc(&ptr, pool, 12 * MIB, 0, NULL), TNR_ERR_LIMIT, NULL);
    const char *report = report_read();
    check_has(report, "5.00 MiB were freed and wait; that is what waiting would have freed:\n"
                      "  5.00 MiB for work of other streams\n");
    check_lacks(report, "11.00 MiB");
    check_has(report, "\n  8.00 MiB live:\n");
    check_lacks(report, "30.00 MiB");
    check_lacks(report, "38.00 MiB");
    assert_ok(tnr_free(here));
    assert_ok(tnr_free(there));
    assert_ok(tnr_pool_destroy(pool));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nothing_would_have_helped, unit_stop),
        cmocka_unit_test_teardown(a_higher_limit, unit_stop),
        cmocka_unit_test_teardown(memory_of_other_streams, unit_stop),
        cmocka_unit_test_teardown(blocks_that_wait, life_stop),
        cmocka_unit_test_teardown(memory_of_graphs, life_stop),
        cmocka_unit_test_teardown(pools_that_sleep, unit_stop),
        cmocka_unit_test_teardown(the_stacks_that_hold_most, unit_stop),
        cmocka_unit_test_teardown(the_programs_own_frames, unit_stop),
        cmocka_unit_test_teardown(of_one_device_alone, unit_stop),
    };
    if (argc > 1) {
        folder = argv[1];
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
