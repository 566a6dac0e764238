/* SPDX-License-Identifier: Apache-2.0 */
/* What traps find, while the program runs: see run_traps.h. */
#include "run_traps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/alloc.h>

#include "between.h"
#include "code_lines.h"
#include "demangle.h"
#include "shown.h"

enum { LINE_BYTES = 8192, INLINED_MAX = 8, NAME_BYTES = 512 };

static code_lines lines; /* of the thread that follows; then run_traps_end's */

/* ---- before --------------------------------------------------------------------------------- */

void run_traps_choose(run_traps *traps)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    for (size_t i = 0; tnr_setting_get(&info, i) == TNR_OK; i++) {
        if (strcmp(info.key, "poison") == 0 || strcmp(info.key, "canary") == 0)
            traps->is_wanted |= strcmp(info.value, "off") != 0;
        if (strcmp(info.key, "trap_file") == 0)
            snprintf(traps->told_file, sizeof(traps->told_file), "%s", info.value);
    }
}

static exit_code refused(const char *path)
{
    fprintf(stderr, "tenure run: %s: %s\n", path, strerror(errno));
    return EXIT_CODE_CHECK_FAILED;
}

/* A program of root's may become another user, and then still writes there. */
exit_code run_traps_begin(run_traps *traps, const char *folder)
{
    const char *conf = getenv("TENURE_CONF");
    mode_t mode = geteuid() == 0 ? 0666 : 0600;
    int length = snprintf(traps->reports, sizeof(traps->reports), "%s/traps", folder);
    if (length < 0 || (size_t)length >= sizeof(traps->reports) || strchr(folder, '\'')) {
        traps->reports[0] = '\0';
        fprintf(stderr,
                "tenure run: %s: choose another TMPDIR: reports of traps need a path of at "
                "most %d bytes, without quotation marks\n",
                folder, RUN_TRAPS_PATH_MAX);
        return EXIT_CODE_BAD_INPUT;
    }
    int file = open(traps->reports, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0 || fchmod(file, mode) != 0 || (traps->from = fdopen(file, "r")) == NULL)
        return refused(traps->reports);
    if (mode == 0666)
        (void)chmod(folder, 0711);
    code_lines_begin(&lines);
    traps->to = stderr;
    if (traps->told_file[0] != '\0')
        traps->to = fopen(traps->told_file, "ae");
    if (!traps->to)
        return refused(traps->told_file);
    size_t bytes = strlen(conf ? conf : "") + sizeof(traps->reports) + 32;
    char *more = malloc(bytes);
    if (!more)
        return EXIT_CODE_NO_MEMORY;
    snprintf(more, bytes, "%s%strap_file:'%s'", conf ? conf : "", conf && *conf ? "," : "",
             traps->reports);
    setenv("TENURE_CONF", more, 1);
    free(more);
    return EXIT_CODE_OK;
}

/* ---- frames --------------------------------------------------------------------------------- */

static void place_print(FILE *to, const char *path, uint64_t offset, const debug_place *place)
{
    const char *slash = strrchr(path, '/');
    char plain[NAME_BYTES];
    say(to, "    %s+0x%" PRIx64, slash ? slash + 1 : path, offset);
    if (place->function)
        say(to, " (%s)",
            demangle(place->function, plain, sizeof(plain)) > 0 ? plain : place->function);
    if (place->file)
        say(to, "  %s:%" PRIu32, place->file, place->line);
    fputs("\n", to);
}

/* "    PATH+0xOFFSET (NAME)", as the library writes it: 1 if the line is one. */
static int frame_read(char *line, char **path, uint64_t *offset, char **function)
{
    char *plus = NULL, *end;
    if (strncmp(line, "    /", 5) != 0)
        return 0;
    for (char *at = line; (at = strstr(at, "+0x")); at++)
        plus = at;
    if (!plus)
        return 0;
    errno = 0;
    *offset = strtoull(plus + 1, &end, 16);
    size_t rest = strlen(end);
    if (errno != 0 || (rest > 0 && (rest < 4 || strncmp(end, " (", 2) != 0)))
        return 0;
    *plus = '\0';
    *path = line + 4;
    *function = rest > 0 ? end + 2 : NULL;
    if (rest > 0)
        end[rest - 1] = '\0';
    return 1;
}

/* A frame with what debug information tells of it: first what was inlined there. 0: it was left
 * out, because it lies between the program and Tenure, and no frame of the program came before. */
static int frame_print(FILE *to, const char *path, uint64_t offset, const char *function,
                       int is_first)
{
    static debug_place places[DEBUG_PLACES_MAX];
    const char *slash = strrchr(path, '/');
    size_t count = code_lines_find(&lines, path, "", offset, places);
    if (count == 0)
        places[count++] = (debug_place){function, NULL, 0};
    for (size_t i = 0; i < count; i++)
        if (!places[i].function)
            places[i].function = function;
    int is_shown = !is_first || !between_is(slash ? slash + 1 : path, places[count - 1].function);
    for (size_t i = 0; is_shown && i < count && i < INLINED_MAX; i++)
        place_print(to, path, offset, &places[i]);
    return is_shown;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static void line_print(run_traps *traps, char *line)
{
    char *path, *function;
    uint64_t offset;
    traps->findings +=
        strncmp(line, "tenure: poison: ", 16) == 0 || strncmp(line, "tenure: canary: ", 16) == 0;
    traps->sums += strncmp(line, "tenure: traps: process ", 23) == 0;
    if (frame_read(line, &path, &offset, &function)) {
        if (frame_print(traps->to, path, offset, function, traps->is_first))
            traps->is_first = 0;
        return;
    }
    traps->is_first = 1; /* the next one, of the stack that begins here */
    say(traps->to, "%s\n", line);
}

/* Prints all whole lines that are there; the last one is kept until it is whole. */
static void lines_print(void *of)
{
    run_traps *traps = of;
    static char line[LINE_BYTES];
    static size_t length;
    int byte;
    clearerr(traps->from);
    flockfile(traps->to); /* the check's reports come by another thread: each stays whole */
    while ((byte = fgetc(traps->from)) != EOF) {
        if (byte != '\n' && length + 1 < LINE_BYTES) {
            line[length++] = (char)byte;
            continue;
        }
        line[length] = '\0';
        line_print(traps, line);
        length = 0;
    }
    fflush(traps->to);
    funlockfile(traps->to);
}

void run_traps_follow(run_traps *traps)
{
    if (traps->reports[0] != '\0')
        (void)run_follow_begin(&traps->follower, lines_print, traps);
}

uint64_t run_traps_end(run_traps *traps)
{
    if (traps->reports[0] == '\0')
        return 0;
    run_follow_end(&traps->follower);
    code_lines_end(&lines);
    if (traps->sums == 0)
        fputs(
            "tenure run: no process has told what its traps found in all: none used a GPU, or they "
            "were killed, or ended by _exit\n",
            stderr);
    unlink(traps->reports);
    fclose(traps->from);
    if (traps->to != stderr)
        fclose(traps->to);
    return traps->findings;
}
