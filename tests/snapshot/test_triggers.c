/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots that the settings ask for, when something prevents them: no thread or descriptor is
 * available, folders do not exist, the process was forked, shutdowns fail, memory runs out again
 * and again.
 *
 * Seen to fail: a_signal_is_changed_without_descriptors, when the watcher of the old signal was
 * ended before that of the new one was made: the next USR1 ended the program; with the handler that
 * wrote to its event in any process: a_forked_child_does_not_ask_its_parent, and
 * a_forked_child_may_start_afresh waited for its snapshot for ever. Without complain in
 * tnri_snapshot_oom: without_their_folder.
 */
#include "unit/unit.h"

#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/history.h>
#include <tenure/range.h>

#include "await.h"
#include "log/history.h"

static const char *folder;  /* what is in it is removed */
static const char *program; /* its file: under memcheck, /proc/self/exe is another */

static const char *conf_with(const char *format)
{
    static char conf[1200];
    snprintf(conf, sizeof(conf), format, folder, folder);
    return conf;
}

static void files_of(glob_t *found, const char *pattern)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, pattern);
    if (glob(path, 0, NULL, found) != 0)
        memset(found, 0, sizeof(*found));
}

static size_t files_count(const char *pattern)
{
    glob_t found;
    files_of(&found, pattern);
    size_t count = found.gl_pathc;
    globfree(&found);
    return count;
}

static void files_remove(void)
{
    glob_t found;
    files_of(&found, "*");
    for (size_t i = 0; i < found.gl_pathc; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
}

/* Waits until the snapshot of a signal is there: written whole, it appears at once. */
static void await_snapshot(void)
{
    await_true(files_count("tenure-[0-9]*.json.gz") > 0);
    files_remove();
}

/* For teardown. */
static int triggers_stop(void **state)
{
    files_remove();
    return unit_stop(state);
}

/* The value that a setting has. */
static const char *setting_value(const char *key)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    for (size_t i = 0; tnr_setting_get(&info, i) == TNR_OK; i++)
        if (strcmp(info.key, key) == 0)
            return info.value;
    return "";
}

/* ---- programs ------------------------------------------------------------------------------- */

/* Processes of their own, which were not forked from one that had started the library: with the
 * settings in the environment, and the folder after their name. */

/* The signal of the settings is watched, whether they could be changed or not. */
static int program_change(void)
{
    struct rlimit limit;
    if (tnr_init() != TNR_OK || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 0;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    tnr_status status = tnr_configure("snapshot_signal:USR2");
    limit.rlim_cur = before;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (strcmp(setting_value("snapshot_signal"), status == TNR_OK ? "USR2" : "USR1") != 0)
        return 3;
    raise(status == TNR_OK ? SIGUSR2 : SIGUSR1);
    await_snapshot();
    return tnr_shutdown(0) != TNR_OK;
}

static int program_forks(void)
{
    int status = 1;
    if (fork() == 0)
        exit(0);
    (void)wait(&status);
    _exit(status != 0);
}

/* A child of a process that had settings, but had not started. */
static int program_afresh(void)
{
    int status = 1;
    char own[64];
    if (tnr_configure(getenv("TENURE_CONF")) != TNR_OK)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        if (tnr_init() != TNR_OK)
            _exit(3);
        raise(SIGUSR2);
        while (files_count("tenure-[0-9]*.json.gz") == 0)
            usleep(1000);
        snprintf(own, sizeof(own), "tenure-%ld-*.json.gz", (long)getpid());
        _exit(files_count(own) != 1 || tnr_shutdown(0) != TNR_OK ? 4 : 0);
    }
    (void)wait(&status);
    files_remove();
    if (status != 0 || tnr_init() != TNR_OK) /* and so may its parent */
        return 5;
    raise(SIGUSR2);
    await_snapshot();
    return tnr_shutdown(0) != TNR_OK;
}

/* Another process of the program's begins later, and ends first. */
static int program_parent(void)
{
    int status = 1;
    usleep(30000);
    pid_t child = fork();
    if (child == 0) {
        execl(getenv("TRIGGERS_PROGRAM"), "test_triggers", "--program", "exit", folder,
              (char *)NULL);
        _exit(9);
    }
    (void)wait(&status);
    return status != 0;
}

/* A shutdown at once would leave the snapshot unwritten: what is said of it is waited for first,
 * and passed on. */
static int program_signal(void)
{
    char said[1024];
    int ends[2], before = dup(STDERR_FILENO);
    if (before < 0 || pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        return 6;
    raise(SIGUSR1);
    ssize_t bytes = read(ends[0], said, sizeof(said));
    if (bytes <= 0 || dup2(before, STDERR_FILENO) < 0 ||
        write(STDERR_FILENO, said, (size_t)bytes) != bytes)
        return 7;
    return tnr_shutdown(1) != TNR_OK;
}

static int program_run(const char *what)
{
    if (strcmp(what, "afresh") == 0)
        return program_afresh();
    if (strcmp(what, "change") == 0)
        return program_change();
    if (strcmp(what, "unstarted") == 0)
        return tnr_configure(getenv("TENURE_CONF")) != TNR_OK;
    if (tnr_init() != TNR_OK)
        return 2;
    if (strcmp(what, "forks") == 0)
        return program_forks();
    if (strcmp(what, "parent") == 0)
        return program_parent();
    if (strcmp(what, "signal") == 0)
        return program_signal();
    if (strcmp(what, "oom") == 0) { /* and asks again, as programs do that cannot believe it */
        void *ptr;
        for (int i = 0; i < 3; i++)
            if (tnr_malloc(&ptr, 80 * MIB, 0, NULL) != TNR_ERR_OUT_OF_MEMORY)
                return 3;
        return tnr_shutdown(0) != TNR_OK;
    }
    return 0; /* "exit": the library goes on until the end */
}

enum { COMPLAINT_BYTES = 1024 };

/* Runs one, which must end well, and returns what it printed on its standard error. */
static const char *complaint_of(const char *what, const char *conf)
{
    static char text[COMPLAINT_BYTES];
    int ends[2];
    unit_settings(conf, "MEMORY=64M", NULL);
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        /* Of a library that runs to the end, memory is found only through sheets (mmap), where
         * LeakSanitizer does not look. */
        if (strcmp(what, "exit") == 0 || strcmp(what, "parent") == 0)
            setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        setenv("TRIGGERS_PROGRAM", program, 1);
        execl(program, "test_triggers", "--program", what, folder, (char *)NULL);
        _exit(9);
    }
    close(ends[1]);
    size_t bytes = 0;
    ssize_t got;
    while ((got = read(ends[0], text + bytes, sizeof(text) - 1 - bytes)) > 0)
        bytes += (size_t)got;
    close(ends[0]);
    text[bytes] = '\0';
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("%s ended with %d, and said \"%s\"", what, status, text);
    return text;
}

/* ---- on a signal ---------------------------------------------------------------------------- */

static rlim_t descriptors_limit(rlim_t most)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

static void without_descriptors(void **state)
{
    (void)state;
    unit_start("history:off", NULL);
    rlim_t before = descriptors_limit(0);
    tnr_status status = tnr_configure("history:light,snapshot_signal:USR1");
    (void)descriptors_limit(before);
    assert_error(status, TNR_ERR_HOST_MEMORY, "cannot be made (Too many open files)");
    assert_string_equal(setting_value("snapshot_signal"), "off");
    assert_string_equal(setting_value("history"), "off");
    tnr_history_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_history_get(&info));
    assert_int_equal(info.mode, TNR_HISTORY_OFF); /* what was done before is undone */
    assert_ok(tnr_configure(conf_with("snapshot_dir:%s,snapshot_signal:USR1")));
    raise(SIGUSR1);
    await_snapshot();
}

static void without_a_thread(void **state)
{
    (void)state;
    pthread_attr_t attributes, vast;
    unit_start(conf_with("snapshot_dir:%s"), NULL);
    assert_int_equal(pthread_getattr_default_np(&attributes), 0);
    assert_int_equal(pthread_attr_init(&vast), 0);
    assert_int_equal(pthread_attr_setstacksize(&vast, (size_t)1 << 47), 0);
    assert_int_equal(pthread_setattr_default_np(&vast), 0);
    tnr_status status = tnr_configure("snapshot_signal:USR1");
    assert_int_equal(pthread_setattr_default_np(&attributes), 0);
    assert_error(status, TNR_ERR_HOST_MEMORY, "cannot be made");
    assert_string_equal(setting_value("snapshot_signal"), "off");
    assert_ok(tnr_configure("snapshot_signal:USR1"));
    raise(SIGUSR1);
    await_snapshot();
}

static volatile sig_atomic_t other_handled;

static void other_handler(int number)
{
    (void)number;
    other_handled++;
}

static void a_signal_is_changed_without_descriptors(void **state)
{
    (void)state;
    assert_string_equal(complaint_of("change", conf_with("snapshot_dir:%s,snapshot_signal:USR1")),
                        "");
    signal(SIGUSR1, other_handler);
    signal(SIGUSR2, other_handler);
    other_handled = 0;
    unit_start(conf_with("snapshot_dir:%s,snapshot_signal:USR1"), NULL);
    assert_ok(tnr_configure("snapshot_signal:USR2"));
    raise(SIGUSR1);
    assert_int_equal(other_handled, 1); /* the handler that was there before */
    raise(SIGUSR2);
    await_snapshot();
    assert_ok(tnr_configure("snapshot_signal:off"));
    raise(SIGUSR2);
    assert_int_equal(other_handled, 2);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
}

static void raise_usr2(void *data)
{
    (void)data;
    raise(SIGUSR2);
}

/* A signal to a process is none to the one that it was forked from. */
static void a_forked_child_does_not_ask_its_parent(void **state)
{
    (void)state;
    unit_start(conf_with("snapshot_dir:%s,snapshot_signal:USR2"), NULL);
    assert_int_equal(unit_in_child(raise_usr2, NULL, 0), 0);
    for (int i = 0; i < 50; i++) { /* it must not come; how long is looked for it is no matter */
        assert_int_equal(files_count("tenure-*"), 0);
        usleep(2000);
    }
    raise(SIGUSR2);
    await_snapshot();
}

/* AddressSanitizer's allocator may be locked by the other thread, which has just begun, when the
 * process forks; then the child waits for ever where it starts a thread of its own. */
#if defined(__SANITIZE_ADDRESS__)
enum { CHILD_MAY_ALLOCATE = 0 };
#elif defined(__has_feature)
enum { CHILD_MAY_ALLOCATE = !__has_feature(address_sanitizer) };
#else
enum { CHILD_MAY_ALLOCATE = 1 };
#endif

/* Settings before the fork, the start after it: the thread is not there any more. */
static void a_forked_child_may_start_afresh(void **state)
{
    (void)state;
    if (!CHILD_MAY_ALLOCATE)
        skip();
    assert_string_equal(complaint_of("afresh", conf_with("snapshot_dir:%s,snapshot_signal:USR2")),
                        "");
}

static void a_shutdown_that_fails(void **state)
{
    (void)state;
    unit_start(conf_with("snapshot_dir:%s,snapshot_signal:USR2,snapshot_at_exit:%s/exit.json"),
               NULL);
    assert_ok(tnr_free(unit_malloc(4096, NULL)));
    simcuda_fail("cuMemUnmap", 1, 0, CUDA_ERROR_UNKNOWN);
    assert_true(tnr_shutdown(0) != TNR_OK);
    assert_int_equal(files_count("exit.json"), 1);
    files_remove();
    raise(SIGUSR2); /* it is watched again */
    await_snapshot();
    assert_ok(tnr_shutdown(0));
    assert_int_equal(files_count("exit.json"), 1); /* and written again */
}

/* ---- nobody to tell ------------------------------------------------------------------------- */

static void at_the_end_of_the_process(void **state)
{
    (void)state;
    const char *said = complaint_of("exit", "snapshot_at_exit:/nowhere/exit.json");
    if (strstr(said, "tenure: ") == NULL || strstr(said, "/nowhere/exit.json") == NULL)
        fail_msg("the process said \"%s\"", said);
    const char *conf = conf_with("snapshot_at_exit:%s/exit.json");
    assert_string_equal(complaint_of("unstarted", conf), "");
    assert_int_equal(files_count("*"), 0); /* there was nothing to see */
    assert_string_equal(complaint_of("forks", conf), "");
    assert_int_equal(files_count("*"), 0); /* a forked child's end is not its parent's */
    assert_string_equal(complaint_of("exit", conf), "");
    assert_int_equal(files_count("exit.json"), 1);
}

/* Each process of a program leaves its own. Seen to fail without exit_path: one file, named %p. */
static void of_several_processes(void **state)
{
    (void)state;
    const char *conf = conf_with("snapshot_at_exit:%s/%%p-of-%%p.json");
    for (int i = 0; i < 4; i++)
        assert_string_equal(complaint_of("exit", conf), "");
    assert_int_equal(files_count("[1-9]*-of-[1-9]*.json"), 4);
    assert_int_equal(files_count("*"), 4);
}

/* Without %p no process writes over what another one has written since it began, but over what was
 * there before. Seen to fail without tnri_exit_path_enter: one file; and with files of any age
 * taken for others': two after the first process. */
static void of_processes_at_once(void **state)
{
    (void)state;
    const char *conf = conf_with("snapshot_at_exit:%s/memory.json");
    assert_string_equal(complaint_of("exit", conf), "");
    struct timespec later = {0, 30000000};
    nanosleep(&later, NULL);
    assert_string_equal(complaint_of("exit", conf), ""); /* a later run */
    assert_int_equal(files_count("*"), 1);
    nanosleep(&later, NULL);
    const char *said = complaint_of("parent", conf); /* its child ends first */
    assert_non_null(strstr(said, "another process has written"));
    assert_int_equal(files_count("memory.json"), 1);
    assert_int_equal(files_count("memory-[1-9]*.json"), 1);
    assert_int_equal(files_count("*"), 2);
}

/* Seen to fail with %r or %h left out of tnri_exit_path. */
static void by_rank_and_machine(void **state)
{
    (void)state;
    char name[256], wanted[300];
    assert_int_equal(gethostname(name, sizeof(name)), 0);
    const char *conf = conf_with("snapshot_at_exit:%s/%%h-%%r-100%%.json");
    setenv("SLURM_PROCID", "9", 1);
    setenv("RANK", "3", 1);
    assert_string_equal(complaint_of("exit", conf), "");
    unsetenv("RANK");
    unsetenv("SLURM_PROCID");
    assert_string_equal(complaint_of("exit", conf), "");
    snprintf(wanted, sizeof(wanted), "%s-3-100%%.json", name);
    assert_int_equal(files_count(wanted), 1);
    snprintf(wanted, sizeof(wanted), "%s-0-100%%.json", name);
    assert_int_equal(files_count(wanted), 1);
}

static void into_a_folder_that_is_not_there(void **state)
{
    (void)state;
    const char *said = complaint_of("signal", "snapshot_dir:/nowhere,snapshot_signal:USR1");
    if (strstr(said, "/nowhere/tenure-") == NULL)
        fail_msg("the process said \"%s\"", said);
}

/* ---- when memory runs out ------------------------------------------------------------------- */

static void sixteen_at_most(void **state)
{
    (void)state;
    void *ptr;
    unit_start(conf_with("snapshot_on_oom:%s"), "MEMORY=64M", NULL);
    for (int i = 1; i <= 20; i++) {
        assert_error(tnr_malloc(&ptr, 80 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, "80.00 MiB");
        assert_int_equal(strstr(tnr_last_error(), "A snapshot is in") != NULL, i <= 16);
    }
    assert_int_equal(files_count("tenure-oom-*.json.gz"), 16);
    assert_int_equal(files_count("tenure-oom-*.txt"), 16);
}

/* Each of the three calls that may take memory of the driver writes one. */
static void of_each_call(void **state)
{
    (void)state;
    void *ptr, *grows, *ranges;
    unit_start(conf_with("snapshot_on_oom:%s"), "MEMORY=64M", NULL);
    assert_ok(tnr_reserve(&grows, 256 * MIB, 0, NULL));
    assert_ok(tnr_reserve(&ranges, 256 * MIB, 0, NULL));
    assert_error(tnr_malloc(&ptr, 80 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, "80.00 MiB");
    assert_non_null(strstr(tnr_last_error(), "A snapshot is in"));
    assert_error(tnr_commit(grows, 82 * MIB), TNR_ERR_OUT_OF_MEMORY, "82.00 MiB");
    assert_non_null(strstr(tnr_last_error(), "A snapshot is in"));
    assert_error(tnr_commit_range(ranges, 0, 84 * MIB), TNR_ERR_OUT_OF_MEMORY, "84.00 MiB");
    assert_non_null(strstr(tnr_last_error(), "A snapshot is in"));
    assert_int_equal(files_count("tenure-oom-*.txt"), 3);
}

static void without_their_folder(void **state)
{
    (void)state;
    const char *said = complaint_of("oom", "snapshot_on_oom:/nowhere/oom");
    const char *line = strstr(said, "tenure: ");
    if (line == NULL || strstr(line, "/nowhere/oom/tenure-oom-") == NULL ||
        strstr(line, "No such file or directory") == NULL || strstr(line + 1, "tenure: ") != NULL)
        fail_msg("the process said \"%s\"", said);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(without_descriptors, triggers_stop),
        cmocka_unit_test_teardown(without_a_thread, triggers_stop),
        cmocka_unit_test_teardown(a_signal_is_changed_without_descriptors, triggers_stop),
        cmocka_unit_test_teardown(a_forked_child_does_not_ask_its_parent, triggers_stop),
        cmocka_unit_test_teardown(a_forked_child_may_start_afresh, triggers_stop),
        cmocka_unit_test_teardown(a_shutdown_that_fails, triggers_stop),
        cmocka_unit_test_teardown(at_the_end_of_the_process, triggers_stop),
        cmocka_unit_test_teardown(of_several_processes, triggers_stop),
        cmocka_unit_test_teardown(of_processes_at_once, triggers_stop),
        cmocka_unit_test_teardown(by_rank_and_machine, triggers_stop),
        cmocka_unit_test_teardown(into_a_folder_that_is_not_there, triggers_stop),
        cmocka_unit_test_teardown(sixteen_at_most, triggers_stop),
        cmocka_unit_test_teardown(of_each_call, triggers_stop),
        cmocka_unit_test_teardown(without_their_folder, triggers_stop),
    };
    program = argv[0];
    if (argc > 3 && strcmp(argv[1], "--program") == 0) {
        folder = argv[3];
        return program_run(argv[2]);
    }
    if (argc != 2) {
        fputs("usage: test_snapshot_triggers FOLDER, whose files are removed\n", stderr);
        return 2;
    }
    folder = argv[1];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return 2;
    files_remove();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
