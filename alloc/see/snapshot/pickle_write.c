/* SPDX-License-Identifier: Apache-2.0 */
/* The pickler: see pickle_write.h. */
#include "see/snapshot/pickle_write.h"

#include <string.h>

#include "base/utf8.h"

/* A viewer in a browser hands what one APPENDS adds on as the arguments of one call, of which there
 * can be some ten thousands. Python writes a thousand at once, and so it is here. */
enum { ITEMS_AT_ONCE = 1000 };

static void op(tnri_pickle *pickle, unsigned char code)
{
    pickle->put(pickle->to, (const char *)&code, 1);
}

/* An instruction with a little-endian operand. */
static void op_with(tnri_pickle *pickle, unsigned char code, uint64_t operand, size_t count)
{
    unsigned char bytes[9] = {code};
    for (size_t i = 0; i < count; i++)
        bytes[1 + i] = (unsigned char)(operand >> (8 * i));
    pickle->put(pickle->to, (const char *)bytes, 1 + count);
}

void tnri_pickle_begin(tnri_pickle *pickle, tnri_put *put, void *to)
{
    *pickle = (tnri_pickle){.put = put, .to = to};
    op_with(pickle, 0x80, 2, 1); /* PROTO */
}

void tnri_pickle_end(tnri_pickle *pickle)
{
    op(pickle, '.'); /* STOP */
}

void tnri_pickle_memo(tnri_pickle *pickle, uint32_t number)
{
    if (number < 256)
        op_with(pickle, 'q', number, 1); /* BINPUT */
    else
        op_with(pickle, 'r', number, 4); /* LONG_BINPUT */
}

void tnri_pickle_again(tnri_pickle *pickle, uint32_t number)
{
    if (number < 256)
        op_with(pickle, 'h', number, 1); /* BINGET */
    else
        op_with(pickle, 'j', number, 4); /* LONG_BINGET */
}

void tnri_pickle_dict(tnri_pickle *pickle)
{
    pickle->put(pickle->to, "}(", 2); /* EMPTY_DICT MARK */
}

void tnri_pickle_dict_end(tnri_pickle *pickle)
{
    op(pickle, 'u'); /* SETITEMS */
}

void tnri_pickle_list(tnri_pickle *pickle)
{
    pickle->put(pickle->to, "](", 2); /* EMPTY_LIST MARK */
    pickle->items[pickle->lists_count++] = 0;
}

void tnri_pickle_item(tnri_pickle *pickle)
{
    uint64_t *items = &pickle->items[pickle->lists_count - 1];
    if (*items > 0 && *items % ITEMS_AT_ONCE == 0)
        pickle->put(pickle->to, "e(", 2); /* APPENDS MARK */
    (*items)++;
}

void tnri_pickle_list_end(tnri_pickle *pickle)
{
    pickle->lists_count--;
    op(pickle, 'e'); /* APPENDS */
}

void tnri_pickle_text(tnri_pickle *pickle, const char *text)
{
    const char *end = text + strlen(text);
    size_t bytes = 0;
    for (const char *at = text; at < end;) {
        size_t length = tnri_utf8_length(at, (size_t)(end - at));
        bytes += length == 0 ? 3 : length;
        at += length == 0 ? 1 : length;
    }
    op_with(pickle, 'X', bytes, 4); /* BINUNICODE */
    if (bytes == (size_t)(end - text)) {
        pickle->put(pickle->to, text, bytes);
        return;
    }
    while (text < end) {
        size_t length = tnri_utf8_length(text, (size_t)(end - text));
        pickle->put(pickle->to, length == 0 ? "\xef\xbf\xbd" : text, length == 0 ? 3 : length);
        text += length == 0 ? 1 : length;
    }
}

void tnri_pickle_int(tnri_pickle *pickle, int64_t number)
{
    if (number >= 0 && number < 256) {
        op_with(pickle, 'K', (uint64_t)number, 1); /* BININT1 */
    } else if (number >= 0 && number < 65536) {
        op_with(pickle, 'M', (uint64_t)number, 2); /* BININT2 */
    } else if (number >= INT32_MIN && number <= INT32_MAX) {
        op_with(pickle, 'J', (uint64_t)number, 4); /* BININT */
    } else {
        pickle->put(pickle->to, "\x8a", 1); /* LONG1, of 8 bytes: the most that the viewer reads */
        op_with(pickle, 8, (uint64_t)number, 8);
    }
}

void tnri_pickle_boolean(tnri_pickle *pickle, int truth)
{
    op(pickle, truth ? 0x88 : 0x89); /* NEWTRUE, NEWFALSE */
}

void tnri_pickle_pair(tnri_pickle *pickle)
{
    op(pickle, 0x86); /* TUPLE2 */
}
