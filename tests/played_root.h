/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that plays /proc and /sys for what the machine and control groups allow: see
 * base/cgroup.h. root_begin and root_end are a test's setup and teardown; put writes a file. */
#ifndef TNRI_TESTS_PLAYED_ROOT_H
#define TNRI_TESTS_PLAYED_ROOT_H

#include "unit/unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cgroup.h"
#include "base/host_limit.h"

static char root[PATH_MAX];

/* Writes a file under the root, with its folders. */
static void put(const char *path, const char *text)
{
    char whole[2 * PATH_MAX];
    snprintf(whole, sizeof(whole), "%s%s", root, path);
    for (char *at = strchr(whole + strlen(root) + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(whole, 0700);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int root_begin(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "%s/played.XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(root));
    tnri_cgroup_root = root;
    return 0;
}

static int root_end(void **state)
{
    char command[2 * PATH_MAX];
    int code = unit_stop(state);
    tnri_cgroup_root = "";
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command) == 0 ? code : -1;
}

#endif
