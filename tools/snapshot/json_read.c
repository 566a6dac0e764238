/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON reader: see json_read.h. Values wait on a stack until their list or object ends. It is
 * then made with exactly as many places as it needs. yajl's own memory is counted too: with each
 * piece of the file it at most doubles, and the budget is checked after each piece.
 */
#include "json_read.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yajl/yajl_parse.h>

/* yajl keeps a text that is in several pieces of the file, and looks through all of it again with
 * each piece. Its memory doubles, so it has this much for a text of half of it or more. */
enum { TEXT_BYTES_MAX = 16 << 20 };

/* How many are open inside of the list of a table's rows: the document, the table, the list. */
enum { ROWS_DEPTH = 3 };

typedef struct reader {
    input *in;
    value_heap *heap;
    const value_taker *taker; /* may be null */
    int takes_rows;           /* it takes those of the list that is open at ROWS_DEPTH */
    budget *limits;
    array stack;    /* value: what is not yet in a list or object; keys stand before their values */
    array opens;    /* size_t: the stack's height where each open list or object begins */
    uint64_t lines; /* newlines before the piece being parsed */
    yajl_handle yajl;
    const char *problem; /* set by a callback that stopped the parser */
    size_t yajl_bytes;
} reader;

/* ---- yajl's memory -------------------------------------------------------------------------- */

/* yajl does not survive a failed allocation, so this does not return from one. */
static void *yajl_grown(void *context, void *old, size_t bytes)
{
    reader *in = context;
    in->yajl_bytes -= old ? malloc_usable_size(old) : 0;
    void *memory = realloc(old, bytes);
    if (!memory) {
        fputs("tenure: the system has no more memory\n", stderr);
        exit(4);
    }
    in->yajl_bytes += malloc_usable_size(memory);
    return memory;
}

static void *yajl_taken(void *context, size_t bytes)
{
    return yajl_grown(context, NULL, bytes);
}

static void yajl_given_back(void *context, void *memory)
{
    reader *in = context;
    in->yajl_bytes -= memory ? malloc_usable_size(memory) : 0;
    free(memory);
}

/* ---- what yajl finds. Each returns 1, or 0 to stop ------------------------------------------ */

static int stop(reader *in, const char *problem)
{
    in->problem = problem;
    return 0;
}

static const char no_memory[] = "memory", taker_failed[] = "a taker";

static int push(reader *in, value item)
{
    if (in->stack.count == in->stack.capacity &&
        array_reserve(&in->stack, in->limits, sizeof(value), in->stack.count + 1) != 0)
        return stop(in, no_memory);
    ((value *)in->stack.items)[in->stack.count++] = item;
    return 1;
}

static int on_null(void *context)
{
    return push(context, value_constant(VALUE_NONE));
}

static int on_boolean(void *context, int is_true)
{
    return push(context, value_constant(is_true ? VALUE_TRUE : VALUE_FALSE));
}

/* Up to 18 digits fit any kind of number; they are nearly all. */
static int digits_read(const char *text, size_t length, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        *number = *number * 10 + (uint64_t)(text[i] - '0');
    }
    return length > 0 && length <= 18;
}

static int on_number(void *context, const char *text, size_t length)
{
    reader *in = context;
    uint64_t plain;
    value number;
    char copy[64], *end;
    if (digits_read(text, length, &plain))
        return value_make_unsigned(in->heap, plain, &number) == 0 ? push(in, number)
                                                                  : stop(in, no_memory);
    if (length >= sizeof(copy))
        return stop(in, "a number of more than 63 digits");
    memcpy(copy, text, length);
    copy[length] = '\0';
    int code;
    errno = 0;
    if (strpbrk(copy, ".eE")) {
        code = value_make_real(in->heap, strtod(copy, &end), &number);
    } else if (copy[0] == '-') {
        long long parsed = strtoll(copy, &end, 10);
        code = value_make_signed(in->heap, parsed, &number);
    } else {
        unsigned long long parsed = strtoull(copy, &end, 10);
        code = value_make_unsigned(in->heap, parsed, &number);
    }
    if (errno == ERANGE && !strpbrk(copy, ".eE"))
        return stop(in, "a whole number of more than 64 bits");
    return code == 0 ? push(in, number) : stop(in, no_memory);
}

static int on_text(void *context, const unsigned char *bytes, size_t length)
{
    reader *in = context;
    value text;
    if (value_make_text(in->heap, (const char *)bytes, length, &text) != 0)
        return stop(in, no_memory);
    return push(in, text);
}

static int on_begin(void *context)
{
    reader *in = context;
    if (in->opens.count >= VALUE_DEPTH_MAX)
        return stop(in, "lists and objects are nested more than 200 deep");
    if (array_reserve(&in->opens, in->limits, sizeof(size_t), in->opens.count + 1) != 0)
        return stop(in, no_memory);
    ((size_t *)in->opens.items)[in->opens.count++] = in->stack.count;
    return 1;
}

/* A list in an object in the document may be one whose rows are taken. */
static int on_list_begin(void *context)
{
    reader *in = context;
    if (!on_begin(context))
        return 0;
    if (!in->taker || in->opens.count != ROWS_DEPTH)
        return 1;
    const size_t *opens = in->opens.items;
    const value *stack = in->stack.items;
    in->takes_rows = 0;
    if (opens[1] == opens[0] || opens[2] == opens[1])
        return 1; /* the first thing in a list */
    const value keys[2] = {stack[opens[1] - 1], stack[opens[2] - 1]};
    int code =
        in->taker->rows_begin(in->taker->context, keys, stack + opens[1], opens[2] - 1 - opens[1]);
    in->takes_rows = code > 0;
    return code < 0 ? stop(in, taker_failed) : 1;
}

/* What belongs to the innermost open list or object. yajl calls no end without its begin. */
static const value *innermost(reader *in, size_t *count)
{
    size_t floor = ((size_t *)in->opens.items)[--in->opens.count];
    *count = in->stack.count - floor;
    in->stack.count = floor;
    return in->stack.items ? (value *)in->stack.items + floor : NULL;
}

static int on_list_end(void *context)
{
    reader *in = context;
    size_t count;
    value list;
    const value *items = innermost(in, &count);
    if (in->takes_rows && in->opens.count == ROWS_DEPTH) {
        int code = in->taker->row(in->taker->context, items, count);
        if (code != 0)
            return code > 0 ? 1 : stop(in, taker_failed);
    }
    in->takes_rows = in->takes_rows && in->opens.count >= ROWS_DEPTH;
    if (value_make_list(in->heap, VALUE_LIST, items, count, &list) != 0)
        return stop(in, no_memory);
    return push(in, list);
}

static int on_object_end(void *context)
{
    reader *in = context;
    size_t count;
    value dict;
    const value *pairs = innermost(in, &count);
    if (value_make_dict(in->heap, &dict) != 0 || value_dict_reserve(in->heap, dict, count / 2) != 0)
        return stop(in, no_memory);
    for (size_t i = 0; i < count; i += 2) {
        int code = value_put(in->heap, dict, pairs[i], pairs[i + 1]);
        if (code == VALUE_TOO_MANY)
            return stop(in, "an object has more than 512 keys");
        if (code == VALUE_TWICE)
            return stop(in, "an object has a key twice");
        if (code == VALUE_TOO_VARIED)
            return stop(in, "objects have more than 65536 different lists of keys");
        if (code != 0)
            return stop(in, no_memory);
    }
    return push(in, dict);
}

_Static_assert(VALUE_DEPTH_MAX == 200 && VALUE_KEYS_MAX == 512 && VALUE_SHAPES_MAX == 65536,
               "the sentences above say so");

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_text,
    .yajl_start_map = on_begin,
    .yajl_map_key = on_text,
    .yajl_end_map = on_object_end,
    .yajl_start_array = on_list_begin,
    .yajl_end_array = on_list_end,
};

/* ---- the parser's course -------------------------------------------------------------------- */

static uint64_t newlines_count(const unsigned char *bytes, size_t length)
{
    uint64_t count = 0;
    if (length == 0)
        return 0; /* there may be no bytes at all */
    const unsigned char *end = bytes + length;
    while (bytes < end && (bytes = memchr(bytes, '\n', (size_t)(end - bytes))) != NULL) {
        count++;
        bytes++;
    }
    return count;
}

/* Says what stopped the parser in the piece of `length` bytes that begins at `before`. */
static int fail(reader *in, const unsigned char *piece, size_t length, uint64_t before)
{
    size_t consumed = yajl_get_bytes_consumed(in->yajl);
    if (consumed > length)
        consumed = length;
    uint64_t at = before + consumed;
    uint64_t line = in->lines + newlines_count(piece, consumed) + 1;
    if (in->problem == taker_failed)
        return -1; /* it has said why */
    if (in->problem == no_memory) {
        char reason[BUDGET_SENTENCE_BYTES];
        budget_sentence(in->limits, reason);
        return input_fail(in->in, at, "(line %" PRIu64 ") %s", line, reason);
    }
    if (in->problem)
        return input_fail(in->in, at, "(line %" PRIu64 ") %s", line, in->problem);
    unsigned char *why = yajl_get_error(in->yajl, 0, piece, length);
    char sentence[160];
    snprintf(sentence, sizeof(sentence), "%s", why ? (const char *)why : "no JSON");
    sentence[strcspn(sentence, "\n")] = '\0';
    if (why)
        yajl_free_error(in->yajl, why);
    return input_fail(in->in, at, "(line %" PRIu64 ") %s", line, sentence);
}

static int pieces_parse(reader *in)
{
    for (;;) {
        int state = input_fill(in->in);
        if (state < 0)
            return -1;
        if (state == 0)
            break;
        const unsigned char *piece = in->in->buffer + in->in->at;
        size_t length = in->in->length - in->in->at;
        uint64_t before = input_offset(in->in);
        in->in->at = in->in->length;
        if (yajl_parse(in->yajl, piece, length) != yajl_status_ok)
            return fail(in, piece, length, before);
        in->lines += newlines_count(piece, length);
        if (in->yajl_bytes > TEXT_BYTES_MAX) {
            in->problem = "a text of more than 8 MiB";
            return fail(in, piece, length, before);
        }
        if (in->yajl_bytes > in->limits->limit_bytes - in->limits->used_bytes) {
            in->problem = no_memory;
            in->limits->refused = 1;
            return fail(in, piece, length, before);
        }
    }
    uint64_t end = input_offset(in->in);
    if (yajl_complete_parse(in->yajl) != yajl_status_ok)
        return in->problem || in->opens.count == 0
                   ? fail(in, NULL, 0, end)
                   : input_fail(in->in, end,
                                "(line %" PRIu64 ") the file ends inside a list or "
                                "an object: it is cut off",
                                in->lines + 1);
    return 0;
}

int json_read(input *in, value_heap *heap, const value_taker *taker, value *result)
{
    reader state = {.in = in, .heap = heap, .taker = taker, .limits = heap->place.limits};
    yajl_alloc_funcs memory = {yajl_taken, yajl_grown, yajl_given_back, &state};
    state.yajl = yajl_alloc(&callbacks, &memory, &state);
    int code =
        state.yajl ? pieces_parse(&state) : input_fail(in, 0, "the system has no more memory");
    if (code == 0 && state.stack.count != 1)
        code = input_fail(in, input_offset(in), "the file holds no JSON value");
    if (code == 0)
        *result = ((value *)state.stack.items)[0];
    if (state.yajl)
        yajl_free(state.yajl);
    array_release(&state.stack, state.limits, sizeof(value));
    array_release(&state.opens, state.limits, sizeof(size_t));
    return code;
}
