/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file read as a stream of bytes, plain or gzip. This is also the one place where a reader says
 * what is wrong with the file.
 *
 * For a plain file it is known how much is left, for a compressed one it is not. Readers ask for
 * that before they believe a length that the file states.
 */
#ifndef TENURE_TOOLS_INPUT_H
#define TENURE_TOOLS_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "budget.h"

enum { INPUT_BUFFER_BYTES = 1 << 16, INPUT_ERROR_BYTES = 1024 };

typedef struct input {
    const char *path;      /* as the user wrote it; the caller's */
    void *file;            /* a gzFile, or null for bytes in memory */
    unsigned char *buffer; /* in which [at, length) has not been taken */
    size_t at, length;
    uint64_t before;     /* bytes of the stream before the buffer's first */
    uint64_t size;       /* of the whole stream, or UINT64_MAX where compression hides it */
    uint64_t file_bytes; /* as it lies on the disk, 0 if unknown */
    /* Called now and then with how much of file_bytes has been read. May be null. */
    void (*on_progress)(void *context, uint64_t done, uint64_t total);
    void *context;
    budget *limits; /* earns by what is read; may be null */
    int failed;     /* input_fail was called: the first complaint stands */
    char error[INPUT_ERROR_BYTES];
} input;

/* Opens a file. Returns 0, or -1 with a sentence in `error`. */
int input_open(input *in, const char *path);
/* The same for bytes in memory, which must stay. */
void input_open_memory(input *in, const char *path, const void *bytes, size_t count);
void input_close(input *in);

/* Lets a budget earn by what is read from here on. What is already in the buffer counts, too. */
void input_earn(input *in, budget *limits);

/* Fills the buffer if all of it has been taken. Returns 1 if there is a byte, 0 at the end. Returns
 * -1, with a sentence in `error`, if the file cannot be read, or if it decompresses to hundreds of
 * times its size. */
int input_fill(input *in);

/* The place of the next byte, counted from 0. */
uint64_t input_offset(const input *in);

/* The most bytes that can follow: exact for plain files. */
uint64_t input_left_max(const input *in);

/* Takes exactly `count` bytes. Returns 0, or -1 after a complaint that names `what`. */
int input_take(input *in, void *bytes, size_t count, const char *what);

/* Puts "path: at byte OFFSET: sentence" into `error`, unless `error` has a text already. Always
 * returns -1. */
__attribute__((format(printf, 3, 4))) int input_fail(input *in, uint64_t offset, const char *format,
                                                     ...);

/* Adds a sentence to the complaint that is there. */
void input_doubt(input *in, const char *sentence);

#endif
