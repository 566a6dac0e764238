/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manual page from a table. The help's free text is read as it is written: paragraphs, which man
 * fills anew; lines that begin with blanks, which stay as they are; and "Exit codes: ..." and
 * "Word:" at the beginning of a paragraph.
 */
#include "manual.h"

#include <string.h>

#include <tenure/alloc.h>

/* ---- text ----------------------------------------------------------------------------------- */

/* For troff: nothing in it is a request or an escape. */
static void text_print(const char *text, size_t bytes, FILE *file)
{
    if (bytes > 0 && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", file);
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\\')
            fputs("\\e", file);
        else if (text[i] == '-')
            fputs("\\-", file);
        else if (text[i] == '\'')
            fputs("\\(aq", file);
        else if (text[i] == '`')
            fputs("\\(ga", file);
        else
            fputc(text[i], file);
    }
}

static void line_print(const char *text, FILE *file)
{
    text_print(text, strlen(text), file);
    fputc('\n', file);
}

/* Lines, each printed by itself: man fills them. */
static void lines_print(const char *text, FILE *file)
{
    while (*text) {
        size_t bytes = strcspn(text, "\n");
        text_print(text, bytes, file);
        fputc('\n', file);
        text += bytes + (text[bytes] == '\n');
    }
}

static void heading_print(const char *title, FILE *file)
{
    fprintf(file, ".SH %s\n", title);
}

/* What the description is read in. */
typedef struct description {
    FILE *file;
    int is_kept;   /* inside lines that stay as they are */
    int has_title; /* a section was begun */
    int is_first;  /* nothing stands below its title */
    int is_apart;  /* an empty line came before */
} description;

static void kept_set(description *to, int is_kept)
{
    if (to->is_kept != is_kept)
        fputs(!is_kept ? ".fi\n" : to->is_first ? ".nf\n" : ".PP\n.nf\n", to->file);
    to->is_kept = is_kept;
}

static void section_begin(description *to, const char *title)
{
    kept_set(to, 0);
    heading_print(title, to->file);
    to->has_title = to->is_first = 1;
    to->is_apart = 0;
}

static void description_line(description *to, const char *line, size_t bytes)
{
    static const char codes[] = "Exit codes:", examples[] = "Examples:";
    if (bytes == 0) {
        to->is_apart = 1;
        return;
    }
    if (bytes == sizeof(examples) - 1 && strncmp(line, examples, bytes) == 0) {
        section_begin(to, "EXAMPLES");
        return;
    }
    if (bytes >= sizeof(codes) - 1 && strncmp(line, codes, sizeof(codes) - 1) == 0) {
        section_begin(to, "EXIT STATUS");
        line += sizeof(codes) - 1;
        bytes -= sizeof(codes) - 1;
        for (; bytes > 0 && *line == ' '; bytes--)
            line++;
        if (bytes == 0)
            return;
    } else if (!to->has_title) {
        section_begin(to, "DESCRIPTION");
    }
    int is_kept = line[0] == ' ';
    if (to->is_apart)
        fputs(to->is_kept && is_kept ? "\n" : is_kept || to->is_kept ? "" : ".PP\n", to->file);
    if (to->is_kept && !is_kept) {
        kept_set(to, 0);
        fputs(".PP\n", to->file);
    }
    kept_set(to, is_kept);
    to->is_apart = to->is_first = 0;
    text_print(line, bytes, to->file);
    fputc('\n', to->file);
}

static void description_print(const char *text, FILE *file)
{
    description to = {.file = file};
    while (text && *text) {
        size_t bytes = strcspn(text, "\n");
        description_line(&to, text, bytes);
        text += bytes + (text[bytes] == '\n');
    }
    kept_set(&to, 0);
}

/* ---- the page ------------------------------------------------------------------------------- */

/* "tenure snapshot convert" as the page is called; in capitals if wanted. */
static void name_print(const char *path, int in_capitals, FILE *file)
{
    for (; *path; path++) {
        int is_lower = *path >= 'a' && *path <= 'z';
        if (*path == ' ')
            fputs("\\-", file);
        else
            fputc(in_capitals && is_lower ? *path - 'a' + 'A' : *path, file);
    }
}

static void head_print(const manual_entry *entry, const char *summary, FILE *file)
{
    fprintf(file, ".\\\" Written by `tenure manual`, from the command's own tables.\n.TH ");
    name_print(entry->path, 1, file);
    fprintf(file, " 1 \"\" \"tenure %d.%d.%d\" \"Tenure\"\n", TNR_VERSION_MAJOR, TNR_VERSION_MINOR,
            TNR_VERSION_PATCH);
    heading_print("NAME", file);
    name_print(entry->path, 0, file);
    fputs(" \\- ", file);
    line_print(summary, file);
    heading_print("SYNOPSIS", file);
}

static void option_print(const char *name, const char *argument, const char *help, FILE *file)
{
    fputs(".TP\n\\fB\\-\\-", file);
    text_print(name, strlen(name), file);
    fputs("\\fR", file);
    if (argument) {
        fputs(" \\fI", file);
        text_print(argument, strlen(argument), file);
        fputs("\\fR", file);
    }
    fputc('\n', file);
    lines_print(help, file);
}

static void syntax_print(const manual_entry *entry, FILE *file)
{
    head_print(entry, entry->syntax->summary, file);
    for (const char *form = entry->syntax->usage; *form; form += *form == '\n') {
        size_t length = strcspn(form, "\n");
        fprintf(file, "%s.B %s\n", form == entry->syntax->usage ? "" : ".br\n", entry->path);
        text_print(form, length, file);
        fputc('\n', file);
        form += length;
    }
    heading_print("OPTIONS", file);
    for (const cli_option *option = entry->syntax->options; option->name; option++)
        option_print(option->name, option->argument, option->help, file);
    option_print("help", NULL, "what is on this page, shorter", file);
    description_print(entry->syntax->description, file);
}

static void group_print(const manual_entry *entry, FILE *file)
{
    head_print(entry, entry->group->summary, file);
    fprintf(file, ".B %s\nCOMMAND [options]\n", entry->path);
    heading_print("COMMANDS", file);
    for (const cli_command *command = entry->group->commands; command->name; command++) {
        fprintf(file, ".TP\n.B %s\n", command->name);
        line_print(command->summary, file);
    }
    description_print(entry->group->description, file);
}

/* The page above, and those right below. */
static void others_print(const manual_tables *tables, const manual_entry *entry, FILE *file)
{
    size_t length = strlen(entry->path);
    int count = 0;
    heading_print("SEE ALSO", file);
    for (int i = 0; i < tables->count; i++) {
        const char *path = tables->entries[i].path;
        size_t bytes = strlen(path);
        int is_above =
            bytes < length && strncmp(path, entry->path, bytes) == 0 && entry->path[bytes] == ' ';
        int is_below = bytes > length && strncmp(path, entry->path, length) == 0 &&
                       path[length] == ' ' && !strchr(path + length + 1, ' ');
        if (!is_above && !is_below)
            continue;
        fputs(count++ > 0 ? ",\n.BR " : ".BR ", file);
        name_print(path, 0, file);
        fputs(" (1)", file);
    }
    fputs("\n", file);
}

void manual_page_print(const manual_tables *tables, const manual_entry *entry, FILE *file)
{
    if (entry->syntax)
        syntax_print(entry, file);
    else
        group_print(entry, file);
    others_print(tables, entry, file);
}
