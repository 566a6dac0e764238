/* SPDX-License-Identifier: Apache-2.0 */
/* See shown.h. */
#include "shown.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

int shown_is_harmless(const char *text, size_t *bytes)
{
    uint32_t character;
    *bytes = tnri_utf8_read(text, strnlen(text, 4), &character);
    int is_harmless = *bytes > 0 && tnri_utf8_is_seen(character);
    *bytes += *bytes == 0;
    return is_harmless;
}

/* Up to `end`, which is a zero byte or a newline. */
static void text_clean(char *text, const char *end)
{
    char *to = text;
    for (size_t bytes; text < end; text += bytes) {
        if (shown_is_harmless(text, &bytes)) {
            memmove(to, text, bytes);
            to += bytes;
        } else {
            *to++ = *text == '\n' || *text == '\t' ? ' ' : '?';
        }
    }
    memmove(to, end, strlen(end) + 1);
}

char *shown(char *text)
{
    text_clean(text, text + strlen(text));
    return text;
}

void say(FILE *file, const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    char *first = text + strspn(text, "\n"), *end = text + length;
    while (end > first && end[-1] == '\n')
        end--;
    text_clean(first, end);
    fputs(text, file);
    free(text);
}
