/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups: see cgroup.h. */
#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prim/file.h"

const char *tnri_cgroup_root = "";

size_t tnri_cgroup_file(const char *path, char *text, size_t room)
{
    char whole[TNRI_CGROUP_PATH_BYTES];
    size_t length = 0;
    if ((size_t)snprintf(whole, sizeof(whole), "%s%s", tnri_cgroup_root, path) >= sizeof(whole))
        return 0;
    int file = tnri_file_open(TNRI_FOLDER_OWN, whole, TNRI_FILE_UNWAITED, 0);
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

int tnri_cgroup_number(const char *text, uint64_t *number)
{
    text += strspn(text, " \t");
    *number = strtoull(text, NULL, 10);
    return *text >= '0' && *text <= '9';
}

void tnri_cgroup_walk(const char *folder, const char *line, tnri_cgroup_visit visit, void *with)
{
    char path[TNRI_CGROUP_PATH_BYTES], groups[TNRI_CGROUP_FILE_BYTES];
    size_t base = strlen(folder);
    if (tnri_cgroup_file("/proc/self/cgroup", groups, sizeof(groups)) == 0)
        return;
    const char *own = strstr(groups, line);
    if (own == NULL)
        return;
    own += strlen(line);
    int length = snprintf(path, sizeof(path), "%s%.*s", folder, (int)strcspn(own, "\n"), own);
    if (length < 0 || (size_t)length >= sizeof(path))
        path[base] = '\0'; /* the uppermost alone */
    if (path[strlen(path) - 1] == '/')
        path[strlen(path) - 1] = '\0';
    for (;;) {
        visit(path, with);
        char *last = strrchr(path + base, '/');
        if (last == NULL)
            return;
        *last = '\0';
    }
}
