/* SPDX-License-Identifier: Apache-2.0 */
/* Tenure under programs that are Python: see run_python.h. */
#include "run_python.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char unchecked[] =
    "of programs that are Python, and have a pool of their own, only segments are checked";

/* The folder _startup of the module, seen from the folder of the command: where it is installed
 * (TENURE_PYTHON_DIR comes from the build), in a wheel, in the build tree. */
static int startup_find(char path[PATH_MAX])
{
    static const char *const places[] = {TENURE_PYTHON_DIR, "..", "../python/tenure"};
    char folder[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    if (length <= 0)
        return -1;
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char candidate[PATH_MAX * 2];
        snprintf(candidate, sizeof(candidate), "%s/%s/_startup", folder, places[i]);
        if (access(candidate, R_OK) == 0 && realpath(candidate, path))
            return 0;
    }
    return -1;
}

/* An empty entry would be the program's folder: none is made. */
static int path_set(const char *startup)
{
    const char *before = getenv("PYTHONPATH");
    int has_more = before && *before;
    size_t bytes = strlen(startup) + (has_more ? strlen(before) : 0) + 2;
    char *value = malloc(bytes);
    if (!value)
        return -1;
    snprintf(value, bytes, "%s%s%s", startup, has_more ? ":" : "", has_more ? before : "");
    int failed =
        setenv("PYTHONPATH", value, 1) != 0 || setenv("TENURE_UNDER", "torch,cupy", 1) != 0;
    free(value);
    return failed ? -1 : 0;
}

void run_python_begin(void)
{
    char startup[PATH_MAX];
    if (startup_find(startup) != 0)
        fprintf(stderr,
                "tenure run: Tenure's Python module was not found beside this command: %s\n",
                unchecked);
    else if (strchr(startup, ':') || path_set(startup) != 0)
        fprintf(stderr, "tenure run: PYTHONPATH cannot hold %s: %s\n", startup, unchecked);
}
