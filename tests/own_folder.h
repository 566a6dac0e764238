/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of a test's own, and its end. */
#ifndef TNRI_TESTS_OWN_FOLDER_H
#define TNRI_TESTS_OWN_FOLDER_H

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

/* Removes a folder and the files in it, but no folders. Returns what rmdir does: 0 if all went. */
static inline int folder_remove(const char *path)
{
    DIR *list = opendir(path);
    for (struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;)
        (void)unlinkat(dirfd(list), entry->d_name, 0);
    if (list != NULL)
        (void)closedir(list);
    return rmdir(path);
}

#endif
