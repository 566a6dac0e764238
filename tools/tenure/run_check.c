/* SPDX-License-Identifier: Apache-2.0 */
/* Around a program that is checked: see run_check.h. */
#include "run_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session.h"

/* A name in the folder. */
static void path_in(const run_check *check, char path[PATH_MAX], const char *name)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", check->folder, name);
    if (length < 0 || length >= PATH_MAX)
        path[0] = '\0';
}

/* Makes a file empty, so that what is in it afterwards is of this run. */
static exit_code file_empty(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) {
        fprintf(stderr, "tenure run: %s: %s\n", path, strerror(errno));
        return EXIT_CODE_BAD_INPUT;
    }
    close(file);
    return EXIT_CODE_OK;
}

/* The file to which the program's processes add a byte for each finding; the one for machines. */
static exit_code files_make(const run_check *check)
{
    char count[PATH_MAX], absolute[PATH_MAX];
    path_in(check, count, "found");
    exit_code code = file_empty(count);
    setenv("TENURE_PRELOAD_CHECK", "1", 1);
    setenv("TENURE_PRELOAD_CHECK_COUNT", count, 1);
    setenv("TENURE_PRELOAD_CHECK_LEAKS", check->has_leaks ? "1" : "0", 1);
    unsetenv("TENURE_PRELOAD_CHECK_JSON");
    if (code != EXIT_CODE_OK || !check->findings)
        return code;
    code = file_empty(check->findings);
    if (code == EXIT_CODE_OK && realpath(check->findings, absolute))
        setenv("TENURE_PRELOAD_CHECK_JSON", absolute, 1);
    return code;
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
    char paths[PATH_MAX * 2];
    int length = snprintf(paths, sizeof(paths), "%s%s%s", check->folder,
                          before && *before ? ":" : "", before ? before : "");
    if (length < 0 || (size_t)length >= sizeof(paths)) {
        fputs("tenure run: LD_LIBRARY_PATH is too long\n", stderr);
        return EXIT_CODE_BAD_INPUT;
    }
    setenv("LD_LIBRARY_PATH", paths, 1);
    unsetenv("TENURE_DRIVER"); /* the program's is the one that Tenure finds */
    return EXIT_CODE_OK;
}

exit_code run_check_begin(run_check *check)
{
    const char *place = getenv("TMPDIR");
    exit_code code = EXIT_CODE_OK;
    check->folder[0] = '\0';
    if (!check->is_wanted && !check->is_simulated)
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
        (void)run_check_end(check);
    return code;
}

int run_check_end(const run_check *check)
{
    char path[PATH_MAX];
    struct stat found;
    if (check->folder[0] == '\0')
        return 0;
    path_in(check, path, "found");
    int has_findings = stat(path, &found) == 0 && found.st_size > 0;
    unlink(path);
    path_in(check, path, "libcuda.so.1");
    unlink(path);
    rmdir(check->folder);
    return has_findings;
}
