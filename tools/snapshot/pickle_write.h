/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing pickles of protocol 2, with the instructions that PyTorch's viewer knows.
 *
 * The caller writes keys and values in turn between begin and end. A value that may be needed again
 * is put into the memo and named by its number there.
 */
#ifndef TENURE_TOOLS_PICKLE_WRITE_H
#define TENURE_TOOLS_PICKLE_WRITE_H

#include <stdint.h>

#include "output.h"

enum { PICKLE_LISTS_MAX = 8 }; /* one in another */

typedef struct pickle_writer {
    output *out;
    uint32_t memo_count;
    unsigned lists_count; /* those that are open */
    uint64_t items[PICKLE_LISTS_MAX];
} pickle_writer;

void pickle_begin(pickle_writer *to, output *out);
void pickle_end(pickle_writer *to);

/* A dictionary or a list. Between begin and end the caller writes a dictionary's pairs, or a list's
 * items, each after pickle_list_item. Begin puts it into the memo and returns its number there. */
uint32_t pickle_dict_begin(pickle_writer *to);
void pickle_dict_end(pickle_writer *to);
uint32_t pickle_list_begin(pickle_writer *to);
void pickle_list_item(pickle_writer *to);
void pickle_list_end(pickle_writer *to);

void pickle_text(pickle_writer *to, const char *text);
void pickle_int(pickle_writer *to, int64_t number);
void pickle_boolean(pickle_writer *to, int truth);
/* Makes a tuple of the two values written last. */
void pickle_pair(pickle_writer *to);

/* Puts the text or number written last into the memo, and returns its number there. */
uint32_t pickle_memo(pickle_writer *to);
/* Writes what has this number in the memo. */
void pickle_again(pickle_writer *to, uint32_t memo);

#endif
