/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that ends its main thread with pthread_exit: it goes on as long as another thread of
 * its own does, takes signals meanwhile, and then ends with 0, its exit handlers called, whichever
 * threads the library has.
 *
 * Lines of the library changed to see it fail:
 *   main_gone that begins no watch: it_ends (the process never does)
 *   last_watch that expects one thread more: the same
 *   tnri_helper_make without watch_begin: a_helper_that_comes_later
 *   fork_child that keeps the count: a_forked_child
 */
#include "unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tenure/control.h>
#include <tenure/export.h>

#include "share/group/member.h"

enum { PATIENCE_MS = 600000, WORK_MS = 300, HANDLED = 7 };

static char folder[64];
static int told[2]; /* what the process's exit handlers say */

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* 1 if the process's main thread has ended, and others of it live: it is a zombie that cannot be
 * waited for. */
static int main_has_ended(pid_t process)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
    if (file >= 0)
        (void)close(file);
    text[bytes > 0 ? bytes : 0] = '\0';
    const char *state = strrchr(text, ')');
    return state != NULL && strncmp(state, ") Z", 3) == 0;
}

/* Runs body in a process, and sends it a signal when its main thread has ended, if not 0. Its
 * status; the process must end by itself. `least`: how many seconds it must have lived. */
static int process_run(void (*body)(const char *), const char *argument, int number, double least)
{
    int status = -1;
    double began = seconds_now();
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body(argument);
        _exit(9);
    }
    for (int waited = 0; waited < PATIENCE_MS; waited++) {
        if (number != 0 && main_has_ended(child)) {
            assert_int_equal(kill(child, number), 0);
            number = 0;
        }
        if (waitpid(child, &status, WNOHANG) == child) {
            assert_true(seconds_now() - began >= least);
            return status;
        }
        (void)usleep(1000);
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
    fail_msg("%s: the process does not end", argument);
    return status;
}

/* Starts a device, and what the settings say. */
static void start(const char *conf)
{
    char all[160];
    tnr_export_name name;
    tnri_member_seen seen;
    int seat = 0;
    snprintf(all, sizeof(all), "control_dir:%s,%s", folder, conf);
    unit_start(all, NULL, NULL);
    void *block = unit_malloc(MIB, NULL);
    (void)tnri_member_next(&seen, &seat, 0);
    (void)tnr_control_path(NULL, 0);
    if (strstr(conf, "posix_fd") != NULL)
        assert_ok(tnr_export_offer(&name, block)); /* its thread answers who asks */
}

static void exit_tell(void)
{
    (void)!write(told[1], "x", 1);
}

/* ---- programs ------------------------------------------------------------------------------- */

static void main_ends(const char *conf)
{
    (void)atexit(exit_tell);
    start(conf);
    pthread_exit(NULL);
}

static void *work(void *main_thread)
{
    (void)usleep(WORK_MS * 1000);
    if (main_thread != NULL && pthread_join(*(pthread_t *)main_thread, NULL) != 0)
        _exit(8);
    return NULL;
}

static void main_ends_first(const char *conf)
{
    static pthread_t self;
    pthread_t worker;
    (void)atexit(exit_tell);
    self = pthread_self();
    start(conf);
    assert_int_equal(pthread_create(&worker, NULL, work, &self), 0); /* also joins the main one */
    pthread_exit(NULL);
}

static void *work_later(void *conf)
{
    (void)usleep(WORK_MS * 1000);
    start(conf);
    return NULL;
}

static void helper_comes_later(const char *conf)
{
    static char copy[64];
    pthread_t worker;
    (void)atexit(exit_tell);
    snprintf(copy, sizeof(copy), "%s", conf);
    assert_int_equal(pthread_create(&worker, NULL, work_later, copy), 0);
    pthread_exit(NULL);
}

static void *stay(void *nothing)
{
    for (;;)
        (void)pause();
    return nothing;
}

static void worker_stays(const char *conf)
{
    pthread_t worker;
    start(conf);
    assert_int_equal(pthread_create(&worker, NULL, stay, NULL), 0);
    pthread_exit(NULL);
}

static void handle(int number)
{
    (void)number;
    _exit(HANDLED);
}

static void worker_handles(const char *conf)
{
    (void)signal(SIGTERM, handle);
    worker_stays(conf);
}

static void child_goes_on(const char *conf)
{
    start(conf);
    pid_t child = fork();
    if (child == 0) {
        pthread_t worker;
        (void)pthread_create(&worker, NULL, work, NULL);
        pthread_exit(NULL);
    }
    int status = -1;
    exit(waitpid(child, &status, 0) == child && status == 0 ? 0 : 8);
}

/* ---- the tests ------------------------------------------------------------------------------ */

static const char *const features[] = {"control:on", "group:g", "snapshot_signal:USR2",
                                       "handle_type:posix_fd",
                                       "control:on,group:g,snapshot_signal:USR2"};
enum { FEATURES = sizeof(features) / sizeof(features[0]) };

/* The process ends with 0, after its exit handlers. */
static void ends_in_order(void (*body)(const char *), double least)
{
    for (int i = 0; i < FEATURES; i++) {
        char said = 0;
        assert_int_equal(pipe(told), 0);
        assert_int_equal(process_run(body, features[i], 0, least), 0);
        (void)close(told[1]);
        assert_int_equal(read(told[0], &said, 1), 1);
        (void)close(told[0]);
    }
}

static void it_ends(void **state)
{
    (void)state;
    ends_in_order(main_ends, 0);
}

static void it_lives_as_long_as_its_own(void **state)
{
    (void)state;
    ends_in_order(main_ends_first, WORK_MS / 1000.0);
}

static void a_helper_that_comes_later(void **state)
{
    (void)state;
    ends_in_order(helper_comes_later, WORK_MS / 1000.0);
}

static void signals_are_the_programs(void **state)
{
    (void)state;
    for (int i = 0; i < FEATURES; i++) {
        int status = process_run(worker_stays, features[i], SIGTERM, 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        status = process_run(worker_handles, features[i], SIGTERM, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == HANDLED);
    }
}

static void a_forked_child(void **state)
{
    (void)state;
    for (int i = 0; i < FEATURES; i++)
        assert_int_equal(process_run(child_goes_on, features[i], 0, WORK_MS / 1000.0), 0);
}

static int folder_end(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_ends),
        cmocka_unit_test(it_lives_as_long_as_its_own),
        cmocka_unit_test(a_helper_that_comes_later),
        cmocka_unit_test(signals_are_the_programs),
        cmocka_unit_test(a_forked_child),
    };
    snprintf(folder, sizeof(folder), "/tmp/tenure-last-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    return cmocka_run_group_tests(tests, NULL, folder_end);
}
