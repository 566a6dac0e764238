/* SPDX-License-Identifier: Apache-2.0 */
/* Text of a bounded length: see text.h. */
#include "check/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void check_text_add(check_text *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int added = vsnprintf(to->string + to->length, to->room - to->length, format, arguments);
    va_end(arguments);
    if (added > 0)
        to->length +=
            (size_t)added < to->room - to->length ? (size_t)added : to->room - to->length - 1;
}

/* How many bytes the character of UTF-8 has that begins here; 0: it is none. */
static size_t character_bytes(const unsigned char *from)
{
    size_t bytes = from[0] < 0x80   ? 1
                   : from[0] < 0xc2 ? 0
                   : from[0] < 0xe0 ? 2
                   : from[0] < 0xf0 ? 3
                   : from[0] < 0xf5 ? 4
                                    : 0;
    for (size_t i = 1; i < bytes; i++)
        if ((from[i] & 0xc0) != 0x80)
            return 0;
    if (bytes > 2) { /* too long for what it is, beyond the last one, or half a pair */
        unsigned two = (unsigned)from[0] << 8 | from[1];
        if (two < 0xe0a0 || (two >= 0xeda0 && two < 0xee00) || (two >= 0xf000 && two < 0xf090) ||
            two >= 0xf490)
            return 0;
    }
    return bytes;
}

void check_text_add_json(check_text *to, const char *from)
{
    check_text_add(to, "\"");
    for (size_t bytes; *from != '\0'; from += bytes == 0 ? 1 : bytes) {
        unsigned char one = (unsigned char)*from;
        bytes = character_bytes((const unsigned char *)from);
        if (bytes == 0)
            check_text_add(to, "\\ufffd");
        else if (one == '"' || one == '\\')
            check_text_add(to, "\\%c", one);
        else if (one < 32)
            check_text_add(to, "\\u%04x", one);
        else
            check_text_add(to, "%.*s", (int)bytes, from);
    }
    check_text_add(to, "\"");
}

int check_text_write(const check_text *from, int file)
{
    size_t done = 0;
    while (done < from->length) {
        ssize_t written = write(file, from->string + done, from->length - done);
        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0)
            done += (size_t)written;
    }
    return 0;
}
