/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a file that is there whole or not at all: see sink.h. */
#include "see/snapshot/sink.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/prim/file.h"
#include "base/host_memory.h"
#include "base/prim/process.h"
#include "see/snapshot/deflater.h"

/* ---- opening -------------------------------------------------------------------------------- */

static tnr_status file_error(const tnri_sink *sink, int number)
{
    char text[128];
    const char *said = tnri_system_text(number, text, sizeof(text));
    return tnri_error(TNR_ERR_FILE,
                      "cannot write snapshot %.300s: %s. No part of it is left there; choose "
                      "another folder or make room.",
                      sink->path, said);
}

static void sink_free(tnri_sink *sink)
{
    tnri_deflater_free(sink->deflater);
    tnri_host_free(sink->buffer, TNRI_SINK_BYTES);
    tnri_host_free(sink->place, TNRI_PATH_BYTES);
    tnri_host_free(sink->beside, TNRI_PATH_BYTES);
    sink->deflater = NULL;
    sink->buffer = NULL;
    sink->place = NULL;
    sink->beside = NULL;
}

/* Opens a new file beside the place; 0 or errno. */
static int beside_open(tnri_sink *sink)
{
    static _Atomic unsigned last;
    for (int attempt = 0; attempt < 16; attempt++) {
        int length = snprintf(sink->beside, TNRI_PATH_BYTES, "%s.%ld-%u.part", sink->place,
                              (long)tnri_process_id(), ++last);
        if (length < 0 || length >= TNRI_PATH_BYTES)
            return ENAMETOOLONG;
        sink->file =
            tnri_file_open(TNRI_FOLDER_OWN, sink->beside, TNRI_FILE_WRITE | TNRI_FILE_NEW, 0666);
        if (sink->file >= 0)
            return 0;
        if (errno != EEXIST)
            return errno;
    }
    return EEXIST;
}

/* 0 or errno. */
static int file_open(tnri_sink *sink)
{
    tnri_file_facts there;
    if (tnri_path_ask(sink->path, &there) && !there.is_regular) {
        tnri_host_free(sink->place, TNRI_PATH_BYTES);
        sink->place = NULL;
        sink->file = tnri_file_open(TNRI_FOLDER_OWN, sink->path, TNRI_FILE_WRITE, 0);
        return sink->file < 0 ? errno : 0;
    }
    if (strlen(sink->path) >= TNRI_PATH_BYTES)
        return ENAMETOOLONG;
    /* What a symbolic link leads to is replaced, not the link. */
    if (!tnri_path_real(sink->path, sink->place))
        snprintf(sink->place, TNRI_PATH_BYTES, "%s", sink->path);
    return beside_open(sink);
}

tnr_status tnri_sink_open(tnri_sink *sink, const char *path, int is_gzip)
{
    memset(sink, 0, sizeof(*sink));
    sink->file = -1;
    sink->path = path;
    sink->buffer = tnri_host_alloc(TNRI_SINK_BYTES);
    sink->place = tnri_host_alloc(TNRI_PATH_BYTES);
    sink->beside = tnri_host_alloc(TNRI_PATH_BYTES);
    tnr_status status = TNR_OK;
    if (sink->buffer == NULL || sink->place == NULL || sink->beside == NULL)
        status = tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to write a snapshot with.");
    if (status == TNR_OK && is_gzip)
        status = tnri_deflater_make(&sink->deflater);
    if (status == TNR_OK) {
        int number = file_open(sink);
        if (number != 0)
            status = file_error(sink, number);
    }
    if (status != TNR_OK)
        sink_free(sink);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Writes all of it, or keeps the error. */
static void file_write(void *user, const unsigned char *bytes, size_t count)
{
    tnri_sink *sink = user;
    if (sink->place != NULL && sink->error == 0)
        sink->error = tnri_file_limit(sink->file_bytes += count);
    while (count > 0 && sink->error == 0) {
        int64_t written = tnri_file_write(sink->file, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            sink->error = written < 0 ? errno : ENOSPC;
            break;
        }
        bytes += written;
        count -= (size_t)written;
    }
}

void tnri_sink_flush(tnri_sink *sink)
{
    sink->written += sink->used;
    if (sink->deflater != NULL)
        tnri_deflater_add(sink->deflater, sink->buffer, sink->used, file_write, sink);
    else
        file_write(sink, sink->buffer, sink->used);
    sink->used = 0;
}

void tnri_sink_bytes(tnri_sink *sink, const void *bytes, size_t count)
{
    const unsigned char *from = bytes;
    while (count > 0) {
        size_t piece = count < TNRI_SINK_BYTES / 4 ? count : TNRI_SINK_BYTES / 4;
        memcpy(tnri_sink_room(sink, piece), from, piece);
        sink->used += piece;
        from += piece;
        count -= piece;
    }
}

void tnri_sink_text(tnri_sink *sink, const char *text)
{
    tnri_sink_bytes(sink, text, strlen(text));
}

void tnri_sink_format(tnri_sink *sink, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    tnri_assert(length >= 0 && (size_t)length < sizeof(text));
    tnri_sink_bytes(sink, text, (size_t)length);
}

unsigned char *tnri_number_put(unsigned char *to, int64_t number)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char text[24];
    char *at = text + sizeof(text);
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    while (rest >= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (rest % 100), 2);
        rest /= 100;
    }
    if (rest >= 10) {
        at -= 2;
        memcpy(at, pairs + 2 * rest, 2);
    } else {
        *--at = (char)('0' + rest);
    }
    if (number < 0)
        *--at = '-';
    size_t length = (size_t)(text + sizeof(text) - at);
    memcpy(to, at, length);
    return to + length;
}

void tnri_sink_number(tnri_sink *sink, int64_t number)
{
    unsigned char *at = tnri_sink_room(sink, TNRI_NUMBER_BYTES);
    sink->used += (size_t)(tnri_number_put(at, number) - at);
}

/* ---- the end -------------------------------------------------------------------------------- */

tnr_status tnri_sink_close(tnri_sink *sink, int give_up)
{
    if (!give_up) {
        tnri_sink_flush(sink);
        if (sink->deflater != NULL)
            tnri_deflater_end(sink->deflater, file_write, sink);
    }
    int error = tnri_file_close(sink->file);
    if (sink->error == 0)
        sink->error = error;
    int is_whole = !give_up && sink->error == 0;
    if (is_whole && sink->place != NULL &&
        !tnri_name_move(TNRI_FOLDER_OWN, sink->beside, sink->place)) {
        sink->error = errno;
        is_whole = 0;
    }
    if (!is_whole && sink->place != NULL)
        (void)tnri_name_remove(TNRI_FOLDER_OWN, sink->beside);
    tnr_status status = sink->error == 0 ? TNR_OK : file_error(sink, sink->error);
    sink_free(sink);
    return status;
}
