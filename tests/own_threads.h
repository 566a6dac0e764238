/* SPDX-License-Identifier: Apache-2.0 */
/* How many threads this process has. The system lists one for a moment longer than pthread_join
 * waits for it: of 300,000 counts right after a join 15 were one too many, on a busy machine. So
 * threads that have begun to end do not count. */
#ifndef TNRI_TESTS_OWN_THREADS_H
#define TNRI_TESTS_OWN_THREADS_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* 1 if the thread of that number of ours has not begun to end: by the flags of proc_pid_stat(5). */
static inline int thread_lives(const char *number)
{
    enum { IS_ENDING = 4 /* PF_EXITING of the kernel */ };
    char path[64], text[512];
    unsigned flags = IS_ENDING;
    snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", number);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
    if (file >= 0)
        (void)close(file);
    if (bytes <= 0)
        return 0; /* it is gone */
    text[bytes] = '\0';
    /* The name may have anything in it: what follows its end does not. */
    const char *after = strrchr(text, ')');
    return after != NULL && sscanf(after, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
           (flags & IS_ENDING) == 0;
}

/* What the system lists: with those that are ending, if is_all. */
static inline int threads_listed(int is_all)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.' && (is_all || thread_lives(entry->d_name));
    if (tasks != NULL)
        (void)closedir(tasks);
    return count;
}

static inline int threads_count(void)
{
    return threads_listed(0);
}

#endif
