/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From values to the model: what both kinds of documents need. Each function checks what it takes.
 * If it finds something else, it says in which place of the document, and what was expected.
 */
#ifndef TENURE_TOOLS_DECODE_H
#define TENURE_TOOLS_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "map64.h"
#include "model.h"
#include "value.h"

#define DECODE_NUMBER_MAX ((INT64_C(1) << 62) - 1)

typedef struct decoder {
    const char *path; /* of the file, for messages */
    value_heap *heap;
    model *out;
    map64 texts; /* value_text -> string */
    char *error; /* room for error_bytes */
    size_t error_bytes;
    /* What was taken while the document was read; null where there was nothing to take. */
    struct tenure_history *history;
    struct torch_reader *torch;
} decoder;

/* A place in the document, for messages: "pools[3]". */
typedef struct place {
    const char *name;
    size_t index; /* PLACE_WHOLE: no index */
} place;

#define PLACE_WHOLE SIZE_MAX

/* These return 0, or -1 with "path: place: sentence" in `error`. */

__attribute__((format(printf, 3, 4))) int decode_fail(decoder *from, place at, const char *format,
                                                      ...);
/* No memory: says whose. */
int decode_fail_memory(decoder *from);

/* dict[key], which must exist and be of the kind. */
int decode_list(decoder *from, place at, value dict, const char *key, const value_list **list);
int decode_dict(decoder *from, place at, value dict, const char *key, value *result);
int decode_text(decoder *from, place at, value dict, const char *key, const char **text);
int decode_boolean(decoder *from, place at, value dict, const char *key, int *truth);
/* A whole number from 0 to DECODE_NUMBER_MAX. */
int decode_count(decoder *from, place at, value dict, const char *key, uint64_t *number);
/* The same, but null is -1. */
int decode_count_or_null(decoder *from, place at, value dict, const char *key, int64_t *number);

/* A copy that belongs to the model but is none of its strings. Null without memory. */
const char *decode_text_copy(decoder *from, const value_text *text);

/* The number of this text among the model's strings. -1 without memory. */
int64_t decode_string(decoder *from, const value_text *text);

/* Checks the element of a list. */
int decode_is(decoder *from, place at, value any, value_kind kind);

/* The two documents. `whole` is a dictionary. */
int decode_tenure(decoder *from, value whole);
int decode_torch(decoder *from, value whole);

/* Take the history of either document while it is read, because it is nearly all of a large file.
 * See value_taker; its context is the decoder. */
int decode_tenure_begin(void *context, const value *keys, const value *pairs, size_t count);
int decode_tenure_row(void *context, const value *cells, size_t count);
int decode_torch_items(void *context, const value *path, size_t depth, const value *items,
                       size_t count);
void decode_tenure_release(decoder *from);
void decode_torch_release(decoder *from);

#endif
