/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of `tenure snapshot` share: reading files within a limit of memory, with
 * progress, and saying what is wrong.
 */
#ifndef TENURE_TOOLS_SNAPSHOT_H
#define TENURE_TOOLS_SNAPSHOT_H

#include <limits.h>

#include "cli.h"
#include "commands.h"
#include "encode.h"
#include "exit_code.h"
#include "model.h"

/* The options that all of them have. */
typedef struct snapshot_options {
    const char *max_memory;
    int progress;
    int no_symbols;
    const char *frames, *top;
} snapshot_options;

extern snapshot_options snapshot_common;

#define SNAPSHOT_COMMON_OPTIONS                                                                    \
    {"max-memory", "MIB", "the most memory that reading may take (default: by the file)",          \
     &snapshot_common.max_memory, NULL},                                                           \
        {"progress", NULL, "lines of progress where stderr is not a terminal", NULL,               \
         &snapshot_common.progress},                                                               \
    {                                                                                              \
        NULL, NULL, NULL, NULL, NULL                                                               \
    }

/* And those of the commands that show frames. */
#define SNAPSHOT_SYMBOLS_OPTION                                                                    \
    {                                                                                              \
        "no-symbols", NULL, "open no other file to look names up", NULL,                           \
            &snapshot_common.no_symbols                                                            \
    }

/* And of those that name stacks. */
#define SNAPSHOT_FRAMES_OPTION                                                                     \
    {                                                                                              \
        "frames", "all|user|N",                                                                    \
            "the frames by which stacks are named: all, those of your\nown code (default), or "    \
            "the "                                                                                 \
            "innermost N of these",                                                                \
            &snapshot_common.frames, NULL                                                          \
    }

#define SNAPSHOT_EXIT_CODES                                                                        \
    "Exit codes: 0 done; 1 the output could not be written; 2 the file is not a snapshot or\n"     \
    "damaged, or an option is bad; 4 reading needs more memory than allowed.\n"

#define SNAPSHOT_FILES                                                                             \
    "FILE is a snapshot of Tenure (JSON) or of PyTorch 2 (pickle or JSON), plain or gzip.\n"       \
    "A pickle is read without Python, and nothing in it is run: docs/snapshot-tool.md.\n\n"

/* Prepares the budget from --max-memory. */
exit_code snapshot_budget(const cli_syntax *syntax, budget *limits);

/* Reads the file into `result`, and prints its notes on stderr. On failure prints the sentence;
 * `result` is to be released in both cases. */
exit_code snapshot_load(const cli_syntax *syntax, const char *path, budget *limits, model *result);

/* The same, and looks up the names of frames. */
exit_code snapshot_load_named(const cli_syntax *syntax, const char *path, budget *limits,
                              model *result);

/* Reads --frames. Returns 0, or -1 after a message. */
int snapshot_frames_read(const cli_syntax *syntax);

/* What a command with --top and --frames begins with: its arguments and the budget. `top` has its
 * default. 0: the command ends, with *code. */
int snapshot_begin(const cli_syntax *syntax, int argc, char **argv, cli_result *parsed, long *top,
                   budget *limits, exit_code *code);

/* The same as snapshot_load_named, and leaves the frames that --frames asks for. */
exit_code snapshot_load_short(const cli_syntax *syntax, const char *path, budget *limits,
                              model *result);

/* How long the name of a stack may be in the first column of a table: three lines, or with --frames
 * all as many as it takes. At most LABEL_BYTES. */
enum { LABEL_BYTES = 4096 };
size_t snapshot_label_bytes(void);

/* 1 if files and lines cannot be looked up. Says why once, on stderr. */
int snapshot_names_missing(const cli_syntax *syntax);

/* Says on stderr, a line each, what was lost. */
void snapshot_losses(const cli_syntax *syntax, const losses *lost);

/* The device whose history becomes a trace: the number that the user asked for by `option`, or with
 * null the only one that has a history. Prints why there is none. */
exit_code snapshot_device_choose(const cli_syntax *syntax, const model *snapshot, const char *path,
                                 const char *asked, const char *option, size_t *chosen);

/* Says why a history that has been read gives no trace. Returns the exit code. */
exit_code snapshot_trace_empty(const cli_syntax *syntax, const model *snapshot, const char *path);

/* Memory ran out after reading. */
exit_code snapshot_no_memory(const cli_syntax *syntax, const budget *limits);

int snapshot_summary(int argc, char **argv);
int snapshot_diff(int argc, char **argv);
int snapshot_convert(int argc, char **argv);
int snapshot_trace(int argc, char **argv);
int snapshot_html(int argc, char **argv);

#endif
