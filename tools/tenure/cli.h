/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines: one table of options per subcommand, from which the parser, --help, the manual
 * pages and the shells' completions (manual.c) work.
 */
#ifndef TENURE_TOOLS_CLI_H
#define TENURE_TOOLS_CLI_H

#include <stddef.h>
#include <stdint.h>

/* One option. Exactly one of `text` and `flag` is not null, and receives the value. A flag with a
 * `text` may be given a value, too, behind an equals sign alone. */
typedef struct cli_option {
    const char *name;     /* without the dashes */
    const char *argument; /* what --help calls its value; null for a flag */
    const char *help;     /* lines after the first are indented by the printer */
    const char **text;
    int *flag;
} cli_option;

/* A subcommand's command line. */
typedef struct cli_syntax {
    const char *command;       /* "replay" */
    const char *summary;       /* one line */
    const char *usage;         /* "[options] TRACE..."; a line for each way to call it */
    const char *description;   /* printed after the options; may be null */
    const cli_option *options; /* ends with a null name */
    int positionals_min, positionals_max;
} cli_syntax;

/* What cli_parse found besides options: the positional arguments, at the front of argv. */
typedef struct cli_result {
    char **positionals;
    int positionals_count;
    int help_wanted; /* --help was given: the help has been printed, exit with 0 */
} cli_result;

/* One command of a group. */
typedef struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv); /* the arguments after its name; returns an exit code */
    const char *summary;               /* one line */
} cli_command;

/* Commands under one name: the program itself, or `tenure snapshot`. */
typedef struct cli_group {
    const char *command;         /* "tenure", "tenure snapshot" */
    const char *summary;         /* one line */
    const char *usage;           /* more lines of usage, each with its end; may be null */
    const char *description;     /* printed after the commands */
    const cli_command *commands; /* ends with a null name */

    /* Prints what a word that names no command may have meant. 1 if it did; may be null. */
    int (*hint)(const char *typed);
} cli_group;

/* Runs the command that argv[0] names, or prints the group's help. */
int cli_group_run(const cli_group *group, int argc, char **argv);

/* Functions for code that needs all tables: called for each group, then for what is in it. */
typedef struct cli_visitor {
    void (*on_group)(void *context, const cli_group *group);
    void (*on_syntax)(void *context, const cli_syntax *syntax);
    void *context;
} cli_visitor;

/* Shows the visitor the group and all that is in it, in order. To do so it asks each command for
 * its help; that help is not printed. */
void cli_visit(const cli_group *group, const cli_visitor *visitor);

/* Parses argv (without the command's name), in place. Options may stand anywhere, as --name VALUE
 * or --name=VALUE; "--" ends them. Returns 0, or -1 after a message on stderr. */
int cli_parse(const cli_syntax *syntax, int argc, char **argv, cli_result *result);

/* The index of "--", or of the first argument that is neither an option nor an option's value:
 * another program's command line begins there. */
int cli_options_end(const cli_syntax *syntax, int argc, char **argv);

/* Prints "tenure COMMAND: message" and a pointer to --help, for mistakes that the parser cannot
 * see. Returns EXIT_CODE_BAD_INPUT. */
__attribute__((format(printf, 2, 3))) int cli_usage_error(const cli_syntax *syntax,
                                                          const char *format, ...);

/* 0 if the output file is not the input file, also under another name; else -1, with the usage
 * error. Either may be null, or not exist yet. */
int cli_spares_input(const cli_syntax *syntax, const char *out, const char *in);

/* Parses a whole number between min and max. Returns 0, or -1 after a usage error. */
int cli_number(const cli_syntax *syntax, const char *option, const char *text, long min, long max,
               long *value);

/* Reads a size, 2^60 bytes at most: "512M", "24GiB", "80GB" (a unit with i, or of one letter, is a
 * power of two), "0.7GiB". Returns 0, or -1: it is none. Says nothing. */
int cli_bytes(const char *text, uint64_t *bytes);

/* What the user typed, for reports: "tenure bench --quick", where `command` is "tenure bench". Only
 * the last part of paths is kept, because it is the same on every machine. */
void cli_command_text(const char *command, int argc, char **argv, char *text, size_t bytes);

#endif
