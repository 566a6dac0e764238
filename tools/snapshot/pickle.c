/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unpickler: see pickle.h. Instructions are read one after the other; there is no recursion,
 * so nesting costs no stack of ours. What bounds a hostile file:
 *
 *   - before anything is allocated, a stated length is compared with what is left of the file; if
 *     compression hides what is left, memory grows only as bytes arrive;
 *   - the stack, the memo and all values are counted against the budget;
 *   - a memo index is at most the number of bytes read, so that one instruction cannot ask for a
 *     table of 2^32 places;
 *   - lists in lists are limited by value.c, and open marks by MARKS_MAX.
 *
 * A memo can make one list appear in many places. So a walk through the values may take far more
 * steps than the file has bytes. Code that walks must bound this itself: see value.h.
 */
#include "pickle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARKS_MAX = 1000,
    LINE_BYTES_MAX = 64, /* of a number written as text */
    PROTOCOL_MAX = 5,
};

/* Tells places of the memo that were never written. No value has this bit pattern. */
#define MEMO_EMPTY UINT64_MAX

typedef struct machine {
    input *in;
    value_heap *heap;
    const value_taker *taker; /* may be null */
    budget *limits;
    array stack; /* value */
    array marks; /* size_t: heights of the stack */
    array memo;  /* value */
    array bytes; /* char: the text being read */
    uint64_t at; /* where the instruction being carried out begins */
} machine;

/* ---- what goes wrong ------------------------------------------------------------------------ */

static int fail_memory(machine *vm)
{
    char sentence[BUDGET_SENTENCE_BYTES];
    budget_sentence(vm->limits, sentence);
    return input_fail(vm->in, vm->at, "%s", sentence);
}

static int fail_put(machine *vm, int code)
{
    if (code == VALUE_TOO_DEEP)
        return input_fail(vm->in, vm->at, "lists and dictionaries are nested more than %d deep",
                          VALUE_DEPTH_MAX);
    if (code == VALUE_TOO_MANY)
        return input_fail(vm->in, vm->at, "a dictionary has more than %d keys", VALUE_KEYS_MAX);
    if (code == VALUE_TWICE)
        return input_fail(vm->in, vm->at, "a dictionary has a key twice");
    if (code == VALUE_TOO_VARIED)
        return input_fail(vm->in, vm->at, "dictionaries have more than %d different lists of keys",
                          VALUE_SHAPES_MAX);
    return fail_memory(vm);
}

/* Instructions that are known and refused, and why. */
static const struct refused {
    unsigned char code;
    const char *name, *why;
} refused_ops[] = {
    {'c', "GLOBAL", "imports Python code"},
    {0x93, "STACK_GLOBAL", "imports Python code"},
    {'R', "REDUCE", "calls Python code"},
    {'b', "BUILD", "sets the state of an object"},
    {'i', "INST", "makes an object"},
    {'o', "OBJ", "makes an object"},
    {0x81, "NEWOBJ", "makes an object"},
    {0x92, "NEWOBJ_EX", "makes an object"},
    {0x82, "EXT1", "names code in a registry"},
    {0x83, "EXT2", "names code in a registry"},
    {0x84, "EXT4", "names code in a registry"},
    {'P', "PERSID", "names an object outside the file"},
    {'Q', "BINPERSID", "names an object outside the file"},
    {0x97, "NEXT_BUFFER", "takes data from outside the file"},
    {0x98, "READONLY_BUFFER", "takes data from outside the file"},
    {'B', "BINBYTES", "makes bytes, which no snapshot has"},
    {'C', "SHORT_BINBYTES", "makes bytes, which no snapshot has"},
    {0x8e, "BINBYTES8", "makes bytes, which no snapshot has"},
    {0x96, "BYTEARRAY8", "makes bytes, which no snapshot has"},
    {'S', "STRING", "makes a text of Python 2, which no snapshot has"},
    {'T', "BINSTRING", "makes a text of Python 2, which no snapshot has"},
    {'U', "SHORT_BINSTRING", "makes a text of Python 2, which no snapshot has"},
    {0x8f, "EMPTY_SET", "makes a set, which no snapshot has"},
    {0x90, "ADDITEMS", "fills a set, which no snapshot has"},
    {0x91, "FROZENSET", "makes a set, which no snapshot has"},
};

/* ---- the stack ------------------------------------------------------------------------------ */

static int push(machine *vm, value item)
{
    if (vm->stack.count == vm->stack.capacity &&
        array_reserve(&vm->stack, vm->limits, sizeof(value), vm->stack.count + 1) != 0)
        return fail_memory(vm);
    ((value *)vm->stack.items)[vm->stack.count++] = item;
    return 0;
}

/* The values above the newest mark; without marks, all. */
static size_t height(const machine *vm)
{
    size_t floor = vm->marks.count > 0 ? ((size_t *)vm->marks.items)[vm->marks.count - 1] : 0;
    return vm->stack.count - floor;
}

/* 1 if the text that lies so deep on the stack is this. */
static int is_text_at(const machine *vm, size_t depth, const char *text)
{
    if (height(vm) <= depth)
        return 0;
    value item = ((value *)vm->stack.items)[vm->stack.count - 1 - depth];
    return value_kind_of(item) == VALUE_TEXT && strcmp(value_as_text(item)->bytes, text) == 0;
}

/* What to do about an import, where that is known: people put a snapshot into a dictionary of
 * another kind. */
static const char *import_advice(const machine *vm, unsigned char code)
{
    if (code == 0x93 && is_text_at(vm, 1, "collections") &&
        (is_text_at(vm, 0, "OrderedDict") || is_text_at(vm, 0, "defaultdict")))
        return ". It is an OrderedDict or a defaultdict: pickle dict(snapshot) in its place";
    return "";
}

static int fail_op(machine *vm, unsigned char code)
{
    for (size_t i = 0; i < sizeof(refused_ops) / sizeof(refused_ops[0]); i++) {
        if (refused_ops[i].code == code)
            return input_fail(vm->in, vm->at,
                              "the instruction %s (0x%02x) %s; a memory snapshot is plain data, so "
                              "this file is refused and nothing in it was run%s",
                              refused_ops[i].name, code, refused_ops[i].why,
                              import_advice(vm, code));
    }
    return input_fail(vm->in, vm->at, "this is not a pickle (0x%02x)", code);
}

/* The value `below` places under the top, if the newest mark is not above it. */
static int peek(machine *vm, size_t below, value *item)
{
    if (height(vm) <= below)
        return input_fail(vm->in, vm->at, "an instruction finds too few values on the stack");
    *item = ((value *)vm->stack.items)[vm->stack.count - 1 - below];
    return 0;
}

/* Removes the newest mark. *items are the *count values that were above it, on the stack until
 * the next push. */
static int mark_pop(machine *vm, value **items, size_t *count)
{
    if (vm->marks.count == 0)
        return input_fail(vm->in, vm->at, "an instruction finds no MARK on the stack");
    size_t floor = ((size_t *)vm->marks.items)[--vm->marks.count];
    *count = vm->stack.count - floor;
    *items = vm->stack.items ? (value *)vm->stack.items + floor : NULL;
    vm->stack.count = floor;
    return 0;
}

static int mark_push(machine *vm)
{
    if (vm->marks.count >= MARKS_MAX)
        return input_fail(vm->in, vm->at, "more than %d lists are begun inside each other",
                          MARKS_MAX);
    if (array_reserve(&vm->marks, vm->limits, sizeof(size_t), vm->marks.count + 1) != 0)
        return fail_memory(vm);
    ((size_t *)vm->marks.items)[vm->marks.count++] = vm->stack.count;
    return 0;
}

/* ---- operands ------------------------------------------------------------------------------- */

/* A little-endian number of 1 to 8 bytes. */
static int operand(machine *vm, size_t count, uint64_t *number)
{
    unsigned char far[8];
    const unsigned char *bytes = far;
    input *in = vm->in;
    if (in->length - in->at >= count) { /* nearly always: it does not cross the buffer's end */
        bytes = in->buffer + in->at;
        in->at += count;
    } else if (input_take(in, far, count, "an instruction") != 0) {
        return -1;
    }
    *number = 0;
    for (size_t i = 0; i < count; i++)
        *number |= (uint64_t)bytes[i] << (8 * i);
    return 0;
}

/* Reads `length` bytes of text into vm->bytes. */
static int text_bytes(machine *vm, uint64_t length)
{
    uint64_t left = input_left_max(vm->in);
    if (length > left)
        return input_fail(vm->in, vm->at,
                          "a text of %" PRIu64 " bytes is announced, but only %" PRIu64
                          " bytes follow",
                          length, left);
    vm->bytes.count = 0;
    while (length > 0) {
        size_t part = length < INPUT_BUFFER_BYTES ? (size_t)length : INPUT_BUFFER_BYTES;
        if (array_reserve(&vm->bytes, vm->limits, 1, vm->bytes.count + part) != 0)
            return fail_memory(vm);
        if (input_take(vm->in, (char *)vm->bytes.items + vm->bytes.count, part, "a text") != 0)
            return -1;
        vm->bytes.count += part;
        length -= part;
    }
    return 0;
}

static int push_text(machine *vm)
{
    value text;
    const char *bytes = vm->bytes.count > 0 ? vm->bytes.items : "";
    if (value_make_text(vm->heap, bytes, vm->bytes.count, &text) != 0)
        return fail_memory(vm);
    return push(vm, text);
}

static int op_unicode(machine *vm, size_t length_bytes)
{
    uint64_t length;
    if (operand(vm, length_bytes, &length) != 0 || text_bytes(vm, length) != 0)
        return -1;
    return push_text(vm);
}

/* Reads up to a newline into vm->bytes, at most `limit` bytes. Ends them with a zero byte that is
 * not counted. */
static int line_bytes(machine *vm, size_t limit)
{
    vm->bytes.count = 0;
    for (;;) {
        char one;
        if (input_take(vm->in, &one, 1, "a line of text") != 0)
            return -1;
        if (array_reserve(&vm->bytes, vm->limits, 1, vm->bytes.count + 1) != 0)
            return fail_memory(vm);
        char *bytes = vm->bytes.items;
        if (one == '\n') {
            bytes[vm->bytes.count] = '\0';
            return 0;
        }
        if (vm->bytes.count >= limit)
            return input_fail(vm->in, vm->at, "a number is longer than %zu bytes", limit);
        bytes[vm->bytes.count++] = one;
    }
}

/* `made` is what making *number returned; it is looked at only if that went well. */
static int push_number(machine *vm, int made, const value *number)
{
    return made != 0 ? fail_memory(vm) : push(vm, *number);
}

/* A whole number in text: -2^63 to 2^64 - 1. */
static int push_decimal(machine *vm, const char *text)
{
    value number;
    char *end;
    errno = 0;
    if (text[0] == '-') {
        long long parsed = strtoll(text, &end, 10);
        if (errno == 0 && end != text && *end == '\0')
            return push_number(vm, value_make_signed(vm->heap, parsed, &number), &number);
    } else if (text[0] >= '0' && text[0] <= '9') {
        unsigned long long parsed = strtoull(text, &end, 10);
        if (errno == 0 && *end == '\0')
            return push_number(vm, value_make_unsigned(vm->heap, parsed, &number), &number);
    }
    return input_fail(vm->in, vm->at, "\"%.32s\" is not a whole number of 64 bits", text);
}

/* I and L of protocol 0: "I01" and "I00" are truth values, L ends in an L of its own. */
static int op_decimal(machine *vm, int is_long)
{
    if (line_bytes(vm, LINE_BYTES_MAX) != 0)
        return -1;
    char *text = vm->bytes.items;
    if (!is_long && strcmp(text, "01") == 0)
        return push(vm, value_constant(VALUE_TRUE));
    if (!is_long && strcmp(text, "00") == 0)
        return push(vm, value_constant(VALUE_FALSE));
    if (is_long && vm->bytes.count > 0 && text[vm->bytes.count - 1] == 'L')
        text[vm->bytes.count - 1] = '\0';
    return push_decimal(vm, text);
}

/* Two's complement of any length, of which we take what fits 64 bits. */
static int op_long(machine *vm, size_t length_bytes)
{
    uint64_t length, bits = 0;
    if (operand(vm, length_bytes, &length) != 0)
        return -1;
    if (length > input_left_max(vm->in))
        return input_fail(vm->in, vm->at,
                          "a number of %" PRIu64 " bytes is announced, but the file is shorter",
                          length);
    unsigned char bytes[9] = {0};
    if (length > sizeof(bytes))
        return input_fail(vm->in, vm->at, "a number of %" PRIu64 " bytes; at most 64 bits are read",
                          length);
    if (input_take(vm->in, bytes, (size_t)length, "a number") != 0)
        return -1;
    int negative = length > 0 && (bytes[length - 1] & 0x80);
    if (length == 9 && bytes[8] != 0)
        return input_fail(vm->in, vm->at, "a number of more than 64 bits");
    for (size_t i = 0; i < 8; i++) {
        unsigned byte = i < length ? bytes[i] : negative ? 0xff : 0;
        bits |= (uint64_t)byte << (8 * i);
    }
    value number;
    if (negative)
        return push_number(vm, value_make_signed(vm->heap, (int64_t)bits, &number), &number);
    return push_number(vm, value_make_unsigned(vm->heap, bits, &number), &number);
}

static int op_int(machine *vm, size_t bytes)
{
    uint64_t bits;
    value number;
    if (operand(vm, bytes, &bits) != 0)
        return -1;
    int64_t as_signed = bytes == 4 ? (int32_t)(uint32_t)bits : (int64_t)bits;
    return push_number(vm, value_make_signed(vm->heap, as_signed, &number), &number);
}

static int op_binfloat(machine *vm)
{
    uint64_t little, big = 0;
    if (operand(vm, 8, &little) != 0)
        return -1;
    for (int i = 0; i < 8; i++)
        big |= (little >> (8 * i) & 0xff) << (8 * (7 - i));
    double real;
    memcpy(&real, &big, sizeof(real));
    value number;
    return push_number(vm, value_make_real(vm->heap, real, &number), &number);
}

static int op_float(machine *vm)
{
    if (line_bytes(vm, LINE_BYTES_MAX) != 0)
        return -1;
    char *end;
    double real = strtod(vm->bytes.items, &end);
    if (end == vm->bytes.items || *end != '\0')
        return input_fail(vm->in, vm->at, "\"%.32s\" is not a number", (char *)vm->bytes.items);
    value number;
    return push_number(vm, value_make_real(vm->heap, real, &number), &number);
}

/* ---- the V of protocol 0: Latin-1 with \uXXXX and \UXXXXXXXX -------------------------------- */

/* Writes a code point as UTF-8. Returns its length. */
static size_t utf8_put(char *to, uint32_t code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(heads[length] | code);
    return length;
}

/* The escape at `at`, of `left` bytes. Returns how many of them it takes, or 0 if it is none. */
static size_t escape_read(const char *at, size_t left, uint32_t *code)
{
    if (left < 2 || at[0] != '\\' || (at[1] != 'u' && at[1] != 'U'))
        return 0;
    size_t digits = at[1] == 'u' ? 4 : 8;
    if (left < 2 + digits)
        return 0;
    *code = 0;
    for (size_t i = 0; i < digits; i++) {
        const char *hex = "0123456789abcdef";
        char lower = (char)(at[2 + i] | 0x20);
        const char *digit = lower != '\0' ? strchr(hex, lower) : NULL;
        if (!digit)
            return 0;
        *code = *code << 4 | (uint32_t)(digit - hex);
    }
    return *code <= 0x10ffff ? 2 + digits : 0;
}

static int op_unicode_line(machine *vm)
{
    if (line_bytes(vm, SIZE_MAX) != 0)
        return -1;
    /* An escape of 6 bytes becomes at most 3, one of 10 at most 4, any other byte at most 2. */
    size_t length = vm->bytes.count;
    if (array_reserve(&vm->bytes, vm->limits, 1, length * 3 + 4) != 0)
        return fail_memory(vm);
    char *from = (char *)vm->bytes.items + length * 2, *to = vm->bytes.items;
    memmove(from, vm->bytes.items, length);
    size_t made = 0;
    for (size_t i = 0; i < length;) {
        uint32_t code;
        size_t taken = escape_read(from + i, length - i, &code);
        if (taken == 0) {
            code = (unsigned char)from[i];
            taken = 1;
        }
        i += taken;
        made += utf8_put(to + made, code);
    }
    vm->bytes.count = made;
    return push_text(vm);
}

/* ---- the memo ------------------------------------------------------------------------------- */

static int memo_put(machine *vm, uint64_t index)
{
    value item;
    if (peek(vm, 0, &item) != 0)
        return -1;
    if (index > vm->at)
        return input_fail(vm->in, vm->at,
                          "the memo index %" PRIu64 " is beyond what the file can "
                          "have used",
                          index);
    if (array_reserve(&vm->memo, vm->limits, sizeof(value), (size_t)index + 1) != 0)
        return fail_memory(vm);
    value *places = vm->memo.items;
    while (vm->memo.count <= index)
        places[vm->memo.count++] = MEMO_EMPTY;
    places[index] = item;
    return 0;
}

static int memo_get(machine *vm, uint64_t index)
{
    const value *places = vm->memo.items;
    if (index >= vm->memo.count || places[index] == MEMO_EMPTY)
        return input_fail(vm->in, vm->at, "the memo has nothing at index %" PRIu64, index);
    return push(vm, places[index]);
}

static int op_memo(machine *vm, int is_put, size_t index_bytes)
{
    uint64_t index = 0;
    if (index_bytes > 0) {
        if (operand(vm, index_bytes, &index) != 0)
            return -1;
    } else {
        if (line_bytes(vm, LINE_BYTES_MAX) != 0)
            return -1;
        char *end, *text = vm->bytes.items;
        errno = 0;
        index = strtoull(text, &end, 10);
        if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0')
            return input_fail(vm->in, vm->at, "\"%.32s\" is not a memo index", text);
    }
    return is_put ? memo_put(vm, index) : memo_get(vm, index);
}

/* ---- lists and dictionaries ----------------------------------------------------------------- */

static int push_list(machine *vm, value_kind kind, const value *items, size_t count)
{
    value list;
    int code = value_make_list(vm->heap, kind, items, count, &list);
    return code != 0 ? fail_put(vm, code) : push(vm, list);
}

static int op_append(machine *vm, const value *items, size_t count)
{
    value list;
    if (peek(vm, 0, &list) != 0)
        return -1;
    if (value_kind_of(list) != VALUE_LIST)
        return input_fail(vm->in, vm->at, "something is appended to %s", value_kind_name(list));
    if (vm->taker && count > 0) {
        int taken =
            vm->taker->items(vm->taker->context, vm->stack.items, vm->stack.count, items, count);
        if (taken != 0)
            return taken > 0 ? 0 : -1;
    }
    int code = value_append(vm->heap, list, items, count);
    return code != 0 ? fail_put(vm, code) : 0;
}

/* Keys are texts. Whole numbers, which some settings have, become texts. */
static int key_make(machine *vm, value *key)
{
    int64_t number;
    if (value_kind_of(*key) == VALUE_TEXT)
        return 0;
    if (!value_as_signed(*key, &number))
        return input_fail(vm->in, vm->at, "%s is the key of a dictionary; keys must be texts",
                          value_kind_name(*key));
    char text[32];
    int length = snprintf(text, sizeof(text), "%" PRId64, number);
    return value_make_text(vm->heap, text, (size_t)length, key) != 0 ? fail_memory(vm) : 0;
}

static int op_setitems(machine *vm, const value *pairs, size_t count)
{
    value dict;
    if (peek(vm, 0, &dict) != 0)
        return -1;
    if (value_kind_of(dict) != VALUE_DICT)
        return input_fail(vm->in, vm->at, "a key is set in %s", value_kind_name(dict));
    if (count % 2 != 0)
        return input_fail(vm->in, vm->at, "a key without a value");
    if (value_dict_reserve(vm->heap, dict, count / 2) != 0)
        return fail_memory(vm);
    for (size_t i = 0; i < count; i += 2) {
        value key = pairs[i];
        if (key_make(vm, &key) != 0)
            return -1;
        int code = value_put(vm->heap, dict, key, pairs[i + 1]);
        if (code != 0)
            return fail_put(vm, code);
    }
    return 0;
}

static int push_dict(machine *vm)
{
    value dict;
    return value_make_dict(vm->heap, &dict) != 0 ? fail_memory(vm) : push(vm, dict);
}

/* DICT makes one of what is above the mark. The pairs are moved up by one place, so that the new
 * dictionary can lie below them. */
static int op_dict(machine *vm)
{
    value *pairs = NULL;
    size_t count = 0;
    if (mark_pop(vm, &pairs, &count) != 0)
        return -1;
    size_t floor = vm->stack.count;
    if (array_reserve(&vm->stack, vm->limits, sizeof(value), floor + count + 1) != 0)
        return fail_memory(vm);
    value *base = (value *)vm->stack.items + floor;
    memmove(base + 1, base, count * sizeof(value));
    return push_dict(vm) != 0 ? -1 : op_setitems(vm, base + 1, count);
}

/* TUPLE1 to TUPLE3: of the topmost values. */
static int op_tuple(machine *vm, size_t count)
{
    value lowest;
    if (peek(vm, count - 1, &lowest) != 0)
        return -1;
    vm->stack.count -= count;
    return push_list(vm, VALUE_TUPLE, (value *)vm->stack.items + vm->stack.count, count);
}

static int op_pop(machine *vm)
{
    value top;
    if (height(vm) == 0 && vm->marks.count > 0) {
        vm->marks.count--; /* as Python: a mark is popped like a value */
        return 0;
    }
    if (peek(vm, 0, &top) != 0)
        return -1;
    vm->stack.count--;
    return 0;
}

/* ---- instructions --------------------------------------------------------------------------- */

static int op_marked(machine *vm, unsigned char code)
{
    value *items = NULL;
    size_t count = 0;
    if (mark_pop(vm, &items, &count) != 0)
        return -1;
    switch (code) {
    case 'e':
        return op_append(vm, items, count);
    case 'u':
        return op_setitems(vm, items, count);
    case 't':
        return push_list(vm, VALUE_TUPLE, items, count);
    case 'l':
        return push_list(vm, VALUE_LIST, items, count);
    default: /* POP_MARK */
        return 0;
    }
}

/* APPEND and SETITEM: the operands lie on the stack above their list. */
static int op_single(machine *vm, size_t count)
{
    value under;
    if (peek(vm, count, &under) != 0)
        return -1;
    vm->stack.count -= count;
    const value *items = (value *)vm->stack.items + vm->stack.count;
    return count == 1 ? op_append(vm, items, 1) : op_setitems(vm, items, 2);
}

static int op_header(machine *vm, unsigned char code)
{
    uint64_t number;
    if (operand(vm, code == 0x95 ? 8 : 1, &number) != 0)
        return -1;
    if (code == 0x95 && number > input_left_max(vm->in))
        return input_fail(vm->in, vm->at,
                          "a frame of %" PRIu64 " bytes is announced, but only %" PRIu64
                          " bytes follow",
                          number, input_left_max(vm->in));
    if (code == 0x80 && number > PROTOCOL_MAX)
        return input_fail(vm->in, vm->at, "pickle protocol %" PRIu64 "; 0 to %d are known", number,
                          PROTOCOL_MAX);
    return 0;
}

static int op_dup(machine *vm)
{
    value top;
    return peek(vm, 0, &top) != 0 ? -1 : push(vm, top);
}

/* Lists, dictionaries, the stack and the memo. */
static int op_structure(machine *vm, unsigned char code)
{
    switch (code) {
    case 0x80:
    case 0x95:
        return op_header(vm, code);
    case '(':
        return mark_push(vm);
    case '0':
        return op_pop(vm);
    case '2':
        return op_dup(vm);
    case ']':
        return push_list(vm, VALUE_LIST, NULL, 0);
    case ')':
        return push_list(vm, VALUE_TUPLE, NULL, 0);
    case '}':
        return push_dict(vm);
    case 'd':
        return op_dict(vm);
    case 'a':
        return op_single(vm, 1);
    case 's':
        return op_single(vm, 2);
    case 'e':
    case 'u':
    case 't':
    case 'l':
    case '1':
        return op_marked(vm, code);
    case 0x85:
    case 0x86:
    case 0x87:
        return op_tuple(vm, code - 0x84u);
    case 'p':
        return op_memo(vm, 1, 0);
    case 'q':
        return op_memo(vm, 1, 1);
    case 'r':
        return op_memo(vm, 1, 4);
    case 0x94:
        return memo_put(vm, vm->memo.count);
    case 'g':
        return op_memo(vm, 0, 0);
    case 'h':
        return op_memo(vm, 0, 1);
    case 'j':
        return op_memo(vm, 0, 4);
    default:
        return fail_op(vm, code);
    }
}

/* Constants, numbers and texts; what is none of them is structure. */
static int op_run(machine *vm, unsigned char code)
{
    switch (code) {
    case 'N':
        return push(vm, value_constant(VALUE_NONE));
    case 0x88:
        return push(vm, value_constant(VALUE_TRUE));
    case 0x89:
        return push(vm, value_constant(VALUE_FALSE));
    case 'I':
        return op_decimal(vm, 0);
    case 'L':
        return op_decimal(vm, 1);
    case 'J':
        return op_int(vm, 4);
    case 'M':
        return op_int(vm, 2);
    case 'K':
        return op_int(vm, 1);
    case 0x8a:
        return op_long(vm, 1);
    case 0x8b:
        return op_long(vm, 4);
    case 'F':
        return op_float(vm);
    case 'G':
        return op_binfloat(vm);
    case 'V':
        return op_unicode_line(vm);
    case 'X':
        return op_unicode(vm, 4);
    case 0x8c:
        return op_unicode(vm, 1);
    case 0x8d:
        return op_unicode(vm, 8);
    default:
        return op_structure(vm, code);
    }
}

/* Runs to STOP. */
/* Nothing but white space may follow. Python's reader would pass over the rest in silence. */
static int end_check(input *in)
{
    int more;
    while ((more = input_fill(in)) > 0 && memchr(" \t\r\n", in->buffer[in->at], 4) != NULL)
        in->at++;
    if (more > 0)
        return input_fail(in, input_offset(in),
                          "the pickle ends here and the file goes on: are there two snapshots in "
                          "it? Each wants a file of its own");
    return more;
}

static int machine_run(machine *vm, value *result)
{
    for (;;) {
        vm->at = input_offset(vm->in);
        int state = vm->in->at < vm->in->length ? 1 : input_fill(vm->in);
        if (state < 0)
            return -1;
        if (state == 0)
            return input_fail(vm->in, vm->at,
                              "the pickle ends without its STOP instruction: the "
                              "file is cut off");
        unsigned char code = vm->in->buffer[vm->in->at++];
        if (code == '.')
            break;
        /* Frames are got from the memo: most instructions of a large file. */
        if (code == 'j' || code == 'h' ? op_memo(vm, 0, code == 'j' ? 4 : 1) != 0
                                       : op_run(vm, code) != 0)
            return -1;
    }
    if (vm->marks.count > 0 || vm->stack.count != 1)
        return input_fail(vm->in, vm->at, "the pickle stops with %zu values instead of one",
                          vm->stack.count);
    *result = ((value *)vm->stack.items)[0];
    return end_check(vm->in);
}

int pickle_read(input *in, value_heap *heap, const value_taker *taker, value *result)
{
    machine vm = {.in = in, .heap = heap, .taker = taker, .limits = heap->place.limits};
    int code = machine_run(&vm, result);
    array_release(&vm.stack, vm.limits, sizeof(value));
    array_release(&vm.marks, vm.limits, sizeof(size_t));
    array_release(&vm.memo, vm.limits, sizeof(value));
    array_release(&vm.bytes, vm.limits, 1);
    return code;
}
