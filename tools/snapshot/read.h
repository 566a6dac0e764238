/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a snapshot of any kind: Tenure's JSON, PyTorch's pickle, PyTorch's dictionary as JSON;
 * plain or gzip. The kind is seen from the first bytes and keys, never from the file's name.
 */
#ifndef TENURE_TOOLS_READ_H
#define TENURE_TOOLS_READ_H

#include <stddef.h>
#include <stdint.h>

#include "model.h"

enum { READ_ERROR_BYTES = 1024 };

typedef struct read_options {
    /* Called now and then with how much of the file has been read. May be null. */
    void (*on_progress)(void *context, uint64_t done, uint64_t total);
    void *context;
} read_options;

/* Why reading failed: the file, or the machine. */
typedef enum read_result { READ_OK, READ_BAD, READ_NO_MEMORY } read_result;

/* Reads the file into `result`, which model_start has prepared. On failure `error` says why in a
 * sentence and `result` is only to be released. */
read_result snapshot_read(model *result, const char *path, const read_options *options, char *error,
                          size_t error_bytes);

/* The same for bytes in memory that are not compressed. */
read_result snapshot_read_memory(model *result, const char *name, const void *bytes, size_t count,
                                 char *error, size_t error_bytes);

#endif
