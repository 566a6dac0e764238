/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickler: see pickle_write.h.
 */
#include "pickle_write.h"

#include <assert.h>
#include <string.h>

/* A viewer in a browser hands what one APPENDS adds on as the arguments of one call, of which there
 * can be some ten thousands. Python writes a thousand at once, and so it is here. */
enum { ITEMS_AT_ONCE = 1000 };

static void op(pickle_writer *to, unsigned char code)
{
    output_bytes(to->out, &code, 1);
}

/* An instruction with a little-endian operand. */
static void op_with(pickle_writer *to, unsigned char code, uint64_t operand, size_t count)
{
    unsigned char bytes[9] = {code};
    for (size_t i = 0; i < count; i++)
        bytes[1 + i] = (unsigned char)(operand >> (8 * i));
    output_bytes(to->out, bytes, 1 + count);
}

void pickle_begin(pickle_writer *to, output *out)
{
    to->out = out;
    to->memo_count = 0;
    to->lists_count = 0;
    op_with(to, 0x80, 2, 1); /* PROTO */
}

void pickle_end(pickle_writer *to)
{
    op(to, '.'); /* STOP */
}

uint32_t pickle_memo(pickle_writer *to)
{
    uint32_t number = to->memo_count++;
    if (number < 256)
        op_with(to, 'q', number, 1); /* BINPUT */
    else
        op_with(to, 'r', number, 4); /* LONG_BINPUT */
    return number;
}

void pickle_again(pickle_writer *to, uint32_t memo)
{
    if (memo < 256)
        op_with(to, 'h', memo, 1); /* BINGET */
    else
        op_with(to, 'j', memo, 4); /* LONG_BINGET */
}

uint32_t pickle_dict_begin(pickle_writer *to)
{
    op(to, '}'); /* EMPTY_DICT */
    uint32_t number = pickle_memo(to);
    op(to, '('); /* MARK */
    return number;
}

void pickle_dict_end(pickle_writer *to)
{
    op(to, 'u'); /* SETITEMS */
}

uint32_t pickle_list_begin(pickle_writer *to)
{
    op(to, ']'); /* EMPTY_LIST */
    uint32_t number = pickle_memo(to);
    op(to, '('); /* MARK */
    assert(to->lists_count < PICKLE_LISTS_MAX);
    to->items[to->lists_count++] = 0;
    return number;
}

void pickle_list_item(pickle_writer *to)
{
    uint64_t *items = &to->items[to->lists_count - 1];
    if (*items > 0 && *items % ITEMS_AT_ONCE == 0) {
        op(to, 'e'); /* APPENDS */
        op(to, '('); /* MARK */
    }
    (*items)++;
}

void pickle_list_end(pickle_writer *to)
{
    to->lists_count--;
    op(to, 'e'); /* APPENDS */
}

void pickle_text(pickle_writer *to, const char *text)
{
    size_t length = strlen(text);
    op_with(to, 'X', length, 4); /* BINUNICODE */
    output_bytes(to->out, text, length);
}

void pickle_int(pickle_writer *to, int64_t number)
{
    if (number >= 0 && number < 256) {
        op_with(to, 'K', (uint64_t)number, 1); /* BININT1 */
    } else if (number >= 0 && number < 65536) {
        op_with(to, 'M', (uint64_t)number, 2); /* BININT2 */
    } else if (number >= INT32_MIN && number <= INT32_MAX) {
        op_with(to, 'J', (uint64_t)number, 4); /* BININT */
    } else {
        op_with(to, 0x8a, 8, 1); /* LONG1, of 8 bytes */
        unsigned char bytes[8];
        for (size_t i = 0; i < 8; i++)
            bytes[i] = (unsigned char)((uint64_t)number >> (8 * i));
        output_bytes(to->out, bytes, sizeof(bytes));
    }
}

void pickle_boolean(pickle_writer *to, int truth)
{
    op(to, truth ? 0x88 : 0x89); /* NEWTRUE, NEWFALSE */
}

void pickle_pair(pickle_writer *to)
{
    op(to, 0x86); /* TUPLE2 */
}
