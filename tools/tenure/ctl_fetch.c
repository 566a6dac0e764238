/* SPDX-License-Identifier: Apache-2.0 */
/* Brings a snapshot that a process has put into its folder to the wanted place: see ctl.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

/* Copies a file of the folder to where it is wanted, under another name until it is whole. */
static int file_copy(int from, const char *beside, char *error)
{
    static char buffer[1 << 16];
    int to = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    ssize_t got = to < 0 ? -1 : 1;
    while (got > 0) {
        got = read(from, buffer, sizeof(buffer));
        for (ssize_t done = 0, part; done < got; done += part)
            if ((part = write(to, buffer + done, (size_t)(got - done))) <= 0) {
                got = -1;
                break;
            }
    }
    if (to >= 0 && close(to) != 0)
        got = -1;
    if (got < 0)
        snprintf(error, CTL_ERROR_BYTES, "%.300s: %s", beside, strerror(errno));
    return got < 0 ? -1 : 0;
}

exit_code ctl_snapshot_fetch(const ctl_folder *folder, const ctl_line *answer, const char *path,
                             char *error)
{
    char beside[PATH_MAX];
    const char *name = ctl_text(answer, answer->parsed, "file");
    int from = name && !strchr(name, '/')
                   ? openat(folder->file, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
                   : -1;
    if (from < 0) {
        snprintf(error, CTL_ERROR_BYTES, "the snapshot is not in %.300s, where the process put it",
                 folder->path);
        return EXIT_CODE_CHECK_FAILED;
    }
    snprintf(beside, sizeof(beside), "%s.%ld.part", path, (long)getpid());
    int status = file_copy(from, beside, error);
    close(from);
    unlinkat(folder->file, name, 0); /* or the process does it when this command is gone */
    if (status == 0 && rename(beside, path) != 0) {
        snprintf(error, CTL_ERROR_BYTES, "%.300s: %s", path, strerror(errno));
        status = -1;
    }
    if (status != 0)
        unlink(beside);
    return status == 0 ? EXIT_CODE_OK : EXIT_CODE_CHECK_FAILED;
}
