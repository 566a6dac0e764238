/* SPDX-License-Identifier: Apache-2.0 */
/* Brings a snapshot that a process has put into its folder to the wanted place: see ctl.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl.h"

/* Opens a file of the folder. The process may have put anything there: what is no file is not
 * waited for. -1: there is no such file; `bytes` is how many it has now. */
static int file_open(int folder, const char *name, uint64_t *bytes)
{
    struct stat found;
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return -1;
    if (fstat(file, &found) == 0 && S_ISREG(found.st_mode)) {
        *bytes = (uint64_t)found.st_size;
        return file;
    }
    close(file);
    return -1;
}

/* Copies so many bytes to where they are wanted, under another name until they are whole. What the
 * process adds meanwhile is left out, so that this comes to an end. */
static int file_copy(int from, uint64_t bytes, const char *beside, int64_t until, char *error)
{
    static char buffer[1 << 16];
    const char *why = NULL;
    int to = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (to < 0)
        why = strerror(errno);
    while (bytes > 0 && !why) {
        ssize_t got = read(from, buffer, bytes < sizeof(buffer) ? bytes : sizeof(buffer));
        if (got <= 0)
            why = got < 0 ? strerror(errno) : "the process has made its snapshot shorter";
        else if (until >= 0 && ctl_now_ms() > until)
            why = "the snapshot is too large to be copied in time";
        for (ssize_t done = 0, part; !why && done < got; done += part)
            if ((part = write(to, buffer + done, (size_t)(got - done))) <= 0)
                why = strerror(part < 0 ? errno : ENOSPC);
        bytes -= why ? 0 : (uint64_t)got;
    }
    if (to >= 0 && close(to) != 0 && !why)
        why = strerror(errno);
    if (why)
        snprintf(error, CTL_ERROR_BYTES, "%.300s: %s", beside, why);
    return why ? -1 : 0;
}

exit_code ctl_snapshot_fetch(const ctl_peer *peer, const ctl_line *answer, const char *path,
                             int patience_ms, char *error)
{
    char beside[PATH_MAX];
    uint64_t bytes = 0;
    int64_t until = patience_ms < 0 ? -1 : ctl_now_ms() + patience_ms;
    const char *name = ctl_text(answer, answer->parsed, "file");
    int from = name && !strchr(name, '/') ? file_open(peer->folder->file, name, &bytes) : -1;
    if (from < 0) {
        snprintf(error, CTL_ERROR_BYTES, "the snapshot is not in %.300s, where the process put it",
                 peer->folder->path);
        return EXIT_CODE_CHECK_FAILED;
    }
    snprintf(beside, sizeof(beside), "%s.%ld.part", path, (long)getpid());
    int status = file_copy(from, bytes, beside, until, error);
    close(from);
    unlinkat(peer->folder->file, name, 0); /* or the process does it when this command is gone */
    if (status == 0 && rename(beside, path) != 0) {
        snprintf(error, CTL_ERROR_BYTES, "%.300s: %s", path, strerror(errno));
        status = -1;
    }
    if (status != 0)
        unlink(beside);
    return status == 0 ? EXIT_CODE_OK : EXIT_CODE_CHECK_FAILED;
}
