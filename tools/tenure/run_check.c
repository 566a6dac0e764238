/* SPDX-License-Identifier: Apache-2.0 */
/* Around a program that is checked: see run_check.h. */
#include "run_check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_said.h"
#include "session.h"

/* Of the CUDA runtime: tools/simcudart. */
static const char *const runtime_versions[] = {"12", "13"};

static void runtime_name(char name[32], size_t index)
{
    snprintf(name, 32, "libcudart.so.%s", runtime_versions[index]);
}

/* ---- before --------------------------------------------------------------------------------- */

/* A name in the folder. */
static void path_in(const run_check *check, char path[PATH_MAX], const char *name)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", check->folder, name);
    if (length < 0 || length >= PATH_MAX)
        path[0] = '\0';
}

/* Makes a file empty, so that what is in it afterwards is of this run. */
static exit_code file_empty(const char *path, mode_t mode)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (file < 0) {
        fprintf(stderr, "tenure run: %s: %s\n", path, strerror(errno));
        return EXIT_CODE_BAD_INPUT;
    }
    close(file);
    return EXIT_CODE_OK;
}

/* Writes as many zero bytes, so that setting one later needs no room on the disk. */
static exit_code state_make(const char *path, size_t bytes)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    exit_code code = EXIT_CODE_OK;
    for (size_t i = 0; file >= 0 && i < bytes; i++)
        if (write(file, "", 1) != 1)
            code = EXIT_CODE_CHECK_FAILED;
    if (file < 0 || code != EXIT_CODE_OK) {
        fprintf(stderr, "tenure run: %s: %s\n", path, strerror(errno));
        code = EXIT_CODE_CHECK_FAILED;
    }
    if (file >= 0)
        close(file);
    return code;
}

static exit_code rules_read(run_check *check)
{
    char error[SUPPRESS_ERROR_BYTES], absolute[PATH_MAX];
    unsetenv("TENURE_PRELOAD_CHECK_SUPPRESS");
    if (!check->suppress)
        return EXIT_CODE_OK;
    if (suppress_read(&check->rules, check->suppress, error) != 0) {
        fprintf(stderr, "tenure run: %s\n", error);
        return EXIT_CODE_BAD_INPUT;
    }
    if (realpath(check->suppress, absolute))
        setenv("TENURE_PRELOAD_CHECK_SUPPRESS", absolute, 1);
    return EXIT_CODE_OK;
}

/* What the program's processes write to: findings.h in tools/check. */
static exit_code files_make(run_check *check)
{
    char state[PATH_MAX], said[PATH_MAX];
    path_in(check, state, "state");
    path_in(check, said, "said");
    path_in(check, check->lines, "findings");
    exit_code code = rules_read(check);
    if (code == EXIT_CODE_OK)
        code = state_make(state, 1 + check->rules.count);
    if (code == EXIT_CODE_OK)
        code = file_empty(said, 0600);
    if (code == EXIT_CODE_OK)
        code = check->findings ? file_empty(check->findings, 0666) : file_empty(check->lines, 0600);
    if (code == EXIT_CODE_OK && check->findings && !realpath(check->findings, check->lines))
        check->lines[0] = '\0';
    if (check->idle_ms > 0) {
        char idle[32];
        snprintf(idle, sizeof(idle), "%ld", check->idle_ms);
        setenv("TENURE_PRELOAD_WASTE", idle, 1);
    }
    setenv("TENURE_PRELOAD_CHECK", check->is_checked ? "1" : "0", 1);
    setenv("TENURE_PRELOAD_CHECK_HOST", check->has_host ? "1" : "0", 1);
    setenv("TENURE_PRELOAD_CHECK_STATE", state, 1);
    setenv("TENURE_PRELOAD_CHECK_JSON", check->lines, 1);
    setenv("TENURE_PRELOAD_CHECK_SAID", said, 1);
    setenv("TENURE_PRELOAD_CHECK_LEAKS", check->has_leaks ? "1" : "0", 1);
    setenv("TENURE_PRELOAD_CHECK_POSSIBLE", check->has_possible ? "1" : "0", 1);
    return code;
}

/* The CUDA runtimes that lie beside the simulated device, under their own names: a program that
 * links one finds it before NVIDIA's. A build without them has none, and such a program is told. */
static void runtimes_link(const run_check *check, const char *device)
{
    const char *slash = strrchr(device, '/');
    int length = slash ? (int)(slash - device) : 1;
    for (size_t i = 0; i < sizeof(runtime_versions) / sizeof(runtime_versions[0]); i++) {
        char from[PATH_MAX * 2], to[PATH_MAX], name[32];
        runtime_name(name, i);
        snprintf(from, sizeof(from), "%.*s/runtime/%s/%s", length, slash ? device : ".",
                 runtime_versions[i], name);
        path_in(check, to, name);
        if (access(from, R_OK) == 0)
            (void)symlink(from, to);
    }
}

/* A folder in which the loader finds the simulated device under the driver's name. */
static exit_code driver_make(const run_check *check)
{
    static session_choice choice;
    char error[256], link[PATH_MAX];
    const char *before = getenv("LD_LIBRARY_PATH");
    exit_code code = session_choose(&choice, "sim", error, sizeof(error));
    if (code != EXIT_CODE_OK || choice.simulated[0] == '\0') {
        fputs("tenure run: the simulated device (libtenure_simcuda.so) was not found\n", stderr);
        return EXIT_CODE_NO_DEVICE;
    }
    path_in(check, link, "libcuda.so.1");
    if (symlink(choice.simulated, link) != 0) {
        fprintf(stderr, "tenure run: %s: %s\n", link, strerror(errno));
        return EXIT_CODE_NO_DEVICE;
    }
    runtimes_link(check, choice.simulated);
    char paths[PATH_MAX * 2];
    int length = snprintf(paths, sizeof(paths), "%s%s%s", check->folder,
                          before && *before ? ":" : "", before ? before : "");
    if (length < 0 || (size_t)length >= sizeof(paths)) {
        fputs("tenure run: LD_LIBRARY_PATH is too long\n", stderr);
        return EXIT_CODE_BAD_INPUT;
    }
    setenv("LD_LIBRARY_PATH", paths, 1);
    setenv("TENURE_PRELOAD_SIMULATED", "1", 1);
    setenv("TENURE_SIM_IDLE_MS", "500", 0); /* programs wait for host functions by themselves */
    (void)chmod(check->folder, 0711); /* the program may become another user's */
    if (check->is_checked)
        setenv("TENURE_SIM_RACES", "1", 0); /* races that it sees are findings */
    unsetenv("TENURE_DRIVER");              /* the program's is the one that Tenure finds */
    return EXIT_CODE_OK;
}

static void folder_remove(run_check *check)
{
    static const char *const names[] = {"state", "findings", "said", "libcuda.so.1"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(runtime_versions) / sizeof(runtime_versions[0]); i++) {
        char name[32];
        runtime_name(name, i);
        path_in(check, path, name);
        unlink(path);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        path_in(check, path, names[i]);
        unlink(path);
    }
    rmdir(check->folder);
    check->folder[0] = '\0';
    suppress_release(&check->rules);
}

exit_code run_check_begin(run_check *check)
{
    const char *place = getenv("TMPDIR");
    exit_code code = EXIT_CODE_OK;
    check->folder[0] = '\0';
    if (!check->is_wanted && !check->is_simulated && !check->has_traps)
        return code;
    snprintf(check->folder, PATH_MAX, "%s/tenure-run-XXXXXX", place && *place ? place : "/tmp");
    if (!mkdtemp(check->folder)) {
        fprintf(stderr, "tenure run: %s: %s\n", check->folder, strerror(errno));
        check->folder[0] = '\0';
        return EXIT_CODE_CHECK_FAILED;
    }
    if (check->is_wanted)
        code = files_make(check);
    if (code == EXIT_CODE_OK && check->is_simulated)
        code = driver_make(check);
    if (code != EXIT_CODE_OK)
        folder_remove(check);
    return code;
}

/* ---- while it runs -------------------------------------------------------------------------- */

void run_check_follow(const run_check *check)
{
    char path[PATH_MAX];
    path_in(check, path, "said");
    if (check->is_wanted)
        (void)run_said_begin(path);
}

void run_check_prepare(const run_check *check)
{
    if (check->is_wanted)
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static volatile sig_atomic_t is_hurried;

void run_check_hurry(void)
{
    is_hurried = 1;
}

/* 1 if a process that has found a driver lives: it has a lock of the file of states. */
static int has_users(int file)
{
    if (flock(file, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK;
    (void)flock(file, LOCK_UN);
    return 0;
}

/* 1 if processes are left: this one inherits those whose parents have ended. */
static int has_processes(void)
{
    pid_t ended;
    do
        ended = waitpid(-1, NULL, WNOHANG);
    while (ended > 0);
    return ended == 0;
}

/* Those that use no GPU yet may be about to: a while is enough for what starts, and a daemon is not
 * waited for. */
void run_check_wait(const run_check *check)
{
    enum { PAUSE_MS = 20, SAID_AFTER = 2000, START_MS = 10000 };
    char path[PATH_MAX];
    path_in(check, path, "state");
    int file = check->is_wanted ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    int idle_ms = 0, waited_ms = 0;
    while (file >= 0 && !is_hurried && has_processes() && idle_ms < START_MS) {
        idle_ms = has_users(file) ? 0 : idle_ms + PAUSE_MS;
        if (waited_ms == SAID_AFTER)
            fputs("tenure run: the program has ended; waiting for processes that it has left "
                  "behind (^C: no longer)\n",
                  stderr);
        waited_ms += PAUSE_MS;
        (void)poll(NULL, 0, PAUSE_MS);
    }
    if (file >= 0)
        close(file);
}

/* ---- afterwards ----------------------------------------------------------------------------- */

/* Says which rules did nothing. 1 if there are certain findings. */
static int state_read(const run_check *check)
{
    char path[PATH_MAX];
    path_in(check, path, "state");
    int opened = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    FILE *file = opened < 0 ? NULL : fdopen(opened, "r");
    int has_findings = file && fgetc(file) == 1;
    for (size_t i = 0; file && i < check->rules.count; i++)
        if (fgetc(file) == 0)
            fprintf(stderr, "tenure run: %s:%d: the rule suppressed nothing\n", check->suppress,
                    check->rules.rules[i].line);
    if (file)
        fclose(file);
    return has_findings;
}

int run_check_end(run_check *check)
{
    if (check->folder[0] == '\0')
        return 0;
    run_said_end();
    int has_findings = check->is_wanted && state_read(check);
    folder_remove(check);
    return has_findings;
}
