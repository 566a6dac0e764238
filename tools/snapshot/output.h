/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file being written: all of it or nothing. Bytes go to a temporary file beside the target. It
 * takes the target's place only when everything is on the disk. "-" is standard output. An error is
 * kept until the end, so writers need not check each step.
 */
#ifndef TENURE_TOOLS_OUTPUT_H
#define TENURE_TOOLS_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

enum { OUTPUT_BUFFER_BYTES = 1 << 16, OUTPUT_ERROR_BYTES = 1024 };

typedef struct output {
    const char *path;
    void *file;             /* a gzFile */
    char *temporary;        /* the temporary file's name; null if the target is written directly */
    size_t length;          /* of what waits in `buffer` */
    uint64_t written_bytes; /* before compression */
    int failed;
    char error[OUTPUT_ERROR_BYTES];
    char buffer[OUTPUT_BUFFER_BYTES];
} output;

/* Compresses with gzip if `compress` is 1. Returns 0, or -1 with a sentence in `error`. */
int output_open(output *out, const char *path, int compress);
/* The same for an open descriptor, which this takes over. */
int output_open_fd(output *out, int fd, int compress);
/* Completes the file. If something failed or `keep` is 0, removes what was written. Returns 0 if
 * the file is there now, or -1 with a sentence in `error`. */
int output_close(output *out, int keep);

/* 1 if the name says that the file is to be compressed. */
int output_wants_gzip(const char *path);

void output_bytes(output *out, const void *bytes, size_t count);
void output_text(output *out, const char *text);
void output_unsigned(output *out, uint64_t number);
void output_signed(output *out, int64_t number);
/* A string of JSON with its quotes. The text must be valid UTF-8. '<' is written as an escape, so
 * that the JSON can stand inside HTML, whatever its texts are. */
void output_json_text(output *out, const char *text);
/* The same without the quotes: one part of a string. */
void output_json_part(output *out, const char *text);

#endif
