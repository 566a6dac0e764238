/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes from files: see input.h. zlib reads both kinds; for a plain file it passes bytes through.
 */
#include "input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zlib.h>

/* Compressed snapshots decompress to 5 to 40 times their size. gzip itself can do a thousand. */
enum { EXPANDED_MIB = 64, EXPANDED_TIMES = 300 };

int input_fail(input *in, uint64_t offset, const char *format, ...)
{
    if (in->failed)
        return -1;
    in->failed = 1;
    char sentence[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    snprintf(in->error, sizeof(in->error), "%.200s: at byte %" PRIu64 ": %s", in->path, offset,
             sentence);
    return -1;
}

void input_doubt(input *in, const char *sentence)
{
    size_t length = strlen(in->error);
    snprintf(in->error + length, sizeof(in->error) - length, "; %s", sentence);
}

/* A complaint about the file as a whole. */
static int fail_whole(input *in, const char *what, const char *why)
{
    in->failed = 1;
    snprintf(in->error, sizeof(in->error), "%.200s: %s: %s", in->path, what, why);
    return -1;
}

int input_open(input *in, const char *path)
{
    memset(in, 0, sizeof(*in));
    in->path = path;
    struct stat about;
    if (stat(path, &about) != 0)
        return fail_whole(in, "cannot be opened", strerror(errno));
    if (S_ISDIR(about.st_mode))
        return fail_whole(in, "cannot be read", strerror(EISDIR));
    gzFile file = gzopen(path, "rb");
    if (!file)
        return fail_whole(in, "cannot be opened", errno ? strerror(errno) : "no host memory");
    in->file = file;
    gzbuffer(file, INPUT_BUFFER_BYTES);
    in->buffer = malloc(INPUT_BUFFER_BYTES);
    if (!in->buffer) {
        input_close(in);
        return fail_whole(in, "cannot be read", "no host memory");
    }
    in->file_bytes = S_ISREG(about.st_mode) ? (uint64_t)about.st_size : 0;
    in->size = S_ISREG(about.st_mode) && gzdirect(file) ? (uint64_t)about.st_size : UINT64_MAX;
    return 0;
}

void input_open_memory(input *in, const char *path, const void *bytes, size_t count)
{
    memset(in, 0, sizeof(*in));
    in->path = path;
    /* Never written to: only buffers that belong to a file are filled. */
    in->buffer = (unsigned char *)(uintptr_t)bytes;
    in->length = count;
    in->size = count;
}

void input_close(input *in)
{
    if (in->file) {
        gzclose((gzFile)in->file);
        free(in->buffer);
    }
    in->file = NULL;
    in->buffer = NULL;
    in->at = in->length = 0;
}

void input_earn(input *in, budget *limits)
{
    in->limits = limits;
    budget_begin_file(limits, in->file ? in->file_bytes : in->length);
    budget_earn(limits, in->length);
}

/* 1 if so much came out of a compressed file that it was made for that. */
static int is_expanded(const input *in)
{
    uint64_t made = in->before + in->length;
    return in->size == UINT64_MAX && in->file_bytes > 0 && made > (uint64_t)EXPANDED_MIB << 20 &&
           made / EXPANDED_TIMES > in->file_bytes;
}

int input_fill(input *in)
{
    if (in->at < in->length)
        return 1;
    if (!in->file)
        return 0;
    in->before += in->length;
    in->at = in->length = 0;
    int got = gzread((gzFile)in->file, in->buffer, INPUT_BUFFER_BYTES);
    if (got > 0) {
        in->length = (size_t)got;
        if (in->limits)
            budget_earn(in->limits, in->length);
        if (is_expanded(in))
            return input_fail(in, in->before,
                              "it decompresses to more than %d times its size, as no snapshot "
                              "does; if it is sound, decompress it first (gunzip)",
                              EXPANDED_TIMES);
        if (in->on_progress)
            in->on_progress(in->context, (uint64_t)gzoffset((gzFile)in->file), in->file_bytes);
        return 1;
    }
    int code = Z_OK;
    const char *why = gzerror((gzFile)in->file, &code);
    if (code == Z_ERRNO)
        return input_fail(in, in->before, "cannot be read: %s", strerror(errno));
    if (code == Z_BUF_ERROR)
        return input_fail(in, in->before, "the compressed data ends too early");
    if (got < 0 || code != Z_OK)
        return input_fail(in, in->before, "the compressed data is damaged (%s)", why);
    return 0;
}

uint64_t input_offset(const input *in)
{
    return in->before + in->at;
}

uint64_t input_left_max(const input *in)
{
    if (in->size == UINT64_MAX)
        return UINT64_MAX;
    uint64_t offset = input_offset(in);
    /* A file that grows while it is read may be beyond its size. */
    return in->size > offset ? in->size - offset : in->length - in->at;
}

int input_take(input *in, void *bytes, size_t count, const char *what)
{
    uint64_t offset = input_offset(in);
    unsigned char *to = bytes;
    while (count > 0) {
        int state = input_fill(in);
        if (state < 0)
            return -1;
        if (state == 0)
            return input_fail(in, offset, "the file ends inside %s", what);
        size_t part = in->length - in->at;
        if (part > count)
            part = count;
        memcpy(to, in->buffer + in->at, part);
        in->at += part;
        to += part;
        count -= part;
    }
    return 0;
}
