/* SPDX-License-Identifier: Apache-2.0 */
/* Tenure under programs that are Python: see run_python.h. */
#include "run_python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "beside.h"

static const char unchecked[] =
    "of programs that are Python, and have a pool of their own, only segments are checked";

/* The folder _startup of the module, seen from the folder of the command: where it is installed
 * (TENURE_PYTHON_DIR comes from the build), in a wheel, in the build tree. */
static const char *const startups[] = {TENURE_PYTHON_DIR "/_startup", "../_startup",
                                       "../python/tenure/_startup"};

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
    if (beside_find(startup, startups, sizeof(startups) / sizeof(startups[0])) != 0)
        fprintf(stderr,
                "tenure run: Tenure's Python module was not found beside this command: %s\n",
                unchecked);
    else if (strchr(startup, ':') || path_set(startup) != 0)
        fprintf(stderr, "tenure run: PYTHONPATH cannot hold %s: %s\n", startup, unchecked);
}
