/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a function: its name, where its parameters lie, and what they have held so far.
 * The driver tells the first two. It is asked once, because each parameter takes a call of its own.
 * All is forgotten when code is unloaded, also what it tells just then. Between check_enter and
 * check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_LAYOUT_H
#define TENURE_PRELOAD_CHECK_LAYOUT_H

#include "check/lanes.h"
#include "check/words.h"

/* How a parameter was, zero or not, at the launches so far. */
typedef struct check_zeros {
    uint8_t was_other; /* it was not zero, */
    uint8_t times;     /* or it was, so often; at most CHECK_ZEROS_MIN */
} check_zeros;

/* What a parameter has been to the launches that were given live memory alone, beside its zeros. */
typedef struct check_values {
    uint64_t choices; /* which numbers below 64 it was */
    /* Compared with the parameter before it, if both are numbers of one size or lead into one
     * block: it was more, as the end of a range is; or it was less, or led elsewhere. */
    uint8_t was_above, was_otherwise;
} check_values;

/* What a launch reads of one that is a word comes first: half a cache line. */
typedef struct check_parameter {
    uint32_t index, offset, bytes;
    uint8_t was_live;  /* it has led to a live block */
    check_zeros zeros; /* of one word */
    check_values values;
    check_words *words; /* what those of a larger one have held */
    check_lanes *lanes; /* what its numbers have been */
    const char *from;   /* where it lies in the reading that has this number */
    uint64_t read_in;
} check_parameter;

/* Parameters in which no address has room: most of them. The first so many are looked at. Those of
 * four bytes come first: that always were zero, CHECK_ZEROS_MIN times at least, and then those that
 * were something else. Little can be learned from them, and a launch looks at all of them at once:
 * if they are as at the launch before, what was learned then holds. */
enum { CHECK_NUMBERS_MAX = 64 };
typedef struct check_numbers {
    size_t zeros, others, count;
    uint64_t sum; /* of the others, at the last launch that was given live memory alone */
    uint8_t sum_is_known, sum_has_zero;
    uint16_t index[CHECK_NUMBERS_MAX]; /* of each of the list: all that most launches read */
    struct check_number {
        uint32_t offset, bytes;
        uint8_t has_before; /* the parameter before it is one of the list, of four bytes as this */
        check_zeros zeros;
        check_values values;
    } list[CHECK_NUMBERS_MAX];
} check_numbers;

/* What launches read lies together: each kernel's is read seldom enough to have left the cache. */
enum { CHECK_PARAMETERS_INSIDE = 4 };
typedef struct check_layout {
    struct check_layout *next; /* in the part */
    const void *function;
    const char *name; /* kept, since reports may come after the code is gone */
    int is_known;
    size_t large_count; /* parameters with words that are judged */
    size_t count, room;
    check_parameter *parameters;                     /* those in which an address has room */
    check_parameter inside[CHECK_PARAMETERS_INSIDE]; /* `parameters`, if few */
    check_numbers numbers;
} check_layout;

/* As often a parameter must have been zero, and never anything else, until it is taken for one that
 * always is. */
enum { CHECK_ZEROS_MIN = 8 };

/* Null: the function is not known. */
check_layout *check_layout_find(const void *function);

#endif
