/* SPDX-License-Identifier: Apache-2.0 */
/* Text of a bounded length: see text.h. */
#include "check/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"

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

static void text_put(void *to, const char *bytes, size_t count)
{
    check_text_add(to, "%.*s", (int)count, bytes);
}

void check_text_add_json(check_text *to, const char *from)
{
    tnri_json_quote(text_put, to, from);
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
