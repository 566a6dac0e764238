/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a process's end: see exit_path.h. A snapshot is renamed to its place. So a process
 * locks the file that is there, makes an empty one if there is none, and looks whether the place
 * still has the file that it has locked.
 */
#include "see/snapshot/exit_path.h"

#include <stdio.h>
#include <string.h>

#include "base/conf/environment.h"
#include "base/prim/file.h"
#include "base/prim/process.h"

/* Clocks of files may be behind by a tick of the kernel's. */
enum { TICK_NS = 10000000 };

/* What this process wrote last, which it may write again. */
static struct {
    int process; /* a forked child is another */
    uint64_t place, number;
} own;

static void expansion_of(char letter, char text[256])
{
    text[0] = '\0';
    if (letter == 'p')
        snprintf(text, 256, "%ld", (long)tnri_process_id());
    else if (letter == 'r')
        snprintf(text, 256, "%.20s", tnri_environment_rank());
    else if (letter == 'h')
        tnri_machine_name(text, 256);
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

static int is_others(const tnri_file_facts *file, int64_t since_ns)
{
    int is_own =
        own.process == tnri_process_id() && file->place == own.place && file->number == own.number;
    return file->bytes > 0 && !is_own && file->written_ns + TICK_NS >= since_ns;
}

int tnri_exit_path_enter(char path[TNRI_EXIT_PATH_BYTES], int64_t since_ns, int *is_moved)
{
    tnri_file_facts locked, there;
    *is_moved = 0;
    for (;;) {
        int file = tnri_file_open(TNRI_FOLDER_OWN, path,
                                  TNRI_FILE_BOTH | TNRI_FILE_MAKE | TNRI_FILE_UNWAITED, 0666);
        if (file < 0)
            return -1; /* the snapshot will say why */
        if (!tnri_file_lock(file, 1) || !tnri_file_ask(file, &locked) || !locked.is_regular) {
            (void)tnri_file_close(file);
            return -1;
        }
        if (tnri_path_ask(path, &there) && there.place == locked.place &&
            there.number == locked.number) {
            if (*is_moved || !is_others(&locked, since_ns))
                return file;
            path_move(path);
            *is_moved = 1;
        }
        (void)tnri_file_close(file);
    }
}

void tnri_exit_path_leave(int descriptor, const char *path)
{
    tnri_file_facts there;
    if (descriptor < 0)
        return;
    /* What was made above, and nothing took its place. */
    if (tnri_path_ask(path, &there) && there.bytes == 0)
        (void)tnri_name_remove(TNRI_FOLDER_OWN, path);
    else if (tnri_path_ask(path, &there)) {
        own.process = tnri_process_id();
        own.place = there.place;
        own.number = there.number;
    }
    (void)tnri_file_close(descriptor);
}
