/* SPDX-License-Identifier: Apache-2.0 */
/* Files that come with the command: see beside.h. */
#include "beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int beside_find(char path[PATH_MAX], const char *const *files, size_t count)
{
    char folder[PATH_MAX], candidate[PATH_MAX * 2];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    path[0] = '\0';
    if (length <= 0)
        return -1;
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash)
        return -1;
    *slash = '\0';
    for (size_t i = 0; i < count; i++) {
        snprintf(candidate, sizeof(candidate), "%s/%s", folder, files[i]);
        if (access(candidate, R_OK) == 0 && realpath(candidate, path))
            return 0;
    }
    path[0] = '\0'; /* realpath may have written some of it */
    return -1;
}
