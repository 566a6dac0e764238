/* SPDX-License-Identifier: Apache-2.0 */
/* See wrap.h. */
#include "wrap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LEAST = 20, MOST = 100, USUAL = 80 };

int wrap_width(FILE *file)
{
    const char *said = getenv("COLUMNS");
    struct winsize size;
    long width = said ? strtol(said, NULL, 10) : 0;
    if (width <= 0 && ioctl(fileno(file), TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    if (width <= 0)
        width = USUAL;
    return (int)(width < LEAST ? LEAST : width > MOST ? MOST : width);
}

void wrap_words(FILE *file, const char *text, size_t bytes, int column, int indent, int width)
{
    const char *end = text + bytes;
    int is_first = 1;
    while (text < end) {
        size_t blank = strspn(text, " \n"), length;
        text += blank;
        if (text >= end)
            break;
        length = strcspn(text, " \n");
        if (length > (size_t)(end - text))
            length = (size_t)(end - text);
        if (!is_first && column + 1 + (int)length > width) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
        } else if (!is_first) {
            fputc(' ', file);
            column++;
        }
        fwrite(text, 1, length, file);
        column += (int)length;
        text += length;
        is_first = 0;
    }
    fputc('\n', file);
}

/* Where a line that begins with a blank goes on: below what stands behind its first gap. */
static int hanging_indent(const char *line, size_t bytes, int width)
{
    size_t at = strspn(line, " ");
    for (size_t i = at; i + 2 < bytes && i < (size_t)width / 2; i++)
        if (line[i] == ' ' && line[i + 1] == ' ') {
            while (i < bytes && line[i] == ' ')
                i++;
            return (int)i;
        }
    return (int)at;
}

static void long_line_print(FILE *file, const char *line, size_t bytes, int width)
{
    int indent = hanging_indent(line, bytes, width);
    fwrite(line, 1, (size_t)indent, file);
    wrap_words(file, line + indent, bytes - (size_t)indent, indent, indent, width);
}

void wrap_lines(FILE *file, const char *text, int width)
{
    while (*text != '\0') {
        size_t bytes = 0, longest = 0, line = 0;
        int is_kept = *text == ' ' || *text == '\n';
        /* A paragraph, or one line that stands for itself. */
        do {
            line = strcspn(text + bytes, "\n");
            longest = line > longest ? line : longest;
            bytes += line + (text[bytes + line] == '\n');
        } while (!is_kept && text[bytes] != '\0' && text[bytes] != ' ' && text[bytes] != '\n');
        if (longest <= (size_t)width)
            fwrite(text, 1, bytes, file);
        else if (is_kept)
            long_line_print(file, text, line, width);
        else
            wrap_words(file, text, bytes, 0, 0, width);
        text += bytes;
    }
}
