/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing pickles of protocol 2, with the instructions that PyTorch's viewer knows, and none that a
 * reader would have to execute. The tools compile this file, too.
 *
 * Lines changed to see tests fail: a list in one piece, and nothing put into the memo
 * (snapshot_torch, snapshot_traces, snapshot_viewer_files).
 *
 * The caller writes keys and values in turn between begin and end. A value that may be needed again
 * is put into the memo under a number, and named by it.
 */
#ifndef TNRI_SNAPSHOT_PICKLE_WRITE_H
#define TNRI_SNAPSHOT_PICKLE_WRITE_H

#include <stdint.h>

#include "base/json.h"

enum { TNRI_PICKLE_LISTS_MAX = 8 }; /* one in another */

typedef struct tnri_pickle {
    tnri_put *put;
    void *to;
    unsigned lists_count; /* those that are open */
    uint64_t items[TNRI_PICKLE_LISTS_MAX];
} tnri_pickle;

void tnri_pickle_begin(tnri_pickle *pickle, tnri_put *put, void *to);
void tnri_pickle_end(tnri_pickle *pickle);

/* A dictionary or a list. Between begin and end the caller writes a dictionary's pairs, or a list's
 * items, each after tnri_pickle_item. */
void tnri_pickle_dict(tnri_pickle *pickle);
void tnri_pickle_dict_end(tnri_pickle *pickle);
void tnri_pickle_list(tnri_pickle *pickle);
void tnri_pickle_item(tnri_pickle *pickle);
void tnri_pickle_list_end(tnri_pickle *pickle);

/* What is no UTF-8 becomes the character that says so. */
void tnri_pickle_text(tnri_pickle *pickle, const char *text);
void tnri_pickle_int(tnri_pickle *pickle, int64_t number);
void tnri_pickle_boolean(tnri_pickle *pickle, int truth);
/* Makes a tuple of the two values written last. */
void tnri_pickle_pair(tnri_pickle *pickle);

/* Puts the value written last into the memo. */
void tnri_pickle_memo(tnri_pickle *pickle, uint32_t number);
/* Writes what has this number in the memo. */
void tnri_pickle_again(tnri_pickle *pickle, uint32_t number);

#endif
