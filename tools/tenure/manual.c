/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure manual`: prints or writes manual pages and completions. The build runs it for what is
 * installed.
 */
#include "manual.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "exit_code.h"

static const char *completion_option, *out_option;

static const cli_option options[] = {
    {"completion", "SHELL", "what bash, zsh or fish reads to complete command lines",
     &completion_option, NULL},
    {"out", "FOLDER", "write all pages and completions into a folder", &out_option, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    "manual",
    "manual pages, and completions for bash, zsh and fish",
    "[options] [COMMAND...]",
    "Prints the page of the command, or of tenure itself, for man:\n"
    "\n"
    "  tenure manual run | man -l -\n"
    "\n"
    "`cmake --install` and the packages put them where man and the shells look. Elsewhere:\n"
    "\n"
    "  bash  source <(tenure manual --completion bash)\n"
    "  zsh   source <(tenure manual --completion zsh)\n"
    "  fish  tenure manual --completion fish | source\n"
    "\n"
    "Examples:\n"
    "  tenure manual run | man -l -\n"
    "\n"
    "Exit codes: 0 done; 1 a file could not be written; 2 bad usage.\n",
    options,
    0,
    2,
};

static const struct shell {
    const char *name;
    const char *file; /* as the shell wants it called */
    void (*print)(const manual_tables *tables, FILE *file);
} shells[] = {
    {"bash", "tenure", manual_bash_print},
    {"zsh", "_tenure", manual_zsh_print},
    {"fish", "tenure.fish", manual_fish_print},
};

enum { SHELLS_COUNT = sizeof(shells) / sizeof(shells[0]) };

/* ---- the tables ----------------------------------------------------------------------------- */

static manual_entry *entry_add(manual_tables *tables, const char *prefix, const char *command)
{
    if (tables->count == MANUAL_ENTRIES_MAX) {
        fputs("tenure manual: there are more commands than MANUAL_ENTRIES_MAX\n", stderr);
        exit(EXIT_CODE_CHECK_FAILED);
    }
    char *path = tables->paths[tables->count];
    snprintf(path, sizeof(tables->paths[0]), "%s%s", prefix, command);
    manual_entry *entry = &tables->entries[tables->count++];
    *entry = (manual_entry){.path = path};
    return entry;
}

static void on_group(void *context, const cli_group *group)
{
    entry_add(context, "", group->command)->group = group;
}

static void on_syntax(void *context, const cli_syntax *of)
{
    entry_add(context, "tenure ", of->command)->syntax = of;
}

int manual_takes_file(const cli_option *option)
{
    static const char *const words[] = {"FILE", "FOLDER", "DIR", "PATH", "HTML", "PLUGIN.so"};
    size_t bytes = option->argument ? strcspn(option->argument, "0123456789") : 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) == bytes && strncmp(option->argument, words[i], bytes) == 0)
            return 1;
    return 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Opens FOLDER/PART/NAME, making the folders. */
static FILE *file_create(const char *folder, const char *part, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", folder);
    if (mkdir(path, 0777) == 0 || errno == EEXIST) {
        snprintf(path, sizeof(path), "%s/%s", folder, part);
        if (mkdir(path, 0777) == 0 || errno == EEXIST) {
            snprintf(path, sizeof(path), "%s/%s/%s", folder, part, name);
            FILE *file = fopen(path, "w");
            if (file)
                return file;
        }
    }
    fprintf(stderr, "tenure manual: %s: %s\n", path, strerror(errno));
    return NULL;
}

static int file_finish(FILE *file, const char *folder)
{
    int failed = ferror(file);
    if (fclose(file) == 0 && !failed)
        return 0;
    fprintf(stderr, "tenure manual: %s: a file could not be written\n", folder);
    return -1;
}

static int pages_write(const manual_tables *tables, const char *folder)
{
    for (int i = 0; i < tables->count; i++) {
        char name[80];
        snprintf(name, sizeof(name), "%s.1", tables->entries[i].path);
        for (char *space = strchr(name, ' '); space; space = strchr(space, ' '))
            *space = '-';
        FILE *file = file_create(folder, "man1", name);
        if (!file)
            return -1;
        manual_page_print(tables, &tables->entries[i], file);
        if (file_finish(file, folder) != 0)
            return -1;
    }
    return 0;
}

static int completions_write(const manual_tables *tables, const char *folder)
{
    for (size_t i = 0; i < SHELLS_COUNT; i++) {
        FILE *file = file_create(folder, shells[i].name, shells[i].file);
        if (!file)
            return -1;
        shells[i].print(tables, file);
        if (file_finish(file, folder) != 0)
            return -1;
    }
    return 0;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int completion_print(const manual_tables *tables, const char *shell)
{
    for (size_t i = 0; i < SHELLS_COUNT; i++) {
        if (strcmp(shell, shells[i].name) == 0) {
            shells[i].print(tables, stdout);
            return EXIT_CODE_OK;
        }
    }
    return cli_usage_error(&syntax, "--completion must be bash, zsh or fish, not \"%s\"", shell);
}

static int page_print(const manual_tables *tables, int count, char **names)
{
    char path[64];
    int length = snprintf(path, sizeof(path), "tenure");
    for (int i = 0; i < count && length < (int)sizeof(path); i++)
        length += snprintf(path + length, sizeof(path) - (size_t)length, " %s", names[i]);
    for (int i = 0; i < tables->count; i++) {
        if (strcmp(tables->entries[i].path, path) == 0) {
            manual_page_print(tables, &tables->entries[i], stdout);
            return EXIT_CODE_OK;
        }
    }
    return cli_usage_error(&syntax, "there is no command \"%s\"", path);
}

int command_manual(int argc, char **argv)
{
    static manual_tables tables;
    cli_result parsed;
    if (cli_parse(&syntax, argc, argv, &parsed) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (parsed.help_wanted)
        return EXIT_CODE_OK;
    if ((completion_option != NULL) + (out_option != NULL) + (parsed.positionals_count > 0) > 1)
        return cli_usage_error(&syntax, "--completion, --out and a command exclude each other");
    cli_visit(&tenure_commands, &(cli_visitor){on_group, on_syntax, &tables});
    if (completion_option)
        return completion_print(&tables, completion_option);
    if (!out_option)
        return page_print(&tables, parsed.positionals_count, parsed.positionals);
    return pages_write(&tables, out_option) == 0 && completions_write(&tables, out_option) == 0
               ? EXIT_CODE_OK
               : EXIT_CODE_CHECK_FAILED;
}
