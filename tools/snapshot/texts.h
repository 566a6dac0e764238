/* SPDX-License-Identifier: Apache-2.0 */
/* Adding strings to a model that has been read: equal texts are one string. */
#ifndef TENURE_TOOLS_TEXTS_H
#define TENURE_TOOLS_TEXTS_H

#include "model.h"
#include "value.h"

typedef struct texts {
    model *out;
    value_heap heap; /* makes equal texts one */
    map64 strings;   /* a text of the heap -> string */
} texts;

/* Both return 0, or -1 without memory; to be released in both cases. */
int texts_start(texts *to, model *snapshot);
/* The string's number, 0 for an empty text. */
int texts_add(texts *to, const char *text, size_t length, uint32_t *number);
void texts_release(texts *to);

#endif
