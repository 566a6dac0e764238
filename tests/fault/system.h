/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the library to the system that fail at will: for a program that is linked with
 * `--wrap=NAME` for each of them. One program includes it once.
 */
#ifndef TENURE_TESTS_FAULT_SYSTEM_H
#define TENURE_TESTS_FAULT_SYSTEM_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/stat.h>

static _Atomic int system_calls_left;  /* before one fails; 0: none is to */
static _Atomic int system_is_for_good; /* and all later ones */
static _Atomic int system_failed_count;

/* From now on the nth call fails, once, or it and all later ones. */
static inline void system_fail_at(int nth, int for_good)
{
    atomic_store(&system_is_for_good, for_good);
    atomic_store(&system_failed_count, 0);
    atomic_store(&system_calls_left, nth);
}

/* All works again. Returns 1 if any has failed. */
static inline int system_mend(void)
{
    atomic_store(&system_calls_left, 0);
    return atomic_load(&system_failed_count) > 0;
}

/* 1 if this call is to fail. */
static inline int system_is_failing(int error)
{
    int left = atomic_load(&system_calls_left);
    while (left > 0 && !atomic_compare_exchange_weak(
                           &system_calls_left, &left,
                           left == 1 && atomic_load(&system_is_for_good) != 0 ? 1 : left - 1))
        ;
    if (left != 1)
        return 0;
    atomic_fetch_add(&system_failed_count, 1);
    errno = error;
    return 1;
}

#define SYSTEM_WRAP(type, name, parameters, arguments, failure)                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return system_is_failing(EMFILE) ? failure : __real_##name arguments;                      \
    }

SYSTEM_WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
SYSTEM_WRAP(int, openat, (int folder, const char *path, int flags, mode_t mode),
            (folder, path, flags, mode), -1)
SYSTEM_WRAP(int, fstat, (int file, struct stat *found), (file, found), -1)
SYSTEM_WRAP(int, pthread_create,
            (pthread_t * thread, const pthread_attr_t *how, void *(*run)(void *), void *with),
            (thread, how, run, with), EAGAIN)

/* How many descriptors the process has. */
static inline int system_files_count(void)
{
    int count = 0;
    DIR *files = opendir("/proc/self/fd");
    while (readdir(files) != NULL)
        count++;
    closedir(files);
    return count;
}

#endif
