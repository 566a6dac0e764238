/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink: where a snapshot is written to, as a stream, so that no copy of it is ever in memory.
 *
 * A regular file is written beside its place under another name, and renamed at the end. If
 * anything goes wrong before, nothing is left behind and an old file is as it was. If the path is
 * there and is no regular file (a pipe, a device), it is written to directly. zlib compresses; it
 * is loaded when it is first wanted, and the library needs it only then.
 *
 * Errors are kept: after one nothing more is written, and tnri_sink_close returns it.
 */
#ifndef TNRI_SNAPSHOT_SINK_H
#define TNRI_SNAPSHOT_SINK_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/alloc.h>

enum { TNRI_SINK_BYTES = 1 << 18 };

struct tnri_deflater;

typedef struct tnri_sink {
    int file;
    int error;                      /* errno of the first failure; 0: none */
    const char *path;               /* the caller's, for error texts */
    char *place;                    /* the file to replace; null: written to directly */
    char *beside;                   /* what is written to meanwhile */
    struct tnri_deflater *deflater; /* null: not compressed */
    unsigned char *buffer;
    size_t used;
    uint64_t written;    /* bytes before compression */
    uint64_t file_bytes; /* that the file has, if it is a new one */
} tnri_sink;

/* Errors: TNR_ERR_FILE, TNR_ERR_HOST_MEMORY. */
tnr_status tnri_sink_open(tnri_sink *sink, const char *path, int is_gzip);
/* Completes the file, or with `give_up` removes it. */
tnr_status tnri_sink_close(tnri_sink *sink, int give_up);

/* Hands the buffer on. */
void tnri_sink_flush(tnri_sink *sink);

/* Room for `bytes` more in the buffer, at most a quarter of it. */
static inline unsigned char *tnri_sink_room(tnri_sink *sink, size_t bytes)
{
    if (TNRI_SINK_BYTES - sink->used < bytes)
        tnri_sink_flush(sink);
    return sink->buffer + sink->used;
}

void tnri_sink_bytes(tnri_sink *sink, const void *bytes, size_t count);
void tnri_sink_text(tnri_sink *sink, const char *text);
void tnri_sink_format(tnri_sink *sink, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A decimal number, of at most TNRI_NUMBER_BYTES. The first writes it into the sink; the second
 * writes it at `at` and returns the end. */
enum { TNRI_NUMBER_BYTES = 20 };
void tnri_sink_number(tnri_sink *sink, int64_t number);
unsigned char *tnri_number_put(unsigned char *at, int64_t number);

#endif
