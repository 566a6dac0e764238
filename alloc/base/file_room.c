/* SPDX-License-Identifier: Apache-2.0 */
/* See file_room.h. */
#include "base/file_room.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

int tnri_file_limit(uint64_t bytes)
{
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes > most.rlim_cur ? EFBIG : 0;
}

int tnri_file_fill(int file, uint64_t bytes)
{
    int error = tnri_file_limit(bytes);
    while (error == 0 && (error = posix_fallocate(file, 0, (off_t)bytes)) == EINTR)
        error = 0;
    return error;
}
