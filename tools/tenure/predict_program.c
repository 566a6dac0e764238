/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure predict -- PROGRAM`: see predict.h. The program runs under `tenure run`, which writes a
 * snapshot of each of its processes into a folder of its own.
 */
#include "predict.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Room of the history: 256 MiB of host memory, if the program asks for that much. */
#define HISTORY "history_records:4194304"
/* On the simulated device the program itself is to fit. */
#define SIMULATED_MEMORY "1T"

enum { OWN_ARGUMENTS = 12 };

static int program_start(const char *driver, const char *snapshot, char **program, pid_t *child)
{
    size_t count = 0, at = 0;
    while (program[count])
        count++;
    const char **arguments = calloc(count + OWN_ARGUMENTS, sizeof(*arguments));
    if (!arguments)
        return ENOMEM;
    static const char *const fixed[] = {"tenure", "run", "--history", "light", "--conf", HISTORY};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        arguments[at++] = fixed[i];
    if (driver) {
        arguments[at++] = "--driver";
        arguments[at++] = driver;
    }
    arguments[at++] = "--snapshot";
    arguments[at++] = snapshot;
    arguments[at++] = "--";
    for (size_t i = 0; i < count; i++)
        arguments[at++] = program[i];
    int status =
        posix_spawn(child, "/proc/self/exe", NULL, NULL, (char *const *)arguments, environ);
    free(arguments);
    return status;
}

int predict_program_run(const char *driver, char **program, char *folder, size_t folder_bytes,
                        char *error, size_t error_bytes)
{
    char snapshot[PATH_MAX];
    pid_t child;
    int status = 0;
    const char *place = getenv("TMPDIR");
    snprintf(folder, folder_bytes, "%s/tenure-predict-XXXXXX", place && *place ? place : "/tmp");
    if (!mkdtemp(folder)) {
        snprintf(error, error_bytes, "%s: %s", folder, strerror(errno));
        folder[0] = '\0';
        return -1;
    }
    snprintf(snapshot, sizeof(snapshot), "%s/%%p.json", folder);
    if (driver && strcmp(driver, "sim") == 0)
        setenv("TENURE_SIM_MEMORY", SIMULATED_MEMORY, 0);
    int why = program_start(driver, snapshot, program, &child);
    if (why != 0) {
        snprintf(error, error_bytes, "tenure run cannot be started: %s", strerror(why));
        return -1;
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) {
            snprintf(error, error_bytes, "the program's end was not seen: %s", strerror(errno));
            return -1;
        }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void predict_folder_remove(const char *folder)
{
    DIR *all = folder[0] ? opendir(folder) : NULL;
    if (!all)
        return;
    for (struct dirent *one; (one = readdir(all)) != NULL;)
        if (one->d_name[0] != '.')
            unlinkat(dirfd(all), one->d_name, 0);
    closedir(all);
    rmdir(folder);
}
