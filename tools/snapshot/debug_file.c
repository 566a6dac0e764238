/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files, opened with care: see debug_file.h.
 */
#include "debug_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Where distributions keep debug information, and where debuggers look for it. */
#define DEBUG_FOLDER "/usr/lib/debug"

/* ---- opening -------------------------------------------------------------------------------- */

/* Opens it for reading if it is a regular file. It is looked at before it is opened, through a
 * descriptor that does nothing with it, so that no device is touched and no pipe waited for. */
static int regular_open(const char *path, char *why, size_t why_bytes)
{
    struct stat about;
    struct statfs system;
    char name[64];
    int at = open(path, O_PATH | O_CLOEXEC);
    int fd = -1;
    if (at < 0 || fstat(at, &about) != 0 || fstatfs(at, &system) != 0) {
        snprintf(why, why_bytes, "cannot be opened: %s", strerror(errno));
    } else if (!S_ISREG(about.st_mode) || system.f_type == PROC_SUPER_MAGIC ||
               system.f_type == SYSFS_MAGIC) {
        snprintf(why, why_bytes, "is not a regular file");
    } else {
        snprintf(name, sizeof(name), "/proc/self/fd/%d", at);
        fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
            snprintf(why, why_bytes, "cannot be opened: %s", strerror(errno));
    }
    if (at >= 0)
        close(at);
    return fd;
}

enum { BUILD_ID_MAX = 64 };

/* The file's build id in hexadecimal; empty if it has none. */
static const char *build_id_take(Elf *elf, char hex[2 * BUILD_ID_MAX + 1])
{
    const void *bytes = NULL;
    ssize_t count = elfutils.dwelf_elf_gnu_build_id(elf, &bytes);
    hex[0] = '\0';
    for (ssize_t i = 0; i < count && count <= BUILD_ID_MAX; i++)
        snprintf(hex + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
    return hex;
}

static int build_id_equals(Elf *elf, const char *build_id)
{
    char own[2 * BUILD_ID_MAX + 1];
    return build_id_take(elf, own)[0] != '\0' && strcmp(own, build_id) == 0;
}

int debug_file_open(debug_file *file, const char *path, const char *build_id, char *why,
                    size_t why_bytes)
{
    Elf64_Ehdr head;
    *file = (debug_file){-1, NULL};
    if (elfutils.elf_version(EV_CURRENT) == EV_NONE) {
        snprintf(why, why_bytes, "is of a kind that libelf does not know");
        return -1;
    }
    file->fd = regular_open(path, why, why_bytes);
    if (file->fd < 0)
        return -1;
    file->elf = elfutils.elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
    if (!file->elf || elfutils.elf_kind(file->elf) != ELF_K_ELF ||
        !elfutils.gelf_getehdr(file->elf, &head) ||
        (head.e_type != ET_DYN && head.e_type != ET_EXEC))
        snprintf(why, why_bytes, "is neither a program nor a library");
    else if (build_id && !build_id_equals(file->elf, build_id))
        snprintf(why, why_bytes, "is another build than the one that ran");
    else
        return 0;
    debug_file_close(file);
    return -1;
}

void debug_file_close(debug_file *file)
{
    if (file->elf)
        elfutils.elf_end(file->elf);
    if (file->fd >= 0)
        close(file->fd);
    *file = (debug_file){-1, NULL};
}

/* ---- debug information apart ---------------------------------------------------------------- */

int debug_file_open_apart(debug_file *file, const debug_file *from, const char *path,
                          const char *build_id)
{
    char place[PATH_MAX + 512], why[256];
    char own[2 * BUILD_ID_MAX + 1];
    Elf64_Word sum;
    *file = (debug_file){-1, NULL};
    if (!build_id)
        build_id = build_id_take(from->elf, own);
    if (strlen(build_id) > 2 && strspn(build_id, "0123456789abcdef") == strlen(build_id)) {
        int length = snprintf(place, sizeof(place), DEBUG_FOLDER "/.build-id/%.2s/%s.debug",
                              build_id, build_id + 2);
        if ((size_t)length < sizeof(place) &&
            debug_file_open(file, place, build_id, why, sizeof(why)) == 0)
            return 0;
    }
    const char *link = elfutils.dwelf_elf_gnu_debuglink(from->elf, &sum);
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    if (!link || strchr(link, '/') || strlen(link) > 255 || folder >= PATH_MAX)
        return -1;
    const struct {
        const char *before, *after;
    } places[] = {{"", ""}, {"", ".debug/"}, {DEBUG_FOLDER, ""}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (places[i].before[0] != '\0' && path[0] != '/')
            continue;
        snprintf(place, sizeof(place), "%s%.*s%s%s", places[i].before, folder, path,
                 places[i].after, link);
        if (debug_file_open(file, place, build_id, why, sizeof(why)) == 0)
            return 0;
    }
    return -1;
}
