/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure snapshot`: finds its subcommand; and what they share, see snapshot.h.
 */
#include "snapshot.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "demangle.h"
#include "elfutils.h"
#include "named.h"
#include "progress.h"
#include "read.h"
#include "shown.h"
#include "symbols.h"
#include "table.h"
#include "trim.h"

snapshot_options snapshot_common;

static const cli_command commands[] = {
    {"summary", snapshot_summary, "who holds what, how scattered it is, and what waits for what"},
    {"diff", snapshot_diff, "what grew between two snapshots, by the stack that allocated it"},
    {"convert", snapshot_convert, "to Tenure's format, to PyTorch's, or to events of Perfetto"},
    {"trace", snapshot_trace, "the history as a trace that `tenure replay` runs"},
    {"html", snapshot_html, "a report to look at in a browser, in one file"},
    {NULL, NULL, NULL},
};

int snapshot_is_command(const char *word)
{
    for (const cli_command *command = commands; command->name; command++)
        if (strcmp(command->name, word) == 0)
            return 1;
    return 0;
}

static int file_hint(const char *typed)
{
    if (access(typed, F_OK) != 0)
        return 0;
    fprintf(stderr, "To look at the file: `tenure snapshot summary %s`.\n", typed);
    return 1;
}

static const cli_group group = {
    "tenure snapshot",
    "look at snapshots of memory",
    NULL,
    "They read snapshots of Tenure (JSON) and of PyTorch 2 (pickle or JSON), plain or gzip.\n"
    "A pickle is read without Python and nothing in it is run. None of them needs a device.\n"
    "Functions, files and lines are looked up in the programs and libraries that ran, if\n"
    "they are still there and still the same builds. That needs elfutils (libdw.so.1).\n",
    commands,
    file_hint,
};

int command_snapshot(int argc, char **argv)
{
    return cli_group_run(&group, argc, argv);
}

exit_code snapshot_budget(const cli_syntax *syntax, budget *limits)
{
    long mib;
    if (!snapshot_common.max_memory) {
        budget_start_earned(limits);
        return EXIT_CODE_OK;
    }
    if (cli_number(syntax, "max-memory", snapshot_common.max_memory, 1, 1 << 24, &mib) != 0)
        return EXIT_CODE_BAD_INPUT;
    budget_start(limits, (size_t)mib << 20);
    return EXIT_CODE_OK;
}

/* A bar that begins with the first piece, which tells how much there is to do. */
typedef struct read_bar {
    const char *what;
    progress bar;
    int began;
} read_bar;

static void on_progress(void *context, uint64_t done, uint64_t total)
{
    read_bar *reading = context;
    if (total == 0)
        return;
    if (!reading->began)
        progress_start(&reading->bar, reading->what, (size_t)total, snapshot_common.progress);
    reading->began = 1;
    progress_update(&reading->bar, (size_t)done);
}

static void notes_print(const cli_syntax *syntax, const char *path, const model *result,
                        size_t first)
{
    for (size_t i = first; i < result->notes_count; i++)
        say(stderr, "tenure %s: %s: note: %s\n", syntax->command, path, result->notes[i]);
}

exit_code snapshot_load(const cli_syntax *syntax, const char *path, budget *limits, model *result)
{
    char error[READ_ERROR_BYTES];
    read_bar reading = {.what = "reading"};
    read_options options = {on_progress, &reading};
    model_start(result, limits);
    read_result outcome = snapshot_read(result, path, &options, error, sizeof(error));
    if (reading.began)
        progress_end(&reading.bar);
    if (outcome != READ_OK) {
        say(stderr, "tenure %s: %s\n", syntax->command, error);
        return outcome == READ_NO_MEMORY ? EXIT_CODE_NO_MEMORY : EXIT_CODE_BAD_INPUT;
    }
    notes_print(syntax, path, result, 0);
    return EXIT_CODE_OK;
}

int snapshot_names_missing(const cli_syntax *syntax)
{
    static int was_said;
    const char *why = elfutils_missing();
    if (why && !was_said)
        fprintf(stderr, "tenure %s: note: files and lines are not looked up: %s.\n",
                syntax->command, why);
    was_said = why != NULL;
    return why != NULL;
}

/* Looks names up, in a snapshot that has been read. */
static exit_code names_look_up(const cli_syntax *syntax, const char *path, budget *limits,
                               model *result)
{
    if (snapshot_common.no_symbols || symbols_wanted(result) == 0 || snapshot_names_missing(syntax))
        return EXIT_CODE_OK;
    size_t notes_before = result->notes_count;
    read_bar looking = {.what = "looking names up"};
    symbols_options options = {on_progress, &looking};
    int failed = symbols_look_up(result, &options);
    if (looking.began)
        progress_end(&looking.bar);
    if (failed)
        return snapshot_no_memory(syntax, limits);
    notes_print(syntax, path, result, notes_before);
    return EXIT_CODE_OK;
}

exit_code snapshot_load_named(const cli_syntax *syntax, const char *path, budget *limits,
                              model *result)
{
    exit_code code = snapshot_load(syntax, path, limits, result);
    if (code == EXIT_CODE_OK)
        code = names_look_up(syntax, path, limits, result);
    if (code == EXIT_CODE_OK && functions_demangle(result) != 0)
        code = snapshot_no_memory(syntax, limits);
    if (code == EXIT_CODE_OK)
        stacks_trim(result);
    return code;
}

static long frames_most = UINT32_MAX; /* --frames: 0 is all */

int snapshot_frames_read(const cli_syntax *syntax)
{
    const char *text = snapshot_common.frames;
    if (text == NULL || strcmp(text, "user") == 0)
        return 0;
    if (strcmp(text, "all") == 0) {
        frames_most = 0;
        return 0;
    }
    if (text[0] < '0' || text[0] > '9') {
        (void)cli_usage_error(syntax, "--frames must be all, user or a number, not \"%s\"", text);
        return -1;
    }
    return cli_number(syntax, "frames", text, 1, 1000000, &frames_most);
}

int snapshot_begin(const cli_syntax *syntax, int argc, char **argv, cli_result *parsed, long *top,
                   budget *limits, exit_code *code)
{
    const char *const *text = &snapshot_common.top;
    *code = EXIT_CODE_BAD_INPUT;
    if (cli_parse(syntax, argc, argv, parsed) != 0)
        return 0;
    if (parsed->help_wanted)
        *code = EXIT_CODE_OK;
    else if ((*text == NULL || cli_number(syntax, "top", *text, 1, 1000000, top) == 0) &&
             snapshot_frames_read(syntax) == 0)
        *code = snapshot_budget(syntax, limits);
    return *code == EXIT_CODE_OK && !parsed->help_wanted;
}

exit_code snapshot_load_short(const cli_syntax *syntax, const char *path, budget *limits,
                              model *result)
{
    exit_code code = snapshot_load_named(syntax, path, limits, result);
    if (code == EXIT_CODE_OK && frames_most > 0 &&
        stacks_shorten(result, (uint32_t)frames_most) != 0)
        code = snapshot_no_memory(syntax, limits);
    return code;
}

size_t snapshot_label_bytes(void)
{
    /* A line is broken in its second half, so two may hold half of what they could. */
    return frames_most == 0 ? LABEL_BYTES : 2 * TABLE_LINE;
}

void snapshot_losses(const cli_syntax *syntax, const losses *lost)
{
    for (size_t i = 0; i < lost->count; i++)
        say(stderr, "tenure %s: not kept: %s\n", syntax->command, lost->sentences[i]);
}

exit_code snapshot_no_memory(const cli_syntax *syntax, const budget *limits)
{
    if (limits->refused == 2)
        fprintf(stderr, "tenure %s: the system has no more memory\n", syntax->command);
    else
        fprintf(stderr,
                "tenure %s: more than %zu MiB of memory are needed; allow more with --max-memory\n",
                syntax->command, limits->limit_bytes >> 20);
    return EXIT_CODE_NO_MEMORY;
}
