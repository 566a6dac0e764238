/* SPDX-License-Identifier: Apache-2.0 */
/* Notes statuses: see note.h. System calls are made by number, because some test programs wrap the
 * functions of the C library, or count what they do. */
#include "note.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void line_write(const char *path, const char *text, size_t bytes)
{
    long file =
        syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0)
        return;
    /* A test may have limited the size of files. */
    sigset_t limit, before;
    const struct timespec now = {0, 0};
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    (void)pthread_sigmask(SIG_BLOCK, &limit, &before);
    if (syscall(SYS_write, file, text, bytes) < 0)
        (void)sigtimedwait(&limit, NULL, &now);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)syscall(SYS_close, file);
}

/* Goes to the standard error by hand: the program may be about to fork, or have no memory. */
static void unnamed(const char *function, tnr_status status)
{
    char text[4600];
    int length =
        snprintf(text, sizeof(text), "%s returned %s, which its manual does not name: %s\n",
                 function, tnr_status_name(status), tnr_last_error());
    if (length >= (int)sizeof(text))
        length = (int)sizeof(text) - 1;
    (void)syscall(SYS_write, 2, text, (size_t)length);
    if (getenv("TENURE_STATUSES_ALL") == NULL)
        abort();
}

tnr_status statuses_note(const char *function, uint64_t named, _Atomic uint64_t *seen,
                         tnr_status status)
{
    uint64_t bit = UINT64_C(1) << ((unsigned)status % 64);
    if ((atomic_load_explicit(seen, memory_order_relaxed) & bit) != 0)
        return status;
    atomic_fetch_or_explicit(seen, bit, memory_order_relaxed);
    if ((named & bit) == 0)
        unnamed(function, status);
    const char *path = getenv("TENURE_STATUSES");
    if (path == NULL)
        return status;
    char text[128];
    int length = snprintf(text, sizeof(text), "%s %s\n", function, tnr_status_name(status));
    line_write(path, text, (size_t)length);
    return status;
}
