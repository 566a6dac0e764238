/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a process's end: see exit_path.h. A snapshot is renamed to its place. So a process
 * locks the file that is there, makes an empty one if there is none, and looks whether the place
 * still has the file that it has locked.
 */
#include "see/snapshot/exit_path.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf/environment.h"
#include "base/prim/process.h"

/* Clocks of files may be behind by a tick of the kernel's. */
enum { TICK_NS = 10000000 };

/* What this process wrote last, which it may write again. */
static struct {
    pid_t process; /* a forked child is another */
    dev_t device;
    ino_t number;
} own;

static void expansion_of(char letter, char text[256])
{
    text[0] = '\0';
    if (letter == 'p')
        snprintf(text, 256, "%ld", (long)tnri_process_id());
    else if (letter == 'r')
        snprintf(text, 256, "%.20s", tnri_environment_rank());
    else if (letter == 'h' && gethostname(text, 255) != 0)
        text[0] = '\0';
    text[255] = '\0';
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '/' ? '_' : *at;
}

void tnri_exit_path(char path[TNRI_EXIT_PATH_BYTES], const char *setting)
{
    size_t length = 0;
    char text[256];
    for (; *setting != '\0' && length + 1 < TNRI_EXIT_PATH_BYTES; setting++) {
        int is_known = setting[0] == '%' && setting[1] != '\0' && strchr("prh", setting[1]) != NULL;
        if (!is_known) {
            path[length++] = *setting;
            continue;
        }
        expansion_of(*++setting, text);
        for (size_t i = 0; text[i] != '\0' && length + 1 < TNRI_EXIT_PATH_BYTES; i++)
            path[length++] = text[i];
    }
    path[length] = '\0';
}

/* "memory.json.gz" becomes "memory-1234.json.gz". */
static void path_move(char path[TNRI_EXIT_PATH_BYTES])
{
    static const char *const ends[] = {".json.gz", ".json", ".pickle.gz", ".pickle"};
    char number[32], end[16] = "";
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]) && end[0] == '\0'; i++)
        if (length > strlen(ends[i]) && strcmp(path + length - strlen(ends[i]), ends[i]) == 0)
            snprintf(end, sizeof(end), "%s", ends[i]);
    int bytes = snprintf(number, sizeof(number), "-%ld", (long)tnri_process_id());
    length -= strlen(end);
    if (length + (size_t)bytes + sizeof(end) < TNRI_EXIT_PATH_BYTES)
        snprintf(path + length, TNRI_EXIT_PATH_BYTES - length, "%s%s", number, end);
}

static int is_others(const struct stat *file, int64_t since_ns)
{
    int64_t written_ns = file->st_mtim.tv_sec * INT64_C(1000000000) + file->st_mtim.tv_nsec;
    int is_own = own.process == tnri_process_id() && file->st_dev == own.device &&
                 file->st_ino == own.number;
    return file->st_size > 0 && !is_own && written_ns + TICK_NS >= since_ns;
}

int tnri_exit_path_enter(char path[TNRI_EXIT_PATH_BYTES], int64_t since_ns, int *is_moved)
{
    struct stat locked, there;
    *is_moved = 0;
    for (;;) {
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
        if (file < 0)
            return -1; /* the snapshot will say why */
        if (flock(file, LOCK_EX) != 0 || fstat(file, &locked) != 0 || !S_ISREG(locked.st_mode)) {
            close(file);
            return -1;
        }
        if (stat(path, &there) == 0 && there.st_dev == locked.st_dev &&
            there.st_ino == locked.st_ino) {
            if (*is_moved || !is_others(&locked, since_ns))
                return file;
            path_move(path);
            *is_moved = 1;
        }
        close(file);
    }
}

void tnri_exit_path_leave(int descriptor, const char *path)
{
    struct stat there;
    if (descriptor < 0)
        return;
    /* What was made above, and nothing took its place. */
    if (stat(path, &there) == 0 && there.st_size == 0)
        (void)unlink(path);
    else if (stat(path, &there) == 0) {
        own.process = tnri_process_id();
        own.device = there.st_dev;
        own.number = there.st_ino;
    }
    close(descriptor);
}
