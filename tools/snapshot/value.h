/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data without a schema: what a pickle or a JSON text holds, before its meaning is known.
 *
 * A value is one word: a tag in its lowest three bits, and a small number or a pointer. Texts are
 * interned, so equal ones are the same pointer. A dictionary stores only its values. Its keys are a
 * shape, and all dictionaries that got the same keys in the same order share it. So a million trace
 * records of nine keys take 88 bytes each instead of several hundred.
 *
 * Values form a graph: a list may be in many lists, or in itself. Code that walks one must bound
 * the walk. Everything lives in one store and is freed with it.
 */
#ifndef TENURE_TOOLS_VALUE_H
#define TENURE_TOOLS_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "budget.h"

typedef uint64_t value;

typedef enum value_kind {
    VALUE_NONE,
    VALUE_FALSE,
    VALUE_TRUE,
    VALUE_INT, /* a whole number from -2^63 to 2^64 - 1 */
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_LIST, /* of pickles and JSON */
    VALUE_TUPLE,
    VALUE_DICT,
} value_kind;

enum {
    VALUE_DEPTH_MAX = 200, /* of lists in lists */
    VALUE_KEYS_MAX = 512,  /* of one dictionary */
    /* All shapes together: the lists of keys that any dictionary has had. A snapshot has some
     * hundreds. To find that a key is new, all keys before it are compared. */
    VALUE_SHAPES_MAX = 65536,
    VALUE_PAIRS = 64,
    VALUE_SPARE_MAX = 1024, /* items of lists that are kept for the next list as long */
};

/* An interned text. It ends in a zero byte that is not counted; it may contain others. */
typedef struct value_text {
    struct value_text *next; /* in its bucket */
    uint32_t hash;
    uint32_t length;
    char bytes[];
} value_text;

/* A list or a tuple. */
typedef struct value_list {
    value *items;
    uint32_t count, capacity;
    uint32_t known; /* what a decoder made of it, plus 1; 0: nothing yet */
    uint8_t depth;  /* 1 more than that of the deepest thing put in */
} value_list;

/* The keys of dictionaries: this key after those of `parent`. */
typedef struct value_shape {
    struct value_shape *parent; /* null for the shape without keys */
    struct value_shape *next;   /* in its bucket */
    const value_text *key;
    uint32_t count;
} value_shape;

typedef struct value_dict {
    const value_shape *shape;
    value *items; /* shape->count of them */
    uint32_t known;
    uint16_t capacity;
    uint8_t depth;
    uint8_t is_spent; /* its items are gone: see value_spend */
} value_dict;

/* What all values of one reading share. */
typedef struct value_heap {
    store place;
    array texts; /* value_text *: buckets, a power of two */
    size_t texts_count;
    array shapes; /* value_shape *: buckets */
    size_t shapes_count;
    value_shape *empty;
    value *spare[VALUE_SPARE_MAX + 1]; /* by how many; the first item leads to the next */
    value pairs[VALUE_PAIRS]; /* tuples of two numbers, which are made again and again; or 0 */
} value_heap;

/* Returns 0, or -1 without memory. A started heap must be released, also after a failure. */
int value_heap_start(value_heap *heap, budget *limits);
void value_heap_release(value_heap *heap);

/* ---- making. Each returns 0, or -1 without memory ------------------------------------------- */

value value_constant(value_kind kind); /* VALUE_NONE, VALUE_FALSE, VALUE_TRUE */
int value_make_signed(value_heap *heap, int64_t number, value *result);
int value_make_unsigned(value_heap *heap, uint64_t number, value *result);
int value_make_real(value_heap *heap, double number, value *result);
int value_make_text(value_heap *heap, const char *bytes, size_t length, value *result);
/* A list or a tuple with these items. */
int value_make_list(value_heap *heap, value_kind kind, const value *items, size_t count,
                    value *result);
int value_make_dict(value_heap *heap, value *result);

/* What value_append and value_put may say besides 0. */
enum {
    VALUE_NO_MEMORY = -1,
    VALUE_TOO_DEEP = -2,
    VALUE_TOO_MANY = -3,
    VALUE_TWICE = -4,
    VALUE_TOO_VARIED = -5
};

int value_append(value_heap *heap, value list, const value *items, size_t count);
/* Sets dict[key]. The key is a text that the dictionary must not have yet: honest files write no
 * key twice, and a hostile one might do so a million times. */
int value_put(value_heap *heap, value dict, value key, value item);
/* Room for `more` further keys, exactly: most dictionaries get all their keys at once. */
int value_dict_reserve(value_heap *heap, value dict, size_t more);

/* The contents of the list or dictionary are no longer needed: its items are reused for the next
 * one of the same length. Then a list is empty, and a dictionary is spent: it has no keys. */
void value_spend(value_heap *heap, value any);
/* A decoder stores in a list or a dictionary what it made of it. VALUE_UNKNOWN: nothing yet. */
#define VALUE_UNKNOWN UINT32_MAX
uint32_t value_known(value any);
void value_know(value any, uint32_t number);

/* ---- taking while reading ------------------------------------------------------------------- */

/* Functions that take the long tables of a document while it is read, so that the tables are never
 * values all at once. Each returns 1 if it took what it was given; 0 if that is to become values
 * like everything else; -1 if it failed: then it has said why itself. */
typedef struct value_taker {
    void *context;
    /* A list in an object in the document begins: "history", "rows". `pairs` are the keys and
     * values of the object so far. */
    int (*rows_begin)(void *context, const value *keys, const value *pairs, size_t count);
    /* One element of it, itself a list. */
    int (*row)(void *context, const value *cells, size_t count);
    /* Items of the list path[depth - 1]. That list lies in what is being made of path[0 ...]. */
    int (*items)(void *context, const value *path, size_t depth, const value *items, size_t count);
} value_taker;

/* ---- reading -------------------------------------------------------------------------------- */

value_kind value_kind_of(value any);
/* "a list", "a whole number": for messages. */
const char *value_kind_name(value any);

const value_text *value_as_text(value text);
const value_list *value_as_list(value list); /* lists and tuples */
const value_dict *value_as_dict(value dict);
double value_as_real(value real); /* of reals and whole numbers */
/* 1 and the number if it is a whole number that fits, else 0. */
int value_as_unsigned(value any, uint64_t *number);
int value_as_signed(value any, int64_t *number);

/* The place of the key in dictionaries of this shape, or -1. */
int value_shape_find(const value_shape *shape, const value_text *key);
/* dict[key]; 0 and VALUE_NONE if it is not there. `key` is any text. */
int value_get(const value_heap *heap, value dict, const char *key, value *item);
/* The interned text, or null if no value of this heap has it. */
const value_text *value_text_find(const value_heap *heap, const char *bytes, size_t length);

#endif
