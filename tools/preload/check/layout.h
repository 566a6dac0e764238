/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a function: its name, where its parameters lie, and what they have held so far.
 * The driver tells the first two. It is asked once, because each parameter takes a call of its own.
 * All is forgotten when code is unloaded. Between check_enter and check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_LAYOUT_H
#define TENURE_PRELOAD_CHECK_LAYOUT_H

#include "check/words.h"

typedef struct check_parameter {
    size_t index, offset, bytes;
    check_words *words; /* what those of a larger one have held */
    uint8_t has_word;   /* an address has room in it: in most there are sizes and numbers */
    uint8_t was_live;   /* it has led to a live block */
    uint8_t was_other;  /* of one without words, or of one word: it was not zero, */
    uint8_t zeros;      /* or it was, so often; at most CHECK_ZEROS_MIN */
} check_parameter;

typedef struct check_layout {
    struct check_layout *next; /* in the part */
    const void *function;
    const char *name; /* kept, since reports may come after the code is gone */
    int is_known;
    size_t large_count; /* parameters with words that are judged */
    size_t count, room;
    check_parameter *parameters;
} check_layout;

/* As often a parameter must have been zero, and never anything else, until it is taken for one that
 * always is. */
enum { CHECK_ZEROS_MIN = 8 };

/* Null: the function is not known. */
check_layout *check_layout_find(const void *function);

#endif
