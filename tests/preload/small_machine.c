/* SPDX-License-Identifier: Apache-2.0 */
/* A library that plays a machine with little memory: what reads /proc/meminfo gets the file that
 * SMALL_MACHINE names. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int openat(int folder, const char *path, int flags, ...)
{
    unsigned mode = 0;
    va_list more;
    va_start(more, flags);
    if ((flags & O_CREAT) != 0)
        mode = va_arg(more, unsigned);
    va_end(more);
    const char *played = getenv("SMALL_MACHINE");
    if (played != NULL && strcmp(path, "/proc/meminfo") == 0)
        path = played;
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}
