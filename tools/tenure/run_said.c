/* SPDX-License-Identifier: Apache-2.0 */
/* What the checker says, with lines of the source: see run_said.h. */
#include "run_said.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "code_lines.h"
#include "elfutils.h"
#include "run_follow.h"
#include "shown.h"

enum { KNOWN = 8192, LINE_BYTES = 1 << 15 };

/* Bytes between a frame and where it lies: findings.h in tools/check. */
#define APART '\x1f'

/* A frame that was looked up. */
typedef struct known {
    char *place; /* as it was written; null: none is here */
    char *line;  /* file and line; empty: not known */
} known;

static run_follower follower;

/* The thread's own, while it is there. */
static FILE *file;
static known list[KNOWN];
static size_t known_count;
static code_lines lines;

/* ---- places --------------------------------------------------------------------------------- */

/* The file and the line of a place: path, offset and build id. The text is the caller's to free. */
static char *line_of(const char *place)
{
    char path[LINE_BYTES], text[LINE_BYTES] = "";
    debug_place found[DEBUG_PLACES_MAX];
    const char *offset = strchr(place, APART),
               *build_id = offset ? strchr(offset + 1, APART) : NULL;
    if (!build_id || (size_t)(offset - place) >= sizeof(path))
        return NULL;
    memcpy(path, place, (size_t)(offset - place));
    path[offset - place] = '\0';
    uint64_t at = strtoull(offset + 1, NULL, 10);
    if (at > 0 && code_lines_find(&lines, path, build_id + 1, at - 1, found) > 0 && found[0].file)
        snprintf(text, sizeof(text), "%s:%" PRIu32, found[0].file, found[0].line);
    return strdup(text);
}

/* The same of one that may have been asked for. Null: not known. */
static const char *line_known(const char *place)
{
    uint64_t mixed = 0;
    for (const char *at = place; *at; at++)
        mixed = mixed * UINT64_C(0x100000001b3) ^ (unsigned char)*at;
    size_t slot = (size_t)(mixed * UINT64_C(0x9e3779b97f4a7c15) >> 32) % KNOWN;
    while (list[slot].place && strcmp(list[slot].place, place) != 0)
        slot = (slot + 1) % KNOWN;
    if (!list[slot].place && known_count < KNOWN / 2) {
        char *line = line_of(place);
        list[slot].place = line ? strdup(place) : NULL;
        list[slot].line = line;
        known_count += list[slot].place != NULL;
    }
    return list[slot].place ? list[slot].line : NULL;
}

static void missing_say(void)
{
    static int is_said;
    if (!is_said)
        fprintf(stderr, "tenure run: files and lines are not looked up: %s.\n", elfutils_missing());
    is_said = 1;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Prints a line, which ends with a newline. */
static void line_say(char *line)
{
    char *place = strchr(line, APART);
    if (!place) {
        fputs(line, stderr);
        return;
    }
    *place++ = '\0';
    place[strcspn(place, "\n")] = '\0';
    if (elfutils_missing()) {
        missing_say();
        fprintf(stderr, "%s\n", line);
        return;
    }
    const char *found = line_known(place);
    if (found && *found)
        say(stderr, "%s  %s\n", line, found);
    else
        fprintf(stderr, "%s\n", line);
}

/* Prints all whole lines that are there. */
static void lines_say(void *unused)
{
    static char line[LINE_BYTES];
    static size_t length; /* of one that is not whole yet */
    (void)unused;
    clearerr(file);
    flockfile(stderr); /* the traps' reports come by another thread: each stays whole */
    while (fgets(line + length, (int)(sizeof(line) - length), file)) {
        length += strlen(line + length);
        if (length == 0 || (line[length - 1] != '\n' && length + 1 < sizeof(line)))
            continue;
        line_say(line);
        length = 0;
    }
    funlockfile(stderr);
}

/* ---- the beginning and the end -------------------------------------------------------------- */

int run_said_begin(const char *path)
{
    /* The program may put something else there, but not before it runs; it is not waited for. */
    int opened_file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    file = opened_file < 0 ? NULL : fdopen(opened_file, "r");
    if (!file)
        return 0;
    code_lines_begin(&lines);
    return run_follow_begin(&follower, lines_say, NULL);
}

void run_said_end(void)
{
    if (!file)
        return;
    run_follow_end(&follower);
    fclose(file);
    file = NULL;
    code_lines_end(&lines);
    for (size_t i = 0; i < KNOWN; i++) {
        free(list[i].place);
        free(list[i].line);
        list[i] = (known){NULL, NULL};
    }
}
