/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing files: see output.h. zlib does both kinds of writing: in its transparent mode it only
 * passes bytes on.
 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "base/json.h"

static int fail(output *out, const char *what, int code)
{
    if (!out->failed)
        snprintf(out->error, sizeof(out->error), "%.200s: %s: %s", out->path, what,
                 code ? strerror(code) : "no host memory");
    out->failed = 1;
    return -1;
}

int output_wants_gzip(const char *path)
{
    size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".gz") == 0;
}

/* A new file beside the target, readable as files usually are. Returns its descriptor. */
static int temporary_open(output *out)
{
    if (asprintf(&out->temporary, "%s.XXXXXX", out->path) < 0) {
        out->temporary = NULL;
        return -1;
    }
    int fd = mkstemp(out->temporary);
    if (fd < 0) {
        int code = errno;
        free(out->temporary);
        out->temporary = NULL;
        errno = code;
        return -1;
    }
    mode_t mask = umask(0);
    umask(mask);
    (void)fchmod(fd, 0666 & ~mask);
    return fd;
}

static void start(output *out, const char *path)
{
    out->path = path;
    out->file = NULL;
    out->temporary = NULL;
    out->length = 0;
    out->written_bytes = 0;
    out->failed = 0;
    out->error[0] = '\0';
}

static int fd_take(output *out, int fd, int compress)
{
    if (fd < 0)
        return fail(out, "cannot be written", errno);
    /* Level 3: within a few per cent of the size of level 6 for such tables, at twice the speed. */
    out->file = gzdopen(fd, compress ? "wb3" : "wbT");
    if (out->file)
        return 0;
    close(fd);
    return fail(out, "cannot be written", 0);
}

int output_open_fd(output *out, int fd, int compress)
{
    start(out, "a temporary file");
    return fd_take(out, fd, compress);
}

int output_open(output *out, const char *path, int compress)
{
    struct stat about;
    int fd;
    start(out, path);
    errno = 0;
    if (strcmp(path, "-") == 0)
        fd = dup(STDOUT_FILENO);
    else if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return fail(out, "cannot be written", EISDIR);
    else if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        fd = open(path, O_WRONLY | O_CLOEXEC); /* a device or a pipe has no name to take over */
    else
        fd = temporary_open(out);
    return fd_take(out, fd, compress) == 0 ? 0 : output_close(out, 0);
}

static void flush(output *out)
{
    errno = 0;
    if (out->length > 0 && !out->failed &&
        gzwrite((gzFile)out->file, out->buffer, (unsigned)out->length) != (int)out->length)
        fail(out, "cannot be written", errno ? errno : EIO);
    out->written_bytes += out->length;
    out->length = 0;
}

int output_close(output *out, int keep)
{
    if (keep)
        flush(out);
    errno = 0;
    if (out->file && gzclose((gzFile)out->file) != Z_OK && keep)
        fail(out, "cannot be written", errno ? errno : EIO);
    out->file = NULL;
    if (out->temporary) {
        if (keep && !out->failed && rename(out->temporary, out->path) != 0)
            fail(out, "cannot be put in its place", errno);
        if (!keep || out->failed)
            (void)unlink(out->temporary);
        free(out->temporary);
        out->temporary = NULL;
    }
    return out->failed ? -1 : 0;
}

void output_bytes(output *out, const void *bytes, size_t count)
{
    const char *from = bytes;
    while (count > 0) {
        size_t part = OUTPUT_BUFFER_BYTES - out->length;
        part = part < count ? part : count;
        memcpy(out->buffer + out->length, from, part);
        out->length += part;
        from += part;
        count -= part;
        if (out->length == OUTPUT_BUFFER_BYTES)
            flush(out);
    }
}

void output_text(output *out, const char *text)
{
    output_bytes(out, text, strlen(text));
}

void output_unsigned(output *out, uint64_t number)
{
    char digits[24];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    output_bytes(out, digits + at, sizeof(digits) - at);
}

void output_signed(output *out, int64_t number)
{
    if (number < 0)
        output_bytes(out, "-", 1);
    output_unsigned(out, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

/* A page must not find the end of its element in a text. */
static void json_put(void *to, const char *bytes, size_t count)
{
    for (const char *found; (found = memchr(bytes, '<', count)); bytes = found + 1) {
        output_bytes(to, bytes, (size_t)(found - bytes));
        output_text(to, "\\u003c");
        count -= (size_t)(found + 1 - bytes);
    }
    output_bytes(to, bytes, count);
}

void output_json_part(output *out, const char *text)
{
    tnri_json_part(json_put, out, text);
}

void output_json_text(output *out, const char *text)
{
    tnri_json_quote(json_put, out, text);
}
