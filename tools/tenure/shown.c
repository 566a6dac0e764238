/* SPDX-License-Identifier: Apache-2.0 */
/* See shown.h. */
#include "shown.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The character at `text`, and its length; 0: it is not UTF-8. */
static size_t character_read(const unsigned char *text, uint32_t *character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = text[0] < 0x80   ? 1
                   : text[0] < 0xc2 ? 0
                   : text[0] < 0xe0 ? 2
                   : text[0] < 0xf0 ? 3
                   : text[0] < 0xf5 ? 4
                                    : 0;
    *character = bytes == 1 ? text[0] : text[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *character = *character << 6 | (text[i] & 0x3f);
    }
    int is_half = *character >= 0xd800 && *character <= 0xdfff;
    return *character < least[bytes] || is_half || *character > 0x10ffff ? 0 : bytes;
}

int shown_is_harmless(const char *text, size_t *bytes)
{
    /* Controls; what is not seen, breaks lines or turns the direction; and marks of other kinds. */
    static const uint32_t harmful[][2] = {{0x00, 0x1f},     {0x7f, 0x9f},      {0xad, 0xad},
                                          {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                                          {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                                          {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    uint32_t character;
    *bytes = character_read((const unsigned char *)text, &character);
    int is_harmless = *bytes > 0;
    for (size_t i = 0; i < sizeof(harmful) / sizeof(harmful[0]); i++)
        is_harmless &= character < harmful[i][0] || character > harmful[i][1];
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
