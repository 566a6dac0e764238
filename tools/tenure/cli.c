/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option parser and the help printer: see cli.h. getopt_long is not used because it permutes
 * by its own rules, prints its own messages and knows nothing of help texts.
 */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "exit_code.h"
#include "nearest.h"
#include "wrap.h"

enum { HELP_COLUMN = 26, HELP_NARROW = 64, HELP_INDENT = 6 };

/* While it is not null, it gets the tables that --help would print. */
static const cli_visitor *visiting;

int cli_usage_error(const cli_syntax *syntax, const char *format, ...)
{
    fprintf(stderr, "tenure %s: ", syntax->command);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nTry `tenure %s --help`.\n", syntax->command);
    return EXIT_CODE_BAD_INPUT;
}

/* Two columns, or, where there is little room, one below the other. */
static void help_option_print(const char *name, const char *argument, const char *help, int width)
{
    char left[96];
    int column = width < HELP_NARROW ? HELP_INDENT : HELP_COLUMN;
    snprintf(left, sizeof(left), "  --%s%s%s", name, argument ? " " : "", argument ? argument : "");
    if (strlen(left) < (size_t)column)
        printf("%-*s", column, left);
    else
        printf("%s\n%*s", left, column, "");
    wrap_words(stdout, help, strlen(help), column, column, width);
}

static void help_print(const cli_syntax *syntax)
{
    if (visiting) {
        visiting->on_syntax(visiting->context, syntax);
        return;
    }
    int width = wrap_width(stdout);
    int column = printf("tenure %s: ", syntax->command);
    wrap_words(stdout, syntax->summary, strlen(syntax->summary), column, 2, width);
    putchar('\n');
    const char *label = "Usage: ";
    for (const char *form = syntax->usage; *form; form += *form == '\n') {
        size_t length = strcspn(form, "\n");
        column = printf("%-7stenure %s ", label, syntax->command);
        wrap_words(stdout, form, length, column, 7, width);
        label = "";
        form += length;
    }
    printf("\nOptions:\n");
    for (const cli_option *option = syntax->options; option->name; option++)
        help_option_print(option->name, option->argument, option->help, width);
    help_option_print("help", NULL, "this text", width);
    if (syntax->description) {
        putchar('\n');
        wrap_lines(stdout, syntax->description, width);
    }
}

/* The option called by `argument` (which starts with two dashes); *value is set to what follows an
 * equals sign, or null. */
static const cli_option *option_find(const cli_syntax *syntax, const char *argument, char **value)
{
    const char *name = argument + 2;
    char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    *value = equals ? equals + 1 : NULL;
    for (const cli_option *option = syntax->options; option->name; option++)
        if (strlen(option->name) == length && strncmp(option->name, name, length) == 0)
            return option;
    return NULL;
}

static void option_unknown(const cli_syntax *syntax, const char *argument)
{
    char typed[64];
    nearest like;
    snprintf(typed, sizeof(typed), "%s", argument + strspn(argument, "-"));
    typed[strcspn(typed, "=")] = '\0';
    nearest_start(&like, typed);
    for (const cli_option *option = syntax->options; option->name; option++)
        nearest_offer(&like, option->name);
    nearest_offer(&like, "help");
    cli_usage_error(syntax, "unknown option %s%s%s%s", argument,
                    like.word ? ". Did you mean --" : "", like.word ? like.word : "",
                    like.word ? "?" : "");
}

/* Handles the option at argv[*at], moving *at onto a value that stands apart. */
static int option_take(const cli_syntax *syntax, int argc, char **argv, int *at)
{
    char *value;
    const cli_option *option = option_find(syntax, argv[*at], &value);
    if (!option) {
        option_unknown(syntax, argv[*at]);
        return -1;
    }
    if (option->flag) {
        if (value && !option->text) {
            cli_usage_error(syntax, "--%s takes no value", option->name);
            return -1;
        }
        if (value)
            *option->text = value;
        *option->flag = 1;
        return 0;
    }
    if (!value) {
        if (*at + 1 >= argc) {
            cli_usage_error(syntax, "--%s needs a value: %s", option->name, option->argument);
            return -1;
        }
        value = argv[++*at];
    }
    *option->text = value;
    return 0;
}

int cli_options_end(const cli_syntax *syntax, int argc, char **argv)
{
    int at = 0;
    while (at < argc && argv[at][0] == '-' && argv[at][1] != '\0' && strcmp(argv[at], "--") != 0) {
        char *value = NULL;
        const cli_option *option =
            strncmp(argv[at], "--", 2) == 0 ? option_find(syntax, argv[at], &value) : NULL;
        at += option && !option->flag && !value ? 2 : 1;
    }
    return at < argc ? at : argc;
}

int cli_parse(const cli_syntax *syntax, int argc, char **argv, cli_result *result)
{
    int options_ended = 0;
    result->positionals = argv;
    result->positionals_count = 0;
    result->help_wanted = 0;
    for (int i = 0; i < argc; i++) {
        if (!options_ended && strcmp(argv[i], "--") == 0) {
            options_ended = 1;
        } else if (!options_ended &&
                   (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            help_print(syntax);
            result->help_wanted = 1;
            return 0;
        } else if (!options_ended && argv[i][0] == '-' && argv[i][1] != '\0') {
            if (argv[i][1] != '-') {
                option_unknown(syntax, argv[i]);
                return -1;
            }
            if (option_take(syntax, argc, argv, &i) != 0)
                return -1;
        } else {
            argv[result->positionals_count++] = argv[i];
        }
    }
    if (result->positionals_count < syntax->positionals_min) {
        cli_usage_error(syntax, "an argument is missing; usage: tenure %s %.*s", syntax->command,
                        (int)strcspn(syntax->usage, "\n"), syntax->usage);
        return -1;
    }
    if (result->positionals_count > syntax->positionals_max) {
        cli_usage_error(syntax, "unexpected argument %s",
                        result->positionals[syntax->positionals_max]);
        return -1;
    }
    return 0;
}

int cli_number(const cli_syntax *syntax, const char *option, const char *text, long min, long max,
               long *value)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < min || number > max) {
        cli_usage_error(syntax, "--%s must be a whole number from %ld to %ld, not \"%s\"", option,
                        min, max, text);
        return -1;
    }
    *value = number;
    return 0;
}

int cli_spares_input(const cli_syntax *syntax, const char *out, const char *in)
{
    struct stat written, read;
    if (!out || !in || stat(out, &written) != 0 || stat(in, &read) != 0 ||
        !S_ISREG(written.st_mode) || written.st_dev != read.st_dev || written.st_ino != read.st_ino)
        return 0;
    cli_usage_error(syntax, "%s would be written over %s, which is read; name another file", out,
                    strcmp(out, in) == 0 ? "itself" : in);
    return -1;
}

/* ---- groups --------------------------------------------------------------------------------- */

static void group_help_print(const cli_group *group, FILE *file)
{
    int width = wrap_width(file), column = fprintf(file, "%s: ", group->command);
    wrap_words(file, group->summary, strlen(group->summary), column, 2, width);
    fprintf(file,
            "\nUsage: %s COMMAND [options]\n"
            "       %s COMMAND --help\n"
            "%s\nCommands:\n",
            group->command, group->command, group->usage ? group->usage : "");
    for (const cli_command *command = group->commands; command->name; command++) {
        column = fprintf(file, "  %-8s ", command->name);
        wrap_words(file, command->summary, strlen(command->summary), column, column, width);
    }
    fputc('\n', file);
    wrap_lines(file, group->description, width);
}

static void group_show(const cli_group *group)
{
    visiting->on_group(visiting->context, group);
    for (const cli_command *command = group->commands; command->name; command++) {
        char help[] = "--help";
        char *arguments[] = {help, NULL};
        command->run(1, arguments);
    }
}

int cli_group_run(const cli_group *group, int argc, char **argv)
{
    if (argc < 1) {
        group_help_print(group, stderr);
        return EXIT_CODE_BAD_INPUT;
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        if (visiting)
            group_show(group);
        else
            group_help_print(group, stdout);
        return EXIT_CODE_OK;
    }
    for (const cli_command *command = group->commands; command->name; command++)
        if (strcmp(argv[0], command->name) == 0)
            return command->run(argc - 1, argv + 1);
    nearest like;
    nearest_start(&like, argv[0]);
    for (const cli_command *command = group->commands; command->name; command++)
        nearest_offer(&like, command->name);
    fprintf(stderr, "%s: there is no command \"%s\". ", group->command, argv[0]);
    if (group->hint && group->hint(argv[0]))
        return EXIT_CODE_BAD_INPUT;
    if (like.word)
        fprintf(stderr, "Did you mean %s? ", like.word);
    fprintf(stderr, "Try `%s --help`.\n", group->command);
    return EXIT_CODE_BAD_INPUT;
}

void cli_visit(const cli_group *group, const cli_visitor *visitor)
{
    visiting = visitor;
    group_show(group);
    visiting = NULL;
}

int cli_bytes(const char *text, uint64_t *bytes)
{
    static const char letters[] = "KMGT";
    const uint64_t most = UINT64_C(1) << 60;
    char *end;
    errno = 0;
    unsigned long long whole = strtoull(text, &end, 10);
    double part = *end == '.' ? strtod(end, &end) : 0;
    const char *letter = *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
    const char *rest = letter ? end + 1 : end;
    int is_decimal = letter && strcasecmp(rest, "B") == 0;
    uint64_t factor = 1;
    for (int i = 0; letter && i <= letter - letters; i++)
        factor *= is_decimal ? 1000 : 1024;
    if (errno != 0 || text[0] < '0' || text[0] > '9' ||
        (*rest && strcasecmp(rest, "B") != 0 && !(letter && strcasecmp(rest, "iB") == 0)) ||
        !(part >= 0 && part < 1) || whole > (most - factor) / factor)
        return -1;
    *bytes = whole * factor + (uint64_t)(part * (double)factor);
    return 0;
}

void cli_command_text(const char *command, int argc, char **argv, char *text, size_t bytes)
{
    size_t length = (size_t)snprintf(text, bytes, "%s", command);
    for (int i = 0; i < argc && length < bytes; i++) {
        const char *slash = strrchr(argv[i], '/');
        length += (size_t)snprintf(text + length, bytes - length, " %s",
                                   slash == NULL ? argv[i] : slash + 1);
    }
}
