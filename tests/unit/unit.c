/* SPDX-License-Identifier: Apache-2.0 */
/* See unit.h. */
#include "unit.h"

#include "few.h"

#include "base/lock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEVICES_MAX = 32 };

static CUcontext contexts[DEVICES_MAX]; /* retained by the fixture */
static uint64_t contexts_count;

static const char *const sim_names[] = {
    "DEVICES",     "MEMORY", "GRANULARITY",  "RESERVE", "SEED",      "SCHEDULE", "THREADS",
    "DEADLOCK_MS", "FAIL",   "STRICT",       "VMM",     "VERSION",   "MISSING",  "RACES",
    "PEERS",       "RDMA",   "PINNED_ALIGN", "DMEM",    "INTEGRATED"};

static void settings_apply(const char *conf, const char *first, va_list more)
{
    char text[1024];
    assert_ok(tnr_shutdown(1)); /* also forgets what tnr_configure set */
    (void)simcuda_reset();
    memset(contexts, 0, sizeof(contexts));
    contexts_count = 0;
    for (size_t i = 0; i < sizeof(sim_names) / sizeof(sim_names[0]); i++) {
        snprintf(text, sizeof(text), "TENURE_SIM_%s", sim_names[i]);
        unsetenv(text);
    }
    for (const char *setting = first; setting != NULL; setting = va_arg(more, const char *)) {
        const char *value = strchr(setting, '=');
        assert_non_null(value);
        snprintf(text, sizeof(text), "TENURE_SIM_%.*s", (int)(value - setting), setting);
        setenv(text, value + 1, 1);
    }
    /* Memcheck goes through each range of addresses that is reserved: 16 GiB take it 30 ms. */
    snprintf(text, sizeof(text), "address_space_gb:%d,%s", few_or(16, 8), conf == NULL ? "" : conf);
    setenv("TENURE_CONF", text, 1);
    setenv("TENURE_DRIVER", "sim", 1);
    simcuda_violations_clear();
}

void unit_settings(const char *conf, const char *first, ...)
{
    va_list more;
    va_start(more, first);
    settings_apply(conf, first, more);
    va_end(more);
}

void unit_start(const char *conf, const char *first, ...)
{
    va_list more;
    va_start(more, first);
    settings_apply(conf, first, more);
    va_end(more);
    assert_ok(tnr_init());
}

int unit_stop(void **state)
{
    (void)state;
#if TNR_CHECK >= 2
    if (!tnri_lock_none_held()) { /* a test that crashed under it, which CMocka has caught */
        fputs("the test has left a lock held, and nothing can go on\n", stderr);
        _exit(1);
    }
#endif
    tnr_oom_callback_set(NULL, NULL);
    tnr_status status = tnr_shutdown(1);
    if (status != TNR_OK)
        fprintf(stderr, "tnr_shutdown: %s\n", tnr_last_error());
    int failed = status != TNR_OK;
    simcuda_live live;
    if (status == TNR_OK && simcuda_live_get(-1, &live) == 0 &&
        (live.handles != 0 || live.mappings != 0 || live.reservations != 0 || live.events != 0 ||
         live.primary_references != contexts_count)) {
        fprintf(stderr,
                "left on the device: %llu handles, %llu mappings, %llu reservations, %llu events, "
                "%llu context references (%llu of the fixture's)\n",
                (unsigned long long)live.handles, (unsigned long long)live.mappings,
                (unsigned long long)live.reservations, (unsigned long long)live.events,
                (unsigned long long)live.primary_references, (unsigned long long)contexts_count);
        failed = 1;
    }
    if (simcuda_violations() != 0) {
        fprintf(stderr, "misuse of the driver: %s\n", simcuda_violation_last());
        failed = 1;
    }
    unit_settings(NULL, NULL);
    return failed ? -1 : 0;
}

tnr_stream unit_stream(int device)
{
    CUstream stream = NULL;
    CUcontext popped;
    if (contexts[device] == NULL) {
        assert_int_equal(cuInit(0), CUDA_SUCCESS);
        assert_int_equal(cuDevicePrimaryCtxRetain(&contexts[device], device), CUDA_SUCCESS);
        contexts_count++;
    }
    assert_int_equal(cuCtxPushCurrent(contexts[device]), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    return stream;
}

void unit_expect(tnr_status got, tnr_status expected, const char *text, const char *call,
                 const char *file, int line)
{
    if (got != expected) {
        print_error("%s:%d: %s gave %s (%s), not %s\n", file, line, call, tnr_status_name(got),
                    tnr_last_error(), tnr_status_name(expected));
        _fail(file, line);
    }
    if (text != NULL && strstr(tnr_last_error(), text) == NULL) {
        print_error("%s:%d: %s failed with \"%s\", which does not say \"%s\"\n", file, line, call,
                    tnr_last_error(), text);
        _fail(file, line);
    }
}

void *unit_malloc(size_t bytes, tnr_stream stream)
{
    void *ptr = NULL;
    assert_ok(tnr_malloc(&ptr, bytes, 0, stream));
    assert_non_null(ptr);
    return ptr;
}

tnr_stats unit_stats(void)
{
    tnr_stats stats;
    stats.struct_bytes = sizeof(stats);
    assert_ok(tnr_stats_get(&stats, NULL, 0));
    assert_ok(tnr_validate(0));
    assert_int_equal(stats.bytes_live + stats.bytes_slack + stats.bytes_binned + stats.bytes_free +
                         stats.bytes_retired,
                     stats.reserved_bytes.current + stats.bytes_asleep + stats.bytes_parked_away);
    return stats;
}

int unit_in_child(void (*body)(void *data), void *data, int quiet)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* CMocka's handlers would carry on with the next test, here in the child. */
        (void)signal(SIGABRT, SIG_DFL);
        (void)signal(SIGSEGV, SIG_DFL);
        if (quiet) {
            int nowhere = open("/dev/null", O_WRONLY);
            if (nowhere >= 0)
                (void)dup2(nowhere, STDERR_FILENO);
        }
        body(data);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int unit_knows_the_gone(void)
{
    uint32_t here = 0, there = 0;
    struct iovec to = {&here, sizeof(here)}, from = {&there, sizeof(there)};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)sizeof(here);
}

uint64_t unit_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t unit_below(uint64_t *state, uint64_t bound)
{
    return unit_random(state) % bound;
}
