/* SPDX-License-Identifier: Apache-2.0 */
/* What there is left of host memory: see host_limit.h. */
#include "base/host_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/prim/file.h"
#include "base/prim/process.h"

const char *tnri_host_limit_root = "";

enum { PATH_BYTES = 4096, FILE_BYTES = 16384 };

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

/* Reads the beginning of a file as text; 0: there is none, or nothing in it. */
static size_t file_read(const char *path, char *text, size_t room)
{
    char whole[PATH_BYTES];
    size_t length = 0;
    if ((size_t)snprintf(whole, sizeof(whole), "%s%s", tnri_host_limit_root, path) >= sizeof(whole))
        return 0;
    int file = tnri_file_open(TNRI_FOLDER_OWN, whole, 0, 0);
    for (int64_t got = 1; file >= 0 && got > 0 && length < room - 1; length += (size_t)got) {
        got = tnri_file_read(file, text + length, room - 1 - length);
        if (got < 0)
            got = 0;
    }
    if (file >= 0)
        (void)tnri_file_close(file);
    text[length] = '\0';
    return length;
}

/* The number that a text begins with; 0 if it does not, as with "max". */
static int number_read(const char *text, uint64_t *number)
{
    char *end;
    *number = strtoull(text, &end, 10);
    return end != text;
}

/* The number after a name at the beginning of a line; 0 if there is no such line. */
static int field_read(const char *text, const char *name, uint64_t *number)
{
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) == 0)
            return number_read(line + strlen(name), number);
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

/* What one group has left. */
static void group_read(tnri_host_limit *limit, const version *of, const char *path)
{
    char file[PATH_BYTES], text[FILE_BYTES];
    uint64_t most, used, given_up = 0, more;
    if ((size_t)snprintf(file, sizeof(file), "%s/%s", path, of->current) >= sizeof(file) ||
        file_read(file, text, sizeof(text)) == 0 || !number_read(text, &used))
        return;
    snprintf(file, sizeof(file), "%s/memory.stat", path);
    if (file_read(file, text, sizeof(text)) > 0)
        for (int i = 0; i < 2; i++)
            if (field_read(text, of->files[i], &more))
                given_up += more;
    used -= given_up < used ? given_up : used;
    snprintf(file, sizeof(file), "%s/%s", path, of->max);
    if (file_read(file, text, sizeof(text)) > 0 && number_read(text, &most))
        limit_lower(limit, most > used ? most - used : 0, file);
}

/* All groups from the process's own up. */
static void groups_read(tnri_host_limit *limit, const version *of, const char *groups)
{
    char path[PATH_BYTES];
    const char *own = strstr(groups, of->line);
    size_t base = strlen(of->folder);
    if (own == NULL)
        return;
    own += strlen(of->line);
    int length = snprintf(path, sizeof(path), "%s%.*s", of->folder, (int)strcspn(own, "\n"), own);
    if (length < 0 || (size_t)length >= sizeof(path))
        path[base] = '\0'; /* the uppermost alone */
    if (path[strlen(path) - 1] == '/')
        path[strlen(path) - 1] = '\0';
    for (;;) {
        group_read(limit, of, path);
        char *last = strrchr(path + base, '/');
        if (last == NULL)
            return;
        *last = '\0';
    }
}

void tnri_host_limit_read(tnri_host_limit *limit)
{
    char text[FILE_BYTES];
    uint64_t kib;
    *limit = (tnri_host_limit){UINT64_MAX, ""};
    if (file_read("/proc/meminfo", text, sizeof(text)) > 0 &&
        field_read(text, "MemAvailable:", &kib))
        limit_lower(limit, kib << 10, "/proc/meminfo");
    if (file_read("/proc/self/cgroup", text, sizeof(text)) == 0)
        return;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        groups_read(limit, &versions[i], text);
}

int tnri_host_limit_allows(tnri_host_limit *limit, size_t bytes)
{
    tnri_host_limit_read(limit);
    return limit->left == UINT64_MAX ||
           (limit->left > TNRI_HOST_LIMIT_REST && bytes <= limit->left - TNRI_HOST_LIMIT_REST);
}

void tnri_host_limit_explain(void)
{
    uint64_t most = tnri_locked_limit();
    if (most != UINT64_MAX)
        tnri_error_append(" The limit on locked memory is %s (ulimit -l): where pinned memory "
                          "counts as locked, raise it.",
                          TNRI_BYTES(most));
}
