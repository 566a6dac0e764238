/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines: one table of options per subcommand, from which both the parser and --help work.
 */
#ifndef TENURE_TOOLS_CLI_H
#define TENURE_TOOLS_CLI_H

#include <stddef.h>

/* One option. `text` and `flag`: exactly one is not null and receives the value. */
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
    const char *usage;         /* "[options] TRACE..." */
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

/* Parses argv (without the command's name), in place. Options may stand anywhere, as --name VALUE
 * or --name=VALUE; "--" ends them. Returns 0, or -1 after a message on stderr. */
int cli_parse(const cli_syntax *syntax, int argc, char **argv, cli_result *result);

/* Prints "tenure COMMAND: message" and a pointer to --help, for mistakes that the parser cannot
 * see. Returns EXIT_CODE_BAD_INPUT. */
__attribute__((format(printf, 2, 3))) int cli_usage_error(const cli_syntax *syntax,
                                                          const char *format, ...);

/* Parses a whole number between min and max. Returns 0, or -1 after a usage error. */
int cli_number(const cli_syntax *syntax, const char *option, const char *text, long min, long max,
               long *value);

/* What the user typed, for reports: "tenure bench --quick". Of paths only the last part, which is
 * the same on every machine. */
void cli_command_text(const char *command, int argc, char **argv, char *text, size_t bytes);

#endif
