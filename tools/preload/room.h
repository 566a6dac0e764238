/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a file may become so large. A write beyond the process's limit (RLIMIT_FSIZE) sends
 * SIGXFSZ, which would end the program for a file that it knows nothing of.
 */
#ifndef TENURE_PRELOAD_ROOM_H
#define TENURE_PRELOAD_ROOM_H

#include <errno.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* 0, or EFBIG: this process may not have a file of so many bytes. */
static inline int room_limit(uint64_t bytes)
{
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes > most.rlim_cur ? EFBIG : 0;
}

/* The same of a file that is to grow; what is no file has no limit. */
static inline int room_to_grow(int file, uint64_t more)
{
    struct stat found;
    if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode))
        return 0;
    return room_limit((uint64_t)found.st_size + more);
}

#endif
