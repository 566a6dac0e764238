/* SPDX-License-Identifier: Apache-2.0 */
/* See file.h. */
#include "base/prim/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(TNRI_FOLDER_OWN == AT_FDCWD, "the system's own");

/* ---- opening -------------------------------------------------------------------------------- */

int tnri_file_open(int folder, const char *path, unsigned how, unsigned mode)
{
    int flags = (how & TNRI_FILE_BOTH) != 0    ? O_RDWR
                : (how & TNRI_FILE_WRITE) != 0 ? O_WRONLY
                                               : O_RDONLY;
    static const struct {
        unsigned how;
        int flag;
    } more[] = {{TNRI_FILE_MAKE, O_CREAT},        {TNRI_FILE_NEW, O_CREAT | O_EXCL},
                {TNRI_FILE_APPEND, O_APPEND},     {TNRI_FILE_UNWAITED, O_NONBLOCK | O_NOCTTY},
                {TNRI_FILE_UNLINKED, O_NOFOLLOW}, {TNRI_FILE_FOLDER, O_DIRECTORY}};
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
        flags |= (how & more[i].how) != 0 ? more[i].flag : 0;
    return openat(folder, path, flags | O_CLOEXEC, mode);
}

/* A close that a signal interrupts has closed. */
int tnri_file_close(int file)
{
    return close(file) == 0 || errno == EINTR ? 0 : errno;
}

int64_t tnri_file_read(int file, void *data, size_t bytes)
{
    return read(file, data, bytes);
}

int64_t tnri_file_write(int file, const void *data, size_t bytes)
{
    return write(file, data, bytes);
}

/* ---- facts ---------------------------------------------------------------------------------- */

static int facts_tell(int is_known, const struct stat *found, tnri_file_facts *facts)
{
    if (is_known)
        *facts = (tnri_file_facts){.is_regular = S_ISREG(found->st_mode),
                                   .is_folder = S_ISDIR(found->st_mode),
                                   .mode = found->st_mode & 07777,
                                   .user = found->st_uid,
                                   .bytes = (uint64_t)found->st_size,
                                   .written_ns = found->st_mtim.tv_sec * INT64_C(1000000000) +
                                                 found->st_mtim.tv_nsec,
                                   .place = found->st_dev,
                                   .number = found->st_ino};
    return is_known;
}

int tnri_file_ask(int file, tnri_file_facts *facts)
{
    struct stat found;
    return facts_tell(fstat(file, &found) == 0, &found, facts);
}

int tnri_path_ask(const char *path, tnri_file_facts *facts)
{
    struct stat found;
    return facts_tell(stat(path, &found) == 0, &found, facts);
}

int tnri_name_ask(int folder, const char *name, tnri_file_facts *facts)
{
    struct stat found;
    return facts_tell(fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) == 0, &found, facts);
}

/* ---- names ---------------------------------------------------------------------------------- */

int tnri_name_remove(int folder, const char *name)
{
    return unlinkat(folder, name, 0) == 0;
}

int tnri_name_move(int folder, const char *from, const char *to)
{
    return renameat(folder, from, folder, to) == 0;
}

int tnri_folder_make(const char *path)
{
    return mkdir(path, 0700) == 0;
}

int tnri_path_real(const char *path, char *real)
{
    return realpath(path, real) != NULL;
}

/* ---- room ----------------------------------------------------------------------------------- */

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

/* ---- locks ---------------------------------------------------------------------------------- */

int tnri_file_lock(int file, int is_patient)
{
    return flock(file, LOCK_EX | (is_patient ? 0 : LOCK_NB)) == 0;
}

int tnri_byte_lock(int file, int at, int is_wanted)
{
    struct flock lock = {
        .l_type = is_wanted ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(file, F_SETLK, &lock) == 0;
}

int tnri_byte_is_locked(int file, int at)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(file, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}
