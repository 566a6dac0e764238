/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request: one line of JSON, an object. Its fields have texts, whole numbers, true, false or
 * null; one has a list of texts. docs/control.md lists the fields.
 *
 * The reader is strict, because anybody may have written the line. It refuses, with a sentence,
 * what is no JSON, and a field that the command does not know, that comes twice or has another
 * type. It works in place: texts are decoded where they stand in the line. It does not use yajl,
 * with which the command reads: for a line without nesting, that would be one more library in every
 * process that loads Tenure.
 */
#ifndef TNRI_CONTROL_REQUEST_H
#define TNRI_CONTROL_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/sleep.h>

enum { TNRI_REQUEST_TAGS_MAX = 64, TNRI_CONTROL_PROTOCOL = 1 };

typedef enum tnri_command {
    TNRI_COMMAND_STATUS,
    TNRI_COMMAND_SLEEP,
    TNRI_COMMAND_WAKE,
    TNRI_COMMAND_TRIM,
    TNRI_COMMAND_COMPACT,
    TNRI_COMMAND_LIMIT,
    TNRI_COMMAND_SNAPSHOT,
    TNRI_COMMAND_SETTINGS,
    TNRI_COMMAND_COUNT
} tnri_command;

typedef struct tnri_control_request {
    tnri_command command;
    int has_id, has_device, has_bytes;
    int has_streams; /* status tells of streams, too */
    int has_account; /* and of the account */
    uint64_t id;
    const char *tags[TNRI_REQUEST_TAGS_MAX]; /* tags_count of them; none: not by tag */
    size_t tags_count;
    uint64_t device;
    tnr_content content;
    int keep_backing;
    uint64_t pinned_bytes_max;
    uint64_t bytes;     /* UINT64_MAX: null, no limit */
    const char *format; /* null: not given; likewise: */
    const char *set;
} tnri_control_request;

const char *tnri_command_name(tnri_command command);

/* Reads a line, which ends in a zero byte and is `length` bytes long without it. Writes into the
 * line. 0: `error` says what is wrong; the request has its id if that was read before. */
int tnri_request_read(tnri_control_request *request, char *line, size_t length, char *error,
                      size_t error_bytes);

#endif
