/* SPDX-License-Identifier: Apache-2.0 */
/* What there is left of host memory: see host_limit.h. */
#include "base/host_limit.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/prim/process.h"

enum { PRESSED_PERCENT = 10 };

/* How a version of control groups names what it says. */
typedef struct version {
    const char *folder; /* where groups are */
    const char *line;   /* what is before the path in /proc/self/cgroup, after a colon */
    const char *max, *current;
    const char *files[2]; /* in memory.stat: what the kernel can give up */
} version;

/* The second folder is version 2's where both are in use. */
static const version versions[] = {
    {"/sys/fs/cgroup", "::", "memory.max", "memory.current", {"active_file ", "inactive_file "}},
    {"/sys/fs/cgroup/unified",
     "::",
     "memory.max",
     "memory.current",
     {"active_file ", "inactive_file "}},
    {"/sys/fs/cgroup/memory",
     ":memory:",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_active_file ", "total_inactive_file "}},
};

/* ---- files ---------------------------------------------------------------------------------- */

/* The number after a name at the beginning of a line; 0 if there is no such line. */
static int field_read(const char *text, const char *name, uint64_t *number)
{
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) == 0)
            return tnri_cgroup_number(line + strlen(name), number);
    }
    return 0;
}

/* ---- limits --------------------------------------------------------------------------------- */

static void limit_lower(tnri_host_limit *limit, uint64_t left, const char *where)
{
    if (left >= limit->left)
        return;
    limit->left = left;
    snprintf(limit->where, sizeof(limit->where), "%.*s", (int)sizeof(limit->where) - 1, where);
}

/* A walk over the groups of a version. */
typedef struct look {
    const version *of;
    tnri_host_limit *limit;
} look;

/* What one group has left. */
static void group_read(const char *path, void *with)
{
    const version *of = ((look *)with)->of;
    tnri_host_limit *limit = ((look *)with)->limit;
    char file[TNRI_CGROUP_PATH_BYTES], text[TNRI_CGROUP_FILE_BYTES];
    uint64_t most, used, given_up = 0, more;
    if ((size_t)snprintf(file, sizeof(file), "%s/%s", path, of->current) >= sizeof(file) ||
        tnri_cgroup_file(file, text, sizeof(text)) == 0 || !tnri_cgroup_number(text, &used))
        return;
    snprintf(file, sizeof(file), "%s/memory.stat", path);
    if (tnri_cgroup_file(file, text, sizeof(text)) > 0)
        for (int i = 0; i < 2; i++)
            if (field_read(text, of->files[i], &more))
                given_up += more;
    used -= given_up < used ? given_up : used;
    snprintf(file, sizeof(file), "%s/%s", path, of->max);
    if (tnri_cgroup_file(file, text, sizeof(text)) > 0 && tnri_cgroup_number(text, &most))
        limit_lower(limit, most > used ? most - used : 0, file);
}

void tnri_host_limit_read(tnri_host_limit *limit)
{
    char text[TNRI_CGROUP_FILE_BYTES];
    uint64_t kib;
    *limit = (tnri_host_limit){UINT64_MAX, ""};
    if (tnri_cgroup_file("/proc/meminfo", text, sizeof(text)) > 0 &&
        field_read(text, "MemAvailable:", &kib))
        limit_lower(limit, kib << 10, "/proc/meminfo");
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        look self = {&versions[i], limit};
        tnri_cgroup_walk(versions[i].folder, versions[i].line, group_read, &self);
    }
}

int tnri_host_limit_allows(tnri_host_limit *limit, size_t bytes, uint64_t rest)
{
    tnri_host_limit_read(limit);
    return limit->left == UINT64_MAX || (limit->left > rest && bytes <= limit->left - rest);
}

int tnri_host_is_pressed(void)
{
    char text[TNRI_CGROUP_FILE_BYTES];
    uint64_t percent;
    return tnri_cgroup_file("/proc/pressure/memory", text, sizeof(text)) > 0 &&
           field_read(text, "some avg10=", &percent) && percent >= PRESSED_PERCENT;
}

void tnri_host_limit_explain(void)
{
    uint64_t most = tnri_locked_limit();
    if (most != UINT64_MAX)
        tnri_error_append(" The limit on locked memory is %s (ulimit -l): where pinned memory "
                          "counts as locked, raise it.",
                          TNRI_BYTES(most));
}
