/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What control groups let the process have of a device: limits from a folder that plays theirs, in
 * which the simulated device writes what is used (TENURE_SIM_DMEM).
 *
 * Lines changed in the library to see a test fail:
 *   headroom_check without tnri_cgroup_room: nothing_is_taken_above_the_hard_limit
 *   tnri_chunk_foresee without it: the same
 *   tnri_cgroup_over without the hard limit: a_lowered_limit_takes_what_is_idle
 *   ladder_ascend without tnri_reclaim_above_groups: what_is_idle_above_the_soft_limit_goes_back
 *   server_run without groups_follow; library_start_device without TNRI_DEVICE_IS_LIMITED, or
 *   tnri_server_make without `watches`: the_thread_that_listens_follows
 *   group_look without dmem.low: the same; limit_lower: the latest: the_tightest_group_counts
 *   region_is without its devices: other_regions_and_odd_files_limit_nothing
 *   tnri_reclaim_above_groups that returns 0: what_is_on_its_way_is_told; without its look at what
 *   went back: a_look_that_gave_too_little_is_told; that returns 0 where it does not look:
 *   what_is_on_its_way_is_told
 *   tnri_cgroup_number without its digit: the same, at "-5"
 *   tnri_cgroup_file that waits for pipes: the same, never ends
 */
#include "played_root.h"

#include <time.h>
#include <unistd.h>

#include <tenure/cgroup.h>
#include <tenure/control.h>
#include <tenure/host.h>

#include "await.h"
#include "memory/device/device.h"
#include "miss/reclaim.h"

#define GPU "nvidia/0000:01:00.0/vidmem"

/* A group /pod/job, whose use the simulated device writes; `more` are settings. */
static void group_start(const char *more)
{
    char played[2 * PATH_MAX];
    snprintf(played, sizeof(played), "DMEM=%s/sys/fs/cgroup/pod/job", root);
    put("/proc/self/cgroup", "0::/pod/job\n");
    put("/sys/fs/cgroup/pod/job/cgroup.procs", "1\n");
    unit_start(more, "MEMORY=256M", played, NULL);
    assert_ok(tnr_free(unit_malloc(1, NULL))); /* the device is in use */
    assert_ok(tnr_trim(NULL, 0, 0));
}

static void limit_put(const char *file, size_t mib)
{
    char path[256], text[128];
    snprintf(path, sizeof(path), "/sys/fs/cgroup/pod/job/%s", file);
    snprintf(text, sizeof(text), "drm/0000:01:00.0/vram0 1\n" GPU " %zu\n", mib * MIB);
    put(path, text);
}

static tnr_cgroup_info group_get(void)
{
    tnr_cgroup_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_cgroup_get(&info, 0));
    return info;
}

static tnr_oom_reason lacked;

static int reason_keep(const tnr_oom_info *info, void *user)
{
    (void)user;
    lacked = info->reason;
    return 0;
}

/* ---- the hard limit ------------------------------------------------------------------------- */

static void nothing_is_taken_above_the_hard_limit(void **state)
{
    (void)state;
    void *ptr = &ptr;
    group_start(NULL);
    limit_put("dmem.max", 32);
    tnr_stream one = unit_stream(0), two = unit_stream(0);
    void *first = unit_malloc(20 * MIB, one);
    uint64_t create = simcuda_calls("cuMemCreate");
    tnr_oom_callback_set(reason_keep, NULL);
    assert_error(tnr_malloc(&ptr, 16 * MIB, 0, two), TNR_ERR_OUT_OF_MEMORY,
                 "the control group may have 32.00 MiB of device 0 "
                 "(/sys/fs/cgroup/pod/job/dmem.max) and has 2");
    assert_null(ptr);
    assert_int_equal(lacked, TNR_OOM_CGROUP);
    assert_int_equal(simcuda_calls("cuMemCreate"), create);
    assert_ok(tnr_free(first)); /* what is idle makes room, without a call of the user's */
    void *second = unit_malloc(30 * MIB, two);
    assert_true(group_get().hard_used_bytes <= 32 * MIB);
    put("/sys/fs/cgroup/pod/job/dmem.max", GPU " max\n");
    assert_int_equal(group_get().hard_bytes, SIZE_MAX);
    void *third = unit_malloc(64 * MIB, one);
    assert_ok(tnr_free(second));
    assert_ok(tnr_free(third));
}

/* A request that the cached path cannot serve, later than any look before. */
static void miss(void)
{
    void *ptr;
    usleep(3000);
    assert_ok(tnr_malloc(&ptr, 4 * MIB + (size_t)rand() % 2, 0, unit_stream(0)));
    assert_ok(tnr_free(ptr));
}

/* What is idle, with old mappings and without, and only that. */
static void a_lowered_limit_takes_what_is_idle(void **state)
{
    (void)state;
    group_start(NULL);
    tnr_stream one = unit_stream(0), two = unit_stream(0);
    void *live = unit_malloc(8 * MIB, one), *idle[6], *ptr;
    for (int i = 0; i < 6; i++)
        idle[i] = unit_malloc(10 * MIB, one);
    for (int i = 0; i < 6; i++)
        assert_ok(tnr_free(idle[i]));
    limit_put("dmem.max", 20); /* with 68 in use */
    usleep(3000);
    ptr = unit_malloc(10 * MIB, two);
    assert_true(group_get().hard_used_bytes <= 20 * MIB);
    assert_error(tnr_malloc((void **)&idle[0], 4 * MIB, 0, two), TNR_ERR_OUT_OF_MEMORY, "dmem.max");
    assert_ok(tnr_free(live));
    assert_ok(tnr_free(ptr));
}

/* ---- the soft limit ------------------------------------------------------------------------- */

static void what_is_idle_above_the_soft_limit_goes_back(void **state)
{
    (void)state;
    static const char *const files[] = {"dmem.min", "dmem.low"};
    for (int i = 0; i < 2; i++) {
        group_start(NULL);
        void *live = unit_malloc(24 * MIB, NULL), *idle = unit_malloc(40 * MIB, NULL);
        put("/sys/fs/cgroup/pod/job/dmem.min", GPU " 0\n"); /* none */
        assert_ok(tnr_free(idle));
        miss();
        assert_true(unit_stats().reserved_bytes.current >= 64 * MIB);
        limit_put(files[i], 32);
        miss();
        tnr_cgroup_info info = group_get();
        assert_int_equal(info.soft_bytes, 32 * MIB);
        assert_true(info.soft_used_bytes <= 32 * MIB);
        assert_true(info.given_bytes >= 32 * MIB);
        assert_non_null(strstr(info.soft_file, files[i]));
        limit_put(files[i], 2); /* live memory is borrowed, and stays */
        miss();
        assert_int_equal(unit_stats().bytes_live, 24 * MIB);
        assert_ok(tnr_free(live));
        unit_stop(NULL);
    }
}

/* What cannot go back at once, here chunks whose old mappings wait for queued work, is said to be
 * on its way: the thread that listens then looks sooner. */
static void what_is_on_its_way_is_told(void **state)
{
    (void)state;
    group_start(NULL);
    tnri_device *device = tnri_device_nth(0);
    tnr_stream one = unit_stream(0), two = unit_stream(0);
    CUcontext context;
    void *parts[6], *whole;
    for (int i = 0; i < 6; i++)
        parts[i] = unit_malloc(10 * MIB, i % 2 ? one : two);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    for (int i = 0; i < 6; i++)
        assert_int_equal(cuMemsetD8Async((CUdeviceptr)parts[i], 1, MIB, i % 2 ? one : two),
                         CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&context), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    for (int i = 0; i < 6; i++)
        assert_ok(tnr_free(parts[i]));
    whole = unit_malloc(24 * MIB, one);
    assert_ok(tnr_free(whole));
    limit_put("dmem.min", 8);
    assert_int_equal(tnri_reclaim_above_groups(device, 0), 1);
    assert_true(group_get().soft_used_bytes > 8 * MIB);
    /* Also to a thread that comes too soon to look itself, as after a request that has. */
    assert_int_equal(tnri_reclaim_above_groups(device, UINT64_MAX), 1);
    simcuda_run(UINT64_MAX);
    while (tnri_reclaim_above_groups(device, 0))
        continue;
    assert_int_equal(tnri_reclaim_above_groups(device, UINT64_MAX), 0);
    assert_true(group_get().soft_used_bytes <= 8 * MIB);
}

/* A look that gave less than the limit wants is followed by another soon: what is free a moment
 * later must not wait a whole turn. One that gave all, or nothing, is not. */
static void a_look_that_gave_too_little_is_told(void **state)
{
    (void)state;
    group_start(NULL);
    tnri_device *device = tnri_device_nth(0);
    void *live = unit_malloc(16 * MIB, NULL), *idle = unit_malloc(32 * MIB, NULL);
    assert_ok(tnr_free(idle));
    limit_put("dmem.min", 32);
    assert_int_equal(tnri_reclaim_above_groups(device, 0), 0);
    assert_true(group_get().soft_used_bytes <= 32 * MIB);
    limit_put("dmem.min", 8);
    assert_int_equal(tnri_reclaim_above_groups(device, 0), 1);
    assert_int_equal(tnri_reclaim_above_groups(device, 0), 0);
    assert_true(group_get().soft_used_bytes > 8 * MIB);
    assert_ok(tnr_free(live));
}

static void soft_awaits(size_t mib)
{
    limit_put("dmem.min", mib);
    await_true(group_get().soft_used_bytes <= mib * MIB);
}

/* With control, its thread looks: nothing is called, and idle memory goes back. It was there before
 * the device was in use, and after. */
static void the_thread_that_listens_follows(void **state)
{
    (void)state;
    char conf[2 * PATH_MAX];
    for (int is_later = 0; is_later < 2; is_later++) {
        snprintf(conf, sizeof(conf), "control:on,control_dir:%s/control", root);
        group_start(is_later ? NULL : conf);
        limit_put("dmem.min", 0);
        if (is_later)
            assert_ok(tnr_configure(conf));
        assert_true(tnr_control_path(NULL, 0) > 0);
        void *live = unit_malloc(8 * MIB, NULL), *idle = unit_malloc(96 * MIB, NULL);
        assert_ok(tnr_free(idle));
        assert_true(group_get().soft_used_bytes == 0); /* no limit, nothing to see */
        soft_awaits(64);
        soft_awaits(16);
        tnr_stats stats = TNR_STATS_INIT; /* without unit_stats: what the thread does may go on */
        assert_ok(tnr_stats_get(&stats, NULL, 0));
        assert_int_equal(stats.bytes_live, 8 * MIB);
        assert_ok(tnr_free(live));
        unit_stop(NULL);
    }
}

/* ---- how long it takes ---------------------------------------------------------------------- */

static int falls; /* that are measured: test_unit_cgroup measure N */

static int ms_compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* From a soft limit's fall by 80 MiB to when the group is under it, while the program does
 * nothing. Prints what it took. */
static void measure(void **state)
{
    (void)state;
    char conf[2 * PATH_MAX];
    double *took = calloc((size_t)falls, sizeof(*took));
    assert_non_null(took);
    snprintf(conf, sizeof(conf), "control:on,control_dir:%s/control", root);
    group_start(conf);
    for (int i = 0; i < falls; i++) {
        limit_put("dmem.min", 0);
        void *idle = unit_malloc(96 * MIB, NULL);
        assert_ok(tnr_free(idle));
        usleep((useconds_t)rand() % 40000); /* wherever the thread is in its turn */
        double fell = now_ms();
        limit_put("dmem.min", 16);
        while (group_get().soft_used_bytes > 16 * MIB)
            usleep(100);
        took[i] = now_ms() - fell;
    }
    qsort(took, (size_t)falls, sizeof(*took), ms_compare);
    print_message("%d falls of a soft limit by 80 MiB: under it after %.1f ms in the median, %.1f "
                  "in 95 of 100, %.1f at most\n",
                  falls, took[falls / 2], took[falls * 95 / 100], took[falls - 1]);
    free(took);
}

/* ---- which group, and what is no limit ------------------------------------------------------ */

static void the_tightest_group_counts(void **state)
{
    (void)state;
    void *ptr;
    group_start(NULL);
    limit_put("dmem.max", 64);
    limit_put("dmem.min", 60);
    put("/sys/fs/cgroup/pod/dmem.current", GPU " 104857600\n");
    put("/sys/fs/cgroup/pod/dmem.max", GPU " 115343360\n"); /* 10 MiB more */
    put("/sys/fs/cgroup/pod/dmem.min", GPU " 8\n");
    put("/sys/fs/cgroup/dmem.current", GPU " 104857600\n");
    put("/sys/fs/cgroup/dmem.max", GPU " 999999999\n");
    assert_error(tnr_malloc(&ptr, 20 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
                 "/sys/fs/cgroup/pod/dmem.max");
    tnr_cgroup_info info = group_get();
    assert_string_equal(info.hard_file, "/sys/fs/cgroup/pod/dmem.max");
    assert_string_equal(info.soft_file, "/sys/fs/cgroup/pod/dmem.min");
    assert_int_equal(info.hard_used_bytes, 100 * MIB);
    assert_int_equal(info.soft_bytes, 8);
}

static void other_regions_and_odd_files_limit_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {"max\n",
                                        GPU "\n",
                                        GPU " max\n",
                                        GPU " -5\n",
                                        GPU " 99999999999999999999999999\n",
                                        GPU " 0x10\nxx",
                                        "nvidia/0000:02:00.0/vidmem 1\n",
                                        "nvidia/0001:01:00.0/vidmem 1\n",
                                        "nvidia/0000:01:01.0/vidmem 1\n",
                                        "nvidia/0000:01:00.1/vidmem 1\n",
                                        "nvidia/0000:01:00.0/vidmemory 1\n",
                                        "drm/0000:01:00.0/vram0 1\n",
                                        "nvidia/\n",
                                        "1\n",
                                        " \n\n" GPU "\n",
                                        "\xff\xfe\x01\n"};
    static char longest[1 << 16];
    group_start(NULL);
    memset(longest, 'a', sizeof(longest) - 1);
    for (size_t i = 0; i <= sizeof(texts) / sizeof(texts[0]); i++) {
        const char *text = i < sizeof(texts) / sizeof(texts[0]) ? texts[i] : longest;
        int is_zero = strstr(text, "0x10") != NULL; /* which begins with a number */
        put("/sys/fs/cgroup/pod/job/dmem.max", is_zero ? "" : text);
        put("/sys/fs/cgroup/pod/job/dmem.min", text);
        put("/sys/fs/cgroup/pod/job/dmem.low", text);
        assert_int_equal(group_get().hard_bytes, SIZE_MAX);
        assert_int_equal(group_get().soft_bytes, SIZE_MAX);
        miss();
    }
    put("/sys/fs/cgroup/pod/job/dmem.max", "nvidia/00000000:01:00.0/vidmem 9"); /* as NVML writes */
    assert_int_equal(group_get().hard_bytes, 9);
    char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%s/sys/fs/cgroup/pod/job/dmem.max", root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(group_get().hard_bytes, SIZE_MAX);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(group_get().hard_bytes, SIZE_MAX);
    miss();
}

/* A group that vanishes limits nothing from then on, and nothing ends. */
static void a_group_may_vanish(void **state)
{
    (void)state;
    char command[2 * PATH_MAX];
    group_start(NULL);
    limit_put("dmem.max", 16);
    limit_put("dmem.min", 8);
    void *ptr = unit_malloc(10 * MIB, NULL);
    snprintf(command, sizeof(command), "rm -rf '%s/sys'", root);
    assert_int_equal(system(command), 0);
    void *more = unit_malloc(64 * MIB, NULL);
    assert_int_equal(group_get().hard_bytes, SIZE_MAX);
    snprintf(command, sizeof(command), "rm -rf '%s/proc'", root);
    assert_int_equal(system(command), 0);
    miss();
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_free(more));
}

/* Without a group that has the device, or with none to be followed, nothing is read later. */
static void who_has_no_group_pays_nothing(void **state)
{
    (void)state;
    void *ptr;
    unit_start(NULL, "MEMORY=256M", NULL);
    ptr = unit_malloc(4 * MIB, NULL);
    put("/proc/self/cgroup", "0::/pod/job\n");
    put("/sys/fs/cgroup/pod/job/dmem.current", GPU " 100\n");
    limit_put("dmem.max", 1);
    void *more = unit_malloc(64 * MIB, NULL);
    assert_int_equal(group_get().hard_bytes, 1 * MIB); /* but who asks is told */
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_free(more));
    unit_stop(NULL);
    group_start("cgroup:");
    limit_put("dmem.max", 1);
    ptr = unit_malloc(64 * MIB, NULL);
    assert_int_equal(group_get().hard_bytes, SIZE_MAX);
    assert_ok(tnr_free(ptr));
}

static void what_is_asked_wrongly(void **state)
{
    (void)state;
    tnr_cgroup_info info = {.struct_bytes = 7};
    group_start(NULL);
    assert_error(tnr_cgroup_get(NULL, 0), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_error(tnr_cgroup_get(&info, 0), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    info.struct_bytes = sizeof(info);
    assert_error(tnr_cgroup_get(&info, 9), TNR_ERR_INVALID_DEVICE, "no GPU 9");
    assert_error(tnr_cgroup_get(&info, TNR_HOST(0)), TNR_ERR_INVALID_DEVICE, "no GPU");
    assert_error(tnr_cgroup_get(&info, -1), TNR_ERR_INVALID_DEVICE, "no GPU -1");
    assert_error(tnr_configure("cgroup:/elsewhere"), TNR_ERR_BUSY, "cgroup");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, root_begin, root_end)

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "measure") == 0 && (falls = atoi(argv[2])) > 0) {
        const struct CMUnitTest measured[] = {TEST(measure)};
        return cmocka_run_group_tests(measured, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_taken_above_the_hard_limit),
        TEST(a_lowered_limit_takes_what_is_idle),
        TEST(what_is_idle_above_the_soft_limit_goes_back),
        TEST(what_is_on_its_way_is_told),
        TEST(a_look_that_gave_too_little_is_told),
        TEST(the_thread_that_listens_follows),
        TEST(the_tightest_group_counts),
        TEST(other_regions_and_odd_files_limit_nothing),
        TEST(a_group_may_vanish),
        TEST(who_has_no_group_pays_nothing),
        TEST(what_is_asked_wrongly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
